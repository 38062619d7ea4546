package pack

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSegmentByHand shares the nodes of three batches. Whatever the two orders of the
// batches, nodes used by the same batches are neighbours, by ascending id:
//
//	batch 0: 0 2 4 6 8   batch 1: 0 2 6 7 8   batch 2: 1 6 7
//	shared: 0 2 8 by batches 0 and 1, 7 by 1 and 2, 6 by all
//
// and with ranks equal to ids and an edge at 7, the nodes 7 and 8 lie in band 0.
func TestSegmentByHand(t *testing.T) {
	n := newSegmentNodes(upTo(9), []int64{7, 0})
	for segment := range 20 { // other orders of the batches, the same memory
		n.begin(segment, 3)
		n.add(0, []uint32{8, 0, 2, 4, 6})
		n.add(1, []uint32{0, 2, 6, 7, 8})
		n.add(2, []uint32{1, 7, 6})
		order := n.finish()
		cold, warm := slices.Clone(order[:2]), order[2:]
		slices.Sort(cold)
		if !slices.Equal(cold, []uint32{7, 8}) || !slices.Equal(warm, []uint32{0, 2, 6}) && !slices.Equal(warm, []uint32{6, 0, 2}) {
			t.Errorf("segment %d: order %v", segment, order)
		}
		for slot, v := range order {
			if got, ok := n.slot(v); !ok || int(got) != slot {
				t.Errorf("node %d: slot %d, %t; want %d", v, got, ok, slot)
			}
		}
		for _, v := range []uint32{1, 3, 4, 5} {
			if _, ok := n.slot(v); ok {
				t.Errorf("node %d is shared", v)
			}
		}
	}
}

// TestSegment holds slots against a plain sort by (band, first, second, id).
func TestSegment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 150).Draw(t, "nodes")
		rank := rapid.Permutation(upTo(nodes)).Draw(t, "rank")
		edges := rapid.SliceOfNDistinct(rapid.Int64Range(0, int64(nodes)), 1, 4, rapid.ID).Draw(t, "edges")
		slices.Sort(edges)
		slices.Reverse(edges)
		n := newSegmentNodes(rank, edges)
		for segment := range rapid.IntRange(1, 3).Draw(t, "segments") {
			batches := rapid.SliceOfN(rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(nodes-1)), 0, nodes, rapid.ID), 1, 9).Draw(t, "batches")
			n.begin(segment, len(batches))
			uses := map[uint32][]int{}
			for i, list := range batches {
				n.add(i, list)
				for _, v := range list {
					uses[v] = append(uses[v], i)
				}
			}
			type key [4]uint32
			var want []key
			for v, by := range uses {
				if len(by) > 1 {
					k := key{uint32(bandOf(edges, rank[v])), ^uint32(0), ^uint32(0), v}
					for _, b := range by {
						k[1], k[2] = min(k[1], n.place[0][b]), min(k[2], n.place[1][b])
					}
					want = append(want, k)
				}
			}
			// All nodes are given: those of the hot band come last.
			slices.SortFunc(want, func(a, b key) int { return slices.Compare(a[:], b[:]) })
			got := n.finish()
			if len(got) != len(want) {
				t.Fatalf("%d shared nodes, want %d", len(got), len(want))
			}
			for slot, k := range want {
				if got[slot] != k[3] {
					t.Fatalf("slot %d has node %d, want %d", slot, got[slot], k[3])
				}
			}
		}
	})
}
