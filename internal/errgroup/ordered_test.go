package errgroup

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, slots := rapid.IntRange(0, 200).Draw(t, "n"), rapid.IntRange(1, 9).Draw(t, "slots")
		bufs := make([]*int, slots)
		for i := range bufs {
			bufs[i] = new(int)
		}
		next := 0
		err := Ordered(context.Background(), n, bufs,
			func(_ context.Context, s *int, i int) error { *s = i * i; return nil },
			func(s *int, i int) error {
				if i != next || *s != i*i {
					t.Errorf("emitted %d (holding %d), want %d", i, *s, next)
				}
				next++
				return nil
			})
		if err != nil || next != n {
			t.Fatalf("%d of %d emitted, %v", next, n, err)
		}
	})
}

func TestOrderedErrors(t *testing.T) {
	boom := errors.New("boom")
	slots := []int{0, 1, 2}
	for fail := range 20 {
		err := Ordered(t.Context(), 20, slots, func(_ context.Context, _, i int) error {
			if i == fail {
				return boom
			}
			return nil
		}, func(int, int) error { return nil })
		if !errors.Is(err, boom) {
			t.Errorf("work %d fails: %v", fail, err)
		}
		err = Ordered(t.Context(), 20, slots, func(context.Context, int, int) error { return nil }, func(_, i int) error {
			if i == fail {
				return boom
			}
			return nil
		})
		if !errors.Is(err, boom) {
			t.Errorf("emit %d fails: %v", fail, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := Ordered(ctx, 1000, slots, func(context.Context, int, int) error { return nil }, func(_, i int) error {
		if i == 10 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
