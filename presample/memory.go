package presample

import (
	"math"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/presample/mbfile"
)

// baseMemory is the program itself and what every run needs.
const baseMemory = 32 << 20

// spareSlots are batches that may wait, sampled, for their turn to be written,
// beyond one for each worker: a worker that was held up does not stop the others.
const spareSlots = 2

// worst is the largest that a batch can be.
type worst struct {
	nodes      int64 // sources of the outermost block
	dst, edges int64 // over all blocks
}

// worstCase bounds a batch of the given seed nodes: by the fanouts and by the
// graph.
func worstCase(nodes, edges int64, seeds int, fanout []int) worst {
	n := min(int64(seeds), nodes)
	var w worst
	for l := len(fanout) - 1; l >= 0; l-- {
		e := edges
		if f := int64(fanout[l]); f != mbfile.AllNeighbours && n <= edges/f {
			e = n * f
		}
		w.dst, w.edges = w.dst+n, w.edges+e
		n = min(n+e, nodes)
	}
	w.nodes = n
	return w
}

// slack is the room that enlarge leaves.
func slack(n int64) int64 { return n + n/4 }

// samplerBytes is what a sampler holds for the batch, without its table.
func (w worst) samplerBytes() int64 {
	return slack(16*w.nodes+8*w.dst+4*w.edges) + 12*chunkEdges
}

// slotBytes is what the encoded batch takes at most.
func (w worst) slotBytes() int64 {
	return slack(8*w.nodes+8*w.dst+4*w.edges) + 1<<10
}

// plan divides the budget for a range of batches.
type plan struct {
	workers int
	hash    bool  // number nodes by hash tables of a batch's size, not by arrays of the graph's
	share   int64 // bytes for a worker that may not fit; 0: all are sure to fit
}

// table names the kind of table for people and scripts.
func (p plan) table() string {
	if p.hash {
		return "hash"
	}
	return "array"
}

// divide fits as many workers as asked for, or as memory allows, beside what is
// held anyway. It prefers arrays, which are faster, unless hash tables let more
// workers run. When not even one worker is sure to fit, one tries: it is the
// only way to sample all neighbours of a large graph, whose bound is the graph.
func divide(o *Options, held, nodes int64, w worst) (plan, error) {
	free := o.Memory - held
	one := func(table int64) int64 { return w.samplerBytes() + table + w.slotBytes() }
	fit := func(table int64) int {
		if free < spareSlots*w.slotBytes() {
			return 0
		}
		return int(min(int64(o.Workers), (free-spareSlots*w.slotBytes())/one(table)))
	}
	array, hash := arrayTableBytes(nodes), hashTableBytes(w.nodes)+hashTableBytes(w.nodes)/2 // while it grows
	if nodes > maxArrayNodes {
		array = math.MaxInt64 / 4
	}
	p := plan{workers: fit(array)}
	if n := fit(hash); n > p.workers {
		p.workers, p.hash = n, true
	}
	if p.workers > 0 {
		return p, nil
	}
	p = plan{workers: 1, hash: array > free/2, share: free}
	least := worstCase(nodes, 0, o.BatchSize, []int{1})
	if err := budget.Check("sampling", held+least.samplerBytes()+least.slotBytes()+min(array, hashTableBytes(least.nodes)), o.Memory); err != nil {
		return plan{}, err
	}
	return p, nil
}

// checkShare refuses a batch that outgrows the sampler's share, slots included.
func (s *sampler) checkShare(w worst) error {
	need := w.samplerBytes() + (1+spareSlots)*w.slotBytes() + s.table.memory(w.nodes)
	if s.share > 0 && need > s.share {
		return fault.New(fault.ErrBudget, "a batch of %d edges or more needs up to %s of memory, --memory leaves %s: give more, sample fewer neighbours, or make batches smaller",
			w.edges, budget.FormatBytes(need), budget.FormatBytes(s.share))
	}
	return nil
}
