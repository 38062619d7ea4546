package grid

import (
	"slices"

	"diskgnn/internal/fault"
)

const (
	// pullGrain destinations are a worker's unit when a block passes by.
	pullGrain = 2048
	// idxRoom bounds the rows that a worker collects before it adds them.
	idxRoom = 4096
)

// worker is the memory of one goroutine.
type worker struct {
	idx   []uint32 // rows of the block, of all pieces
	runs  []piece
	nodes []uint32
}

// piece is a run of sources of one destination, in worker.idx up to end.
type piece struct {
	at   int // the destination's place in the tile
	end  int
	fold bool // a block of Fold positions ends with it
}

// workerBytes is the memory of a worker.
const workerBytes = idxRoom*(4+24) + 4096

// pull adds the rows x of the sources from first to end to the accumulators of the destinations from
// from to to of the tile.
func (r *host) pull(worker, from, to int, x []float32, first, end int64) error {
	w := &r.workers[worker]
	for i := from; i < to; i++ {
		if int64(r.next[i]) >= end {
			continue
		}
		v := r.node(r.lo + i)
		list, err := r.Graph.Row(v)
		if err != nil {
			return err
		}
		at := int(r.cursor[i])
		for at < len(list) && int64(list[at]) < end {
			stop := len(list)
			if stop > Fold {
				stop = min(stop, (at/Fold+1)*Fold)
			}
			begin := at
			for at < stop && len(w.idx) < idxRoom {
				u := int64(list[at])
				if u >= end {
					break
				}
				if u < first {
					return fault.New(fault.ErrCorrupt, "the in-neighbours of node %d do not ascend: %d comes too late", v, u)
				}
				at++
				if u != int64(v) || !r.Loops {
					w.idx = append(w.idx, uint32(u-first))
				}
			}
			w.runs = append(w.runs, piece{i, len(w.idx), len(list) > Fold && at == stop && at > begin})
			if len(w.idx) == idxRoom || len(w.runs) == idxRoom {
				r.flush(worker, x)
			}
		}
		if r.cursor[i], r.next[i] = uint32(at), done; at < len(list) {
			r.next[i] = list[at]
		}
	}
	r.flush(worker, x)
	return nil
}

// flush adds the rows that the worker has collected.
func (r *host) flush(worker int, x []float32) {
	w := &r.workers[worker]
	begin := 0
	for _, p := range w.runs {
		acc := r.acc[p.at*r.Acc : (p.at+1)*r.Acc]
		wide := r.wideOf(p.at)
		if p.end > begin {
			r.Pull.Add(worker, acc, wide, x, w.idx[begin:p.end:len(w.idx)])
		}
		if p.fold {
			fold(wide, acc)
		}
		begin = p.end
	}
	w.idx, w.runs = w.idx[:0], w.runs[:0]
}

// wideOf returns the sums of a destination with a long list, nil for others.
func (r *host) wideOf(at int) []float64 {
	if len(r.long) == 0 {
		return nil
	}
	i, ok := slices.BinarySearch(r.long, uint32(at))
	if !ok {
		return nil
	}
	return r.wide[i*r.Wide : (i+1)*r.Wide]
}

// fold adds the sums of a block to the sums of the blocks before, and clears them.
func fold(wide []float64, acc []float32) {
	for c := range wide {
		wide[c] += float64(acc[c])
	}
	clear(acc[:len(wide)])
}

// unfold makes the sum of all blocks the destination's sum.
func (r *host) unfold(at int) {
	acc, wide := r.acc[at*r.Acc:(at+1)*r.Acc], r.wideOf(at)
	fold(wide, acc)
	for c, v := range wide {
		acc[c] = float32(v)
	}
}
