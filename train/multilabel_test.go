package train

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/pack"
	"diskgnn/train/recipe"
)

// Four rows of three classes, the last without a label; class c is bit c.
var (
	manyLogits = []float32{1, -1, 2 /**/, -1, 3, 1 /**/, -2, -3, -1 /**/, 9, 9, 9}
	manyLabelz = []int32{0, 0, 0, graph.Unlabelled}
	manyBits   = []byte{0b101, 0b110, 0b010, 0}
)

func TestMultiLabelScoresByHand(t *testing.T) {
	for _, c := range []struct {
		metric string
		want   Score
	}{
		{recipe.MetricF1, 8.0 / 9},       // 4 right, none wrong, 1 missed
		{recipe.MetricAccuracy, 2.0 / 3}, // the third row is wrong
		// Class 0: row 0 above the others, 1. Class 1: rows 1 and 2 against row 0, one of
		// them above it, 1/2. Class 2: rows 0 and 1 above row 2, 1.
		{recipe.MetricAUC, (1 + 0.5 + 1) / 3.0},
	} {
		s := newScorer(judging{c.metric, true, 3, 3})
		for range 2 { // it starts anew
			s.add(manyLogits[:3], manyLabelz[:1], manyBits[:1])
			s.add(manyLogits[3:], manyLabelz[1:], manyBits[1:])
			if got := s.score(); math.Abs(float64(got-c.want)) > 1e-15 {
				t.Errorf("%s: %v, want %v", c.metric, got, c.want)
			}
		}
		if s.score().Defined() {
			t.Errorf("%s: the score of nothing", c.metric)
		}
		s.add(nil, nil, nil)
		s.add([]float32{-1, -1, -1}, []int32{0}, []byte{0})
		if got := s.score(); got.Defined() != (c.metric == recipe.MetricAccuracy) {
			t.Errorf("%s of no classes: %v", c.metric, got)
		}
	}
}

// Wrong decisions count, too: classes that all rows have, or none, have no area.
func TestMultiLabelScoresOfWrongDecisions(t *testing.T) {
	logits, labels, bits := []float32{1, 1, -1, 1 /**/, 1, -1, -1, -1}, []int32{0, 0}, []byte{0b0001, 0b0101}
	for metric, want := range map[string]Score{
		recipe.MetricF1:       2 * 2.0 / (2*2 + 2 + 1),
		recipe.MetricAccuracy: 0,
		recipe.MetricAUC:      0.5, // of class 2 alone
	} {
		s := newScorer(judging{metric, true, 4, 4})
		if s.add(logits, labels, bits); s.score() != want {
			s.add(logits, labels, bits)
			t.Errorf("%s: %v, want %v", metric, s.score(), want)
		}
	}
}

// What a scorer has added survives its state's way through a checkpoint.
func TestMultiLabelScorersGoOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		metric := rapid.SampledFrom([]string{recipe.MetricAccuracy, recipe.MetricAUC, recipe.MetricF1}).Draw(t, "metric")
		classes := rapid.SampledFrom([]int{1, 8, 9}).Draw(t, "classes")
		j := judging{metric, true, classes, 18}
		whole, first, second := newScorer(j), newScorer(j), newScorer(j)
		for i := range 2 {
			labels := rapid.SliceOfN(rapid.Int32Range(-1, 0), 0, 9).Draw(t, "labels")
			logits := rapid.SliceOfN(rapid.Float32Range(-3, 3), classes*len(labels), classes*len(labels)).Draw(t, "logits")
			n := graph.TargetBytes(classes) * len(labels)
			bits := rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "bits")
			whole.add(logits, labels, bits)
			if i == 0 {
				first.add(logits, labels, bits)
				if err := second.load(first.state()); err != nil {
					t.Fatal(err)
				}
			} else {
				second.add(logits, labels, bits)
			}
		}
		want, got := whole.score(), second.score()
		if math.Float64bits(float64(got)) != math.Float64bits(float64(want)) && (got.Defined() || want.Defined()) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	for _, metric := range []string{recipe.MetricAccuracy, recipe.MetricAUC, recipe.MetricF1} {
		for _, state := range [][]byte{make([]byte, 19), make([]byte, 25), {0, 0, 0, 0, 0, 0, 0, 128, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0}} {
			if err := newScorer(judging{metric, true, 2, 100}).load(state); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: %d bytes: %v", metric, len(state), err)
			}
		}
	}
}

