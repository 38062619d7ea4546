package exact

import (
	"bytes"
	"context"
	"math"
	"os"
	"testing"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/pack"
	"diskgnn/presample"
	"diskgnn/train"
	"diskgnn/train/recipe"
	"diskgnn/train/score"
)

// The whole way of a multi-label graph: what a run learns scores exactly as it did with
// all neighbours sampled, far above guessing, and predictions are its logits' signs.
func TestMultiLabel(t *testing.T) {
	w := &world{dir: t.TempDir()}
	ctx := context.Background()
	_, err := dataset.Generate(ctx, disk, w.path("dataset"), dataset.GenerateOptions{
		Nodes: 2000, AvgDegree: 15, Dim: 32, Classes: 11, TrainRatio: 0.3, Seed: 4, MultiLabel: true,
	}, progress.Discard)
	check(t, err)
	_, err = presample.Run(ctx, disk, presample.Options{Dataset: w.path("dataset"), Out: w.path("samples"), BatchSize: 64, Fanout: []int{15, 10}, EvalFanout: "all", Epochs: 2}, progress.Discard)
	check(t, err)
	_, err = pack.Run(ctx, disk, pack.Options{Dataset: w.path("dataset"), Samples: w.path("samples"), Out: w.path("pack"), Cache: &budget.Size{Value: 10, Unit: budget.UnitPercent}}, progress.Discard)
	check(t, err)
	for _, metric := range []string{recipe.MetricF1, recipe.MetricAccuracy, recipe.MetricAUC} {
		o := train.Defaults()
		o.Pack, o.Out, o.Hidden, o.Epochs, o.LR, o.Threads, o.BLAS, o.Memory = w.path("pack"), w.path("run"), 32, 15, 0.01, 2, "gonum", 1<<30
		o.Metric, o.Force, o.Dropout = metric, true, 0.2
		trained, err := train.Run(ctx, disk, o, progress.Discard)
		check(t, err)
		e, err := Evaluate(ctx, disk, w.options(), progress.Discard)
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
func (w *world) signs(t *testing.T) {
	t.Helper()
	logits, p := w.predict(t, PredictOptions{Nodes: dataset.Test}, 0)
	o := PredictOptions{Options: w.options(), Out: w.path("classes.npy"), Output: Classes, Nodes: dataset.Test}
	c, err := Predict(context.Background(), disk, o, progress.Discard)
	check(t, err)
	if c.DType != "uint8" || c.Rows != p.Rows || c.Columns != 11 {
		t.Errorf("%+v", c)
	}
	b, err := os.ReadFile(o.Out)
	check(t, err)
	head, values, _ := bytes.Cut(b, []byte("\n"))
	if !bytes.Contains(head, []byte("'descr': '|u1', 'fortran_order': False, 'shape': (120, 11)")) || len(values) != len(logits) {
		t.Fatalf("%d values behind %q", len(values), head)
	}
	d, err := dataset.Open(disk, w.path("dataset"))
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
