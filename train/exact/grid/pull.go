package grid

import (
	"slices"

	"diskgnn/internal/fault"
)

const (
	// pullGrain lists are a worker's unit when a block passes by.
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

// piece is a run of sources of one list, in worker.idx up to end.
type piece struct {
	at       int // the list's place in the tile
	end      int32
	relation int32
	fold     bool // a block of Fold positions ends with it
}

// workerBytes is the memory of a worker.
const workerBytes = idxRoom*(4+24) + 4096

// pull adds the rows x, from first to end, to the accumulators of the lists from from to to of the tile.
func (h *host) pull(worker, from, to int, x []float32, first, end int64) error {
	for part := range h.of {
		lo, hi := max(from, h.begins[part]), min(to, h.begins[part+1])
		for at := lo; at < hi; at++ {
			if int64(h.next[at]) >= end {
				continue
			}
			if err := h.pullList(worker, part, at, x, first, end); err != nil {
				return err
			}
		}
	}
	h.flush(worker, x)
	return nil
}

// pullList collects the rows of a list of a part.
func (h *host) pullList(worker, part, place int, x []float32, first, end int64) error {
	w, p := &h.workers[worker], &h.of[part]
	i, k := place-h.begins[part], 0
	if n := len(p.Links); n > 1 {
		i, k = i/n, i%n
	}
	i += max(p.Lo, h.lo)
	list, err := h.Graph.Row(p.row(h.Targets, i, k))
	if err != nil {
		return err
	}
	link, loop := &p.Links[k], int64(-1)
	if h.Loops {
		loop = int64(p.node(h.Targets, i))
	}
	first, end = first+link.Shift, end+link.Shift // sources from here on
	at := int(h.cursor[place])
	for at < len(list) && int64(list[at]) < end {
		stop := len(list)
		if stop > Fold {
			stop = min(stop, (at/Fold+1)*Fold)
		}
		idx := w.idx
		for at < stop && len(idx) < idxRoom {
			u := int64(list[at])
			if u >= end {
				break
			}
			if u < first {
				return fault.New(fault.ErrCorrupt, "the in-neighbours of node %d do not ascend: %d comes too late", p.node(h.Targets, i), u)
			}
			at++
			if u != loop {
				idx = append(idx, uint32(u-first))
			}
		}
		w.idx = idx
		w.runs = append(w.runs, piece{place, int32(len(idx)), int32(link.Relation), len(list) > Fold && at == stop})
		if len(idx) == idxRoom || len(w.runs) == idxRoom {
			h.flush(worker, x)
		}
	}
	if h.cursor[place], h.next[place] = uint32(at), done; at < len(list) {
		h.next[place] = link.in(list[at])
	}
	return nil
}

// flush adds the rows that the worker has collected.
func (h *host) flush(worker int, x []float32) {
	w := &h.workers[worker]
	begin := int32(0)
	for _, p := range w.runs {
		acc := h.acc[p.at*h.Acc : (p.at+1)*h.Acc]
		wide := h.wideOf(p.at)
		if p.end > begin {
			h.Pull.Add(worker, acc, wide, x, w.idx[begin:p.end:len(w.idx)], int(p.relation))
		}
		if p.fold {
			fold(wide, acc)
		}
		begin = p.end
	}
	w.idx, w.runs = w.idx[:0], w.runs[:0]
}

// wideOf returns the sums of a long list, nil for others.
func (h *host) wideOf(at int) []float64 {
	if len(h.long) == 0 {
		return nil
	}
	i, ok := slices.BinarySearch(h.long, uint32(at))
	if !ok {
		return nil
	}
	return h.wide[i*h.Wide : (i+1)*h.Wide]
}

// fold adds the sums of a block to the sums of the blocks before, and clears them.
func fold(wide []float64, acc []float32) {
	for c := range wide {
		wide[c] += float64(acc[c])
	}
	clear(acc[:len(wide)])
}

// unfold makes the sum of all blocks the list's sum.
func (h *host) unfold(at int) {
	acc, wide := h.acc[at*h.Acc:(at+1)*h.Acc], h.wideOf(at)
	fold(wide, acc)
	for c, v := range wide {
		acc[c] = float32(v)
	}
}
