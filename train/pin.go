package train

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler/topology"
)

// checkTopology names the flag that does not go with --topology.
func (o *Options) checkTopology() error {
	refuse := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	c := o.Topology
	if c.Level != topology.Pinned {
		if levels := append(topology.Levels(), topology.Pinned); !slices.Contains(levels, c.Level) {
			return refuse("--topology %s: there are %s", c.Level, strings.Join(levels, ", "))
		}
		return c.Validate()
	}
	switch {
	case o.Recipe.Sampler == mbfile.Labor:
		return refuse("--topology %s: a GPU draws uniformly alone, not by --sampler %s", c.Level, mbfile.Labor)
	case o.Engine == EngineCPU || o.Engine == EngineNone:
		return refuse("--topology %s is for --engine %s", c.Level, EngineGPU)
	}
	c.Level = topology.Mapped
	return c.Validate() // that nothing is said of what is held
}

// pin makes the engine's GPU draw the batches, if the options say so. What that takes is
// counted from now on; place takes it.
func (d *drawing) pin(o *Options, needs *engineNeeds, steps int) error {
	if o.Topology.Level != topology.Pinned {
		return nil
	}
	if needs.gpu == nil {
		return fault.New(fault.ErrUsage, "--topology %s is for --engine %s, and there is none: %s", topology.Pinned, EngineGPU, cmp.Or(needs.note, "this program or this machine has no GPU"))
	}
	evals := mostEvalSlots
	if f := d.source.Facts(); f.Valid+f.Test == 0 {
		evals = 0
	}
	bytes, err := d.source.Pin(needs.gpu, needs.gpuLeft, min(cmp.Or(o.Slots, mostSlots), steps), evals)
	if err != nil {
		return fault.New(err, "--topology %s: %v; --topology %s draws on the host", topology.Pinned, err, topology.Mapped)
	}
	needs.gpuLeft -= bytes
	return nil
}

// place copies the topology to where pin has decided.
func (d *drawing) place(ctx context.Context, o *Options, rep progress.Reporter) error {
	if o.Topology.Level != topology.Pinned {
		return nil
	}
	return d.source.Place(ctx, rep)
}

// unpin gives back what an attempt took for drawing on the GPU, whose loaders are freed.
func (d *drawing) unpin() {
	if d.source != nil {
		d.source.Unpin()
	}
}

// gpuBytes returns what slots take of the GPU's memory for drawing, beside the topology.
func (d *drawing) gpuBytes(p *memoryPlan) int64 {
	if d.source == nil {
		return 0
	}
	return d.source.GPUBytes(p.slots, p.evalSlots)
}
