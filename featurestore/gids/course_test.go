package gids

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/fault"
)

// circle is the input nodes of some training batches, and a window of them.
type circle struct {
	batches [][]uint32
	first   int
	breaks  error // what Advance returns
}

func (w *circle) Seek(_ context.Context, first int) (int64, error) {
	w.first = first
	return 1000, nil
}

func (w *circle) Advance(context.Context) (int64, error) {
	w.first = (w.first + 1) % len(w.batches)
	return 1, w.breaks
}

func (w *circle) First() int            { return w.first }
func (w *circle) Inputs(k int) []uint32 { return w.batches[(w.first+k)%len(w.batches)] }
func (w *circle) Free()                 {}

// rowBytes is that of the courses of these tests: three rows lie on two pages, the second on both.
const rowBytes = 3000

// newCourse returns a course over some batches of so many nodes, with a window.
func newCourse(t testing.TB, batches [][]uint32, nodes, lines, slots int, g gathers) *course {
	t.Helper()
	c := &course{states: newStates(len(batches)), rowBytes: rowBytes, buffer: new(buffer), gathers: g, window: &circle{batches: batches}, cache: makeCache((nodes*rowBytes+4095)/4096, lines)}
	c.changed.L = &c.mu
	c.add(slots)
	c.begin(c.next, 0)
	if _, err := c.seek(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// decideFor returns the decision for a batch.
func (c *course) decideFor(ctx context.Context, batch int) (choice, error) {
	nodes := slices.Clone(c.window.(*circle).batches[batch])
	w := makeWanted(&design{&machine.Table{Facts: featurestore.Facts{Nodes: 1 << 20, RowBytes: rowBytes}}}, len(nodes))
	_, err := c.decide(ctx, batch, nodes, w)
	return choice{w.held[:len(w.pages)], w.into[:len(w.pages)]}, err
}

// steps decides for the next n batches, each of which is assembled before the next one.
func (c *course) steps(t testing.TB, n int) (list []choice) {
	for range n {
		d, err := c.decideFor(t.Context(), c.next)
		if err != nil {
			t.Fatal(err)
		}
		c.done()
		list = append(list, d)
	}
	return list
}

// Batches that come in the reverse order are decided in the order of the run; and of large
// batches the fourth waits until the first was assembled.
func TestDecisionsAreInOrder(t *testing.T) {
	b := [][]uint32{{0, 1}, {1, 2}, {3, 0}, {2, 3}, {1}, {0, 4}}
	want := newCourse(t, b, 5, 2, 6, gathers{}).steps(t, 6)
	synctest.Test(t, func(t *testing.T) {
		c := newCourse(t, b, 5, 2, 6, gathers{})
		got := make([]choice, len(b))
		var all sync.WaitGroup
		for i := len(b) - 1; i >= 0; i-- {
			all.Go(func() {
				var err error
				if got[i], err = c.decideFor(t.Context(), i); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			if want := 0; i > 0 && c.next != want {
				t.Fatalf("batch %d is next before batch 0 came", c.next)
			}
		}
		for next := 3; next <= len(b); next++ {
			synctest.Wait()
			if c.next != next%len(b) {
				t.Fatalf("batch %d is next, want %d", c.next, next)
			}
			c.done()
		}
		all.Wait()
		for i := range want {
			if !got[i].equal(want[i]) {
				t.Errorf("batch %d: %+v, in order %+v", i, got[i], want[i])
			}
		}
	})
}

// Batches of one gather are all under way together.
func TestGathersAreUnderWayTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourse(t, [][]uint32{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}, 8, 3, 8, gathers{need: 4})
		for i := range 8 {
			go func() { _, _ = c.decideFor(t.Context(), i) }()
		}
		synctest.Wait()
		if c.next != 5 { // the fifth makes them enough
			t.Errorf("%d batches are under way", c.next)
		}
		for i, want := range []int{5, 5, 6, 7, 0, 0} { // the sixth has two of the gather before with it
			c.done()
			synctest.Wait()
			if i, want := i+1, want; c.next != want {
				t.Errorf("%d batches were assembled, and batch %d is next, want %d", i, c.next, want)
			}
		}
	})
}

// A batch whose turn does not come waits until the context ends.
func TestDecisionsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourse(t, [][]uint32{{0}, {1}, {2}}, 3, 1, 3, gathers{})
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		go func() { _, err = c.decideFor(ctx, 1) }()
		synctest.Wait()
		if err != nil || c.decided > 0 {
			t.Fatalf("%v, %d decided", err, c.decided)
		}
		cancel()
		synctest.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		c.steps(t, 3) // the others go on
	})
}

