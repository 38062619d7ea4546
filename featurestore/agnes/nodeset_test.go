package agnes

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A set is what a sorted list of its nodes is; nodes that do not fit leave it as it is.
func TestNodeSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 2000).Draw(t, "nodes")
		s := newNodeSet(int64(n))
		if want := int64(8*len(s.words) + 4*len(s.before)); nodeSetBytes(int64(n)) != want {
			t.Fatalf("%d bytes, want %d", nodeSetBytes(int64(n)), want)
		}
		node := rapid.Uint32Range(0, uint32(n-1))
		for range 2 {
			most := rapid.IntRange(0, n).Draw(t, "most")
			var want []uint32
			for _, nodes := range rapid.SliceOf(rapid.SliceOfNDistinct(node, 0, min(n, 40), rapid.ID[uint32])).Draw(t, "batches") {
				both := append(slices.Clone(want), nodes...)
				slices.Sort(both)
				both = slices.Compact(both)
				if s.add(nodes, most) != (len(both) <= most) {
					t.Fatalf("%d nodes of %d", len(both), most)
				}
				if len(both) <= most {
					want = both
				}
			}
			s.index()
			if s.n != len(want) {
				t.Fatalf("%d nodes, want %d", s.n, len(want))
			}
			for v := range uint32(n) {
				place, in := slices.BinarySearch(want, v)
				if s.has(v) != in || int(s.place(v)) != place {
					t.Fatalf("node %d is in it: %t, at %d; want %t, %d", v, s.has(v), s.place(v), in, place)
				}
				from := int64(-1)
				if place < len(want) {
					from = int64(want[place])
				}
				if got := s.from(int64(v)); got != from {
					t.Fatalf("from node %d on comes %d, want %d", v, got, from)
				}
			}
			if s.from(int64(n)) != -1 || s.from(int64(n)+64) != -1 {
				t.Fatal("there is a node beyond the last")
			}
			s.clear()
		}
	})
}
