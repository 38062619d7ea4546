package presampled

import (
	"context"
	"fmt"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
)

// readAhead is the number of reads in flight of Seek. Advance reads one batch.
const readAhead = 4

// windowSizes is the memory of a window, by the number of batches that it shows after the first.
type windowSizes struct {
	places int   // for batches; at most one for each training batch
	inputs int   // the most input nodes of a batch
	depth  int   // reads in flight
	raw    int64 // bytes of the buffer of a read
}

func (s *Source) windowSizes(ahead int) (w windowSizes) {
	sizes, raw := s.sizes(false)
	if len(sizes.Src) > 0 {
		w.inputs = sizes.Src[0]
	}
	w.places, w.raw = min(ahead+1, s.facts.Train), raw
	w.depth = min(readAhead, w.places)
	return w
}

// nodesBytes returns the bytes of the batches' input nodes, whole pages.
func (w *windowSizes) nodesBytes() int64 {
	return binio.AlignUp(4*int64(w.places)*int64(w.inputs), device.PageSize)
}

// WindowBytes returns the memory of a window, in bytes: the input nodes, and the buffers of the reads.
func (s *Source) WindowBytes(ahead int) int64 {
	w := s.windowSizes(ahead)
	const perPlace = 8 // see window.counts
	return w.nodesBytes() + int64(w.depth)*w.raw + perPlace*int64(w.places)
}

// window implements featurestore.Window by reading batches, which their loaders read again. A window with all
// training batches reads each of them once.
type window struct {
	windowSizes
	of     *loaders
	nodes  *device.Host // by place: the input nodes of a batch
	counts []int        // by place: the number of input nodes
	reads  []reading
	first  int // index of the first batch
	at     int // place of the first batch; the next batches follow, cyclically
}

// NewWindow returns a window. The caller frees it.
func (l *loaders) NewWindow(ahead int) (featurestore.Window, error) {
	sizes := l.source.windowSizes(ahead)
	w := &window{windowSizes: sizes, of: l, counts: make([]int, sizes.places), reads: make([]reading, sizes.depth)}
	var err error
	if w.nodes, err = device.NewHost(int(sizes.nodesBytes())); err != nil {
		return nil, fmt.Errorf("window of %d batches: %w", ahead, err)
	}
	for i := range w.reads {
		r := &w.reads[i]
		r.of = l
		if r.raw, err = device.NewHost(int(sizes.raw)); err != nil {
			w.Free()
			return nil, fmt.Errorf("window of %d batches: %w", ahead, err)
		}
	}
	return w, nil
}

// Free releases the memory.
func (w *window) Free() {
	w.nodes.Free()
	for i := range w.reads {
		if h := w.reads[i].raw; h != nil {
			h.Free()
		}
	}
}

func (w *window) First() int { return w.first }

// Seek reads all batches of the window.
func (w *window) Seek(ctx context.Context, first int) (int64, error) {
	w.first = first
	return w.see(ctx, 0)
}

// Advance reads the last batch of the window, unless the window has all training batches.
func (w *window) Advance(ctx context.Context) (int64, error) {
	train := w.of.source.facts.Train
	w.first, w.at = (w.first+1)%train, (w.at+1)%w.places
	if w.places == train {
		return 0, nil
	}
	return w.see(ctx, w.places-1)
}

// place returns the place of the batch k after the first.
func (w *window) place(k int) int { return (w.at + k) % w.places }

// Inputs implements featurestore.Window.
func (w *window) Inputs(k int) []uint32 {
	p := w.place(k)
	lo := p * w.inputs
	return w.nodes.Uint32s()[lo : lo+w.counts[p] : lo+w.counts[p]]
}

// see reads the batches from place(k) on.
func (w *window) see(ctx context.Context, k int) (read int64, err error) {
	for i := k; i < w.places+len(w.reads); i++ {
		if done := i - len(w.reads); done >= k {
			err = w.finish(ctx, done)
		}
		if err == nil && i < w.places {
			var n int64
			n, _, err = w.reading(i).start((w.first + i) % w.of.source.facts.Train)
			read += n
		}
		if err != nil {
			w.drain()
			return 0, fmt.Errorf("window from batch %d on: %w", w.first, err)
		}
	}
	return read, nil
}

// reading returns the reading of the batch k after the first.
func (w *window) reading(k int) *reading { return &w.reads[k%len(w.reads)] }

// finish waits for the batch k after the first, checks it and keeps its input nodes.
func (w *window) finish(ctx context.Context, k int) error {
	r := w.reading(k)
	if err := r.wait(ctx); err != nil {
		return err
	}
	nodes, err := w.of.source.samples.DecodeInputs(r.number, r.bytes())
	if err != nil {
		return err
	}
	p := w.place(k)
	w.counts[p] = copy(w.nodes.Uint32s()[p*w.inputs:(p+1)*w.inputs], nodes)
	return nil
}

// drain ends the reads in flight.
func (w *window) drain() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for i := range w.reads {
		_ = w.reads[i].wait(ended) // the first error is the one that counts
	}
}
