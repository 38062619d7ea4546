package live

import (
	"context"
	"fmt"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
)

// window implements featurestore.Window by drawing ahead, one batch after another. Of a batch
// it keeps the input nodes; its loader draws it once more.
type window struct {
	of     *loaders
	drawer drawer
	nodes  *device.Host // of the batch at each place, side by side
	most   int          // input nodes of a batch
	counts []int        // input nodes of the batch at each place
	first  int          // index of the first batch
	at     int          // its place; those after it follow, and begin again at 0
}

// windowNodes returns how many batches a window shows, at most as many as there are, the most
// input nodes of one, and the bytes of them all, whole pages.
func (s *Source) windowNodes(ahead int) (places, most int, bytes int64) {
	places, most = min(ahead+1, s.facts.Train), s.facts.TrainSizes.Src[0]
	return places, most, binio.AlignUp(4*int64(places)*int64(most), device.PageSize)
}

// WindowBytes returns the memory of the input nodes, and of drawing them: a loader's, and the
// visiting orders of the epochs between the loaders and the last batch.
func (s *Source) WindowBytes(ahead int) int64 {
	places, _, bytes := s.windowNodes(ahead)
	perPlace := 8 + 4*int64(s.options.BatchSize)
	return bytes + perPlace*int64(places) + s.hostLoaderBytes(false)
}

// NewWindow returns a window, which Free gives back.
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

// Free gives the memory back.
func (w *window) Free() {
	w.drawer.from.Free()
	w.nodes.Free()
}

func (w *window) First() int { return w.first }

// Seek draws all batches that the window shows.
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

// Advance draws the last batch that the window shows, if that is not the dropped one.
func (w *window) Advance(ctx context.Context) (int64, error) {
	train := w.of.source.facts.Train
	w.first, w.at = (w.first+1)%train, (w.at+1)%len(w.counts)
	if len(w.counts) == train {
		return 0, nil
	}
	return w.see(ctx, len(w.counts)-1)
}

// place returns where the input nodes of the batch that comes k after the first are.
func (w *window) place(k int) (p int, nodes []uint32) {
	p = (w.at + k) % len(w.counts)
	return p, w.nodes.Uint32s()[p*w.most : (p+1)*w.most]
}

// Inputs returns a part of the window's memory.
func (w *window) Inputs(k int) []uint32 {
	p, nodes := w.place(k)
	return nodes[:w.counts[p]:w.counts[p]]
}

// see draws the batch that comes k after the first, and returns the bytes read for it.
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
