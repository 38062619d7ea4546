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
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack/all"
	"diskgnn/pack"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
	"diskgnn/train"
	"diskgnn/train/cpu"
	"diskgnn/train/model"
	"diskgnn/train/trained"
	"diskgnn/train/traintest"
)

// A trained run scores the same exactly as on a pack whose evaluation batches were
// sampled with all neighbours, and its logits are the same to rounding.
func TestEqualsAllNeighboursSampled(t *testing.T) {
	raw := datasettest.Params{Nodes: 500, AvgDegree: 6, Dim: 7, Classes: 3, Seed: 6}.Raw()
	w := &world{dir: t.TempDir(), raw: raw}
	datasettest.Create(t, w.dir, raw)
	ctx := context.Background()
	_, err := presample.Run(ctx, disk, presample.Options{Dataset: w.path("dataset"), Out: w.path("samples"), BatchSize: 32, Fanout: []int{3, 3}, EvalFanout: "all", Epochs: 1}, progress.Discard)
	check(t, err)
	_, err = pack.Run(ctx, disk, pack.Options{Dataset: w.path("dataset"), Samples: w.path("samples"), Out: w.path("pack"), Cache: &budget.Size{Value: 10, Unit: budget.UnitPercent}}, progress.Discard)
	check(t, err)
	o := train.Defaults()
	o.Pack, o.Out, o.Hidden, o.Epochs, o.Threads, o.BLAS, o.Memory = w.path("pack"), w.path("run"), 8, 3, 2, "gonum", 1<<30
	trained, err := train.Run(ctx, disk, o, progress.Discard)
	check(t, err)

	e, err := Evaluate(ctx, disk, w.options(), progress.Discard)
	check(t, err)
	if e.ValidAccuracy != trained.ValidAccuracy || e.TestAccuracy != trained.TestAccuracy || !e.TrainAccuracy.Defined() {
		t.Errorf("exactly %v and %v, sampled %v and %v", e.ValidAccuracy, e.TestAccuracy, trained.ValidAccuracy, trained.TestAccuracy)
	}
	logits, _ := w.predict(t, PredictOptions{}, 0)
	w.eachEvalBatch(t, func(seeds []uint32, sampled []float32) {
		for i, v := range seeds {
			for c := range raw.Classes {
				if d := math.Abs(float64(sampled[i*raw.Classes+c] - logits[int(v)*raw.Classes+c])); !(d < 1e-5) {
					t.Fatalf("node %d, class %d: %v sampled, %v exact", v, c, sampled[i*raw.Classes+c], logits[int(v)*raw.Classes+c])
				}
			}
		}
	})
}

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

// eachEvalBatch computes the logits of the validation and test batches, as sampled.
func (w *world) eachEvalBatch(t *testing.T, see func(seeds []uint32, logits []float32)) {
	run, err := trained.Open(disk, w.path("run"))
	check(t, err)
	e, _, err := run.NewEngine(trained.EngineOptions{Weights: trained.WeightsBest, Threads: 2, BLAS: "gonum"}, 0, 1<<40)
	check(t, err)
	defer e.Close()
	samples, err := mbfile.Open(disk, w.path("samples"))
	check(t, err)
	defer samples.Close()
	v, err := e.NewEvaluator(samples.Facts().Eval.Max)
	check(t, err)
	table := make([]float32, len(w.raw.Labels)*w.raw.Dim)
	dtype.Convert(binio.Bytes(table), dtype.Float32, w.raw.Features, w.raw.DType)
	lo, _ := samples.Valid()
	_, hi := samples.Test()
	for i := lo; i < hi; i++ {
		var b graph.Batch
		_, err := samples.Read(context.Background(), i, nil, &b)
		check(t, err)
		var x []float32
		for _, u := range b.Input {
			x = append(x, table[int(u)*w.raw.Dim:int(u+1)*w.raw.Dim]...)
		}
		in := &cpu.Input{Prepared: new(cpu.Prepared), X: x}
		check(t, v.Preparer().Prepare(in.Prepared, &b))
		logits, err := v.Infer(context.Background(), in)
		check(t, err)
		see(b.Input[:b.NumSeeds()], logits)
	}
}
