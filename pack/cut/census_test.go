package cut

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSegmentLadder(t *testing.T) {
	for _, c := range []struct {
		batches int
		want    []int
	}{
		{0, []int{1}},
		{1, []int{1}},
		{5, []int{1, 2, 3, 4, 5}},
		{16, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
		{50, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 25, 31, 38, 47, 50}},
	} {
		if got := segmentLadder(c.batches); !slices.Equal(got, c.want) {
			t.Errorf("%d batches: %v, want %v", c.batches, got, c.want)
		}
	}
}

// TestCensus counts segment by segment, with sets.
func TestCensus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 12).Draw(t, "nodes")
		batches := rapid.SliceOfN(rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(nodes-1)), 0, nodes, rapid.ID), 1, 40).Draw(t, "batches")
		rank := rapid.Permutation(upTo(nodes)).Draw(t, "rank")
		edges := rapid.SliceOfNDistinct(rapid.Int64Range(0, int64(nodes)), 1, 4, rapid.ID).Draw(t, "edges")
		slices.Sort(edges)
		slices.Reverse(edges)

		taker := newCensusTaker(int64(nodes), len(batches), edges)
		s := batchSlot{count: make([]int, len(edges)+1)}
		for b, list := range batches {
			s.classify(list, rank, edges)
			rest := s.nodes
			for class := range edges {
				taker.add(b, class, rest[:s.count[class]])
				rest = rest[s.count[class]:]
			}
		}
		got := taker.census()

		want := &Census{Segments: segmentLadder(len(batches)), Edges: edges}
		for _, edge := range edges {
			stored, shared, accesses := make([]int64, len(want.Segments)), make([]int64, len(want.Segments)), int64(0)
			for i, length := range want.Segments {
				accesses = 0
				for segment := range slices.Chunk(batches, length) {
					uses := map[uint32]int{}
					for _, v := range slices.Concat(segment...) {
						if int64(rank[v]) >= edge {
							uses[v]++
							accesses++
						}
					}
					for _, n := range uses {
						stored[i]++
						if n > 1 {
							shared[i]++
						}
					}
				}
			}
			want.Stored, want.Shared = append(want.Stored, stored), append(want.Shared, shared)
			want.Accesses = append(want.Accesses, accesses)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

func upTo(n int) []uint32 {
	l := make([]uint32, n)
	for i := range l {
		l[i] = uint32(i)
	}
	return l
}