// Where the window breaks, the batch and those that wait for it end with its error, until Fill.
func TestWindowBreaks(t *testing.T) {
	boom := errors.New("boom")
	synctest.Test(t, func(t *testing.T) {
		c := newCourse(t, [][]uint32{{0}, {1}, {2}}, 3, 1, 3, gathers{})
		c.window.(*circle).breaks = boom
		var waits error
		go func() { _, waits = c.decideFor(t.Context(), 1) }()
		synctest.Wait()
		if _, err := c.decideFor(t.Context(), 0); err != boom {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		if waits != boom || c.decided > 0 {
			t.Errorf("%v, %d decided", waits, c.decided)
		}
		c.window.(*circle).breaks = nil
		c.reset(2)
		if read, err := c.seek(t.Context()); read != 1000 || err != nil {
			t.Errorf("%d, %v", read, err)
		}
		c.begin(c.next, 0)
		c.steps(t, 3)
	})
}

// A run that goes on from what save returned at any batch, with decisions ahead of it by up to
// the number of slots, decides as one that was not interrupted; over several interruptions, and
// wherever checkpoints were written before.
func TestSavedCoursesGoOn(t *testing.T) {
	kind := [kindBytes]byte{1, 2, 3}
	rapid.Check(t, func(rt *rapid.T) {
		nodes := rapid.IntRange(1, 12).Draw(rt, "nodes")
		batch := rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(nodes-1)), 0, nodes, rapid.ID)
		b := rapid.SliceOfN(batch, 1, 14).Draw(rt, "circle")
		lines := rapid.IntRange(0, nodes).Draw(rt, "lines")
		slots := rapid.IntRange(1, len(b)).Draw(rt, "slots")
		g := gathers{need: rapid.Int64Range(0, 30).Draw(rt, "need"), script: rapid.Bool().Draw(rt, "script")}
		const total = 50
		whole := newCourse(t, b, nodes, lines, slots, g).steps(t, total+slots)
		c := newCourse(t, b, nodes, lines, slots, g)
		ahead, trained := 0, 0 // decided, trained
		for trained < total {
			for range rapid.IntRange(0, 8).Draw(rt, "batches") {
				trained = min(trained+1, total)
				for ahead < trained || ahead < trained+slots-1 && rapid.Bool().Draw(rt, "ahead") {
					if d := c.steps(t, 1)[0]; !d.equal(whole[ahead]) {
						rt.Fatalf("batch %d: %+v, not interrupted %+v", ahead, d, whole[ahead])
					}
					ahead++
				}
			}
			state := slices.Clone(c.save(kind))
			if int64(len(state)) > stateBytes(int64(lines)) {
				rt.Fatalf("%d bytes, not %d", len(state), stateBytes(int64(lines)))
			}
			if !rapid.Bool().Draw(rt, "interrupted") {
				continue
			}
			c = newCourse(t, b, nodes, lines, slots, g)
			if err := c.restore(state[kindBytes:]); err != nil {
				rt.Fatal(err)
			}
			next := trained % len(b)
			n := c.states.Behind(next)
			if n < 0 {
				rt.Fatalf("batch %d is not after the base", next)
			}
			if _, err := c.seek(t.Context()); err != nil {
				rt.Fatal(err)
			}
			w := makeWanted(&design{&machine.Table{Facts: featurestore.Facts{Nodes: 1 << 20, RowBytes: rowBytes}}}, nodes)
			for range n {
				if _, err := c.step(t.Context(), c.window.Inputs(0), w); err != nil {
					rt.Fatal(err)
				}
			}
			c.begin(c.next, 0)
			ahead = trained
		}
	})
}

func TestRestoreRefuses(t *testing.T) {
	c := newCourse(t, [][]uint32{{0}, {1}, {2}}, 3, 2, 1, gathers{need: 9})
	c.steps(t, 2)
	good := slices.Clone(c.save([kindBytes]byte{}))[kindBytes:]
	for what, spoil := range map[string]func(b []byte) []byte{
		"another circle": func(b []byte) []byte { b[0] = 3; return b },
		"long ago":       func(b []byte) []byte { b[14] = 1; return b },
		"cut":            func(b []byte) []byte { return b[:20] },
		"a byte more":    func(b []byte) []byte { return append(b, 0) },
	} {
		if err := c.restore(spoil(slices.Clone(good))); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := c.restore(good); err != nil {
		t.Error(err)
	}
}

// Hostile states are errors, and none makes a course that cannot go on.
func FuzzRestore(f *testing.F) {
	b := [][]uint32{{0, 1}, {1, 2}, {3, 0}}
	c := newCourse(f, b, 4, 2, 2, gathers{need: 3})
	f.Add(slices.Clone(c.save([kindBytes]byte{})[kindBytes:]))
	c.steps(f, 4)
	f.Add(slices.Clone(c.save([kindBytes]byte{})[kindBytes:]))
	f.Fuzz(func(t *testing.T, state []byte) {
		c := newCourse(t, b, 4, 2, 2, gathers{need: 3})
		err := c.restore(state)
		if err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		if n := c.states.Behind(2); n >= 0 && (c.next+n)%3 != 2 {
			t.Fatalf("%d behind, from batch %d", n, c.next)
		}
		if _, err := c.seek(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.steps(t, 7)
	})
}
