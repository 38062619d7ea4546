package sampler

import (
	"context"
	"slices"
)

// within restricts a batch to neighbours whose partitions are in the buffer. They alone
// count for the fanout: of a destination with more neighbours in the buffer than the fanout
// says so many are drawn, uniformly, and all of them otherwise, which may be none. Degrees
// that the batch carries are those of the whole graph. The zero value restricts nothing.
type within struct {
	of   []uint16 // the partition of every node
	held []bool   // of every partition: whether it is in the buffer
	on   bool
	left int // edges to look at before the context is looked at
}

// restrict makes the restriction that of a batch.
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
			if w.held[w.of[u]] {
				n++
			}
		}
	}
	return n, nil
}

// keep puts the sources that are in the buffer into to, and returns them.
func (w *within) keep(to, sources []uint32) []uint32 {
	to = to[:0]
	for _, u := range sources {
		if w.held[w.of[u]] {
			to = append(to, u)
		}
	}
	return to
}

// among turns positions among a destination's edges with a source in the buffer into
// positions among all its edges, ascending. Both count from start.
func (w *within) among(ctx context.Context, pos []int64, sources []uint32, start int64) error {
	slices.Sort(pos)
	rank, at := start, start
	for piece := range slices.Chunk(sources, edgesAtOnce) {
		if err := w.look(ctx, len(piece)); err != nil {
			return err
		}
		for _, u := range piece {
			if len(pos) == 0 {
				return nil
			}
			if w.held[w.of[u]] {
				if pos[0] == rank {
					pos[0], pos = at, pos[1:]
				}
				rank++
			}
			at++
		}
	}
	return nil
}
