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
