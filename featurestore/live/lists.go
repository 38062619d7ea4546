package live

import (
	"context"
	"slices"
	"sync/atomic"

	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler/topology"
)

// A source whose Options have Choose implements featurestore.Lists: the dry pass counts how
// often each node's in-neighbours are drawn from, and then a store chooses which are held.

// chooses reports whether a store does: what a user says of a topology is not its choice.
func (o *Options) chooses() bool {
	return o.Choose && o.Topology.Level == topology.Cached && o.Topology.Memory == nil && o.Topology.Order == ""
}

// countDraws counts the destinations of every hop of a batch: of each block, which are the
// first of the input nodes.
func countDraws(draws []uint32, b *graph.Batch) {
	for l := range b.Blocks {
		for _, v := range b.Input[:b.Blocks[l].NumDst] {
			atomic.AddUint32(&draws[v], 1)
		}
	}
}

// endChoice gives up what was held for the dry pass, for a store to choose.
func (s *Source) endChoice(ctx context.Context, rep progress.Reporter) error {
	if s.draws == nil {
		return nil
	}
	fanout := slices.Max(s.options.Fanout)
	if s.options.Method == mbfile.Labor || slices.Contains(s.options.Fanout, mbfile.AllNeighbours) {
		fanout = 0 // all are looked at
	}
	s.costs, _ = topology.ListsOf(s.topology, fanout) // it is cached where a store has a choice
	_, _, err := s.topology.Fill(ctx, topology.Nodes(nil), 0, rep)
	return err
}

// Draws returns how often each node's list was drawn from in the training batches of the dry
// pass; nil where a store has no choice.
func (s *Source) Draws() []uint32 { return s.draws }

// ListBytes returns the memory that a node's list takes.
func (s *Source) ListBytes(v uint32) int64 { return s.costs.Bytes(v) }

// ListRead returns the bytes that a draw from a node's list reads where it is not held.
func (s *Source) ListRead(v uint32) int64 { return s.costs.Read(v) }

// ListsBytes returns the memory of lists of sum bytes together with their index, in bytes.
func (s *Source) ListsBytes(sum int64) int64 { return s.costs.Held(sum) }

// ListsWork returns the memory that HoldLists needs while it reads, in bytes.
func (s *Source) ListsWork() int64 { return s.topology.ReaderBytes() }

// HoldLists holds the lists of the given nodes.
func (s *Source) HoldLists(ctx context.Context, nodes []uint32, rep progress.Reporter) (read int64, err error) {
	sum := int64(0)
	for _, v := range nodes {
		sum += s.costs.Bytes(v)
	}
	s.chosen = 0
	held, read, err := s.topology.Fill(ctx, topology.Nodes(nodes), s.costs.Held(sum), rep)
	if err != nil {
		return 0, err
	}
	s.chosen = s.TopologyBytes()
	rep.Logf("topology: holding the in-neighbours of %s of %s nodes, %s of the %s that all take",
		units.Count(held), units.Count(s.facts.Nodes), budget.FormatBytes(s.chosen), budget.FormatBytes(s.data.IndicesBytes()))
	return read, nil
}

// openTopology opens the topology, and holds the part of it that the options demand.
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

// TopologyBytes returns the memory of the in-neighbours that the topology holds, with their index, in
// bytes. For a pinned topology it is the size of the copy, wherever that lies.
func (s *Source) TopologyBytes() int64 {
	if s.pinned != nil {
		return s.pinned.bytes
	}
	held, _ := topology.Needs(s.data, s.topology.Level())
	return s.topology.Bytes() - held
}
