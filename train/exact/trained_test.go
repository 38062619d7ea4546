package exact_test

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore/all"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pack"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
	"diskgnn/train"
	"diskgnn/train/cpu"
	"diskgnn/train/decide"
	"diskgnn/train/exact"
	"diskgnn/train/recipe"
	"diskgnn/train/score"
	"diskgnn/train/trained"
)

// The tests here train runs: package train imports exact.

// graphAndRun is a directory with a graph and a run.
type graphAndRun struct {
	dir string
	raw dataset.Raw
}

func (w *graphAndRun) path(name string) string { return filepath.Join(w.dir, name) }

func (w *graphAndRun) options() exact.Options {
	return exact.Options{Run: w.path("run"), Dataset: w.path("dataset"), Engine: decide.EngineCPU, Threads: 2, BLAS: "gonum", IO: "pread", Memory: 1 << 30}
}

// predict returns the logits of the named nodes.
func (w *graphAndRun) predict(t *testing.T, nodes string) []float32 {
	t.Helper()
	o := exact.PredictOptions{Options: w.options(), Out: w.path("out.npy"), Nodes: nodes, Force: true}
	_, err := exact.Predict(t.Context(), vfs.OS, o, progress.Discard)
	check(t, err)
	b, err := os.ReadFile(o.Out)
	check(t, err)
	_, values, _ := bytes.Cut(b, []byte("\n"))
	return slices.Clone(binio.View[float32](slices.Clone(values)))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A trained run scores the same exactly as on a pack whose evaluation batches were
// sampled with all neighbours, and its logits are the same to rounding.
func TestEqualsAllNeighboursSampled(t *testing.T) {
	raw := datasettest.Params{Nodes: 500, AvgDegree: 6, Dim: 7, Classes: 3, Seed: 6}.Raw()
	w := &graphAndRun{dir: t.TempDir(), raw: raw}
	datasettest.Create(t, w.dir, raw)
	ctx := context.Background()
	_, err := presample.Run(ctx, vfs.OS, presample.Options{Dataset: w.path("dataset"), Out: w.path("samples"), BatchSize: 32, Fanout: []int{3, 3}, EvalFanout: "all", Epochs: 1}, progress.Discard)
	check(t, err)
	_, err = pack.Run(ctx, vfs.OS, pack.Options{Dataset: w.path("dataset"), Samples: w.path("samples"), Out: w.path("pack"), Cache: &budget.Size{Value: 10, Unit: budget.UnitPercent}}, progress.Discard)
	check(t, err)
	o := train.Defaults()
	o.Stores = all.Builtin()
	o.Pack, o.Out, o.Hidden, o.Epochs, o.Threads, o.BLAS, o.Memory = w.path("pack"), w.path("run"), 8, 3, 2, "gonum", 1<<30
	trained, err := train.Run(ctx, vfs.OS, o, progress.Discard)
	check(t, err)

	e, err := exact.Evaluate(ctx, vfs.OS, w.options(), progress.Discard)
	check(t, err)
	if e.ValidAccuracy != trained.ValidAccuracy || e.TestAccuracy != trained.TestAccuracy || !e.TrainAccuracy.Defined() {
		t.Errorf("exactly %v and %v, sampled %v and %v", e.ValidAccuracy, e.TestAccuracy, trained.ValidAccuracy, trained.TestAccuracy)
	}
	logits := w.predict(t, exact.AllNodes)
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

// The whole way of a multi-label graph: what a run learns scores exactly as it did with
// all neighbours sampled, far above guessing, and predictions are its logits' signs.
func TestMultiLabel(t *testing.T) {
	w := &graphAndRun{dir: t.TempDir()}
	ctx := context.Background()
	_, err := dataset.Generate(ctx, vfs.OS, w.path("dataset"), dataset.GenerateOptions{
		Nodes: 2000, AvgDegree: 15, Dim: 32, Classes: 11, TrainRatio: 0.3, Seed: 4, MultiLabel: true,
	}, progress.Discard)
	check(t, err)
	_, err = presample.Run(ctx, vfs.OS, presample.Options{Dataset: w.path("dataset"), Out: w.path("samples"), BatchSize: 64, Fanout: []int{15, 10}, EvalFanout: "all", Epochs: 2}, progress.Discard)
	check(t, err)
	_, err = pack.Run(ctx, vfs.OS, pack.Options{Dataset: w.path("dataset"), Samples: w.path("samples"), Out: w.path("pack"), Cache: &budget.Size{Value: 10, Unit: budget.UnitPercent}}, progress.Discard)
	check(t, err)
	for _, metric := range []string{recipe.MetricF1, recipe.MetricAccuracy, recipe.MetricAUC} {
		o := train.Defaults()
		o.Stores = all.Builtin()
		o.Pack, o.Out, o.Hidden, o.Epochs, o.LR, o.Threads, o.BLAS, o.Memory = w.path("pack"), w.path("run"), 32, 15, 0.01, 2, "gonum", 1<<30
		o.Metric, o.Force, o.Dropout = metric, true, 0.2
		trained, err := train.Run(ctx, vfs.OS, o, progress.Discard)
		check(t, err)
		e, err := exact.Evaluate(ctx, vfs.OS, w.options(), progress.Discard)
		check(t, err)
		// Logits are the same to rounding, and a sign, or an order, may hang on that.
		near := func(a, b score.Score) bool { return math.Abs(float64(a-b)) < 0.01 }
		if !near(e.ValidAccuracy, trained.ValidAccuracy) || !near(e.TestAccuracy, trained.TestAccuracy) || e.Metric != metric {
			t.Errorf("%s: exactly %v and %v, sampled %v and %v", metric, e.ValidAccuracy, e.TestAccuracy, trained.ValidAccuracy, trained.TestAccuracy)
		}
		// About three of eleven classes: saying yes to all has an F1 of 0.4, to none 0.
		if least := map[string]float64{recipe.MetricF1: 0.6, recipe.MetricAccuracy: 0.2, recipe.MetricAUC: 0.8}[metric]; !(float64(e.TestAccuracy) > least && float64(e.TrainAccuracy) > least) {
			t.Errorf("%s: %v test, %v train", metric, e.TestAccuracy, e.TrainAccuracy)
		}
	}
	w.signs(t)
}

// signs compares predicted classes with predicted logits, and those of the test nodes
// with their true ones.
func (w *graphAndRun) signs(t *testing.T) {
	t.Helper()
	logits := w.predict(t, dataset.Test)
	o := exact.PredictOptions{Options: w.options(), Out: w.path("classes.npy"), Output: exact.Classes, Nodes: dataset.Test}
	c, err := exact.Predict(context.Background(), vfs.OS, o, progress.Discard)
	check(t, err)
	if c.DType != "uint8" || c.Rows != int64(len(logits)/11) || c.Columns != 11 {
		t.Errorf("%+v", c)
	}
	b, err := os.ReadFile(o.Out)
	check(t, err)
	head, values, _ := bytes.Cut(b, []byte("\n"))
	if !bytes.Contains(head, []byte("'descr': '|u1', 'fortran_order': False, 'shape': (120, 11)")) || len(values) != len(logits) {
		t.Fatalf("%d values behind %q", len(values), head)
	}
	d, err := dataset.Open(vfs.OS, w.path("dataset"))
	check(t, err)
	nodes, err := d.Split(dataset.Test)
	check(t, err)
	targets, err := d.Targets(context.Background(), nodes)
	check(t, err)
	right := 0
	for i, v := range logits {
		if has := values[i] == 1; values[i] > 1 || has != (v > 0) {
			t.Fatalf("class %d of row %d: %d, the logit is %v", i%11, i/11, values[i], v)
		}
		if (values[i] == 1) == graph.HasClass(targets[i/11*2:], i%11) {
			right++
		}
	}
	if share := float64(right) / float64(len(logits)); share < 0.8 {
		t.Errorf("%v of the decisions are right", share)
	}
}

// eachEvalBatch computes the logits of the validation and test batches, as sampled.
func (w *graphAndRun) eachEvalBatch(t *testing.T, see func(seeds []uint32, logits []float32)) {
	run, err := trained.Open(vfs.OS, w.path("run"))
	check(t, err)
	e, _, err := run.NewEngine(trained.EngineOptions{Weights: trained.WeightsBest, Threads: 2, BLAS: "gonum"}, 0, 1<<40)
	check(t, err)
	defer e.Close()
	samples, err := mbfile.Open(vfs.OS, w.path("samples"))
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
