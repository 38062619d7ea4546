package train

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
	"diskgnn/train/recipe"
)

func TestAccuracyByHand(t *testing.T) {
	s := newScorer(judging{recipe.MetricAccuracy, false, 2, 100})
	s.add([]float32{1, 2, 3 /**/, 5, 2, 3 /**/, 0, 0, 1}, []int32{2, 1, -1}, nil) // right, wrong, unlabelled
	s.add([]float32{7, 7, 0}, []int32{0}, nil)                                    // the first of equals
	if got := s.score(); got != Score(2.0/3) {
		t.Errorf("got %v", got)
	}
	if got := s.score(); got.Defined() {
		t.Errorf("the score of nothing is %v", got)
	}
	if _, ok := newScorer(judging{recipe.MetricF1, false, 2, 100}).(*accuracy); !ok {
		t.Error("micro-F1 of single labels is accuracy")
	}
}

func TestAUCByHand(t *testing.T) {
	for _, c := range []struct {
		margins []float32
		labels  []int32
		want    Score
	}{
		{[]float32{1, 2, 3, 4}, []int32{0, 0, 1, 1}, 1},
		{[]float32{4, 3, 2, 1}, []int32{0, 0, 1, 1}, 0},
		{[]float32{1, 1, 1, 1}, []int32{0, 1, 0, 1}, 0.5},
		{[]float32{0.1, 0.4, 0.35, 0.8}, []int32{0, 0, 1, 1}, 0.75}, // scikit-learn's example
		{[]float32{1, 2, 2, 3}, []int32{0, 1, 0, 1}, 0.875},         // a tie counts a half
		{[]float32{9, 1, 2, -9}, []int32{-1, 0, 1, -1}, 1},          // unlabelled rows do not count
		{[]float32{1, 2}, []int32{1, 1}, undefined},
		{[]float32{1, 2}, []int32{0, -1}, undefined},
		{nil, nil, undefined},
	} {
		s := newScorer(judging{recipe.MetricAUC, false, 2, 100})
		for i := range c.margins {
			s.add([]float32{1, 1 + c.margins[i]}, c.labels[i:i+1], nil)
		}
		if got := s.score(); got != c.want && (got.Defined() || c.want.Defined()) {
			t.Errorf("margins %v of classes %v: %v, want %v", c.margins, c.labels, got, c.want)
		}
		if s.score().Defined() {
			t.Error("the score did not start anew")
		}
	}
}

// The ranks give what comparing every pair gives.
func TestAUCComparesPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "rows")
		logits, labels := make([]float32, 2*n), make([]int32, n)
		s := newScorer(judging{recipe.MetricAUC, false, 2, 100})
		for i := range n {
			logits[2*i], logits[2*i+1] = float32(rapid.IntRange(-3, 3).Draw(t, "l0")), float32(rapid.IntRange(-3, 3).Draw(t, "l1"))
			labels[i] = int32(rapid.IntRange(-1, 1).Draw(t, "label"))
		}
		cut := rapid.IntRange(0, n).Draw(t, "cut")
		s.add(logits[:2*cut], labels[:cut], nil)
		s.add(logits[2*cut:], labels[cut:], nil)
		won, pairs := 0.0, 0.0
		for i := range n {
			for j := range n {
				if labels[i] != 1 || labels[j] != 0 {
					continue
				}
				pairs++
				switch a, b := logits[2*i+1]-logits[2*i], logits[2*j+1]-logits[2*j]; {
				case a > b:
					won++
				case a == b:
					won += 0.5
				}
			}
		}
		want, got := won/pairs, float64(s.score())
		if math.IsNaN(want) != math.IsNaN(got) || math.Abs(want-got) > 1e-12 {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestScoreInJSON(t *testing.T) {
	b, err := json.Marshal([]Score{0.25, undefined, Score(math.Inf(1))})
	if err != nil || string(b) != "[0.25,null,null]" {
		t.Errorf("%s, %v", b, err)
	}
	var s []Score
	if err := json.Unmarshal(b, &s); err != nil || s[0] != 0.25 || s[1].Defined() {
		t.Errorf("%v, %v", s, err)
	}
}

// What a scorer has added survives its state's way through a checkpoint.
func TestScorersGoOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		metric := rapid.SampledFrom([]string{recipe.MetricAccuracy, recipe.MetricAUC}).Draw(t, "metric")
		whole, first, second := newScorer(judging{metric, false, 2, 100}), newScorer(judging{metric, false, 2, 100}), newScorer(judging{metric, false, 2, 100})
		parts := rapid.SliceOfN(rapid.SliceOf(rapid.IntRange(-1, 1)), 2, 2).Draw(t, "labels")
		for i, labels := range parts {
			logits := rapid.SliceOfN(rapid.Float32Range(-3, 3), 2*len(labels), 2*len(labels)).Draw(t, "logits")
			classes := make([]int32, len(labels))
			for j, y := range labels {
				classes[j] = int32(y)
			}
			whole.add(logits, classes, nil)
			if i == 0 {
				first.add(logits, classes, nil)
				if err := second.load(first.state()); err != nil {
					t.Fatal(err)
				}
			} else {
				second.add(logits, classes, nil)
			}
		}
		want, got := whole.score(), second.score()
		if math.Float64bits(float64(got)) != math.Float64bits(float64(want)) && (got.Defined() || want.Defined()) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	for _, metric := range []string{recipe.MetricAccuracy, recipe.MetricAUC} {
		if err := newScorer(judging{metric, false, 2, 100}).load(make([]byte, 19)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: 19 bytes: %v", metric, err)
		}
	}
}
