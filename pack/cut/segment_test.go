package cut

import (
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSegmentByHand shares nodes between three batches, whose ranks are their ids:
//
//	batch 0: 0 2 4 6 8   batch 1: 0 2 6 7 8   batch 2: 1 2 6 7
//
// The nodes 0 and 8 are used by the batches 0 1, the nodes 2 and 6 by 0 1 2, and 7 by
// 1 2. A third batch comes before none. Band 0 has the ranks from 7 up.
func TestSegmentByHand(t *testing.T) {
	n := newSegment(upTo(9), []int64{7, 0})
	for range 2 { // the same memory
		n.begin(3)
		n.add(0, []uint32{8, 0, 2, 4, 6})
		n.add(1, []uint32{0, 2, 6, 7, 8})
		n.add(2, []uint32{1, 2, 7, 6})
		order := n.finish()
		if want := []uint32{8, 7, 2, 6, 0}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
		for place, v := range order {
			if got, ok := n.Place(v); !ok || int(got) != place {
				t.Errorf("node %d: place %d, %t; want %d", v, got, ok, place)
			}
		}
		for _, v := range []uint32{1, 3, 4, 5} {
			if _, ok := n.Place(v); ok {
				t.Errorf("node %d is shared", v)
			}
		}
	}
}

// TestSegment holds places against a plain sort by band, batches and id.
func TestSegment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 150).Draw(t, "nodes")
		rank := rapid.Permutation(upTo(nodes)).Draw(t, "rank")
		edges := rapid.SliceOfNDistinct(rapid.Int64Range(0, int64(nodes)), 1, 4, rapid.ID).Draw(t, "edges")
		slices.Sort(edges)
		slices.Reverse(edges)
		n := newSegment(rank, edges)
		for range rapid.IntRange(1, 3).Draw(t, "segments") {
			batches := rapid.SliceOfN(rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(nodes-1)), 0, nodes, rapid.ID), 1, 40).Draw(t, "batches")
			n.begin(len(batches))
			uses := map[uint32][]int{}
			for i, list := range batches {
				n.add(i, list)
				for _, v := range list {
					uses[v] = append(uses[v], i)
				}
			}
			var want []uint32
			for v, by := range uses {
				if len(by) > 1 {
					want = append(want, v)
				}
			}
			places := min(60/bits.Len(uint(len(batches))), 15)
			slices.SortFunc(want, func(a, b uint32) int {
				if c := BandOf(edges, rank[a]) - BandOf(edges, rank[b]); c != 0 {
					return c
				}
				for j := range places {
					c := place(uses[a], j) - place(uses[b], j)
					if c != 0 && j%2 == 1 {
						return -c
					}
					if c != 0 {
						return c
					}
				}
				return int(a) - int(b)
			})
			if got := n.finish(); !slices.Equal(got, want) {
				t.Fatalf("order %v, want %v", got, want)
			}
		}
	})
}

// place returns the j-th batch, past all when there is none.
func place(batches []int, j int) int {
	if j < len(batches) {
		return batches[j]
	}
	return 1 << 30
}
