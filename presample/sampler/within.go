package sampler

import (
	"context"
	"slices"
)

// within restricts a batch to neighbours in the partitions that the buffer holds. Only these count for
// the fanout: a destination with more of them than the fanout draws that number of them uniformly, and
// any other takes all of them, possibly none. The degrees in the batch are still degrees in the whole
// graph. The zero value restricts nothing.
type within struct {
	of   []uint16 // the partition of every node
	held []bool   // of every partition: whether it is in the buffer
	on   bool
	left int // edges to look at before the context is looked at

	all   bool    // all edges of the current destination with a source in the buffer are taken
	ranks []int64 // else only edges with these ranks among them, ascending; taken ones are removed
	rank  int64   // of the next
}

func (w *within) restrict(from *Seeds, id ID) {
	w.of = from.Partitions()
	if w.held == nil && w.of != nil {
		w.held = make([]bool, from.params.Partitions)
	}
	w.on = from.State(id, w.held) >= 0
}

// look counts edges that are looked at, and looks at the context now and then.
func (w *within) look(ctx context.Context, edges int) error {
	if w.left -= edges; w.left >= 0 {
		return nil
	}
	w.left = edgesAtOnce
	return ctx.Err()
}

// count returns how many of a destination's edges have a source in the buffer.
func (w *within) count(ctx context.Context, sources []uint32) (n uint32, err error) {
	for piece := range slices.Chunk(sources, edgesAtOnce) {
		if err := w.look(ctx, len(piece)); err != nil {
			return 0, err
		}
		for _, u := range piece {
			if int(u) >= len(w.of) {
				return 0, outside(u, len(w.of))
			}
			if w.held[w.of[u]] {
				n++
			}
		}
	}
	return n, nil
}

// begin begins a destination. ranks are the ranks of the edges to take, among the edges with a source
// in the buffer; nil: all.
func (w *within) begin(ranks []int64) {
	slices.Sort(ranks)
	w.all, w.ranks, w.rank = ranks == nil, ranks, 0
}

// take copies the sources that are to be taken, of the destination's next ones, to out and returns
// their number.
func (w *within) take(ctx context.Context, out, sources []uint32) (n int, err error) {
	for piece := range slices.Chunk(sources, edgesAtOnce) {
		if err := w.look(ctx, len(piece)); err != nil {
			return n, err
		}
		for _, u := range piece {
			if int(u) >= len(w.of) {
				return n, outside(u, len(w.of))
			}
			if !w.held[w.of[u]] {
				continue
			}
			if !w.all {
				if len(w.ranks) == 0 {
					return n, nil
				}
				if w.rank++; w.ranks[0] != w.rank-1 {
					continue
				}
				w.ranks = w.ranks[1:]
			}
			out[n] = u
			n++
		}
	}
	return n, nil
}
