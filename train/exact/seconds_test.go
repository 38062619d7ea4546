package exact

import (
	"math"
	"slices"
	"testing"
	"time"

	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/train/exact/grid"
	"diskgnn/train/model"
)

// By hand: 10 bytes a second. The projection reads 500 bytes, computes 100 rows, and writes 300; layer 0 reads 200 and
// 100 more, its state stays in memory; the last layer reads nothing, and writes the file.
func TestEstimate(t *testing.T) {
	steps := []step{
		{layer: model.InputLayer, sizes: grid.Sizes{Nodes: 100, Targets: 100}, plan: grid.Plan{Tiles: 1, TableBytes: 500}, state: 300},
		{layer: 0, sizes: grid.Sizes{Nodes: 100, Targets: 100}, plan: grid.Plan{Tiles: 3, TableBytes: 200, OwnBytes: 100}, state: 600, inMemory: true},
		{layer: 1, sizes: grid.Sizes{Nodes: 100, Targets: 40}, plan: grid.Plan{Tiles: 2}},
	}
	p := Plan{Layers: make([]LayerPlan, 2), OpenSeconds: 1}
	p.estimate(steps, []speed{{pass: 0.1}, {target: 0.2, pass: 0.1}, {target: 1, pass: 0.05}}, 10, 70)
	want := []LayerPlan{
		{ReadSeconds: 50 + 30, ComputeSeconds: 10 + 50, WriteSeconds: 30, Seconds: 80 + 60 + 30},
		{ComputeSeconds: 40 + 10, WriteSeconds: 7, Seconds: 57},
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	for l, w := range want {
		g := p.Layers[l]
		if !near(g.ReadSeconds, w.ReadSeconds) || !near(g.ComputeSeconds, w.ComputeSeconds) || !near(g.WriteSeconds, w.WriteSeconds) || !near(g.Seconds, w.Seconds) {
			t.Errorf("layer %d: %+v, want %+v", l, g, w)
		}
	}
	if !near(p.Seconds, 1+170+57) || p.ReadRate != 10 {
		t.Errorf("%+v", p)
	}
}

// A plan has the seconds of each layer of every model, and gives back the memory of its measurements.
func TestPlanHasSeconds(t *testing.T) {
	raw := datasettest.Params{Nodes: 300, AvgDegree: 5, Dim: 6, Classes: 3, Seed: 8}.Raw()
	dims := []int{6, 8, 3}
	for name, m := range map[string]model.Model{
		"gcn":  {Kind: model.GCN, Dims: dims, GCNNorm: model.BlockNorm},
		"sage": {Kind: model.SAGE, Dims: dims, Norm: model.LayerNorm, InputProjection: 5},
		"max":  {Kind: model.SAGE, Dims: dims, Aggregator: model.Max},
		"gat":  {Kind: model.GAT, Dims: dims, Heads: 2},
	} {
		w := newWorldOf(t, vfstest.TempDir(t), raw, m)
		began := time.Now()
		p, err := PlanPrediction(t.Context(), disk, PredictOptions{Options: w.options(), Out: w.path("out.npy")}, progress.Discard)
		check(t, err)
		if least := 300 * 6 * 4 / time.Since(began).Seconds(); p.ReadRate < least { // the table was read within the plan's time
			t.Errorf("%s: %v bytes a second, at least %v", name, p.ReadRate, least)
		}
		sum := p.OpenSeconds
		for _, l := range p.Layers {
			sum += l.Seconds
			if l.ComputeSeconds <= 0 || l.Seconds < l.ComputeSeconds {
				t.Errorf("%s: %+v", name, l)
			}
		}
		if p.ReadRate <= 0 || p.OpenSeconds <= 0 || math.Abs(sum-p.Seconds) > 1e-9*sum || p.Layers[0].ReadSeconds <= 0 || p.Layers[1].WriteSeconds != float64(300*3*4)/p.ReadRate || p.Engine != "cpu" {
			t.Errorf("%s: %+v, of the layers %v", name, p, sum)
		}
		if n := device.HostBytes(); n != 0 {
			t.Errorf("%s: %d bytes of host memory were not given back", name, n)
		}
	}
}

// By hand: lists of a sample ascend, one source from each of equal ranges; a sample has bounded rows, work and memory.
func TestSamples(t *testing.T) {
	g := sampled(6, 6, 3)
	if !slices.Equal(g.Indptr, []int64{0, 3, 6, 9, 12, 15, 18}) {
		t.Error(g.Indptr)
	}
	for i, u := range g.Indices {
		if int(u)/2 != i%3 {
			t.Errorf("source %d of a node is %d", i%3, u)
		}
	}
	for _, c := range [][3]int64{{16, 0, 16}, {16, 1, 16}, {16, 2, 8}, {17, 2, 12}, {16, 3, 8}, {3, 5, 4}} { // groups of 4
		if got := cutIn(c[0], c[1]); int64(got) != c[2] {
			t.Errorf("%d rows in %d parts: %d each", c[0], c[1], got)
		}
	}
	of := func(nodes, targets, edges, memory int64, in int) (int64, int64) {
		s := &step{lists: lists{edges: edges}, plan: grid.Plan{Memory: memory}}
		s.sizes.Nodes, s.sizes.Targets, s.sizes.Shape.In, s.sizes.Shape.Row, s.sizes.Shape.Acc, s.sizes.Shape.Out = nodes, targets, in, in, in, in
		return (&job{}).sample(s, s.most())
	}
	for _, c := range []struct{ nodes, targets, edges, memory, in, want, degree int64 }{
		{1 << 20, 1 << 20, 5 << 20, 1 << 40, 4, 1 << 16, 5},
		{1 << 20, 1 << 10, 5 << 10, 1 << 40, 1 << 10, 254, 5},       // 2³⁰ of 5×2¹¹ + 4×2²⁰ multiplications, in groups of two
		{1 << 20, 1 << 20, 1 << 21, 2 * 64 * 1001, 4, 1000 &^ 3, 2}, // 64 bytes a node
		{2, 2, 20, 1 << 40, 4, 2, 2},
		{100, 0, 0, 10, 4, 4, 0},
	} {
		n, degree := of(c.nodes, c.targets, c.edges, c.memory, int(c.in))
		if n > c.want || n < c.want-3 || degree != c.degree {
			t.Errorf("%+v: %d nodes, %d edges each", c, n, degree)
		}
	}
}
