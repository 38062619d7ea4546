package presample

import (
	"context"

	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/presample/sampler/topology"
)

// topologyMemory returns the bytes of memory of the topology, with the neighbours that
// --topology-memory asks for, and the bytes that reading them takes meanwhile.
func (s *sampling) topologyMemory() (held, work int64) {
	c := &s.o.Topology
	if c.Level != topology.Cached {
		return 0, 0
	}
	held, _ = topology.Needs(s.data, c.Level)
	return held + c.Bytes(s.data, 0), c.FillWork(s.data)
}

func (s *sampling) readerMemory() int64 {
	return int64(s.o.Workers) * topology.ReaderBytes(s.o.Topology.Level)
}

// reserveTopology counts the memory of the topology and its readers.
func (s *sampling) reserveTopology() error {
	c := &s.o.Topology
	if c.Level != topology.Cached {
		return nil
	}
	held, work := s.topologyMemory()
	if err := s.check("--topology "+c.Level, s.o.Memory-s.room+held+work); err != nil {
		return s.refused(err)
	}
	s.room -= held + s.readerMemory()
	return nil
}

// hold fills the topology: by default with the memory that the workers leave.
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
	s.rep.Logf("topology: holding the in-neighbours of %s of %s nodes, %s of %s in all; --memory leaves %s for sampling",
		units.Count(nodes), units.Count(s.data.Facts().Nodes), budget.FormatBytes(s.res.TopologyMemory), budget.FormatBytes(s.data.IndicesBytes()), budget.FormatBytes(s.room))
	s.heap.follow(s.o.Memory)
	return nil
}

// drawing returns the bytes of memory with which all workers can sample batches of the expected sizes.
func (s *sampling) drawing(ctx context.Context, phases []phase) (most int64, err error) {
	nodes := s.data.Facts().Nodes
	for i := range phases {
		p := &phases[i]
		if p.lo >= p.hi {
			continue
		}
		x, err := s.expected(ctx, p)
		if err != nil {
			return 0, err
		}
		most = max(most, divide(s.o.Workers, s.room, nodes, x).all(nodes, x))
	}
	return most, nil
}
