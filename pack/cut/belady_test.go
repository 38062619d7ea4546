package cut

import (
	"math/bits"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/vfs"
	"diskgnn/pack/internal/rowfile"
)

// writeTrace puts a trace of few nodes on disk, by definition: next uses are found by
// walking on.
func writeTrace(t interface{ Fatal(...any) }, dir string, batches [][]uint32) *trace {
	tr := &trace{batches: len(batches), start: []int64{0}}
	for i, b := range batches {
		tr.start = append(tr.start, tr.start[i]+int64(len(b)))
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	tr.nodes, err = rowfile.NewLists(vfs.OS, filepath.Join(dir, traceNodesFile), tr.start)
	must(err)
	tr.next, err = rowfile.NewLists(vfs.OS, filepath.Join(dir, traceNextFile), tr.start)
	must(err)
	for i, b := range batches {
		next := make([]uint32, len(b))
		for k, v := range b {
			for next[k]++; !slices.Contains(batches[(i+int(next[k]))%len(batches)], v); next[k]++ {
			}
		}
		must(tr.nodes.Write(i, b))
		must(tr.next.Write(i, next))
	}
	return tr
}

// TestMinByHand: a cache of 2 on the circle of the batches
//
//	0: a b   1: a c   2: b c   3: a b
//
// holds a b before batch 0 (next uses there). After 0 a (1) and b (2) stay. After 1, of
// b (2), c (2) and a (3), b stays and c, which is as near, pushes a out. After 2, of b
// (3) and c (5, in the next cycle), both stay; in 3 a comes back for the next cycle's
// batch 0, like b, and c goes: the cache holds a b again.
func TestMinByHand(t *testing.T) {
	const a, b, c = 0, 1, 2
	tr := writeTrace(t, t.TempDir(), [][]uint32{{a, b}, {a, c}, {b, c}, {a, b}})
	s := newSimulation(tr, make([]uint32, 3), 2, newTraceSlots(2))
	set, err := s.circle(t.Context())
	if err != nil || !slices.Equal(slices.Collect(set.All()), []uint32{a, b}) || !slices.Equal(s.stats.Cycles, []int64{6}) || !s.stats.Periodic {
		t.Fatalf("%v, %+v, %v", slices.Collect(set.All()), s.stats, err)
	}
	s.begin(set, entries(set, nil))
	var got [][]uint32
	if err := s.run(t.Context(), func(_ int, codes []uint32) error {
		got = append(got, slices.Clone(codes))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	hit := func(entry uint32) uint32 { return Hit | entry }
	admit := func(entry uint32) uint32 { return Admit | entry }
	want := [][]uint32{
		{hit(0), hit(1)},
		{hit(0), admit(0)},
		{hit(1), hit(0)},
		{admit(0), hit(1)},
	}
	if !slices.EqualFunc(got, want, slices.Equal) || s.stats.Hits != 6 || s.stats.Admitted != 2 || s.stats.Accesses != 8 {
		t.Errorf("codes %x, want %x; %+v", got, want, s.stats)
	}
}

// bestCyclic returns the most hits per cycle of any way to run a cache of the given
// rows that ends a cycle with what it began with, by trying all of them. A cache is a
// set of nodes, as bits.
func bestCyclic(batches [][]uint32, nodes, rows int) int {
	best := 0
	for begin := range 1 << nodes {
		if bits.OnesCount(uint(begin)) > rows {
			continue
		}
		hits := map[int]int{begin: 0} // most hits so far, by content
		for _, b := range batches {
			batch := 0
			for _, v := range b {
				batch |= 1 << v
			}
			after := map[int]int{}
			for s, n := range hits {
				n += bits.OnesCount(uint(s & batch))
				for all, sub := s|batch, s|batch; ; sub = (sub - 1) & all {
					if m, ok := after[sub]; bits.OnesCount(uint(sub)) <= rows && (!ok || n > m) {
						after[sub] = n
					}
					if sub == 0 {
						break
					}
				}
			}
			hits = after
		}
		if n, ok := hits[begin]; ok {
			best = max(best, n)
		}
	}
	return best
}

// replay follows codes as a trainer does, and counts the hits.
type replay struct {
	content []uint32 // by entry
	hits    int
}

func (r *replay) step(t interface{ Fatalf(string, ...any) }, batch int, nodes, codes []uint32) {
	for i, code := range codes {
		if code&Hit != 0 {
			r.hits++
			if r.content[code&EntryMask] != nodes[i] {
				t.Fatalf("batch %d: entry %d holds node %d, not %d", batch, code&EntryMask, r.content[code&EntryMask], nodes[i])
			}
		}
	}
	taken := map[uint32]bool{}
	for i, code := range codes {
		if code&Admit != 0 {
			if taken[code&EntryMask] {
				t.Fatalf("batch %d: entry %d is taken twice", batch, code&EntryMask)
			}
			taken[code&EntryMask] = true
			r.content[code&EntryMask] = nodes[i]
		}
	}
}

// TestMinIsOptimal compares MIN on tiny circles with every cyclic policy there is, and
// its first cycle, on the line, with a search too.
func TestMinIsOptimal(t *testing.T) {
	dir := t.TempDir()
	aperiodic, total := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 5).Draw(t, "nodes")
		var batches [][]uint32
		used := 0
		for range rapid.IntRange(1, 6).Draw(t, "batches") {
			set := rapid.IntRange(1, 1<<nodes-1).Draw(t, "batch")
			used |= set
			var b []uint32
			for v := range uint32(nodes) {
				if set>>v&1 != 0 {
					b = append(b, v)
				}
			}
			batches = append(batches, b)
		}
		rows := rapid.IntRange(0, min(3, bits.OnesCount(uint(used)))).Draw(t, "rows")
		tr := writeTrace(t, dir, batches)
		defer tr.remove()
		s := newSimulation(tr, make([]uint32, nodes), int64(rows), newTraceSlots(2))
		set, err := s.circle(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if set.Count() != int64(rows) {
			t.Fatalf("%d rows in a cache of %d", set.Count(), rows)
		}
		r := replay{content: slices.Collect(set.All())}
		begin := slices.Clone(r.content)
		s.begin(set, entries(set, nil))
		if err := s.run(t.Context(), func(i int, codes []uint32) error {
			r.step(t, i, batches[i], codes)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(r.content)
		if !slices.Equal(r.content, begin) {
			t.Fatalf("begins with %v, ends with %v", begin, r.content)
		}
		if int64(r.hits) != s.stats.Hits {
			t.Fatalf("%d hits replayed, %d counted", r.hits, s.stats.Hits)
		}
		best := int64(bestCyclic(batches, nodes, rows))
		total++
		if !s.stats.Periodic {
			aperiodic++
		} else if s.stats.Hits != s.stats.Cycles[len(s.stats.Cycles)-1] {
			t.Fatalf("%d hits when it repeats itself, %d when it must", s.stats.Cycles[len(s.stats.Cycles)-1], s.stats.Hits)
		}
		if s.stats.Hits > best || s.stats.Periodic && s.stats.Hits != best {
			t.Fatalf("batches %v, %d rows: %d hits, the best has %d; %+v", batches, rows, s.stats.Hits, best, s.stats)
		}
		if s.stats.Cycles[0] < best {
			t.Fatalf("%d hits on the line, %d on the circle", s.stats.Cycles[0], best)
		}
	})
	t.Logf("%d of %d do not repeat themselves", aperiodic, total)
}
