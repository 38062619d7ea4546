package exact

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/train/model"
	"diskgnn/train/oracle"
)

// How far a value of the engine, in float32, may be from the oracle's: absolutely, or of a value
// above one, relatively. The sums of a hub have thousands of terms, of both signs.
const (
	tolerance    = 2e-5
	hubTolerance = 2e-4
)

// oracle returns the output of each layer of the run on the graph, by the formulas alone, and the
// largest sum of absolute terms, to which rounding errors are relative.
func (w *world) oracle(t datasettest.TB) (layers [][][]float64, largest float64) {
	t.Helper()
	r, err := oracle.OpenRun(w.path("run"), "weights.safetensors")
	check(t, err)
	g := &oracle.Graph{From: make([][]int, len(w.raw.Labels))}
	values := binio.View[float32](w.raw.Features)
	for v := range g.From {
		row := make([]float64, w.raw.Dim)
		for i := range row {
			row[i] = float64(values[v*w.raw.Dim+i])
		}
		g.X = append(g.X, row)
		for _, u := range w.raw.Indices[w.raw.Indptr[v]:w.raw.Indptr[v+1]] {
			g.From[v] = append(g.From[v], int(u))
		}
	}
	layers = r.Layers(g)
	if names := r.Unused(); len(names) > 0 {
		t.Fatalf("the formulas do not have %v", names)
	}
	return layers, r.Largest
}

// near compares rows with the oracle's.
func near(t datasettest.TB, what string, got []float32, want [][]float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want)*len(want[0]) {
		t.Fatalf("%s: %d values, want %d × %d", what, len(got), len(want), len(want[0]))
	}
	for i, a := range got {
		v, c := i/len(want[0]), i%len(want[0])
		if d := math.Abs(float64(a) - want[v][c]); !(d <= tolerance*max(1, math.Abs(want[v][c]))) {
			t.Fatalf("%s: column %d of node %d is %v, the oracle's %v", what, c, v, a, want[v][c])
		}
	}
}

// multigraph replaces the edges of a graph by random ones: some nodes have none, some edges are
// parallel, or lead from a node to itself, once or several times; node hub has as many as are named.
func multigraph(raw *dataset.Raw, degree, hub int, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	n := len(raw.Labels)
	raw.Indices = nil
	for v := range n {
		var from []uint32
		for range rng.IntN(2*degree+1) * min(1, rng.IntN(4)) {
			u := uint32(rng.IntN(n))
			if rng.IntN(6) == 0 {
				u = uint32(v)
			}
			from = append(from, slices.Repeat([]uint32{u}, 1+rng.IntN(3)/2)...)
		}
		if v == n/2 {
			for range hub {
				from = append(from, uint32(rng.IntN(n)))
			}
		}
		slices.Sort(from)
		raw.Indices = append(raw.Indices, from...)
		raw.Indptr[v+1] = int64(len(raw.Indices))
	}
}

func orders(o model.Order, layers int) []model.Order { return slices.Repeat([]model.Order{o}, layers) }

// everyModel has a model of every kind, with three layers of these widths.
func everyModel() map[string]model.Model {
	dims := []int{6, 8, 4, 3}
	multiply, aggregate := orders(model.Multiply, 3), orders(model.Aggregate, 3)
	return map[string]model.Model{
		"gcn":            {Kind: model.GCN, Dims: dims, Orders: multiply},
		"gcn of all":     {Kind: model.GCN, Dims: dims, Norm: model.BatchNorm, Residual: true, InputProjection: 7, Activation: model.ELU, Orders: aggregate},
		"gcn by block":   {Kind: model.GCN, Dims: dims, GCNNorm: model.BlockNorm, Orders: aggregate},
		"gcn, residual":  {Kind: model.GCN, Dims: dims, GCNNorm: model.BlockNorm, Norm: model.LayerNorm, Residual: true, InputProjection: 7, Orders: multiply},
		"sage":           {Kind: model.SAGE, Dims: dims, Norm: model.BatchNorm, Orders: multiply},
		"sage of all":    {Kind: model.SAGE, Dims: dims, Norm: model.LayerNorm, Residual: true, InputProjection: 5, Orders: aggregate},
		"sum":            {Kind: model.SAGE, Dims: dims, Aggregator: model.Sum, Norm: model.LayerNorm, Orders: aggregate},
		"sum, multiply":  {Kind: model.SAGE, Dims: dims, Aggregator: model.Sum, Orders: multiply},
		"max":            {Kind: model.SAGE, Dims: dims, Aggregator: model.Max, Norm: model.BatchNorm, Residual: true},
		"gat":            {Kind: model.GAT, Dims: dims, Heads: 2, Orders: aggregate},
		"gat, batchnorm": {Kind: model.GAT, Dims: dims, Heads: 4, Norm: model.BatchNorm, Activation: model.ReLU, Orders: aggregate},
		"gat of all":     {Kind: model.GAT, Dims: dims, Heads: 4, Norm: model.LayerNorm, Residual: true, InputProjection: 5, Orders: multiply},
	}
}

