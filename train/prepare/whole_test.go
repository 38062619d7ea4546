package prepare

import (
	"testing"

	"diskgnn/graph"
	"diskgnn/train/model"
)

// Node 0 has the neighbours 1, 1 and 2; the others have none. By hand, for every way to weigh.
func TestWholeByHand(t *testing.T) {
	g := &graph.CSC{Indptr: []int64{0, 3, 3, 3}, Indices: []uint32{1, 1, 2}}
	for w, want := range map[model.Weighing][5]float32{ // of source 1, of destination 0 and of 1: sum, own
		model.Unweighed: {1, 1, 0, 1, 0},
		model.Attended:  {1, 1, 0, 1, 0},
		model.Averaged:  {1, 1. / 3, 0, 1, 0},
		model.ByGraph:   {1, 0.5, 0.25, 0, 1},
		model.ByBlock:   {1. / 3, 0.5, 0.25, 1, 1. / 3},
	} {
		n := &Whole{Graph: g, Out: []uint32{3, 8, 0}, Weighing: w}
		sum, own := n.Destination(0)
		sum1, own1 := n.Destination(1)
		if got := [5]float32{n.Source(1), sum, own, sum1, own1}; got != want {
			t.Errorf("%s: %v, want %v", w, got, want)
		}
	}
}
