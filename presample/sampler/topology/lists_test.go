package topology

import (
	"testing"

	"pgregory.net/rapid"

	"diskgnn/graph"
)

// listsOf returns the lists of nodes with the given in-degrees.
func listsOf(t testing.TB, fanout int, degrees ...int64) (Lists, *graph.Offsets) {
	t.Helper()
	o, end := graph.NewOffsets(int64(len(degrees))), int64(0)
	for _, d := range append([]int64{0}, degrees...) {
		end += d
		if err := o.Append([]int64{end}); err != nil {
			t.Fatal(err)
		}
	}
	l, ok := ListsOf(&cached{offsets: o}, fanout)
	if !ok {
		t.Fatal("a cached topology holds no choice")
	}
	return l, o
}

// What a list takes and what draws from it read, by hand: edges 0 to 1019, 1020 to 1029 across
// a page, none, and 1030 to 6029 on five pages.
func TestListsByHand(t *testing.T) {
	for fanout, want := range map[int][]int64{0: {1, 2, 0, 5}, 1: {1, 1, 0, 1}, 3: {1, 2, 0, 3}, 10: {1, 2, 0, 5}} {
		l, _ := listsOf(t, fanout, 1020, 10, 0, 5000)
		for v, pages := range want {
			if n := l.Read(uint32(v)); n != 4096*pages {
				t.Errorf("fanout %d: a draw from node %d's list reads %d bytes, want %d pages", fanout, v, n, pages)
			}
		}
		for v, bytes := range []int64{4084, 44, 4, 20004} {
			if n := l.Bytes(uint32(v)); n != bytes {
				t.Errorf("node %d's list takes %d bytes, want %d", v, n, bytes)
			}
		}
	}
	if _, ok := ListsOf(&mapped{}, 3); ok {
		t.Error("a mapped topology holds a choice")
	}
}

// Whatever lists are chosen fit in what is said that they need, with less than two pages left.
func TestListsFit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		degrees := rapid.SliceOfN(rapid.Int64Range(0, 3000), 1, 300).Draw(r, "degrees")
		l, o := listsOf(t, 0, degrees...)
		list := rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(len(degrees)-1)), 0, len(degrees), rapid.ID).Draw(r, "list")
		sum := int64(0)
		for _, v := range list {
			sum += l.Bytes(v)
		}
		var h held
		nodes, edges := h.choose(list, o, l.Held(sum))
		if spare := l.Held(sum) - heldBytes(int64(len(degrees)), nodes, edges); int(nodes) != len(list) || spare < 0 || spare > 8192 {
			r.Fatalf("%d of %d lists fit, %d bytes are left", nodes, len(list), spare)
		}
	})
}