func TestLossAndMetricByTheLabels(t *testing.T) {
	one := featurestore.Facts{Classes: 3, Train: 2, BatchesPerEpoch: 2, Epochs: 1}
	many := one
	many.TargetBytes = 1
	for _, c := range []struct {
		facts        featurestore.Facts
		loss, metric string
		smoothing    float64
		want         string // loss and metric, or part of the error
	}{
		{one, "auto", "auto", 0.1, "cross-entropy accuracy"},
		{one, "binary", "f1", 0, "binary f1"},
		{one, "auto", "auc", 0, "--metric auc"},
		{one, "binary", "auto", 0.1, "--label-smoothing 0.1"},
		{many, "auto", "auto", 0, "binary f1"},
		{many, "binary", "auc", 0, "binary auc"},
		{many, "auto", "accuracy", 0, "binary accuracy"},
		{many, "auto", "auto", 0.1, "--label-smoothing 0.1"},
		{many, "cross-entropy", "auto", 0, "--loss cross-entropy"},
	} {
		o := Defaults()
		o.Loss, o.Metric, o.LabelSmoothing = c.loss, c.metric, c.smoothing
		err := o.resolve(c.facts, false)
		if strings.HasPrefix(c.want, "--") {
			if !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v", c, err)
			}
		} else if err != nil || o.Loss+" "+o.Metric != c.want {
			t.Errorf("%+v: %s %s, %v", c, o.Loss, o.Metric, err)
		}
	}
}

// A multi-label run learns, and evaluation scores its weights as it did; under any
// policy of the cache.
func TestMultiLabelRun(t *testing.T) {
	w := newWorld(t, worldParams{multi: true, classes: 9})
	for name, p := range map[string]string{"static": w.pack(10), "min": w.pack(10, policyMin)} {
		for _, metric := range []string{recipe.MetricAuto, recipe.MetricAUC} {
			o := w.options(p, func(o *Options) { o.Metric, o.Epochs, o.LR, o.Dropout = metric, 8, 0.03, 0 })
			r, losses := w.mustRun(o, nil)
			if first, last := losses[0], losses[len(losses)-1]; !(last < 0.8*first) {
				t.Errorf("%s: the loss went from %v to %v", name, first, last)
			}
			got, err := EvaluatePack(context.Background(), disk, EvalOptions{Run: o.Out, Pack: p, BLAS: "gonum", Threads: 3}, progress.Discard)
			if err != nil || got.ValidAccuracy != r.ValidAccuracy || got.TestAccuracy != r.TestAccuracy || got.Metric != r.Metric {
				t.Errorf("%s: %+v, %v; the run had %v and %v", name, got, err, r.ValidAccuracy, r.TestAccuracy)
			}
			if metric == recipe.MetricAuto && r.Metric != recipe.MetricF1 || float64(r.ValidAccuracy) < 0.4 {
				t.Errorf("%s: %s %v", name, r.Metric, r.ValidAccuracy)
			}
		}
	}
}

// The binary loss takes the class of a node as all its classes.
func TestBinaryLossOfOneClass(t *testing.T) {
	w := newWorld(t, worldParams{})
	o := w.options(w.pack(10, func(o *pack.Options) { o.DType = "bf16" }), func(o *Options) { o.Loss, o.Epochs, o.LR, o.Dropout = recipe.LossBinary, 8, 0.03, 0 })
	r, losses := w.mustRun(o, nil)
	if first, last := losses[0], losses[len(losses)-1]; !(last < 0.8*first) || r.Metric != recipe.MetricAccuracy || float64(r.ValidAccuracy) < 0.5 {
		t.Errorf("the loss went from %v to %v, %s %v", first, last, r.Metric, r.ValidAccuracy)
	}
}
