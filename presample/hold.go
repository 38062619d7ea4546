package presample

import (
	"context"

	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
)

// reserveTopology counts what the topology and its readers hold: of what is held of the
// neighbours, that which was asked for.
func (s *sampling) reserveTopology() error {
	c := &s.o.Topology
	if c.Level != topology.Cached {
		return nil
	}
	held, _ := topology.Needs(s.data, c.Level)
	held += c.Bytes(s.data, 0)
	if err := budget.Check("--topology "+c.Level, s.o.Memory-s.room+held+c.FillWork(s.data), s.o.Memory); err != nil {
		return s.refused(err)
	}
	s.room -= held + int64(s.o.Workers)*topology.ReaderBytes(c.Level)
	return nil
}

// refused adds to a refusal of memory, where neighbours are held, the flag by which fewer are.
func (s *sampling) refused(err error) error {
	c := &s.o.Topology
	return c.Refused(err, max(c.Bytes(s.data, 0), s.res.TopologyMemory))
}

// hold fills the topology: by default with what the workers leave of memory.
func (s *sampling) hold(ctx context.Context, phases []phase) error {
	c := &s.o.Topology
	if c.Level != topology.Cached {
		return nil
	}
	bytes := c.Bytes(s.data, 0)
	if c.Memory == nil {
		need, err := s.drawing(ctx, phases)
		if err != nil {
			return err
		}
		bytes = c.Bytes(s.data, s.room-need)
		s.room -= bytes
	}
	nodes, _, err := s.topology.Fill(ctx, topology.OrderOf(c.Order, s.seeds, s.params.Fanout), bytes, s.rep)
	if err != nil {
		return err
	}
	held, _ := topology.Needs(s.data, c.Level)
	s.res.TopologyMemory = s.topology.Bytes() - held
	s.rep.Logf("topology: holding the in-neighbours of %s of %s nodes, %s of the %s that all take; --memory leaves %s to draw with",
		units.Count(nodes), units.Count(s.data.Facts().Nodes), budget.FormatBytes(s.res.TopologyMemory), budget.FormatBytes(s.data.IndicesBytes()), budget.FormatBytes(s.room))
	budget.LimitHeap(s.o.Memory, s.topology.HostBytes()+int64(s.o.Workers)*topology.ReaderBytes(c.Level))
	return nil
}

// drawing returns the memory that all workers draw with, by twice each phase's first batch.
func (s *sampling) drawing(ctx context.Context, phases []phase) (most int64, err error) {
	f := s.data.Facts()
	for i := range phases {
		p := &phases[i]
		if p.lo >= p.hi {
			continue
		}
		first, err := s.probe(ctx, p)
		if err != nil {
			return 0, err
		}
		x := twice(first.Extent, sampler.Bound(f.Nodes, f.Edges, s.o.BatchSize, p.fanout))
		a := divide(s.o.Workers, s.room, f.Nodes, x)
		table := sampler.ArrayMemory(f.Nodes)
		if a.hash {
			table = sampler.HashMemory(x.Nodes)
		}
		most = max(most, int64(a.workers)*a.need(x, table))
	}
	return most, nil
}
