package sampler

import "testing"

func TestBound(t *testing.T) {
	for _, c := range []struct {
		nodes, edges int64
		seeds        int
		fanout       []int
		want         Extent
	}{
		// 10 seeds draw 3 each: 30 edges, 40 nodes; those draw 2: 80 edges, 120 nodes.
		{1000, 9999, 10, []int{2, 3}, Extent{Nodes: 120, Dst: 50, Edges: 110, Widest: 3}},
		{100, 9999, 10, []int{2, 3}, Extent{Nodes: 100, Dst: 50, Edges: 110, Widest: 3}}, // no more than there are
		{1000, 50, 10, []int{2, 3}, Extent{Nodes: 90, Dst: 50, Edges: 80, Widest: 3}},
		{1000, 5000, 10, []int{all, 3}, Extent{Nodes: 1000, Dst: 50, Edges: 5030, Widest: 3}},
		{5, 7, 10, []int{1}, Extent{Nodes: 5, Dst: 5, Edges: 5, Widest: 1}},
	} {
		if got := Bound(c.nodes, c.edges, c.seeds, c.fanout); got != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
