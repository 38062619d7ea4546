package packed_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"diskgnn/featurestore/packed"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// ledger is a stack that keeps account of registered memory and of the requests that
// nobody has waited for.
type ledger struct {
	iostack.Stack
	t *testing.T

	first bool // the memory is read into for the first time: it need not be registered

	mu         sync.Mutex
	registered map[uintptr]int
	reads      map[*iostack.Group][]iostack.Request
}

func newLedger(t *testing.T, inner iostack.Stack) *ledger {
	return &ledger{Stack: inner, t: t, registered: map[uintptr]int{}, reads: map[*iostack.Group][]iostack.Request{}}
}

func at(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func (l *ledger) Register(bufs ...[]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range bufs {
		if len(b) > 0 {
			l.registered[at(b)] = len(b)
		}
	}
	return l.Stack.Register(bufs...)
}

func (l *ledger) Unregister(bufs ...[]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		if l.registered[at(b)] != len(b) {
			l.t.Errorf("%d bytes are unregistered that were not registered", len(b))
		}
		delete(l.registered, at(b))
		for _, reqs := range l.reads {
			for _, r := range reqs {
				if at(r.Buf) < at(b)+uintptr(len(b)) && at(b) < at(r.Buf)+uintptr(len(r.Buf)) {
					l.t.Errorf("a read of %s may land in memory that is unregistered", r.File.Name())
				}
			}
		}
	}
	return l.Stack.Unregister(bufs...)
}

func (l *ledger) Submit(g *iostack.Group, reqs []iostack.Request) error {
	l.mu.Lock()
	l.reads[g] = append(l.reads[g], reqs...)
	for _, r := range reqs {
		if !l.first && !l.holds(r.Buf) {
			l.t.Errorf("%d bytes of %s land in memory that is not registered", len(r.Buf), r.File.Name())
		}
	}
	l.mu.Unlock()
	return l.Stack.Submit(g, reqs)
}

// holds tells whether memory lies in a buffer that is registered.
func (l *ledger) holds(b []byte) bool {
	for begin, n := range l.registered {
		if begin <= at(b) && at(b)+uintptr(len(b)) <= begin+uintptr(n) {
			return true
		}
	}
	return false
}

func (l *ledger) Wait(ctx context.Context, g *iostack.Group) error {
	err := l.Stack.Wait(ctx, g)
	l.mu.Lock()
	delete(l.reads, g)
	l.mu.Unlock()
	return err
}

