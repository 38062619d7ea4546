package onthefly

import (
	"context"
	"fmt"

	"diskgnn/device"
	"diskgnn/featurestore"
)

// window implements featurestore.Window by drawing ahead, one batch after another. It keeps only the input
// nodes of a batch; the loader draws the batch again.
type window struct {
	of     *loaders
	drawer drawer
	nodes  *device.Host // by place: most input nodes of a batch
	most   int          // input nodes of the largest batch
	counts []int        // by place: the number of input nodes
	first  int          // index of the first batch
	at     int          // place of the first batch; the next batches follow, cyclically
}

// NewWindow returns a window. The caller frees it.
func (l *loaders) NewWindow(ahead int) (featurestore.Window, error) {
	places, most, bytes := l.source.windowNodes(ahead)
	nodes, err := device.NewHost(int(bytes))
	if err != nil {
		return nil, fmt.Errorf("window of %d batches: %w", ahead, err)
	}
	by, err := l.newDrawer(false)
	if err != nil {
		nodes.Free()
		return nil, fmt.Errorf("window of %d batches: %w", ahead, err)
	}
	return &window{of: l, drawer: by, nodes: nodes, most: most, counts: make([]int, places)}, nil
}

// Free releases the memory.
func (w *window) Free() {
	w.drawer.from.Free()
	w.nodes.Free()
}

func (w *window) First() int { return w.first }

// Seek draws all batches of the window.
func (w *window) Seek(ctx context.Context, first int) (read int64, err error) {
	w.first, w.at = first, 0
	for k := range w.counts {
		n, err := w.see(ctx, k)
		if read += n; err != nil {
			return 0, err
		}
	}
	return read, nil
}

// Advance draws the last batch of the window, unless the window has all training batches.
func (w *window) Advance(ctx context.Context) (int64, error) {
	train := w.of.source.facts.Train
	w.first, w.at = (w.first+1)%train, (w.at+1)%len(w.counts)
	if len(w.counts) == train {
		return 0, nil
	}
	return w.see(ctx, len(w.counts)-1)
}

// place returns the place of the batch k after the first, and the memory of its input nodes.
func (w *window) place(k int) (p int, nodes []uint32) {
	p = (w.at + k) % len(w.counts)
	return p, w.nodes.Uint32s()[p*w.most : (p+1)*w.most]
}

// Inputs implements featurestore.Window.
func (w *window) Inputs(k int) []uint32 {
	p, nodes := w.place(k)
	return nodes[:w.counts[p]:w.counts[p]]
}

// see draws the batch k after the first, and returns the bytes read for it.
func (w *window) see(ctx context.Context, k int) (read int64, err error) {
	before := w.drawer.from.Reads()
	b, err := w.of.draw(ctx, w.drawer, featurestore.Ref{Index: (w.first + k) % w.of.source.facts.Train})
	if err != nil {
		return 0, fmt.Errorf("window from batch %d on: %w", w.first, err)
	}
	p, nodes := w.place(k)
	w.counts[p] = copy(nodes, b.Input)
	return w.drawer.from.Reads().Sub(before).Bytes, nil
}
