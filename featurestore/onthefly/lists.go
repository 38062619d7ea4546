package onthefly

import (
	"context"

	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/presample/sampler/topology"
)

// With Options.Choose, a source implements featurestore.Lists: the dry pass counts the draws from the list of
// each node, and then a store chooses the lists to hold.

// endChoice releases the lists held for the dry pass, before a store chooses.
func (s *Source) endChoice(ctx context.Context, rep progress.Reporter) error {
	if !s.options.chooses() {
		return nil
	}
	s.costs, _ = topology.ListsOf(s.topology, s.options.widest()) // never fails: the topology is cached
	_, _, err := s.topology.Fill(ctx, topology.Nodes(nil), 0, rep)
	return err
}

// Draws returns the number of draws from each node's list in the training batches of the dry pass, or nil if
// the store cannot choose the lists.
func (s *Source) Draws() []uint32 {
	if !s.options.chooses() {
		return nil
	}
	return s.draws
}

// ListBytes returns the memory of a node's list, in bytes.
func (s *Source) ListBytes(v uint32) int64 { return s.costs.Bytes(v) }

// ListRead returns the number of bytes that a draw reads from a node's list that is not held.
func (s *Source) ListRead(v uint32) int64 { return s.costs.Read(v) }

// ListsBytes returns the memory of lists of sum bytes together with their index, in bytes.
func (s *Source) ListsBytes(sum int64) int64 { return s.costs.Held(sum) }

// ListsWork returns the work memory of HoldLists, in bytes.
func (s *Source) ListsWork() int64 { return s.topology.ReaderBytes() }

// HoldLists replaces the held lists by the lists of the given nodes, and returns the bytes read.
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

// openTopology opens the topology, and reads the lists that the options ask for.
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

// Hold makes a cached topology hold the in-neighbours of the first nodes in the given order, up to bytes
// bytes: see topology.Topology.Fill. No loader or window may draw meanwhile.
func (s *Source) Hold(ctx context.Context, by topology.Order, bytes int64, rep progress.Reporter) error {
	nodes, _, err := s.topology.Fill(ctx, by, bytes, rep)
	if err != nil {
		return err
	}
	rep.Logf("topology: holding the in-neighbours of %s of %s nodes, %s of the %s that all take",
		units.Count(nodes), units.Count(s.facts.Nodes), budget.FormatBytes(s.TopologyBytes()), budget.FormatBytes(s.data.IndicesBytes()))
	return nil
}

// Refused adds to an error of kind fault.ErrBudget the flag that reduces the memory of held neighbours: see
// topology.Choice. It returns err as it is if a store chooses the lists.
func (s *Source) Refused(err error) error {
	if s.options.chooses() {
		return err
	}
	return s.options.Topology.Refused(err, s.TopologyBytes())
}
