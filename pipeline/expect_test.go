package pipeline_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"diskgnn/pipeline"
)

// TestExpect: expected items pass all links but the last before they are asked for, as far as there are
// slots and items; Run then takes them through the last link, and their waiting is no link's blocked time.
func TestExpect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loaded atomic.Int64
		p, err := pipeline.Start(t.Context(), pipeline.Config[int]{
			Slots: []int{0, 1, 2}, Items: 8,
			Links: []pipeline.Link[int]{
				{Name: "load", Do: func(ctx context.Context, _, _ int) error { loaded.Add(1); return sleep(ctx, ms) }},
				{Name: "use", Do: func(ctx context.Context, _, _ int) error { return sleep(ctx, ms) }},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for _, c := range []struct {
			expect, run int
			ahead, all  int64 // loaded before Run, and after it
		}{
			{0, 2, 0, 2},
			{1, 2, 3, 4},  // one ahead
			{9, 1, 7, 8},  // one in every slot; one more when a slot is free
			{1, 0, 8, 8},  // expected again
			{-5, 3, 8, 8}, // nothing is taken back
		} {
			p.Expect(c.expect)
			time.Sleep(time.Second)
			synctest.Wait()
			if n := loaded.Load(); n != c.ahead {
				t.Errorf("%+v: %d items are loaded ahead", c, n)
			}
			if err := p.Run(c.run); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := loaded.Load(); n != c.all {
				t.Errorf("%+v: %d items are loaded in the end", c, n)
			}
			tab := p.Table()
			if tab.Items != c.run || c.ahead >= c.all && tab.Seconds != float64(c.run)*0.001 || tab.Links[0].Blocked < 0 || tab.Links[0].Blocked > 0.01 {
				t.Errorf("%+v: %+v", c, tab)
			}
		}
	})
}

// TestExpectFails: the failure of an expected item is the error of the Run that takes it, and Close ends an
// expected item that no Run takes.
func TestExpectFails(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			boom := errors.New("boom")
			c := &chain{links: 2, slots: 3, items: 9, workers: []int{2, 1}}
			c.work = func(_ context.Context, s, i int) error {
				if fails && s == 0 && i == 4 {
					return boom
				}
				return nil
			}
			p, err := pipeline.Start(t.Context(), c.config())
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Run(3); err != nil {
				t.Fatal(err)
			}
			p.Expect(3)
			synctest.Wait()
			if fails {
				if err := p.Run(2); !errors.Is(err, boom) || err.Error() != "item 4: link 0: boom" {
					t.Errorf("%v", err)
				}
				p.Expect(3) // nothing
			}
			p.Close()
			p.Expect(1) // nothing
			aborted := 0
			for _, s := range c.ring {
				if s.freed != 1 {
					t.Errorf("a slot was freed %d times", s.freed)
				}
				aborted += s.aborted
			}
			if aborted == 0 {
				t.Error("no expected item was aborted")
			}
		})
	}
}

// TestExpectAhead: with an expectation, the last link does not wait between two runs.
func TestExpectAhead(t *testing.T) {
	for _, expect := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := &chain{links: 3, slots: 3, items: 10, workers: []int{1, 1, 1}}
			c.work = func(ctx context.Context, s, _ int) error { return sleep(ctx, []time.Duration{ms, 6 * ms, 6 * ms}[s]) }
			p, err := pipeline.Start(t.Context(), c.config())
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if err := p.Run(5); err != nil {
				t.Fatal(err)
			}
			if expect {
				p.Expect(5)
			}
			time.Sleep(20 * ms)
			began := time.Now()
			if err := p.Run(5); err != nil {
				t.Fatal(err)
			}
			want := 7*ms + 5*6*ms
			if expect {
				want = 5 * 6 * ms
			}
			if got := time.Since(began); got != want {
				t.Errorf("expected: %t: the second run took %v, want %v", expect, got, want)
			}
		})
	}
}
