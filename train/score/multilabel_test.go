package score

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/limittest"
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
		s := New(Options{c.metric, true, 3, 3})
		for range 2 { // it starts anew
			s.Add(manyLogits[:3], manyLabelz[:1], manyBits[:1])
			s.Add(manyLogits[3:], manyLabelz[1:], manyBits[1:])
			if got := s.Score(); math.Abs(float64(got-c.want)) > 1e-15 {
				t.Errorf("%s: %v, want %v", c.metric, got, c.want)
			}
		}
		if s.Score().Defined() {
			t.Errorf("%s: the score of nothing", c.metric)
		}
		s.Add(nil, nil, nil)
		s.Add([]float32{-1, -1, -1}, []int32{0}, []byte{0})
		if got := s.Score(); got.Defined() != (c.metric == recipe.MetricAccuracy) {
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
		s := New(Options{metric, true, 4, 4})
		if s.Add(logits, labels, bits); s.Score() != want {
			s.Add(logits, labels, bits)
			t.Errorf("%s: %v, want %v", metric, s.Score(), want)
		}
	}
}

// What a scorer has added survives its state's way through a checkpoint.
func TestMultiLabelScorersGoOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		metric := rapid.SampledFrom([]string{recipe.MetricAccuracy, recipe.MetricAUC, recipe.MetricF1}).Draw(t, "metric")
		classes := rapid.SampledFrom([]int{1, 8, 9}).Draw(t, "classes")
		j := Options{metric, true, classes, 18}
		whole, first, second := New(j), New(j), New(j)
		for i := range 2 {
			labels := rapid.SliceOfN(rapid.Int32Range(-1, 0), 0, 9).Draw(t, "labels")
			logits := rapid.SliceOfN(rapid.Float32Range(-3, 3), classes*len(labels), classes*len(labels)).Draw(t, "logits")
			n := graph.TargetBytes(classes) * len(labels)
			bits := rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "bits")
			whole.Add(logits, labels, bits)
			if i == 0 {
				first.Add(logits, labels, bits)
				if err := second.Load(first.State()); err != nil {
					t.Fatal(err)
				}
			} else {
				second.Add(logits, labels, bits)
			}
		}
		want, got := whole.Score(), second.Score()
		if math.Float64bits(float64(got)) != math.Float64bits(float64(want)) && (got.Defined() || want.Defined()) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	for _, metric := range []string{recipe.MetricAccuracy, recipe.MetricAUC, recipe.MetricF1} {
		for _, state := range [][]byte{make([]byte, 19), make([]byte, 25), {0, 0, 0, 0, 0, 0, 0, 128, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0}} {
			if err := New(Options{metric, true, 2, 100}).Load(state); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: %d bytes: %v", metric, len(state), err)
			}
		}
	}
}

// slack is for what does not grow with what is counted.
const slack = 64 << 10

// A scorer takes what is planned for it, all at once: also with two classes, and with its
// state on the way to a checkpoint.
func TestScorersHoldWhatIsPlanned(t *testing.T) {
	const rows, batch = 200_000, 1000
	for _, metric := range []string{recipe.MetricAccuracy, recipe.MetricAUC, recipe.MetricF1} {
		for _, multi := range []bool{false, true} {
			j := Options{metric, multi, 2, rows}
			if multi {
				j.Classes = 9
			}
			logits, labels := make([]float32, batch*j.Classes), make([]int32, batch)
			var targets []byte
			if multi {
				targets = make([]byte, batch*graph.TargetBytes(j.Classes))
			}
			for i := range logits {
				logits[i] = float32(i * 7919 % 1009)
			}
			for i := range labels {
				if !multi {
					labels[i] = int32(i % 2)
				} else {
					graph.AddClass(targets[i*2:], i%9)
				}
			}
			var s Scorer
			use := func() {
				for range rows / batch {
					s.Add(logits, labels, targets)
				}
			}
			held, state := Bytes(j)
			got := limittest.Allocated(func() {
				s = New(j)
				for range 2 { // a score leaves room for the next
					use()
					s.Score()
				}
			})
			if got > held+slack {
				t.Errorf("%+v: %d bytes allocated, %d planned", j, got, held)
			}
			use()
			var b []byte
			if got := limittest.Allocated(func() { b = s.State() }); got > state+slack {
				t.Errorf("%+v: a state takes %d bytes, %d are planned", j, got, state)
			}
			other := New(j)
			if got := limittest.Allocated(func() {
				if err := other.Load(b); err != nil {
					t.Error(err)
				}
			}); got > slack {
				t.Errorf("%+v: to load a state takes %d bytes", j, got)
			}
			if a, b := s.Score(), other.Score(); a != b || !a.Defined() {
				t.Errorf("%+v: the score is %v, from its state %v", j, a, b)
			}
		}
	}
}
