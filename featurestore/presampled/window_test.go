package presampled

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/featurestore/storetest"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/presample"
)

func TestWindow(t *testing.T) {
	sample := func(dataset, out string, p storetest.Params) error {
		_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
			BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout}, progress.Discard)
		return err
	}
	for name, p := range map[string]storetest.Params{
		"epochs":       {},
		"some batches": {Batch: 100, Epochs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.RunWindow(t, storetest.NewWorld(t, p, sample), func(t testing.TB, w *storetest.World) featurestore.Source {
				s, err := Find(storetest.Disk, w.Dataset, w.Samples)
				if err != nil {
					t.Fatal(err)
				}
				return s
			})
		})
	}
}

func openLoaders(t *testing.T, s *Source) (featurestore.Loaders, iostack.Stack) {
	t.Helper()
	stack, _, err := all.Open("pread", iostack.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stack.Close() })
	l, err := s.Open(stack)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, stack
}

// A window over the whole circle reads each batch once, however far it is moved; a smaller
// one reads one batch whenever it is advanced.
func TestWindowReads(t *testing.T) {
	s, _ := newSource(t, func(*graph.Batch) {})
	l, stack := openLoaders(t, s)
	train := s.facts.Train
	for _, c := range []struct{ ahead, seek, advance int }{{1, 2, 1}, {train - 2, train - 1, 1}, {train - 1, train, 0}, {train, train, 0}} {
		w, err := l.NewWindow(c.ahead)
		if err != nil {
			t.Fatal(err)
		}
		before := stack.Stats().Requests
		_, err = w.Seek(t.Context(), 3)
		seek := stack.Stats().Requests - before
		for range train {
			_, more := w.Advance(t.Context())
			err = errors.Join(err, more)
		}
		advance := stack.Stats().Requests - before - seek
		if err != nil || seek != int64(c.seek) || advance != int64(c.advance*train) {
			t.Errorf("%d ahead: %d reads, then %d for %d batches, %v", c.ahead, seek, advance, train, err)
		}
		w.Free()
	}
}

// The bytes of a window are those of the input nodes of the largest batch for each of its
// places, of at most as many places as there are batches, and of the graphs under way.
func TestWindowBytes(t *testing.T) {
	s, _ := newSource(t, func(*graph.Batch) {})
	page := func(n int64) int64 { return (n + 4095) / 4096 * 4096 }
	most, graphBytes := int64(0), int64(0)
	for i := range s.facts.Train {
		b := s.samples.Info(i)
		most, graphBytes = max(most, int64(b.InputNodes())), max(graphBytes, b.Size)
	}
	train := int64(s.facts.Train)
	for _, c := range []struct{ ahead, places, reads int64 }{{1, 2, 2}, {9, 10, 4}, {train - 1, train, 4}, {1000, train, 4}} {
		if got, want := s.WindowBytes(int(c.ahead)), page(4*most*c.places)+c.reads*page(graphBytes)+8*c.places; got != want {
			t.Errorf("%d ahead: %d bytes, want %d", c.ahead, got, want)
		}
	}
}

// A file that was cut off is damage, named, of the samples; the window can then be moved
// over other batches.
func TestWindowDamage(t *testing.T) {
	s, dir := newSource(t, func(*graph.Batch) {})
	l, _ := openLoaders(t, s)
	w, err := l.NewWindow(1)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Free()
	if err := os.Truncate(s.samples.Path(4), s.samples.Info(4).Size-1); err != nil {
		t.Fatal(err)
	}
	_, err = w.Seek(t.Context(), 2)
	if err == nil {
		_, err = w.Advance(t.Context())
	}
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), s.samples.Path(4)) || !strings.Contains(err.Error(), dir+" is damaged: make it again, by its diskgnn presample") {
		t.Errorf("a short file: %v", err)
	}
	if _, err := w.Seek(t.Context(), 5); err != nil || w.First() != 5 {
		t.Errorf("beyond it: batch %d, %v", w.First(), err)
	}
}
