package rowcache

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"diskgnn/featurestore/residency"
	"diskgnn/internal/fault"
)

// kind is a state's.
var kind = [kindBytes]byte{1, 2, 3}

// policies returns those that have states.
func policies() []string { return append(residency.Online(), residency.Standby) }

// circle is the input nodes of some training batches.
type circle [][]uint32

func drawCircle(t *rapid.T, nodes int) circle {
	batch := rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(nodes-1)), 0, nodes, rapid.ID)
	return rapid.SliceOfN(batch, 1, 7).Draw(t, "circle")
}

func newCourse(t testing.TB, policy string, nodes, frames, train, slots int) *course {
	t.Helper()
	p, err := residency.New(policy, residency.Config{Nodes: nodes, Frames: frames})
	if err != nil {
		t.Fatal(err)
	}
	c := &course{states: newStates(train), policy: p}
	c.add(slots)
	c.begin(0, 0)
	return c
}

// decided is what a policy said of a batch.
type decided struct{ held, into []int32 }

func (b circle) lists(batch int) decided {
	n := len(b[batch])
	return decided{make([]int32, n), make([]int32, n)}
}

func (d decided) equal(e decided) bool {
	return slices.Equal(d.held, e.held) && slices.Equal(d.into, e.into)
}

// steps decides for the next n batches.
func (b circle) steps(t testing.TB, c *course, n int) (list []decided) {
	for range n {
		d := b.lists(c.next)
		if _, err := c.decide(t.Context(), newTurn(c), c.next, b[c.next], d.held, d.into); err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	return list
}

// Whoever comes first, batches are decided in their order: each goroutine has a batch, and
// they begin in the reverse order.
func TestDecisionsAreInOrder(t *testing.T) {
	b := circle{{0, 1}, {1, 2}, {3, 0}, {2, 3}, {1}}
	want := b.steps(t, newCourse(t, residency.LRU, 4, 2, len(b), 5), 5)
	synctest.Test(t, func(t *testing.T) {
		c := newCourse(t, residency.LRU, 4, 2, len(b), 5)
		got := make([]decided, len(b))
		var all sync.WaitGroup
		for i := len(b) - 1; i >= 0; i-- {
			got[i] = b.lists(i)
			all.Go(func() {
				if _, err := c.decide(t.Context(), newTurn(c), i, b[i], got[i].held, got[i].into); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			if i > 0 && (c.next != 0 || len(c.waiting) != len(b)-i) {
				t.Fatalf("batch %d was decided, %d wait", c.next-1, len(c.waiting))
			}
		}
		all.Wait()
		for i := range want {
			if !got[i].equal(want[i]) {
				t.Errorf("batch %d: %+v, in order %+v", i, got[i], want[i])
			}
		}
		if c.next != 0 || len(c.waiting) != 0 {
			t.Errorf("batch %d is next, %d wait", c.next, len(c.waiting))
		}
	})
}

// A batch whose turn does not come waits until the context ends, and leaves nothing behind.
func TestDecisionsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := circle{{0}, {1}, {2}}
		c := newCourse(t, residency.LRU, 3, 1, 3, 3)
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		mine, d := newTurn(c), b.lists(1)
		go func() { _, err = c.decide(ctx, mine, 1, b[1], d.held, d.into) }()
		synctest.Wait()
		if err != nil || len(c.waiting) != 1 {
			t.Fatalf("%v, %d wait", err, len(c.waiting))
		}
		cancel()
		synctest.Wait()
		if !errors.Is(err, context.Canceled) || len(c.waiting) != 0 {
			t.Fatalf("%v, %d wait", err, len(c.waiting))
		}
		b.steps(t, c, 3) // the others go on
		if len(mine.ready) != 0 {
			t.Error("a turn was left")
		}
	})
}

// A run that goes on from what save returned at any batch, with decisions ahead of it by up
// to the number of slots, decides as one that was not interrupted; over several
// interruptions, and wherever checkpoints were written before.
func TestSavedCoursesGoOn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		nodes := rapid.IntRange(1, 9).Draw(rt, "nodes")
		b := drawCircle(rt, nodes)
		policy := rapid.SampledFrom(policies()).Draw(rt, "policy")
		frames := rapid.IntRange(0, nodes).Draw(rt, "frames")
		slots := rapid.IntRange(1, len(b)).Draw(rt, "slots")
		const total = 40
		whole := b.steps(t, newCourse(t, policy, nodes, frames, len(b), slots), total+slots)
		c := newCourse(t, policy, nodes, frames, len(b), slots)
		ahead, trained := 0, 0 // decided, trained
		for trained < total {
			switch rapid.IntRange(0, 2).Draw(rt, "next") {
			case 0: // train some batches, with others ahead
				n := rapid.IntRange(1, 8).Draw(rt, "batches")
				for range n {
					trained = min(trained+1, total)
					for ahead < trained || ahead < trained+slots-1 && rapid.Bool().Draw(rt, "ahead") {
						if d := b.steps(t, c, 1); !d[0].equal(whole[ahead]) {
							rt.Fatalf("batch %d: %+v, not interrupted %+v", ahead, d[0], whole[ahead])
						}
						ahead++
					}
				}
			case 1: // a checkpoint that is not gone on from
				c.save(kind)
			case 2: // another process goes on
				state := bytes.Clone(c.save(kind))
				c = newCourse(t, policy, nodes, frames, len(b), slots)
				if len(state) > int(stateBytes(int64(frames))) {
					rt.Fatalf("%d bytes, at most %d were counted", len(state), stateBytes(int64(frames)))
				}
				if err := c.load(state[kindBytes:]); err != nil {
					rt.Fatal(err)
				}
				n := c.states.Behind(trained % len(b))
				if n < 0 {
					rt.Fatalf("batch %d is not after the base", trained)
				}
				held, into := make([]int32, nodes), make([]int32, nodes)
				for range n {
					c.step(b[c.next], held, into)
				}
				c.begin(trained%len(b), 0)
				ahead = trained
			}
		}
	})
}

// Hostile states are errors, and none makes a run that is not at its batch.
func FuzzLoad(f *testing.F) {
	b := circle{{0, 1}, {1, 2}, {3, 0}}
	for _, policy := range policies() {
		c := newCourse(f, policy, 4, 2, 3, 2)
		f.Add(policy, bytes.Clone(c.save(kind)[kindBytes:]))
		b.steps(f, c, 4)
		f.Add(policy, bytes.Clone(c.save(kind)[kindBytes:]))
	}
	f.Fuzz(func(t *testing.T, policy string, state []byte) {
		if !slices.Contains(policies(), policy) {
			return
		}
		c := newCourse(t, policy, 4, 2, 3, 2)
		err := c.load(state)
		if err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatal(err)
		}
		if err == nil {
			if n := c.states.Behind(2); n >= 0 && (c.next+n)%3 != 2 {
				t.Fatalf("%d behind, from batch %d", n, c.next)
			}
			b.steps(t, c, 7)
		}
	})
}
