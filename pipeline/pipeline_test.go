package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
	"diskgnn/pipeline"
)

// slot records who holds it and how far its item got.
type slot struct {
	held    atomic.Bool
	item    int
	passed  int // links that the item has passed
	aborted int
	freed   int
}

func slots(n int) []*slot {
	s := make([]*slot, n)
	for i := range s {
		s[i] = &slot{item: -1}
	}
	return s
}

// chain is a pipeline whose links check that the rules of passing on are kept.
type chain struct {
	links, slots, items int
	turn                int
	workers             []int
	work                func(ctx context.Context, link, item int) error
	broken              atomic.Pointer[string] // the first rule found broken
	arrived             []int                  // items in the last link, in order
	turned              atomic.Int64           // items that have passed the link of their turn
	begun               []atomic.Int64         // by link: the item that must begin next
	ring                []*slot
}

func (c *chain) breach(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	c.broken.CompareAndSwap(nil, &s)
}

func (c *chain) config() pipeline.Config[*slot] {
	c.ring = slots(c.slots)
	c.begun = make([]atomic.Int64, c.links)
	conf := pipeline.Config[*slot]{
		Slots: c.ring, Items: c.items, Turn: c.turn,
		Abort: func(s *slot) { s.aborted++ },
		Free:  func(s *slot) { s.freed++ },
	}
	for st := range c.links {
		conf.Links = append(conf.Links, pipeline.Link[*slot]{
			Name: fmt.Sprint("link ", st), Workers: c.workers[st],
			Do: func(ctx context.Context, s *slot, item int) error { return c.do(ctx, s, st, item) },
		})
	}
	return conf
}

func (c *chain) do(ctx context.Context, s *slot, st, item int) error {
	if !s.held.CompareAndSwap(false, true) {
		c.breach("item %d in link %d: the slot is somebody else's", item, st)
	}
	defer s.held.Store(false)
	if st == 0 {
		s.item, s.passed = item, 0
	}
	if s != c.ring[item%c.slots] || s.item != item || s.passed != st {
		c.breach("item %d in link %d: the slot holds item %d, which passed %d links", item, st, s.item, s.passed)
	}
	if c.workers[st] <= 1 && c.begun[st].Add(1) != int64(item+1) {
		c.breach("link %d began item %d out of turn", st, item)
	}
	if err := c.work(ctx, st, item); err != nil {
		return err
	}
	s.passed++
	if st == c.turn {
		c.turned.Add(1)
	}
	if st == c.links-1 {
		c.arrived = append(c.arrived, item)
		s.item = -1
	}
	return nil
}

// check looks at what a run left behind.
func (c *chain) check(done int) error {
	if b := c.broken.Load(); b != nil {
		return errors.New(*b)
	}
	for i, item := range c.arrived {
		if i != item {
			return fmt.Errorf("items arrived in the order %v", c.arrived)
		}
	}
	if len(c.arrived) != done {
		return fmt.Errorf("%d items arrived, not %d", len(c.arrived), done)
	}
	for k, s := range c.ring {
		if s.freed != 1 || s.aborted > 1 || s.item >= 0 && s.aborted == 0 || len(c.arrived) == c.items && s.aborted > 0 {
			return fmt.Errorf("slot %d, which holds item %d, was aborted %d and freed %d times", k, s.item, s.aborted, s.freed)
		}
	}
	return nil
}

