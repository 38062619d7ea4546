package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/faultio"
)

// window: the layout of a store with a window has its batches ahead and its memory.
func (s *suite) window(t *testing.T) {
	l, err := s.c.Plan(featurestore.PlanOptions{Memory: 1 << 40, Slots: 1, EvalSlots: 1, MostSlots: 1})
	must(t)(err)
	if l.Ahead < 0 || (l.Ahead > 0) != (l.WindowBytes > 0) {
		t.Errorf("a window of %d batches ahead takes %d bytes", l.Ahead, l.WindowBytes)
	}
	if l.Ahead > 0 && !s.c.InOrder() {
		t.Errorf("the store sees %d batches ahead, but its batches have no fixed order", l.Ahead)
	}
}

// RunWindow tests the contract of featurestore.Window with the source that find returns.
func RunWindow(t *testing.T, w *World, find func(t testing.TB, w *World) featurestore.Source) {
	s := &windows{w: w, source: find(t, w)}
	s.train = s.source.Facts().Train
	for i := range s.train {
		s.inputs = append(s.inputs, w.read(t, featurestore.Ref{Index: i}).Input)
	}
	before := device.HostBytes()
	t.Run("nodes", s.nodes)
	t.Run("steps", s.steps)
	t.Run("budget", s.budget)
	t.Run("every read fails", s.everyReadFails)
	t.Run("every read is wrong", s.everyReadIsWrong)
	t.Run("cancel", s.cancel)
	t.Run("steady state", s.steadyState)
	if n := device.HostBytes(); n != before {
		t.Errorf("%d bytes of host memory were not given back", n-before)
	}
}

type windows struct {
	w      *World
	source featurestore.Source
	train  int
	inputs [][]uint32 // input nodes of every sampled training batch
}

// aheads returns sizes of windows: one batch ahead, some, all training batches, and more.
func (s *windows) aheads() []int {
	return []int{1, 2, s.train / 2, s.train - 1, s.train, 2*s.train + 1}
}

func (s *windows) open(in iostack.Stack, ahead int) (_ featurestore.Window, free func() error, err error) {
	l, err := s.source.Open(in)
	if err != nil {
		return nil, nil, err
	}
	w, err := l.NewWindow(ahead)
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return w, func() error {
		w.Free()
		return l.Close()
	}, nil
}

// shows returns an error if a window differs from the circle of sampled batches.
func (s *windows) shows(w featurestore.Window, first, ahead int) error {
	if w.First() != first {
		return fmt.Errorf("the window begins with batch %d, not with %d", w.First(), first)
	}
	for k := range ahead + 1 {
		i := (first + k) % s.train
		if got := w.Inputs(k); !slices.Equal(got, s.inputs[i]) {
			return fmt.Errorf("from batch %d on, %d ahead, the window shows %v, not batch %d, %v", first, k, got, i, s.inputs[i])
		}
	}
	return nil
}

// nodes: from every batch on, and around the circle, the window has the input nodes of the coming batches.
// It counts its reads.
func (s *windows) nodes(t *testing.T) {
	in := stack(t)
	defer in.Close()
	for _, ahead := range s.aheads() {
		w, free, err := s.open(in, ahead)
		must(t)(err)
		check := func(first, reads int, move func() (int64, error)) {
			t.Helper()
			before := in.Stats()
			n, err := move()
			must(t)(err)
			must(t)(s.shows(w, first, ahead))
			if over := n - in.Stats().Sub(before).BytesRead; over < 0 || over > int64(reads)*binio.Page { // the last page of a file may be counted whole
				t.Errorf("%d bytes were counted, %d more than were read", n, over)
			}
		}
		for first := range s.train {
			check(first, s.train, func() (int64, error) { return w.Seek(t.Context(), first) })
			check((first+1)%s.train, 1, func() (int64, error) { return w.Advance(t.Context()) })
		}
		for first := range 2 * s.train {
			check((first+1)%s.train, 1, func() (int64, error) { return w.Advance(t.Context()) })
		}
		must(t)(free())
	}
}

