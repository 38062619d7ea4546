package walk

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"diskgnn/internal/rng"
)

// sets returns the states of a walk as sorted lists of partitions.
func sets(w *Walk) [][]int {
	var all [][]int
	held := make([]bool, len(w.parts))
	for s := range w.States() {
		w.Resident(s, held)
		var set []int
		for p, in := range held {
			if in {
				set = append(set, p)
			}
		}
		all = append(all, set)
	}
	return all
}

// beta is BETA by its definition, over lists of groups, with the random choices of New.
func beta(kind string, partitions, buffer int, key uint64) [][]int {
	src := rng.New(key)
	parts := upTo(partitions)
	rng.Shuffle(&src, parts)
	size := 1
	for k := buffer - 1; kind != Beta && size == 1 && k > 0; k-- {
		if buffer%k == 0 {
			size = k
		}
	}
	groups := slices.Collect(slices.Chunk(parts, size))
	held, disk := groups[:buffer/size], groups[buffer/size:]
	var states [][]int
	note := func() {
		var set []int
		for _, p := range slices.Concat(held...) {
			set = append(set, int(p))
		}
		slices.Sort(set)
		states = append(states, set)
	}
	note()
	for len(disk) > 0 {
		held, disk = slices.Clone(held), slices.Clone(disk)
		rng.Shuffle(&src, held)
		rng.Shuffle(&src, disk)
		last := len(held) - 1
		for i, g := range disk {
			held[last], disk[i] = g, held[last]
			note()
		}
		if kind == Sweep {
			return states
		}
		rng.Shuffle(&src, disk)
		i := 0
		for ; i < last && i < len(disk); i++ {
			held[i] = disk[i]
			note()
		}
		disk = disk[i:]
	}
	return states
}

var kinds = []string{Sweep, Beta, Comet}

// TestWalks compares walks with their definition, and holds them to what a buffer can do:
// no state has more partitions than it holds, and from one to the next no more than one
// group changes.
func TestWalks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		p := rapid.IntRange(2, 40).Draw(t, "partitions")
		b := rapid.IntRange(2, p).Draw(t, "buffer")
		key := rapid.Uint64().Draw(t, "key")
		w := New(kind, p, b, key)
		got := sets(w)
		if d := cmp.Diff(beta(kind, p, b, key), got); d != "" {
			t.Fatal(d)
		}
		if n := States(kind, p, b); n != w.States() || n != len(got) {
			t.Fatalf("%d states, %d and %d reckoned", len(got), w.States(), n)
		}
		once := make([]bool, p)
		for s, set := range got {
			if len(set) > b {
				t.Fatalf("state %d has %v", s, set)
			}
			for _, i := range set {
				once[i] = true
			}
			if s == 0 {
				continue
			}
			arrived := slices.DeleteFunc(slices.Clone(set), func(i int) bool { return slices.Contains(got[s-1], i) })
			if len(arrived) == 0 || len(arrived) > groupSize(kind, b) || w.groupOf(arrived[0]) != w.groupOf(arrived[len(arrived)-1]) {
				t.Fatalf("state %d: %v arrive", s, arrived)
			}
		}
		if slices.Contains(once, false) {
			t.Fatalf("a partition is in no state: %v", once)
		}
	})
}

func (w *Walk) groupOf(p int) int { return slices.Index(w.parts, uint16(p)) / w.size }

// TestEveryPairOnce: the states of beta and comet cover every edge bucket, and the assignment
// puts it into exactly one that holds both its partitions: the first for beta.
func TestEveryPairOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		p := rapid.IntRange(2, 24).Draw(t, "partitions")
		b := rapid.IntRange(2, p).Draw(t, "buffer")
		key := rapid.Uint64().Draw(t, "key")
		w := New(kind, p, b, key)
		states, a, src := sets(w), w.Assign(), rng.New(key+1)
		buckets := make([][][2]int, len(states))
		for i := range p {
			for j := range p {
				holds := func(s []int) bool { return slices.Contains(s, i) && slices.Contains(s, j) }
				s := a.State(i, j, &src)
				first := slices.IndexFunc(states, holds)
				if s < 0 {
					if first >= 0 || kind != Sweep {
						t.Fatalf("%d, %d: no state, %d holds both", i, j, first)
					}
					continue
				}
				if !holds(states[s]) || kind == Beta && s != first {
					t.Fatalf("%d, %d: state %d of %v, the first is %d", i, j, s, states, first)
				}
				buckets[s] = append(buckets[s], [2]int{i, j})
			}
		}
		if n := len(slices.Concat(buckets...)); kind != Sweep && n != p*p {
			t.Fatalf("%d edge buckets of %d", n, p*p)
		}
	})
}