// TestFreeUnregisters: a slot's memory is registered from its second batch on: the first
// does not wait until the kernel has found all of it. It goes back once nothing knows it any
// more, and no read can land in it, whatever became of its batch.
func TestFreeUnregisters(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, w := range []*world{small(t, "same"), small(t, "bf16"), sharing(t), buildMin(t, "int8", "s2")} {
		stack := newLedger(t, newStack(t))
		s := w.open(t, stack, plan(t, w))
		stack.first = true
		if _, err := s.PreloadFor(t.Context(), 1, progress.Discard); err != nil {
			t.Fatal(err)
		}
		if n := len(stack.registered); n > 0 {
			t.Errorf("%d buffers stay registered after filling the cache", n)
		}
		for _, how := range []struct {
			name string
			take func() (*packed.Slot, error)
			use  func(sl *packed.Slot, again int) error
		}{
			{"not used", s.NewSlot, func(*packed.Slot, int) error { return nil }},
			{"assembled", s.NewSlot, func(sl *packed.Slot, again int) error { return load(t.Context(), s, sl, 1+again) }},
			{"given up", s.NewSlot, func(sl *packed.Slot, _ int) error {
				err := errors.Join(s.Start(sl, 2), s.LoadGraph(t.Context(), sl))
				_ = s.Wait(ended, sl)
				return err
			}},
			{"given up at once", s.NewSlot, func(sl *packed.Slot, _ int) error {
				err := s.Start(sl, 2)
				_ = s.Wait(ended, sl)
				return err
			}},
			{"evaluated", s.NewEvalSlot, func(sl *packed.Slot, _ int) error { return s.LoadEval(t.Context(), sl, false, 0) }},
			{"evaluation given up", s.NewEvalSlot, func(sl *packed.Slot, _ int) error {
				_ = s.LoadEval(ended, sl, false, 0)
				return nil
			}},
		} {
			sl, err := how.take()
			if err != nil {
				t.Fatal(err)
			}
			stack.first = true
			if err := how.use(sl, 0); err != nil {
				t.Errorf("%s: %v", how.name, err)
			}
			if n := len(stack.registered); n > 0 {
				t.Errorf("%s: %d buffers are registered, which the first batch need not wait for", how.name, n)
			}
			stack.first = false
			if err := how.use(sl, 1); err != nil {
				t.Errorf("%s again: %v", how.name, err)
			}
			if len(stack.registered) == 0 && how.name != "not used" {
				t.Errorf("%s again: nothing was registered", how.name)
			}
			sl.Free()
			if n := len(stack.registered); n > 0 {
				t.Errorf("%s: %d buffers stay registered", how.name, n)
			}
			if n := len(stack.reads); n > 0 {
				t.Errorf("%s: %d reads were not waited for", how.name, n)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A slot has room for every batch from the start.
func TestSlotHasRoom(t *testing.T) {
	for _, w := range []*world{small(t, "same"), sharing(t), buildMin(t, "same", "none")} {
		s := w.open(t, newStack(t), plan(t, w))
		sl := ready(t, s)
		room := func() (list []int) {
			b := sl.Batch()
			list = append(list, cap(b.Blocks), cap(b.Input), cap(b.Degree), cap(b.Labels), cap(b.Targets))
			for l := range b.Blocks {
				list = append(list, cap(b.Blocks[l].Indptr), cap(b.Blocks[l].Indices), cap(b.Blocks[l].Dst))
			}
			return append(list, sl.PlanRoom()...)
		}
		want := room()
		f, planned := w.reader.Facts(), int64(0)
		for _, n := range sl.PlanRoom() {
			planned += 4 * int64(n)
		}
		if n := w.reader.PlanBytes(); n != planned || s.PlanShare() != planned {
			t.Errorf("a plan has %d bytes, the layout knows of %d, and the slot's memory has %d for it", planned, n, s.PlanShare())
		}
		if n := f.TrainSizes.Bytes(f.TargetBytes); plan(t, w).SlotBytes < n+planned+f.GraphBytes {
			t.Errorf("a slot of %d bytes, whose graph has %d", plan(t, w).SlotBytes, n)
		}
		for i := range w.reader.Facts().Train {
			if err := load(t.Context(), s, sl, i); err != nil {
				t.Fatal(err)
			}
			if got := room(); !slices.Equal(got, want) {
				t.Fatalf("batch %d: room for %v, at first for %v", i, got, want)
			}
		}
		sl.Free()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// plan returns the layout with a pack's least cache.
func plan(t *testing.T, w *world) packed.Layout {
	t.Helper()
	l, err := packed.Plan(w.reader, packed.PlanOptions{Cache: leastCache(w), Memory: 1 << 30, Slots: 3, EvalSlots: 1})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func leastCache(w *world) *budget.Size {
	edges := w.reader.Index().Edges
	return &budget.Size{Value: float64(edges[len(edges)-1] * int64(w.reader.Facts().RowBytes))}
}

// TestEveryPieceOnce: goroutines that divide the pieces of a chunk convert each piece once.
func TestEveryPieceOnce(t *testing.T) {
	w := small(t, "bf16")
	l := plan(t, w)
	s := w.open(t, newStack(t), l)
	sl := newSlot(t, s)
	several := 0
	for i := range w.reader.Facts().Train {
		if err := load(t.Context(), s, sl, i); err != nil {
			t.Fatal(err)
		}
		var want []int64 // the first byte of each piece
		tr := &w.reader.Index().Train[i]
		if err := tr.Pieces(w.reader.Form(), l.Through, func(at packfile.Piece) error { want = append(want, at.Row); return nil }); err != nil {
			t.Fatal(err)
		}
		for mid := range len(want) + 1 {
			if got := slices.Concat(sl.Pieces(0, mid), sl.Pieces(mid, len(want))); !slices.Equal(got, want) {
				t.Errorf("batch %d, divided before piece %d: pieces at %d, want %d", i, mid, got, want)
			}
		}
		several += min(len(want)/3, 1)
	}
	if several == 0 {
		t.Error("no chunk has three pieces")
	}
	sl.Free()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