// steps: the content of a window does not depend on its earlier moves.
func (s *windows) steps(t *testing.T) {
	in := stack(t)
	defer in.Close()
	rapid.Check(t, func(t *rapid.T) {
		ahead := rapid.IntRange(1, s.train+2).Draw(t, "ahead")
		w, free, err := s.open(in, ahead)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := free(); err != nil {
				t.Error(err)
			}
		}()
		first, seek := 0, true
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			if seek {
				first = rapid.IntRange(0, s.train-1).Draw(t, "first")
				_, err = w.Seek(context.Background(), first)
			} else {
				first = (first + 1) % s.train
				_, err = w.Advance(context.Background())
			}
			if err = errors.Join(err, s.shows(w, first, ahead)); err != nil {
				t.Fatal(err)
			}
			seek = rapid.IntRange(0, 3).Draw(t, "seek") == 0
		}
	})
}

// budget: a window takes the memory that the source predicts, and not much less.
func (s *windows) budget(t *testing.T) {
	in := stack(t)
	defer in.Close()
	for _, ahead := range s.aheads() {
		before := device.HostBytes()
		_, free, err := s.open(in, ahead)
		must(t)(err)
		if n, want := device.HostBytes()-before, s.source.WindowBytes(ahead); n > want || n < want/4 && !s.w.Params.Drawn { // drawing takes memory on Go's heap
			t.Errorf("a window of %d batches ahead holds %d bytes of %d", ahead, n, want)
		}
		must(t)(free())
	}
}

// everyRead moves a window once for each read of the move, with an effect on that read, and passes the
// error of the move to check. After every move, no read may be in flight, and the window can be moved
// again. cancel ends the context of the move once the read is submitted.
func (s *windows) everyRead(t *testing.T, effect faultio.Effect, cancel bool, check func(error) bool) {
	for n := 0; ; n++ {
		in := stack(t, faultio.On(faultio.Nth(n, faultio.Always()), effect))
		ctx, end := context.WithCancel(t.Context())
		watched := &ending{Stack: in, left: math.MaxInt, end: end}
		if cancel {
			watched.left = n
		}
		w, free, err := s.open(watched, 2)
		must(t)(err)
		_, err = w.Seek(ctx, s.train-2)
		for range 3 {
			if err == nil {
				_, err = w.Advance(ctx)
			}
		}
		end()
		watched.over(t)
		injected := in.Injected() > 0
		switch {
		case !injected:
			must(t)(err)
		case !check(err):
			t.Fatalf("with read %d, %v: %v", n, effect, err)
		default:
			_, err := w.Seek(t.Context(), 1)
			must(t)(errors.Join(err, s.shows(w, 1, 2)))
		}
		must(t)(errors.Join(free(), in.Close()))
		if !injected {
			return
		}
	}
}

// everyReadFails: the error of any read reaches the caller.
func (s *windows) everyReadFails(t *testing.T) {
	s.everyRead(t, faultio.Fail(syscall.EIO), false, func(err error) bool { return errors.Is(err, syscall.EIO) })
}

// everyReadIsWrong: a changed bit in the bytes of any read is an error.
func (s *windows) everyReadIsWrong(t *testing.T) {
	s.everyRead(t, faultio.Flip(0, 4), false, func(err error) bool { return errors.Is(err, fault.ErrCorrupt) })
}

// cancel: a context that ends while any read hangs ends the move.
func (s *windows) cancel(t *testing.T) {
	s.everyRead(t, faultio.Hang(), true, func(err error) bool { return errors.Is(err, context.Canceled) })
}

// steadyState: after a round of the circle, a window allocates almost no memory.
func (s *windows) steadyState(t *testing.T) {
	in := stack(t)
	defer in.Close()
	w, free, err := s.open(in, 2)
	must(t)(err)
	defer func() { must(t)(free()) }()
	_, err = w.Seek(t.Context(), 0)
	must(t)(err)
	advance := func() {
		_, err := w.Advance(t.Context())
		must(t)(err)
	}
	for range s.train {
		advance()
	}
	if n := testing.AllocsPerRun(s.train, advance); n > 16 { // names of files: nothing that grows with the batch
		t.Errorf("a batch takes %v allocations", n)
	}
}
