package exact

import (
	"context"
	"math"
	"slices"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack/all"
	"diskgnn/train/cpu"
	"diskgnn/train/model"
	"diskgnn/train/trained"
	"diskgnn/train/traintest"
)

// The norm that counts a block's edges counts the graph's: bits and scores are the same
// for any memory, and those of a split are those of all nodes.
func TestBlockNormIsOfTheGraph(t *testing.T) {
	raw := datasettest.Params{Nodes: 300, AvgDegree: 6, Dim: 5, Classes: 4, Seed: 9}.Raw()
	w := newWorldOf(t, vfstest.TempDir(t), raw, model.Model{Kind: model.GCN, Dims: []int{5, 8, 4}, GCNNorm: model.BlockNorm})
	want, _ := w.predict(t, PredictOptions{}, 0)
	score, err := Evaluate(context.Background(), disk, w.options(), progress.Discard)
	check(t, err)
	for _, share := range []float64{0, 0.02, 0.2, 0.7} {
		room := w.tight(t, share)
		got, p := w.predict(t, PredictOptions{}, room)
		if !slices.Equal(binio.Bytes(got), binio.Bytes(want)) {
			t.Errorf("%d tiles, at %v of the memory: other bits than of one tile", p.Layers[0].Ranges, share)
		}
		if share < 0.1 && p.Layers[0].Ranges < 5 {
			t.Errorf("%d tiles at %v of the memory", p.Layers[0].Ranges, share)
		}
		test, _ := w.predict(t, PredictOptions{Nodes: dataset.Test}, room)
		for i, v := range raw.Test {
			if !slices.Equal(test[4*i:4*i+4], want[4*v:4*v+4]) {
				t.Errorf("node %d is %v among the test nodes, %v among all", v, test[4*i:4*i+4], want[4*v:4*v+4])
			}
		}
		e, err := evaluate(context.Background(), disk, w.options(), progress.Discard, parts{stack: all.Open, room: room})
		check(t, err)
		if e.TestAccuracy != score.TestAccuracy || e.ValidAccuracy != score.ValidAccuracy || e.TrainAccuracy != score.TrainAccuracy {
			t.Errorf("at %v of the memory the test score is %v, not %v", share, e.TestAccuracy, score.TestAccuracy)
		}
	}
}

// PyTorch Geometric, given a run by docs/python/load.py, computes the logits that exact
// inference does where an edge's weight follows from the other edges: train's tests
// compare the other models on sampled batches, whose edges are others.
func TestPyTorchCountsTheGraph(t *testing.T) {
	python := traintest.PyTorch(t)
	raw := datasettest.Params{Nodes: 120, AvgDegree: 5, Dim: 6, Classes: 3, Seed: 3}.Raw()
	w := newWorldOf(t, vfstest.TempDir(t), raw, model.Model{Kind: model.GCN, Dims: []int{6, 8, 3}, GCNNorm: model.BlockNorm, Residual: true})
	ours, _ := w.predict(t, PredictOptions{}, w.tight(t, 0.3))
	theirs := traintest.PyTorchLogits(t, python, "../../docs/python/load.py", w.path("run"), traintest.GraphForPyTorch(t, &raw))
	for i, v := range ours {
		if d := math.Abs(float64(v) - theirs[i/3][i%3]); !(d < 1e-4) {
			t.Fatalf("node %d, class %d: %v, PyTorch Geometric says %v", i/3, i%3, v, theirs[i/3][i%3])
		}
	}
}

// atOnce returns the logits of a batch that is the whole graph, in every layer.
func (w *world) atOnce(t *testing.T) []float32 {
	run, err := trained.Open(disk, w.path("run"))
	check(t, err)
	e, _, err := run.NewEngine(trained.EngineOptions{Weights: trained.WeightsBest, Threads: 2, BLAS: "gonum"}, 0, 1<<40)
	check(t, err)
	defer e.Close()
	n := len(w.raw.Labels)
	b := graph.Batch{Input: everyNode(&w.raw), Labels: w.raw.Labels, Degree: make([]uint32, n)}
	indptr := make([]uint32, n+1)
	for v := range n {
		indptr[v+1] = uint32(w.raw.Indptr[v+1])
		b.Degree[v] = indptr[v+1] - indptr[v]
	}
	for range w.model.Layers() {
		b.Blocks = append(b.Blocks, graph.Block{NumSrc: n, NumDst: n, Indptr: indptr, Indices: w.raw.Indices})
	}
	var sizes graph.Sizes
	sizes.Cover(&b)
	v, err := e.NewEvaluator(sizes)
	check(t, err)
	in := &cpu.Input{Prepared: new(cpu.Prepared), X: binio.View[float32](w.raw.Features)}
	check(t, v.Preparer().Prepare(in.Prepared, &b))
	logits, err := v.Infer(context.Background(), in)
	check(t, err)
	return slices.Clone(logits)
}
