package errgroup

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"diskgnn/internal/fault"
)

// A panic is the group's error, with the stack of where it happened, and ends the others.
func TestPanicIsTheError(t *testing.T) {
	boom := errors.New("boom")
	g, ctx := WithContext(context.Background())
	g.SetLimit(2)
	g.Go(func() error { <-ctx.Done(); return ctx.Err() })
	g.Go(func() error { return panicking(boom) })
	err := g.Wait()
	p, ok := errors.AsType[*fault.PanicError](err)
	if !ok || !errors.Is(err, boom) || err.Error() != "panic: boom" || !strings.Contains(string(p.Stack), "errgroup.panicking") {
		t.Errorf("%v", err)
	}
}

func panicking(err error) error { panic(err) }

// A zero group runs all of its goroutines and has the first error.
func TestZeroGroup(t *testing.T) {
	var g Group
	var ran atomic.Int32
	boom := errors.New("boom")
	for i := range 4 {
		g.Go(func() error {
			if ran.Add(1); i == 2 {
				return boom
			}
			return nil
		})
	}
	if err := g.Wait(); err != boom || ran.Load() != 4 {
		t.Errorf("%v, %d ran", err, ran.Load())
	}
}

// Every number is in one range, and a goroutine is in one range at a time; an error of a range, and the
// end of the context, are returned. The end is the context's error, from which commands tell an interruption.
func TestRanges(t *testing.T) {
	boom := errors.New("boom")
	for _, n := range []int{0, 1, 7, 8, 29} {
		for _, workers := range []int{0, 1, 2, 9} {
			const grain = 7
			seen, busy := make([]atomic.Int32, n), make([]atomic.Int32, max(workers, 1))
			err := Ranges(t.Context(), workers, n, grain, func(worker, from, to int) error {
				if busy[worker].Add(1) != 1 || from%grain != 0 || to != min(from+grain, n) {
					t.Errorf("%d numbers, %d workers: worker %d is %d times busy, with %d to %d", n, workers, worker, busy[worker].Load(), from, to)
				}
				for i := from; i < to; i++ {
					seen[i].Add(1)
				}
				busy[worker].Add(-1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			for i := range seen {
				if times := seen[i].Load(); times != 1 {
					t.Errorf("%d numbers, %d workers: %d comes %d times", n, workers, i, times)
				}
			}
			if n == 0 {
				continue
			}
			err = Ranges(t.Context(), workers, n, grain, func(_, _, to int) error {
				if to == n {
					return boom
				}
				return nil
			})
			if !errors.Is(err, boom) {
				t.Errorf("%d numbers, %d workers: %v", n, workers, err)
			}
			ended, cancel := context.WithCancelCause(t.Context())
			cancel(boom)
			if err := Ranges(ended, workers, n, grain, func(int, int, int) error { t.Error("a range after the end"); return nil }); !errors.Is(err, context.Canceled) {
				t.Errorf("%d numbers, %d workers, after the end: %v", n, workers, err)
			}
		}
	}
}