// pause is a time that depends on link and item alone.
func pause(seed uint64, link, item int) time.Duration {
	x := (seed + uint64(link)*31 + uint64(item)*17 + 1) * 0x9E3779B97F4A7C15
	return time.Duration(x>>61) * time.Millisecond // 0 … 7 ms
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Whatever the shape of the chain and wherever it fails, panics or is cancelled:
// items keep their order and their slots, the first error is what Run returns, all
// slots are given back, and, which synctest checks, no goroutine is left behind. If items fail before their turn, Run returns
// the error of the first of them, whenever it comes, and exactly the items before it have had their turn.
func TestChains(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &chain{
			links: rapid.IntRange(1, 5).Draw(rt, "links"),
			slots: rapid.IntRange(1, 6).Draw(rt, "slots"),
			items: rapid.IntRange(0, 30).Draw(rt, "items"),
		}
		for range c.links - 1 {
			c.workers = append(c.workers, rapid.IntRange(0, 4).Draw(rt, "workers"))
		}
		c.workers = append(c.workers, 1)
		seed := rapid.Uint64().Draw(rt, "seed")
		how := rapid.SampledFrom([]string{"nothing", "error", "panic", "cancel", "stop"}).Draw(rt, "what happens")
		link := rapid.IntRange(0, c.links-1).Draw(rt, "in link")
		item := rapid.IntRange(0, max(0, c.items-1)).Draw(rt, "at item")
		part := rapid.IntRange(1, 7).Draw(rt, "items per run")
		ahead := rapid.IntRange(0, 9).Draw(rt, "expected items")
		if c.turn = rapid.IntRange(0, c.links-1).Draw(rt, "turn"); c.turn > 0 {
			c.workers[c.turn] = 1
		}
		later := rapid.IntRange(item+1, item+9).Draw(rt, "an item that fails before its turn, too")

		var failure error
		synctest.Test(t, func(*testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			want := errors.New("boom")
			c.work = func(ctx context.Context, s, i int) error {
				if err := sleep(ctx, pause(seed, s, i)); err != nil {
					return err
				}
				if how == "error" && s < c.turn && link < c.turn && i == later {
					return errors.New("the error of a later item")
				}
				if s == link && i == item {
					switch how {
					case "error":
						return want
					case "panic":
						panic(want)
					case "cancel":
						cancel()
					}
				}
				return nil
			}
			failure = runChain(ctx, c, how, link, item, part, ahead, want)
		})
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}

func runChain(ctx context.Context, c *chain, how string, link, item, part, ahead int, want error) error {
	p, err := pipeline.Start(ctx, c.config())
	if err != nil {
		return err
	}
	left := c.items
	if how == "stop" {
		left = min(left, item)
	}
	total := left
	for left > 0 && err == nil {
		n := min(part, left)
		err = p.Run(n)
		p.Expect(ahead)
		left -= n
	}
	if err != nil && p.Run(1) != err {
		return errors.New("a later Run does not return the first error")
	}
	p.Close()
	p.Close()
	if p.Run(1) == nil {
		return errors.New("Run after Close succeeds")
	}
	switch {
	case c.items == 0 || how == "nothing" || how == "stop":
		if err != nil {
			return err
		}
		return c.check(total)
	case how == "cancel":
		if err != nil && !errors.Is(err, context.Canceled) { // nil when it came with the last item
			return fmt.Errorf("cancelled, but Run returned %v", err)
		}
		return c.check(len(c.arrived))
	}
	var e *pipeline.Error
	if !errors.Is(err, want) || !errors.As(err, &e) || e.Item != item {
		return fmt.Errorf("item %d failed, but Run returned %v", item, err)
	}
	if len(c.arrived) > item {
		return fmt.Errorf("item %d arrived after its own failure", item)
	}
	if turned := int(c.turned.Load()); link < c.turn && turned != item {
		return fmt.Errorf("item %d failed, but %d items had their turn", item, turned)
	}
	return c.check(len(c.arrived))
}

// Of several failures the first in time is returned, and the others, which come of
// being stopped, are not.
func TestFirstErrorWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := errors.New("the first")
		c := &chain{links: 3, slots: 4, items: 10, workers: []int{1, 1, 1}}
		c.work = func(ctx context.Context, s, i int) error {
			if s == 0 && i == 3 {
				time.Sleep(time.Millisecond)
				return first
			}
			if s == 0 {
				return nil
			}
			<-ctx.Done()
			return errors.New("stopped while at work")
		}
		p, err := pipeline.Start(t.Context(), c.config())
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := p.Run(10); !errors.Is(err, first) || err.Error() != "item 3: link 0: the first" {
			t.Fatalf("Run returned %v", err)
		}
	})
}

