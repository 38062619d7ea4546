package main

import (
	"github.com/urfave/cli/v2"

	"diskgnn/internal/budget"
	"diskgnn/presample/sampler/topology"
)

// levelFlag says where neighbours are read from.
func levelFlag(when string, c *topology.Choice) cli.Flag {
	return namedFlag("topology", "NAME", when+"where neighbours are read from: mapped, or cached: some are held in memory, others read while drawing", topology.Mapped, topology.Levels(), &c.Level)
}

// trainLevelFlag is levelFlag where a GPU may draw.
func trainLevelFlag(c *topology.Choice) cli.Flag {
	return namedFlag("topology", "NAME", "with --fanout: where neighbours are read from: mapped; cached: some are held in memory, others read while drawing; or pinned: the GPU draws, of a topology in its memory or pinned in RAM", topology.Mapped, append(topology.Levels(), topology.Pinned), &c.Level)
}

// topologyMemoryFlag says what the neighbours that are held may take.
func topologyMemoryFlag(byDefault string, c *topology.Choice) cli.Flag {
	return sizeFlag("topology-memory", "with --topology cached: neighbours held, as bytes or a share of them all", byDefault, budget.UnitPercent, &c.Memory)
}

// topologyOrderFlag says whose neighbours these are.
func topologyOrderFlag(byDefault string, c *topology.Choice) cli.Flag {
	return namedFlag("topology-order", "NAME", "with --topology cached: whose neighbours are held: reach, of nodes that batches reach often for their size; degree, of those with many; ginex, by out-degree over in-degree", byDefault, topology.Orders(), &c.Order)
}
