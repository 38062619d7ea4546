package presample

import (
	"errors"
	"fmt"
	"math"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
)

// spareSlots returns the number of batches that may wait, sampled, for their turn to be written,
// beyond one for each worker: a worker that was held up does not stop the others. The more workers, the more
// batches are finished before an older one.
func spareSlots(workers int) int { return 2 + workers/4 }

// twice returns double the size, but no more than the bound.
func twice(x, most sampler.Extent) sampler.Extent {
	return sampler.Extent{Nodes: min(2*x.Nodes, most.Nodes), Dst: min(2*x.Dst, most.Dst), Edges: min(2*x.Edges, most.Edges), Widest: most.Widest, Typed: most.Typed}
}

// slotBytes is the largest size of an encoded batch, in bytes.
func slotBytes(x sampler.Extent) int64 {
	return sampler.Slack(8*x.Nodes+8*x.Dst+4*x.Edges) + 1<<10
}

// allotment divides memory for a range of batches.
type allotment struct {
	workers int
	hash    bool  // number nodes by hash tables of a batch's size, not by arrays of the graph's
	share   int64 // bytes for each worker: a sampler, its table, and its part of the slots
}

// divide returns the largest number of workers, up to the given one, that fit in the free bytes if all
// batches have the size x; at least one. It prefers the faster kind of table, unless the other one lets
// more workers run.
func divide(workers int, free, nodes int64, x sampler.Extent) allotment {
	array, hash := sampler.ArrayMemory(nodes), sampler.HashMemory(x.Nodes)
	if nodes > sampler.MaxArrayNodes {
		array = math.MaxInt64 / 4
	}
	first := sampler.HashFaster(nodes)
	for n := workers; n > 0; n-- {
		p := allotment{workers: n, share: free / int64(n)}
		for _, p.hash = range []bool{first, !first} {
			table := array
			if p.hash {
				table = hash
			}
			if p.need(x, table) <= p.share {
				return p
			}
		}
	}
	return allotment{workers: 1, hash: array > hash, share: free}
}

// halved gives the same memory to half the workers.
func (p allotment) halved() allotment {
	free := p.share * int64(p.workers)
	p.workers /= 2
	p.share = free / int64(p.workers)
	return p
}

func (p allotment) tableBytes(nodes int64, x sampler.Extent) int64 {
	if p.hash {
		return sampler.HashMemory(x.Nodes)
	}
	return sampler.ArrayMemory(nodes)
}

// all returns the memory of all workers for such batches, in bytes.
func (p allotment) all(nodes int64, x sampler.Extent) int64 {
	return int64(p.workers) * p.need(x, p.tableBytes(nodes, x))
}

// fits reports whether the workers' memory suffices for batches of this size.
func (p allotment) fits(nodes int64, x sampler.Extent) bool {
	return p.all(nodes, x) <= int64(p.workers)*p.share
}

// alone returns the memory of one worker for such batches, by the smaller table.
func alone(nodes int64, x sampler.Extent) int64 { return divide(1, 0, nodes, x).all(nodes, x) }

// need returns the memory of a worker for a batch, in bytes.
func (p allotment) need(x sampler.Extent, table int64) int64 {
	n := int64(p.workers)
	return x.Memory() + table + slotBytes(x)*(n+int64(spareSlots(p.workers)))/n
}

// check refuses a batch that outgrows a worker's share.
func (p allotment) check(x sampler.Extent, table int64) error {
	if need := p.need(x, table); need > p.share {
		return fault.New(fault.ErrBudget, "a batch of %d edges or more needs up to %s of memory, but --memory leaves %s: give more, sample fewer neighbours, or make batches smaller",
			x.Edges, budget.FormatBytes(need), budget.FormatBytes(p.share))
	}
	return nil
}

// most returns an extent that no batch of a fanout exceeds.
func (s *sampling) most(fanout []int) sampler.Extent {
	f := s.data.Facts()
	return sampler.BoundOf(&f, s.o.BatchSize, fanout)
}