// A link that fails because it was cancelled does not hide that it was.
func TestCauseOfCancelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("interrupt signal received")
		c := &chain{links: 2, slots: 2, items: 3, workers: []int{1, 1}}
		c.work = func(ctx context.Context, s, i int) error {
			if s == 1 && i == 1 {
				cancel(why)
				return errors.New("a read was abandoned")
			}
			return nil
		}
		p, err := pipeline.Start(ctx, c.config())
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := p.Run(3); err != why {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestErrorsNameLinkAndItem(t *testing.T) {
	for _, what := range []string{"error", "panic"} {
		for st := range 3 {
			synctest.Test(t, func(t *testing.T) {
				c := &chain{links: 3, slots: 2, items: 9, workers: []int{2, 1, 1}}
				c.work = func(_ context.Context, s, i int) error {
					if s != st || i != 4 {
						return nil
					}
					if what == "panic" {
						panic("out of range")
					}
					return errors.New("out of range")
				}
				conf := c.config()
				conf.Label = func(i int) string { return fmt.Sprint("batch ", i) }
				p, err := pipeline.Start(t.Context(), conf)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				err = p.Run(9)
				want := fmt.Sprintf("batch 4: link %d: ", st)
				if what == "panic" {
					want += "panic: out of range"
				} else {
					want += "out of range"
				}
				if err == nil || err.Error() != want {
					t.Fatalf("got %v, want %s", err, want)
				}
				if p, ok := errors.AsType[*fault.PanicError](err); ok != (what == "panic") || ok && !strings.Contains(string(p.Stack), "TestErrorsNameLinkAndItem") {
					t.Errorf("the stack does not show where: %+v", p)
				}
			})
		}
	}
}

// run starts a chain of sleeping links and returns the virtual time it took.
func run(t *testing.T, slotsN int, workers []int, lengths []time.Duration, items int, r *pipeline.Recorder) (time.Duration, pipeline.Table) {
	t.Helper()
	c := &chain{links: len(lengths), slots: slotsN, items: items, workers: workers}
	c.work = func(ctx context.Context, s, _ int) error { return sleep(ctx, lengths[s]) }
	conf := c.config()
	conf.Recorder, conf.Name = r, "train"
	began := time.Now()
	p, err := pipeline.Start(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Run(items); err != nil {
		t.Fatal(err)
	}
	return time.Since(began), p.Table()
}

const ms = time.Millisecond

// The time taken is that of the slowest link, plus filling and draining the chain.
func TestLinksOverlap(t *testing.T) {
	for _, c := range []struct {
		slots   int
		workers []int
		want    time.Duration
	}{
		{3, []int{1, 1, 1}, 1*ms + 10*6*ms + 2*ms},  // enough slots: the slowest link never waits
		{2, []int{1, 1, 1}, 1*ms + 10*6*ms + 2*ms},  // two do, since a load fits beside a compute
		{1, []int{1, 1, 1}, 10 * (1 + 6 + 2) * ms},  // one slot: nothing overlaps
		{4, []int{1, 2, 1}, 1*ms + 5*6*ms + 2*2*ms}, // two workers halve it
		{2, []int{1, 2, 1}, 4*9*ms + 11*ms},         // but not without slots to work on
	} {
		synctest.Test(t, func(t *testing.T) {
			got, _ := run(t, c.slots, c.workers, []time.Duration{1 * ms, 6 * ms, 2 * ms}, 10, nil)
			if got != c.want {
				t.Errorf("%d slots, workers %v: took %v, want %v", c.slots, c.workers, got, c.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tab := run(t, 3, []int{1, 1, 1}, []time.Duration{1 * ms, 6 * ms, 2 * ms}, 10, nil)
		want := pipeline.Table{Items: 10, Seconds: 0.063, Links: []pipeline.LinkTime{
			{Link: "link 0", Workers: 1, Busy: 0.010, Blocked: 0.036}, // item 3 waits from 3 to 9 ms, items 4 to 9 for 5 ms each
			{Link: "link 1", Workers: 1, Busy: 0.060, Blocked: 0.001},
			{Link: "link 2", Workers: 1, Busy: 0.020, Blocked: 0.043},
		}}
		near := func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }
		if tab.Items != want.Items || !near(tab.Seconds, want.Seconds) {
			t.Errorf("got %+v", tab)
		}
		for i, s := range tab.Links {
			w := want.Links[i]
			if s.Link != w.Link || s.Workers != w.Workers || !near(s.Busy, w.Busy) || !near(s.Blocked, w.Blocked) {
				t.Errorf("got %+v, want %+v", s, w)
			}
		}
		if s := tab.String(); s != "link 0 16% | link 1 95% | link 2 32%, bound by link 1 1.05×" {
			t.Error(s)
		}
		tab.Add(tab)
		if tab.Items != 20 || !near(tab.Bound().Alone(), 0.120) || !near(tab.Slowdown(), 1.05) {
			t.Errorf("doubled: %+v", tab)
		}
	})
}

// Between two Runs nothing happens, and the wait is nobody's blocked time.
func TestIdleBetweenRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loaded atomic.Int64
		p, err := pipeline.Start(t.Context(), pipeline.Config[int]{
			Slots: []int{0, 1, 2}, Items: 8,
			Links: []pipeline.Link[int]{
				{Name: "load", Do: func(ctx context.Context, _, _ int) error { loaded.Add(1); return sleep(ctx, ms) }},
				{Name: "use", Do: func(ctx context.Context, _, _ int) error { return sleep(ctx, ms) }},
			},
			Abort: func(s int) { t.Errorf("slot %d was aborted, idle", s) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for run := range 2 {
			time.Sleep(time.Second)
			synctest.Wait()
			if n := loaded.Load(); n != int64(4*run) {
				t.Errorf("%d items loaded before run %d", n, run)
			}
			if err := p.Run(4); err != nil {
				t.Fatal(err)
			}
			tab := p.Table()
			if tab.Items != 4 || tab.Seconds != 0.005 || tab.Links[0].Blocked != 0 || tab.Links[1].Blocked != 0.001 {
				t.Errorf("run %d: %+v", run, tab)
			}
		}
		for _, n := range []int{1, -1} {
			if err := p.Run(n); err == nil || !strings.Contains(err.Error(), "0 are left") {
				t.Errorf("%d items beyond the last: %v", n, err)
			}
		}
	})
}

func TestStartRefuses(t *testing.T) {
	do := func(context.Context, int, int) error { return nil }
	for _, c := range []pipeline.Config[int]{
		{},
		{Slots: []int{1}, Items: 1},
		{Links: []pipeline.Link[int]{{Do: do}}, Items: 1},
		{Links: []pipeline.Link[int]{{Name: "idle"}}, Slots: []int{1}},
		{Links: []pipeline.Link[int]{{Do: do, Workers: 2}}, Slots: []int{1}},
		{Links: []pipeline.Link[int]{{Do: do}}, Slots: []int{1}, Items: -1},
		{Links: []pipeline.Link[int]{{Do: do}}, Slots: []int{1}, Turn: 1},
		{Links: []pipeline.Link[int]{{Do: do}}, Slots: []int{1}, Turn: -1},
		{Links: []pipeline.Link[int]{{Do: do}, {Do: do, Workers: 2}, {Do: do}}, Slots: []int{1}, Turn: 1},
	} {
		if _, err := pipeline.Start(t.Context(), c); err == nil {
			t.Errorf("%+v started", c)
		}
	}
}

// Passing items on takes no memory, recorded or not.
func TestNoAllocation(t *testing.T) {
	for _, r := range []*pipeline.Recorder{nil, pipeline.NewRecorder(100)} {
		do := func(context.Context, *slot, int) error { return nil }
		p, err := pipeline.Start(t.Context(), pipeline.Config[*slot]{
			Slots: slots(3), Items: 1 << 30, Recorder: r,
			Links: []pipeline.Link[*slot]{{Name: "a", Workers: 2, Do: do}, {Name: "b", Do: do}, {Name: "c", Do: do}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		const items = 1000
		perRun := testing.AllocsPerRun(5, func() {
			if err := p.Run(items); err != nil {
				t.Error(err)
			}
		})
		if perRun > items/100 { // the runtime's own timers and sudogs, now and then
			t.Errorf("%v allocations for %d items", perRun, items)
		}
	}
}

// No items are none: whenever they are asked for, nothing is wrong.
func TestRunOfNothing(t *testing.T) {
	begun := 0
	p, err := pipeline.Start(t.Context(), pipeline.Config[int]{
		Slots: []int{1}, Items: 2,
		Links: []pipeline.Link[int]{{Name: "only", Do: func(context.Context, int, int) error { begun++; return nil }}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i, n := range []int{0, 1, 0, 1, 0} {
		if err := p.Run(n); err != nil {
			t.Errorf("run %d: %v", i, err)
		}
	}
	if begun != 2 {
		t.Errorf("%d items", begun)
	}
}

func TestSlotsAreVisitedInTurn(t *testing.T) {
	var seen []int
	p, err := pipeline.Start(t.Context(), pipeline.Config[int]{
		Slots: []int{10, 20, 30}, Items: 5,
		Links: []pipeline.Link[int]{{Name: "only", Do: func(_ context.Context, s, _ int) error { seen = append(seen, s); return nil }}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Run(5); err != nil || !slices.Equal(seen, []int{10, 20, 30, 10, 20}) {
		t.Errorf("%v, %v", seen, err)
	}
}

func BenchmarkItem(b *testing.B) {
	do := func(context.Context, *slot, int) error { return nil }
	p, err := pipeline.Start(b.Context(), pipeline.Config[*slot]{
		Slots: slots(4), Items: 1 << 30,
		Links: []pipeline.Link[*slot]{{Name: "a", Do: do}, {Name: "b", Do: do}, {Name: "c", Do: do}, {Name: "d", Do: do}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	b.ReportAllocs()
	if err := p.Run(b.N); err != nil {
		b.Fatal(err)
	}
}