// Every kind of model computes what its formulas say: by ranges of one node, of some and of all, in
// both orders of operations, with a hub of more edges than are summed at once (sumBlock of
// train/cpu). So does a batch that is the whole graph.
func TestEveryModel(t *testing.T) {
	raw := datasettest.Params{Nodes: 300, Dim: 6, Classes: 3, Seed: 8}.Raw()
	multigraph(&raw, 3, 9000, 1)
	for name, m := range everyModel() {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, vfstest.TempDir(t), raw, m)
			want, _ := w.oracle(t)
			near(t, "at once", w.atOnce(t), want[2], hubTolerance)
			for _, share := range []float64{0, 0.2, 1} {
				got, _ := w.predict(t, PredictOptions{}, w.tight(t, share))
				near(t, fmt.Sprintf("at %v of the memory", share), got, want[2], hubTolerance)
			}
			got, _ := w.predict(t, PredictOptions{Output: Embeddings}, 0)
			near(t, "embeddings", got, want[1], hubTolerance)
		})
	}
}

// Any model computes on any graph what its formulas say.
func TestAnyModel(t *testing.T) {
	root := vfstest.TempDir(t)
	n := 0
	kinds := slices.DeleteFunc(model.Kinds(), model.Kind.Typed)
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := fmt.Sprintf("%s/%d", root, n)
		check(t, os.Mkdir(dir, 0o777))
		defer os.RemoveAll(dir)
		heads := rapid.IntRange(1, 3).Draw(t, "heads")
		m := model.Model{
			Kind:            rapid.SampledFrom(kinds).Draw(t, "kind"),
			Norm:            rapid.SampledFrom(model.Norms).Draw(t, "norm"),
			Activation:      rapid.SampledFrom([]model.Activation{"", model.ReLU, model.ELU}).Draw(t, "activation"),
			Residual:        rapid.Bool().Draw(t, "residual"),
			InputProjection: rapid.SampledFrom([]int{0, 5}).Draw(t, "projection"),
		}
		m.Aggregator = rapid.SampledFrom(model.Aggregators).Draw(t, "aggregator")
		m.GCNNorm = rapid.SampledFrom(model.GCNNorms).Draw(t, "gcn norm")
		m.Heads = heads
		m.ClearOthers()
		raw := datasettest.Params{Nodes: rapid.IntRange(1, 60).Draw(t, "nodes"), Dim: rapid.IntRange(1, 20).Draw(t, "dim"), Classes: rapid.IntRange(1, 18).Draw(t, "classes"), Seed: 3}.Raw()
		multigraph(&raw, rapid.IntRange(0, 6).Draw(t, "degree"), rapid.IntRange(0, 80).Draw(t, "hub"), rapid.Uint64Range(0, 1000).Draw(t, "edges"))
		m.Dims = []int{raw.Dim}
		for _, parts := range rapid.SliceOfN(rapid.IntRange(2, 9), 0, 3).Draw(t, "hidden") {
			m.Dims = append(m.Dims, parts*heads)
		}
		m.Dims = append(m.Dims, raw.Classes)
		for range m.Layers() {
			o := model.Aggregate
			if m.Commutes() {
				o = rapid.SampledFrom([]model.Order{model.Auto, model.Aggregate, model.Multiply}).Draw(t, "order")
			}
			m.Orders = append(m.Orders, o)
		}
		w := newWorldOf(t, dir, raw, m)
		want, largest := w.oracle(t)
		most := tolerance * max(1, largest)
		got, _ := w.predict(t, PredictOptions{}, w.tight(t, rapid.Float64Range(0, 1).Draw(t, "room")))
		near(t, "by ranges", got, want[m.Layers()-1], most)
		o := PredictOptions{Options: w.options()}
		o.BLAS, o.Threads = "auto", 3
		got, _ = w.predict(t, o, 0)
		near(t, "with the fastest products", got, want[m.Layers()-1], most)
	})
}

// Of a multi-label graph, a node has the classes whose logits are positive by the formulas.
func TestMultiLabelOracle(t *testing.T) {
	raw := datasettest.Params{Nodes: 200, Dim: 5, Classes: 11, Seed: 8}.Raw()
	multigraph(&raw, 4, 100, 2)
	raw.Targets = make([]byte, 2*len(raw.Labels))
	for v, y := range raw.Labels {
		raw.Labels[v] = min(y, 0)
	}
	for _, m := range []model.Model{
		{Kind: model.SAGE, Dims: []int{5, 8, 11}, Norm: model.LayerNorm},
		{Kind: model.GCN, Dims: []int{5, 8, 11}, Residual: true},
		{Kind: model.GAT, Dims: []int{5, 8, 11}, Heads: 2},
	} {
		w := newWorldOf(t, vfstest.TempDir(t), raw, m)
		layers, _ := w.oracle(t)
		want := layers[1]
		got, _ := w.predict(t, PredictOptions{}, w.tight(t, 0.1))
		near(t, string(m.Kind), got, want, tolerance)
		p, err := Predict(context.Background(), disk, PredictOptions{Options: w.options(), Output: Classes, Out: w.path("classes.npy")}, progress.Discard)
		check(t, err)
		b, err := os.ReadFile(p.Out)
		check(t, err)
		_, classes, _ := bytes.Cut(b, []byte("\n"))
		if len(classes) != len(got) {
			t.Fatalf("%s: %d decisions, want %d", m.Kind, len(classes), len(got))
		}
		for i, has := range classes {
			if y := want[i/11][i%11]; math.Abs(y) > tolerance && (has == 1) != (y > 0) {
				t.Errorf("%s: class %d of node %d is %d, the oracle's logit %v", m.Kind, i%11, i/11, has, y)
			}
		}
	}
}
