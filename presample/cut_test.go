package presample

import (
	"testing"

	"diskgnn/dataset"
	"diskgnn/presample/mbfile"
)

func TestBatchesPerFile(t *testing.T) {
	for _, c := range []struct {
		nodes, edges int64
		batch        int
		fanout       []int
		want         int
	}{
		{1 << 21, 40_000_000, 1024, []int{10, 15, 20}, leastPerFile},
		{1 << 21, 40_000_000, 1, []int{1}, mostPerFile},
		{1 << 21, 40_000_000, 1000, []int{5, 5}, 313}, // 36,000 nodes, 35,000 edges
		{10_000, 0, 1000, []int{all}, mostPerFile},
		{1000, 10_000, 1000, []int{all}, 2796}, // ten edges for each of 1000 nodes
		// A node has at least one edge, or two: 8 bytes for a node and 4 for an edge, in 128 MiB.
		{1 << 20, 1 << 19, 10_000, []int{5}, 671},   // 20,000 nodes, 10,000 edges
		{1 << 20, 1 << 21, 10_000, []int{5}, 419},   // 30,000 nodes, 20,000 edges
		{1 << 20, 1 << 21, 10_000, []int{all}, 419}, // the same
	} {
		p := mbfile.Params{BatchSize: c.batch, Fanout: c.fanout}
		if got := batchesPerFile(&dataset.Facts{Nodes: c.nodes, Edges: c.edges}, p); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
