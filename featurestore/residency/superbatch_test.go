package residency

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
)

// sorted returns a trace whose batches have their nodes in ascending order.
func sorted(batches [][]uint32) Trace {
	t := Trace{Start: []int64{0}}
	for _, b := range batches {
		t.Nodes = append(t.Nodes, b...)
		slices.Sort(t.Nodes[t.Start[len(t.Start)-1]:])
		t.Start = append(t.Start, int64(len(t.Nodes)))
	}
	return t
}

// sizeOf is the size of a policy for any of some traces.
func sizeOf(nodes, frames int, traces ...Trace) Size {
	s := Size{Nodes: nodes, Frames: frames}
	for _, t := range traces {
		s.Batches, s.Accesses = max(s.Batches, int64(t.Batches())), max(s.Accesses, int64(len(t.Nodes)))
	}
	return s
}

func newSuperbatch(t interface{ Fatal(...any) }, s Size) *Superbatch {
	p, err := NewSuperbatch(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// By hand, two frames: a and b take them; c comes back before b, a before both; the next
// trace begins with an empty cache.
func TestSuperbatchByHand(t *testing.T) {
	first, second := letters("ab bc ac"), letters("c a")
	p := newSuperbatch(t, sizeOf(3, 2, sorted(first), sorted(second)))
	held, into := make([]int32, 2), make([]int32, 2)
	for _, c := range []struct {
		batches    [][]uint32
		held, into [][]int32
	}{
		{first, [][]int32{{-1, -1}, {1, -1}, {0, 1}}, [][]int32{{0, 1}, {-1, 1}, {-1, -1}}},
		{second, [][]int32{{-1}, {-1}}, [][]int32{{0}, {1}}},
	} {
		if err := p.Begin(sorted(c.batches)); err != nil {
			t.Fatal(err)
		}
		for i, b := range c.batches {
			p.Batch(b, held, into)
			if !slices.Equal(held[:len(b)], c.held[i]) || !slices.Equal(into[:len(b)], c.into[i]) {
				t.Errorf("batch %d: held %v into %v, want %v and %v", i, held[:len(b)], into[:len(b)], c.held[i], c.into[i])
			}
		}
	}
}

// A batch misses what it misses when the cache begins with the first distinct nodes of the
// trace, as Ginex's, and those of these nodes that no batch before it used. The cache holds
// what Ginex's holds, but for those. What was before a trace leaves nothing behind.
func TestSuperbatchMissesAsGinex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 9).Draw(t, "nodes")
		frames := rapid.IntRange(0, 6).Draw(t, "frames")
		batch := rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(nodes-1)), 0, nodes, rapid.ID)
		list := rapid.SliceOfN(rapid.SliceOfN(batch, 0, 8), 1, 3).Draw(t, "traces")
		var traces []Trace
		for _, b := range list {
			traces = append(traces, sorted(b))
		}
		p := newSuperbatch(t, sizeOf(nodes, frames, traces...))
		for k, batches := range list {
			if err := p.Begin(traces[k]); err != nil {
				t.Fatal(err)
			}
			if n := p.Rows(); len(n) != 0 {
				t.Fatalf("begins with %v", n)
			}
			model := newBeladyModel(config(nodes, frames, batches))
			unused := slices.Clone(model.frames) // of the nodes that Ginex begins with
			for i, b := range batches {
				var want, got []uint32
				held, into := model.batch(b)
				for j, v := range b {
					at := slices.Index(unused, v)
					if held[j] < 0 || at >= 0 {
						want = append(want, v)
					}
					if at >= 0 {
						unused = slices.Delete(unused, at, at+1)
					}
				}
				before := slices.Clone(p.Rows())
				p.Batch(b, held, into)
				for j, v := range b {
					if held[j] < 0 {
						got = append(got, v)
					} else if before[held[j]] != v {
						t.Fatalf("batch %d: node %d is not in frame %d of %v", i, v, held[j], before)
					}
					if f := into[j]; f >= 0 && (held[j] >= 0 || p.Rows()[f] != v) {
						t.Fatalf("batch %d: node %d goes to frame %d of %v", i, v, f, p.Rows())
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("batch %d misses %v, Ginex and its first rows %v", i, got, want)
				}
				rows := append(slices.Clone(p.Rows()), unused...)
				slices.Sort(rows)
				ginex := slices.Sorted(slices.Values(model.frames))
				if !slices.Equal(rows, ginex) {
					t.Fatalf("after batch %d: %v and unused %v, Ginex %v", i, p.Rows(), unused, ginex)
				}
				if rapid.IntRange(0, 3).Draw(t, "again") == 0 { // another policy goes on
					state := p.State()
					p = newSuperbatch(t, sizeOf(nodes, frames, traces...))
					if err := errors.Join(p.Begin(traces[k]), p.LoadState(state)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}

// The frames of rows are the same, in whichever order a batch has its nodes.
func TestSuperbatchTakesNodesInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 9).Draw(t, "nodes")
		batch := rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(nodes-1)), 0, nodes, rapid.ID)
		batches := rapid.SliceOfN(batch, 0, 8).Draw(t, "batches")
		trace := sorted(batches)
		size := sizeOf(nodes, rapid.IntRange(0, 6).Draw(t, "frames"), trace)
		a, b := newSuperbatch(t, size), newSuperbatch(t, size)
		if err := errors.Join(a.Begin(trace), b.Begin(trace)); err != nil {
			t.Fatal(err)
		}
		held, into := make([]int32, nodes), make([]int32, nodes)
		for i, list := range batches {
			a.Batch(list, held, into)
			b.Batch(trace.Batch(i), held, into)
			if !slices.Equal(a.Rows(), b.Rows()) {
				t.Fatalf("after batch %d, of %v: frames of %v, ascending %v", i, list, a.Rows(), b.Rows())
			}
		}
	})
}

// A trace that is not one, and one that is too long.
func TestSuperbatchRefuses(t *testing.T) {
	p := newSuperbatch(t, Size{Nodes: 3, Frames: 1, Batches: 2, Accesses: 4})
	for what, bad := range map[string]Trace{
		"no batches":     {},
		"a gap":          {Start: []int64{1, 2}, Nodes: []uint32{0, 1}},
		"a tail":         {Start: []int64{0, 1}, Nodes: []uint32{0, 1}},
		"backwards":      {Start: []int64{0, 2, 1, 2}, Nodes: []uint32{0, 1}},
		"no such node":   {Start: []int64{0, 1}, Nodes: []uint32{3}},
		"descending":     {Start: []int64{0, 2}, Nodes: []uint32{1, 0}},
		"one node twice": {Start: []int64{0, 1, 3}, Nodes: []uint32{1, 2, 2}},
	} {
		if err := p.Begin(bad); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := NewSuperbatch(Size{Nodes: 2, Accesses: 1<<32 - 1}); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("too many keys: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a trace that is too long was taken")
		}
	}()
	_ = p.Begin(sorted(letters("abc abc")))
}

// The policy holds what is said of Belady's, the trace apart; another trace takes nothing more.
func TestSuperbatchBytes(t *testing.T) {
	trace := sorted(letters("abcd ce afg"))
	p := newSuperbatch(t, sizeOf(7, 3, trace))
	if err := p.Begin(trace); err != nil {
		t.Fatal(err)
	}
	if got, want := p.Bytes(), sizeOf(7, 3, trace).Bytes(Belady); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	held, into := make([]int32, 4), make([]int32, 4)
	if n := testing.AllocsPerRun(10, func() {
		_ = p.Begin(trace)
		for i := range trace.Batches() {
			p.Batch(trace.Batch(i), held, into)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
