package presample

import (
	"math"

	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/presample/sampler"
)

// spareSlots are batches that may wait, sampled, for their turn to be written,
// beyond one for each worker: a worker that was held up does not stop the others.
const spareSlots = 2

// twice returns double the size, but no more than the bound.
func twice(x, most sampler.Extent) sampler.Extent {
	return sampler.Extent{Nodes: min(2*x.Nodes, most.Nodes), Dst: min(2*x.Dst, most.Dst), Edges: min(2*x.Edges, most.Edges), Widest: most.Widest}
}

// slotBytes is what an encoded batch takes at most.
func slotBytes(x sampler.Extent) int64 {
	return sampler.Slack(8*x.Nodes+8*x.Dst+4*x.Edges) + 1<<10
}

// allotment divides memory for a range of batches. The zero value bounds nothing.
type allotment struct {
	workers int
	hash    bool  // number nodes by hash tables of a batch's size, not by arrays of the graph's
	share   int64 // bytes for each worker: a sampler, its table, and its part of the slots
}

// divide gives as many workers as there may be, and as the free bytes have room
// for when batches are as large as x: at least one worker, whether there is room
// for it or not. It prefers arrays, which are faster, unless hash tables let more
// workers run.
func divide(workers int, free, nodes int64, x sampler.Extent) allotment {
	array, hash := sampler.ArrayMemory(nodes), sampler.HashMemory(x.Nodes)
	if nodes > sampler.MaxArrayNodes {
		array = math.MaxInt64 / 4
	}
	for n := workers; n > 0; n-- {
		p := allotment{workers: n, share: free / int64(n)}
		if p.need(x, array) <= p.share {
			return p
		}
		if p.hash = true; p.need(x, hash) <= p.share {
			return p
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

// need returns what a worker takes for a batch.
func (p allotment) need(x sampler.Extent, table int64) int64 {
	n := int64(p.workers)
	return x.Memory() + table + slotBytes(x)*(n+spareSlots)/n
}

// check refuses a batch that outgrows a worker's share.
func (p allotment) check(x sampler.Extent, table int64) error {
	if p.share == 0 {
		return nil
	}
	if need := p.need(x, table); need > p.share {
		return fault.New(fault.ErrBudget, "a batch of %d edges or more needs up to %s of memory, --memory leaves %s: give more, sample fewer neighbours, or make batches smaller",
			x.Edges, budget.FormatBytes(need), budget.FormatBytes(p.share))
	}
	return nil
}

// newSampler makes a sampler that keeps to a worker's share.
func (p allotment) newSampler(g *graph.CSC, fanout []int) *sampler.Sampler {
	return sampler.New(g, fanout, sampler.Options{Hash: p.hash, Check: p.check})
}

// table names the kind for people and scripts.
func (p allotment) table() string {
	if p.hash {
		return "hash"
	}
	return "array"
}
