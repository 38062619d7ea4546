package presample

import (
	"math"

	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/presample/mbfile"
)

// baseMemory is the program itself and what every run needs.
const baseMemory = 32 << 20

// spareSlots are batches that may wait, sampled, for their turn to be written,
// beyond one for each worker: a worker that was held up does not stop the others.
const spareSlots = 2

// extent is the size of a batch, or a bound of it.
type extent struct {
	nodes      int64 // sources of the outermost block
	dst, edges int64 // over all blocks
}

// bound returns what no batch of so many seed nodes exceeds, by the fanouts and
// by the graph.
func bound(nodes, edges int64, seeds int, fanout []int) extent {
	var x extent
	n := min(int64(seeds), nodes)
	for l := len(fanout) - 1; l >= 0; l-- {
		e := edges
		if f := int64(fanout[l]); f != mbfile.AllNeighbours && n <= edges/f {
			e = n * f
		}
		x.dst, x.edges = x.dst+n, x.edges+e
		n = min(n+e, nodes)
	}
	x.nodes = n
	return x
}

// extentOf returns the size of a batch.
func extentOf(b *graph.Batch) extent {
	x := extent{nodes: int64(len(b.Input))}
	for l := range b.Blocks {
		x.dst, x.edges = x.dst+int64(b.Blocks[l].NumDst), x.edges+int64(len(b.Blocks[l].Indices))
	}
	return x
}

// twice returns double the size, but no more than the bound.
func (x extent) twice(most extent) extent {
	return extent{min(2*x.nodes, most.nodes), min(2*x.dst, most.dst), min(2*x.edges, most.edges)}
}

// slack is the room that enlarge leaves.
func slack(n int64) int64 { return n + n/4 }

// samplerBytes is what a sampler holds for a batch, without its table.
func (x extent) samplerBytes() int64 {
	return slack(16*x.nodes+8*x.dst+4*x.edges) + 12*chunkEdges
}

// slotBytes is what the encoded batch takes at most.
func (x extent) slotBytes() int64 {
	return slack(8*x.nodes+8*x.dst+4*x.edges) + 1<<10
}

// plan divides memory for a range of batches. The zero value bounds nothing.
type plan struct {
	workers int
	hash    bool  // number nodes by hash tables of a batch's size, not by arrays of the graph's
	share   int64 // bytes for each worker: a sampler, its table, and its part of the slots
}

// divide gives as many workers as there may be, and as the free bytes have room
// for when batches are as large as x: at least one worker, whether there is room
// for it or not. It prefers arrays, which are faster, unless hash tables let more
// workers run.
func divide(workers int, free, nodes int64, x extent) plan {
	array, hash := arrayTableBytes(nodes), hashTableMemory(x.nodes)
	if nodes > maxArrayNodes {
		array = math.MaxInt64 / 4
	}
	for n := workers; n > 0; n-- {
		p := plan{workers: n, share: free / int64(n)}
		if p.need(x, array) <= p.share {
			return p
		}
		if p.hash = true; p.need(x, hash) <= p.share {
			return p
		}
	}
	return plan{workers: 1, hash: array > hash, share: free}
}

// halved gives the same memory to half the workers.
func (p plan) halved() plan {
	free := p.share * int64(p.workers)
	p.workers /= 2
	p.share = free / int64(p.workers)
	return p
}

// need returns what a worker takes for a batch.
func (p plan) need(x extent, table int64) int64 {
	n := int64(p.workers)
	return x.samplerBytes() + table + x.slotBytes()*(n+spareSlots)/n
}

// check refuses a batch that outgrows a worker's share.
func (p plan) check(x extent, table int64) error {
	if p.share == 0 {
		return nil
	}
	if need := p.need(x, table); need > p.share {
		return fault.New(fault.ErrBudget, "a batch of %d edges or more needs up to %s of memory, --memory leaves %s: give more, sample fewer neighbours, or make batches smaller",
			x.edges, budget.FormatBytes(need), budget.FormatBytes(p.share))
	}
	return nil
}

// newTable makes a table of the kind planned.
func (p plan) newTable(nodes int64) table {
	if p.hash {
		return newHashTable(0)
	}
	return newArrayTable(nodes)
}

// table names the kind for people and scripts.
func (p plan) table() string {
	if p.hash {
		return "hash"
	}
	return "array"
}
