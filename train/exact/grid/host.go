package grid

import (
	"context"

	"diskgnn/internal/fault"
)

// host computes tiles on the CPU: a list of sources has a cursor, and adds the rows of the window that it has next.
type host struct {
	*run
	acc     []float32
	cursor  []uint32  // positions in the lists
	next    []uint32  // the rows of the sources there; done where a list has ended
	long    []uint32  // long lists of the tile, ascending
	wide    []float64 // their sums
	workers []worker
}

// done marks the end of a list in host.next.
const done = 1<<32 - 1

func (h *host) carve(c *carver) {
	width := h.Out
	if h.Maps {
		width = max(width, h.Row)
	}
	h.mapped = carve[float32](c, int64(h.Plan.Block)*int64(width))
	if lists := int64(mostLists(h.Parts, h.Plan.Tile)); h.Acc > 0 {
		h.acc = carve[float32](c, lists*int64(h.Acc))
		h.cursor, h.next = carve[uint32](c, lists), carve[uint32](c, lists)
		h.long, h.wide = carve[uint32](c, h.longest)[:0], carve[float64](c, h.longest*int64(h.Wide))
	}
	if h.Plan.Keep {
		h.kept = carve[float32](c, int64(h.Plan.Tile)*int64(h.In))
	}
	c.beside += int64(h.Threads) * workerBytes
}

func (h *host) open() error {
	h.workers = make([]worker, h.Threads)
	for i := range h.workers {
		h.workers[i] = worker{idx: make([]uint32, 0, idxRoom), runs: make([]piece, 0, idxRoom), nodes: make([]uint32, 0, h.Group)}
	}
	return nil
}

func (h *host) close() {}

// begin sets the cursors and, unless they are made of own rows, the accumulators.
func (h *host) begin(ctx context.Context) error {
	if err := h.findLong(ctx); err != nil {
		return err
	}
	clear(h.wide[:len(h.long)*h.Wide])
	if h.First {
		return nil
	}
	return h.own(ctx, h.lo, h.hi-h.lo, nil)
}

// findLong finds the long lists.
func (h *host) findLong(ctx context.Context) error {
	h.long = h.long[:0]
	if cap(h.long) == 0 {
		return nil
	}
	return h.Guard(func() error {
		at := uint32(0) // among the tile's lists
		return EachList(ctx, h.of, h.Targets, h.Graph, h.lo, h.hi, func(l List) error {
			if len(l.Sources) > Fold {
				if len(h.long) == cap(h.long) {
					return tooLong(l.Node)
				}
				h.long = append(h.long, at)
			}
			at++
			return nil
		})
	})
}

// tooLong is the error of a list that became long since it was counted.
func tooLong(v uint32) error {
	return fault.New(fault.ErrCorrupt, "node %d has more in-neighbours than when they were counted", v)
}

// own sets the accumulators and cursors of n targets from first on.
func (h *host) own(ctx context.Context, first, n int, x []float32) error {
	return h.each(ctx, n, h.Group, func(worker, from, to int) error {
		return split(h.of, first+from, first+to, func(part, lo, hi int) error {
			p := &h.of[part]
			var rows []float32
			if h.First && p.Own >= 0 {
				rows = x[(lo-first)*h.In:]
			}
			at := h.list(part, lo)
			h.Pull.Begin(worker, h.acc[at*h.Acc:h.list(part, hi)*h.Acc], rows, hi-lo, p.Lists)
			for i := lo; i < hi; i++ {
				for k := range p.Links {
					list, err := h.Graph.Row(p.row(h.Targets, i, k))
					if err != nil {
						return err
					}
					if h.cursor[at], h.next[at] = 0, done; len(list) > 0 {
						h.next[at] = p.Links[k].in(list[0])
					}
					at++
				}
			}
			return nil
		})
	})
}

// list returns the first list of target i, of a part, in the tile.
func (h *host) list(part, i int) int {
	p := &h.of[part]
	return h.begins[part] + (i-max(p.Lo, h.lo))*len(p.Links)
}

func (h *host) add(ctx context.Context, first, n int, x []float32) error {
	if h.Maps {
		if err := h.rows(ctx, first, n, h.mapped, x); err != nil {
			return err
		}
		x = h.mapped
	}
	return h.each(ctx, h.begins[len(h.of)], pullGrain, func(worker, from, to int) error {
		return h.pull(worker, from, to, x, int64(first), int64(first+n))
	})
}

// rows stores the rows that destinations add; a layer without neighbours has no others.
func (h *host) rows(ctx context.Context, first, n int, out, x []float32) error {
	return h.each(ctx, n, h.Group, func(worker, from, end int) error {
		h.Pull.Map(worker, out[from*h.Row:], x[from*h.In:], uint32(first+from), end-from)
		return nil
	})
}

func (h *host) end(context.Context) error { return nil }

func (h *host) finish(ctx context.Context, first, n int, out, x []float32) error {
	return h.each(ctx, n, h.Group, func(worker, from, to int) error {
		return split(h.of, first+from, first+to, func(part, lo, hi int) error {
			p := &h.of[part]
			var rows []float32
			if h.Last && p.Own >= 0 {
				rows = x[(lo-first)*h.In:]
			}
			w := &h.workers[worker]
			w.nodes = w.nodes[:0]
			begin := h.list(part, lo)
			at := begin
			for i := lo; i < hi; i++ {
				for k := range p.Links {
					list, err := h.Graph.Row(p.row(h.Targets, i, k))
					if err != nil {
						return err
					}
					if int(h.cursor[at]) != len(list) {
						return fault.New(fault.ErrCorrupt, "the in-neighbours of node %d do not ascend, or are no nodes of the graph", p.node(h.Targets, i))
					}
					if len(list) > Fold {
						h.unfold(at)
					}
					at++
				}
				w.nodes = append(w.nodes, p.first(h.Targets, i))
			}
			h.Pull.Finish(worker, out[(lo-first)*h.Out:], h.acc[begin*h.Acc:], rows, w.nodes, p.Lists)
			return nil
		})
	})
}
