package presample

import (
	"testing"

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
	} {
		p := mbfile.Params{BatchSize: c.batch, Fanout: c.fanout}
		if got := batchesPerFile(c.nodes, c.edges, p); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