// TestDeferred: comet assigns a pair to each of the states that hold it, as often.
func TestDeferred(t *testing.T) {
	const draws = 6000
	w := New(Comet, 12, 4, 5)
	states, a, src := sets(w), w.Assign(), rng.New(3)
	i, j := states[0][0], states[0][1]
	count := make([]int, len(states))
	for range draws {
		count[a.State(i, j, &src)]++
	}
	var holding []int
	for s, set := range states {
		if slices.Contains(set, i) && slices.Contains(set, j) {
			holding = append(holding, s)
		}
	}
	if len(holding) < 3 {
		t.Fatalf("states %v hold %d and %d: too few to test", holding, i, j)
	}
	chi, want := 0.0, float64(draws)/float64(len(holding))
	for _, s := range holding {
		chi += (float64(count[s]) - want) * (float64(count[s]) - want) / want
	}
	if degrees := float64(len(holding) - 1); chi > 4*degrees+8 {
		t.Errorf("%v of %d: chi square %.1f", count, holding, chi)
	}
}

// TestTinyWalks writes walks down, so that no change of them passes unnoticed: equal seeds
// must give equal samples in all versions to come.
func TestTinyWalks(t *testing.T) {
	for _, c := range []struct {
		kind    string
		p, b    int
		swapped int
		want    string
	}{
		// Two of four: two pass the last slot while 1 stays, 0 takes its place, the other two
		// pass by 0, and meet at last.
		{Beta, 4, 2, 5, "[[0 1] [1 2] [1 3] [0 3] [0 2] [2 3]]"},
		{Beta, 3, 3, 0, "[[0 1 2]]"},
		{Comet, 8, 4, 5, "[[0 1 3 7] [0 3 4 5] [0 2 3 6] [1 2 6 7] [2 4 5 6] [1 4 5 7]]"},
		{Sweep, 8, 4, 2, "[[0 1 3 7] [0 3 4 5] [0 2 3 6]]"},
		{Sweep, 7, 4, 2, "[[0 1 2 6] [0 2 4 5] [0 2 3]]"},
	} {
		w := New(c.kind, c.p, c.b, 1)
		if got := fmt.Sprint(sets(w)); got != c.want || w.States() != c.swapped+1 {
			t.Errorf("%s, %d of %d: %d swaps, %s", c.kind, c.b, c.p, w.States()-1, got)
		}
	}
}

// TestStates: the counts by hand. Of 8 groups 2 are held: 6 pass, one stays, 5 pass, …
func TestStates(t *testing.T) {
	for _, c := range []struct {
		kind         string
		p, b, states int
	}{
		{Beta, 8, 2, 1 + (6 + 1) + (5 + 1) + (4 + 1) + (3 + 1) + (2 + 1) + (1 + 1)},
		{Beta, 8, 3, 1 + (5 + 2) + (3 + 2) + (1 + 1)},
		{Beta, 8, 8, 1},
		{Comet, 64, 8, 1 + 14*15/2 + 14}, // 16 groups
		{Sweep, 64, 8, 15},
		{Sweep, 9, 8, 2},                      // the third group has one
		{Comet, 18, 9, 1 + (3 + 2) + (1 + 1)}, // six groups of three
		{Sweep, 8, 5, 4},                      // groups of one
	} {
		if got := States(c.kind, c.p, c.b); got != c.states {
			t.Errorf("%s, %d of %d: %d states, want %d", c.kind, c.b, c.p, got, c.states)
		}
	}
}

// TestFixed: one state of what is kept and of random others, none of them preferred.
func TestFixed(t *testing.T) {
	count := make([]int, 10)
	const draws = 2000
	for key := range uint64(draws) {
		all := sets(Fixed(10, 5, 2, key))
		if len(all) != 1 || len(all[0]) != 5 || all[0][0] != 0 || all[0][1] != 1 {
			t.Fatal(all)
		}
		for _, p := range all[0] {
			count[p]++
		}
	}
	for p, n := range count[2:] {
		if want := draws * 3 / 8; n < want*9/10 || n > want*11/10 {
			t.Errorf("partition %d: %d times, want about %d", p+2, n, want)
		}
	}
	if got := sets(Fixed(4, 4, 1, 9)); len(got[0]) != 4 {
		t.Error(got)
	}
}

// TestMemory holds a walk and its assignment to what is reckoned with.
func TestMemory(t *testing.T) {
	for _, kind := range kinds {
		w := New(kind, 100, 10, 1)
		a := w.Assign()
		walk, assignment := Memory(100, w.States())
		if held := 2*cap(w.parts) + 4*cap(w.swaps); int64(held) > walk {
			t.Errorf("%s: a walk of %d bytes, reckoned %d", kind, held, walk)
		}
		held := 2*cap(a.groupOf) + 24*cap(a.stays)
		for _, s := range a.stays {
			held += 16 * cap(s)
		}
		if int64(held) > assignment {
			t.Errorf("%s: an assignment of %d bytes, reckoned %d", kind, held, assignment)
		}
	}
}
