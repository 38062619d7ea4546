package main

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestByHand: five nodes, three batches, caches of one and two.
//
//	batch 0: 0 1 2    batch 1: 0 3    batch 2: 0 1 4
func TestByHand(t *testing.T) {
	tr := &trace{5, [][]uint32{{0, 1, 2}, {0, 3}, {0, 1, 4}}}
	if tr.total() != 8 || tr.distinct(1) != 8 || tr.distinct(2) != 4+3 || tr.distinct(3) != 5 {
		t.Errorf("%d, %d, %d, %d", tr.total(), tr.distinct(1), tr.distinct(2), tr.distinct(3))
	}
	if got := tr.overlap(); math.Abs(got-(1./2+1./3)/2) > 1e-12 {
		t.Errorf("overlap %g", got)
	}
	// 0 is needed three times, 1 twice.
	for size, want := range []int64{0, 3, 5} {
		if got := tr.static(size); got != want {
			t.Errorf("static, %d nodes: %d hits, want %d", size, got, want)
		}
	}
	// 0 stays; 1 after batch 0 until batch 2, and from there to batch 0.
	for size, want := range []int64{0, 3, 5, 6} {
		if got := tr.replace(size, soonest); got != want {
			t.Errorf("min, %d nodes: %d hits, want %d", size, got, want)
		}
	}
	if got, want := tr.nextUses(), [][]int{{1, 2, 3}, {2, 4}, {3, 3, 5}}; !slices.EqualFunc(got, want, slices.Equal[[]int]) {
		t.Errorf("next uses %v, want %v", got, want)
	}
}

// TestKeep compares with sorting.
func TestKeep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.SliceOfN(rapid.IntRange(-5, 5), 1, 20).Draw(t, "ranks")
		nodes := make([]uint32, len(ranks))
		for v := range nodes {
			nodes[v] = uint32(v)
		}
		size := rapid.IntRange(0, 25).Draw(t, "size")
		n := keep(nodes, ranks, size)
		var kept []int
		for _, v := range nodes[:n] {
			kept = append(kept, ranks[v])
		}
		slices.Sort(kept)
		best := slices.Sorted(slices.Values(ranks))[:min(size, len(ranks))]
		if !slices.Equal(kept, best) {
			t.Fatalf("kept %v of %v, want %v", kept, ranks, best)
		}
		slices.Sort(nodes)
		if nodes = slices.Compact(nodes); len(nodes) != len(ranks) {
			t.Fatalf("nodes lost: %v", nodes)
		}
	})
}
