package decide

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/featurestore"
	"diskgnn/graph"
)

func TestBuckets(t *testing.T) {
	sizes := func(src0, dst0, seeds int) graph.Sizes {
		return graph.Sizes{Src: []int{src0, dst0}, Dst: []int{dst0, seeds}, Edges: []int{2 * src0, 2 * dst0}}
	}
	for _, c := range []struct {
		name       string
		mean, most graph.Sizes
		want       []graph.Sizes
	}{
		{"far apart", sizes(400, 200, 90), sizes(800, 400, 100), []graph.Sizes{
			{Src: []int{501, 251}, Dst: []int{251, 100}, Edges: []int{1001, 501}},
			{Src: []int{601, 301}, Dst: []int{301, 100}, Edges: []int{1201, 601}}}},
		{"nearer", sizes(1000, 200, 90), sizes(1100, 220, 100), []graph.Sizes{
			{Src: []int{1026, 206}, Dst: []int{206, 100}, Edges: []int{2051, 411}}}},
		{"alike", sizes(1000, 200, 90), sizes(1010, 201, 100), nil},
		{"neither are known", graph.Sizes{}, graph.Sizes{}, nil},
		// Half of the way there are 95 rows of the largest's 100, which is just worth it, and a quarter of
		// the way 92 of these 95, which is not.
		{"the least that is worth it", graph.Sizes{Src: []int{68}, Dst: []int{19}, Edges: []int{6}}, graph.Sizes{Src: []int{80}, Dst: []int{20}, Edges: []int{10}}, []graph.Sizes{
			{Src: []int{75}, Dst: []int{20}, Edges: []int{9}}}},
		// Of 120 sources and 100 destinations, half of the way leaves 114 and 100: few of all rows.
		{"destinations count", graph.Sizes{Src: []int{106}, Dst: []int{90}, Edges: []int{6}}, graph.Sizes{Src: []int{120}, Dst: []int{100}, Edges: []int{10}}, nil},
		{"unknown", graph.Sizes{}, sizes(1010, 201, 100), nil},
		{"fewer sources than seed nodes", sizes(40, 20, 10), sizes(400, 300, 100), []graph.Sizes{
			{Src: []int{131, 100}, Dst: []int{100, 100}, Edges: []int{261, 181}},
			{Src: []int{221, 161}, Dst: []int{161, 100}, Edges: []int{441, 321}}}},
	} {
		f := featurestore.Facts{TrainSizes: c.most, TrainMeans: c.mean}
		if diff := cmp.Diff(c.want, Buckets(&f)); diff != "" {
			t.Errorf("%s: wanted (−), found (+):\n%s", c.name, diff)
		}
	}
}
