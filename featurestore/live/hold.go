package live

import (
	"context"

	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/presample/sampler/topology"
)

// openTopology opens the topology, and holds of it what the options say.
func (s *Source) openTopology(ctx context.Context, rep progress.Reporter) (err error) {
	o, c := &s.options, &s.options.Topology
	if c.Level != topology.Cached {
		s.topology, err = topology.Open(ctx, s.data, topology.Options{Level: c.Level, Workers: o.Workers}, rep)
		return err
	}
	held, _ := topology.Needs(s.data, c.Level)
	bytes := c.Bytes(s.data, o.Memory/4)
	need := budget.Reserve + s.seeds.Memory(o.Workers) + s.countBytes() + held + max(bytes+topology.ReaderBytes(c.Level), c.FillWork(s.data))
	if err := budget.Check("--topology "+c.Level, need, o.Memory); err != nil {
		if o.chooses() {
			return err
		}
		return c.Refused(err, bytes)
	}
	if s.topology, err = topology.Open(ctx, s.data, topology.Options{Level: c.Level, Workers: o.Workers, IO: o.IO, Stack: o.Stack}, rep); err != nil {
		return err
	}
	return s.Hold(ctx, topology.OrderOf(c.Order, s.seeds, o.Fanout), bytes, rep)
}

// Hold makes a cached topology hold the in-neighbours of other nodes: see topology.Topology.
// Nothing that was opened with the source may draw.
func (s *Source) Hold(ctx context.Context, by topology.Order, bytes int64, rep progress.Reporter) error {
	nodes, _, err := s.topology.Fill(ctx, by, bytes, rep)
	if err != nil {
		return err
	}
	rep.Logf("topology: holding the in-neighbours of %s of %s nodes, %s of the %s that all take",
		units.Count(nodes), units.Count(s.facts.Nodes), budget.FormatBytes(s.TopologyBytes()), budget.FormatBytes(s.data.IndicesBytes()))
	return nil
}

// Refused adds to an error of kind fault.ErrBudget, where neighbours are held that no store
// chooses, the flag by which fewer are: see topology.Choice.
func (s *Source) Refused(err error) error {
	if s.options.chooses() {
		return err
	}
	return s.options.Topology.Refused(err, s.TopologyBytes())
}

// Topology returns the level of the topology.
func (s *Source) Topology() string {
	if s.pinned != nil {
		return topology.Pinned
	}
	return s.topology.Level()
}

// TopologyBytes returns what the in-neighbours take that the topology holds, with what finds
// them; of a pinned one, the copy, wherever it is.
func (s *Source) TopologyBytes() int64 {
	if s.pinned != nil {
		return s.pinned.bytes
	}
	held, _ := topology.Needs(s.data, s.topology.Level())
	return s.topology.Bytes() - held
}
