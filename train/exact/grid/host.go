package grid

import (
	"context"

	"diskgnn/internal/fault"
)

// host computes tiles on the CPU: a destination has a cursor into its list of sources, and adds the rows of the
// window that the list has next.
type host struct {
	*run
	lo, hi  int // the tile
	acc     []float32
	cursor  []uint32  // positions in the lists
	next    []uint32  // the sources there; done where a list has ended
	wide    []float64 // the sums of long lists
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
	if tile := int64(h.Plan.Tile); h.Acc > 0 {
		h.acc = carve[float32](c, tile*int64(h.Acc))
		h.cursor, h.next = carve[uint32](c, tile), carve[uint32](c, tile)
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
func (h *host) begin(ctx context.Context, lo, hi int) error {
	h.lo, h.hi = lo, hi
	clear(h.wide[:len(h.long)*h.Wide])
	if h.First {
		return nil
	}
	return h.own(ctx, lo, hi-lo, nil)
}

// own sets the accumulators and cursors of n targets from first on.
func (h *host) own(ctx context.Context, first, n int, x []float32) error {
	return h.each(ctx, n, h.Group, func(worker, from, to int) error {
		var rows []float32
		if h.First {
			rows = x[from*h.In:]
		}
		at := first - h.lo
		h.Pull.Begin(worker, h.acc[(at+from)*h.Acc:(at+to)*h.Acc], rows, to-from)
		for i := at + from; i < at+to; i++ {
			list, err := h.Graph.Row(h.node(h.lo + i))
			if err != nil {
				return err
			}
			if h.cursor[i], h.next[i] = 0, done; len(list) > 0 {
				h.next[i] = list[0]
			}
		}
		return nil
	})
}

func (h *host) add(ctx context.Context, first, n int, x []float32) error {
	if h.Maps {
		if err := h.rows(ctx, first, n, h.mapped, x); err != nil {
			return err
		}
		x = h.mapped
	}
	return h.each(ctx, h.hi-h.lo, pullGrain, func(worker, from, to int) error {
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
		var rows []float32
		if h.Last {
			rows = x[from*h.In:]
		}
		w := &h.workers[worker]
		w.nodes = w.nodes[:0]
		for i := first + from; i < first+to; i++ {
			v := h.node(i)
			list, err := h.Graph.Row(v)
			if err != nil {
				return err
			}
			if int(h.cursor[i-h.lo]) != len(list) {
				return fault.New(fault.ErrCorrupt, "the in-neighbours of node %d do not ascend, or are no nodes of the graph", v)
			}
			if len(list) > Fold {
				h.unfold(i - h.lo)
			}
			w.nodes = append(w.nodes, v)
		}
		h.Pull.Finish(worker, out[from*h.Out:], h.acc[(first+from-h.lo)*h.Acc:], rows, w.nodes)
		return nil
	})
}
