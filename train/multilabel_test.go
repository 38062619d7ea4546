package train

import (
	"context"
	"errors"
	"strings"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/pack"
	"diskgnn/train/recipe"
	"diskgnn/train/trained"
)

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
		o := defaults()
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
			got, err := trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: o.Out, Pack: p, BLAS: "gonum", Threads: 3}, progress.Discard)
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
