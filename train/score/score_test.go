package score

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/train/recipe"
)

func TestAccuracyByHand(t *testing.T) {
	s := New(Options{recipe.MetricAccuracy, false, 2, 100})
	s.Add([]float32{1, 2, 3 /**/, 5, 2, 3 /**/, 0, 0, 1}, []int32{2, 1, -1}, nil) // right, wrong, unlabelled
	s.Add([]float32{7, 7, 0}, []int32{0}, nil)                                    // the first of equals
	if got := s.Score(); got != Score(2.0/3) {
		t.Errorf("got %v", got)
	}
	if got := s.Score(); got.Defined() {
		t.Errorf("the score of nothing is %v", got)
	}
	if _, ok := New(Options{recipe.MetricF1, false, 2, 100}).(*accuracy); !ok {
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
		{[]float32{1, 2}, []int32{1, 1}, Undefined},
		{[]float32{1, 2}, []int32{0, -1}, Undefined},
		{nil, nil, Undefined},
	} {
		s := New(Options{recipe.MetricAUC, false, 2, 100})
		for i := range c.margins {
			s.Add([]float32{1, 1 + c.margins[i]}, c.labels[i:i+1], nil)
		}
		if got := s.Score(); got != c.want && (got.Defined() || c.want.Defined()) {
			t.Errorf("margins %v of classes %v: %v, want %v", c.margins, c.labels, got, c.want)
		}
		if s.Score().Defined() {
			t.Error("the score did not start anew")
		}
	}
}

// The ranks give what comparing every pair gives.
func TestAUCComparesPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "rows")
		logits, labels := make([]float32, 2*n), make([]int32, n)
		s := New(Options{recipe.MetricAUC, false, 2, 100})
		for i := range n {
			logits[2*i], logits[2*i+1] = float32(rapid.IntRange(-3, 3).Draw(t, "l0")), float32(rapid.IntRange(-3, 3).Draw(t, "l1"))
			labels[i] = int32(rapid.IntRange(-1, 1).Draw(t, "label"))
		}
		cut := rapid.IntRange(0, n).Draw(t, "cut")
		s.Add(logits[:2*cut], labels[:cut], nil)
		s.Add(logits[2*cut:], labels[cut:], nil)
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
		want, got := won/pairs, float64(s.Score())
		if math.IsNaN(want) != math.IsNaN(got) || math.Abs(want-got) > 1e-12 {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestScoreInJSON(t *testing.T) {
	b, err := json.Marshal([]Score{0.25, Undefined, Score(math.Inf(1))})
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
		whole, first, second := New(Options{metric, false, 2, 100}), New(Options{metric, false, 2, 100}), New(Options{metric, false, 2, 100})
		parts := rapid.SliceOfN(rapid.SliceOf(rapid.IntRange(-1, 1)), 2, 2).Draw(t, "labels")
		for i, labels := range parts {
			logits := rapid.SliceOfN(rapid.Float32Range(-3, 3), 2*len(labels), 2*len(labels)).Draw(t, "logits")
			classes := make([]int32, len(labels))
			for j, y := range labels {
				classes[j] = int32(y)
			}
			whole.Add(logits, classes, nil)
			if i == 0 {
				first.Add(logits, classes, nil)
				if err := second.Load(first.State()); err != nil {
					t.Fatal(err)
				}
			} else {
				second.Add(logits, classes, nil)
			}
		}
		want, got := whole.Score(), second.Score()
		if math.Float64bits(float64(got)) != math.Float64bits(float64(want)) && (got.Defined() || want.Defined()) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	for _, metric := range []string{recipe.MetricAccuracy, recipe.MetricAUC} {
		if err := New(Options{metric, false, 2, 100}).Load(make([]byte, 19)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: 19 bytes: %v", metric, err)
		}
	}
}

func TestCountCorrect(t *testing.T) {
	correct, count := CountCorrect([]float32{1, 2, 3, 3, 0, 0, 5, 1}, []int32{1, 1, graph.Unlabelled, 0})
	if correct != 2 || count != 3 {
		t.Errorf("%d of %d", correct, count)
	}
}

// What several scorers have seen scores, joined, as what one has seen, in whatever order; more
// rows than there may be are refused.
func TestJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{Metric: rapid.SampledFrom([]string{recipe.MetricAccuracy, recipe.MetricAUC, recipe.MetricF1}).Draw(t, "metric"),
			MultiLabel: rapid.Bool().Draw(t, "multi"), Classes: 2, Rows: 20}
		whole, parts := New(o), []Scorer{New(o), New(o), New(o)}
		for range 20 {
			logits := []float32{float32(rapid.IntRange(-3, 3).Draw(t, "a")), float32(rapid.IntRange(-3, 3).Draw(t, "b"))}
			labels := []int32{int32(rapid.IntRange(0, 1).Draw(t, "label"))}
			targets := []byte{byte(rapid.IntRange(0, 3).Draw(t, "targets"))}
			whole.Add(logits, labels, targets)
			parts[rapid.IntRange(0, 2).Draw(t, "part")].Add(logits, labels, targets)
		}
		for _, p := range parts[1:] {
			if err := parts[0].Join(p.State()); err != nil {
				t.Fatal(err)
			}
		}
		more := New(Options{Metric: o.Metric, MultiLabel: o.MultiLabel, Classes: 2, Rows: 30})
		for range 21 {
			more.Add([]float32{1, 1}, []int32{0}, []byte{3}) // two decisions that F1 counts
		}
		if err := parts[0].Join(more.State()); err == nil {
			t.Fatal("21 rows more than there may be")
		}
		if got, want := parts[0].Score(), whole.Score(); got != want && (got.Defined() || want.Defined()) {
			t.Fatalf("joined %v, whole %v", got, want)
		}
	})
}