// underWay is how many batches may be drawn and not written yet.
func (s *sampling) underWay() int { return s.o.Workers + spareSlots(s.o.Workers) }

// beside returns the bytes of memory beside the workers and the topology; seeds is the memory of the
// seed nodes.
func (s *sampling) beside(l *mbfile.Layout, seeds int64) int64 {
	targets := 2 * int64(s.data.TargetBytes()) * int64(s.o.BatchSize) * int64(s.underWay()) // of samplers, and encoded
	n := budget.Reserve + l.Memory() + seeds + targets + s.degreeBytes()
	if s.params.Method == mbfile.Labor {
		n += int64(s.o.Workers) * max(sampler.LaborMemory(s.params.Fanout), sampler.LaborMemory(s.params.EvalFanout))
	}
	return n + int64(s.o.Workers)*int64(s.params.Partitions) // which of them the buffer holds
}

// labelMemory is the memory of reading the labels, in bytes.
func (s *sampling) labelMemory() int64 {
	f := s.data.Facts()
	return budget.Reserve + 4*f.Nodes + int64(s.data.TargetBytes())*(f.Train+f.Valid+f.Test) + sampler.PartitionMemory(s.params, f.Nodes)
}

// surely returns memory that is enough for any batch, by the dataset's facts alone: nothing is
// read for it, and the labels of nodes in a split may be fewer.
func (s *sampling) surely() int64 {
	f, p := s.data.Facts(), &s.params
	perEpoch := f.Train
	if p.Partitions == 0 {
		perEpoch = batchesOf(f.Train, p.BatchSize)
	}
	l := mbfile.Layout{Nodes: f.FeatureRows(), Types: f.Types, Layers: len(p.Fanout), Train: p.Epochs * int(perEpoch), Shard: s.o.Shard, TargetBytes: s.data.TargetBytes(),
		Valid: int(batchesOf(f.Valid, p.BatchSize)), Test: int(batchesOf(f.Test, p.BatchSize)), BatchesPerFile: 1}
	n := s.beside(&l, sampler.MostMemory(p, f, s.data.TargetBytes(), s.underWay()))
	held, work := s.topologyMemory()
	draw := max(alone(f.Nodes, s.most(p.Fanout)), alone(f.Nodes, s.most(p.EvalFanout)))
	return max(s.labelMemory(), budget.Reserve+sampler.MostMemory(p, f, s.data.TargetBytes(), 0)+sampler.MostLocalizeMemory(p, f), n+held+max(work, draw+s.readerMemory()))
}

func batchesOf(nodes int64, size int) int64 { return (nodes + int64(size) - 1) / int64(size) }

// check refuses less memory than something needs, and notes that need.
func (s *sampling) check(what string, need int64) error {
	s.least = max(s.least, need)
	return budget.Check(what, need, s.o.Memory)
}

// refused adds to a refusal of memory, where neighbours are held, the flag by which fewer are.
func (s *sampling) refused(err error) error {
	c := &s.o.Topology
	return c.Refused(err, max(c.Bytes(s.data, 0), s.res.TopologyMemory))
}

// memoryError is a refusal of memory that names a --memory, in MiB, that is enough.
type memoryError struct {
	mebibytes int64
	error
}

func (e *memoryError) Unwrap() error { return e.error }

// withEnough adds to a refusal of memory how much is enough.
func (s *sampling) withEnough(err error) error {
	const mib = 1 << 20
	if enough := s.surely(); errors.Is(err, fault.ErrBudget) && enough > s.o.Memory {
		enough = (enough + mib - 1) / mib
		return &memoryError{enough, fmt.Errorf("%w; --memory %dMiB is enough for any batch", err, enough)}
	}
	return err
}

// table names the kind for people and scripts.
func (p allotment) table() string {
	if p.hash {
		return "hash"
	}
	return "array"
}
