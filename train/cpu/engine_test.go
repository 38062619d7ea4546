package cpu

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"diskgnn/graph/graphtest"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

// Backward leaves the weights as they are and returns what it found; Apply takes the step that the low-level one
// takes.
func TestBackwardThenApply(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	b := graphtest.Shape{Seeds: 40, Classes: 5, Layers: 2, MaxDegree: 4, Fresh: 30}.Batch(rng)
	x := graphtest.Features(b, 20, rng)
	config := engine.Config{Network: model.Model{Kind: model.SAGE, Dims: []int{20, 16, 5}, Dropout: 0.5}, Sizes: graphtest.Roomy(b), EvalSizes: graphtest.Roomy(b)}
	e, other := newEngine(t, config), newEngine(t, config)
	w, err := e.NewWork(false, nil)
	if err == nil {
		err = w.Prepare(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	before := snapshot(e)
	got, err := e.Backward(context.Background(), w, engine.Rows(x), engine.Place{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(snapshot(e), before) {
		t.Error("Backward changed the weights")
	}
	if err := e.Apply(); err != nil {
		t.Fatal(err)
	}
	want, err := other.Step(context.Background(), input(t, other.preparer, b, x))
	if err != nil || got.Loss != want.Loss || got.Correct != want.Correct || got.Count != want.Count || len(got.Logits) != 5*b.NumSeeds() || !slices.Equal(got.Labels, b.Labels) {
		t.Errorf("found %+v, want %+v, %v", got, want, err)
	}
	if !slices.Equal(snapshot(e), snapshot(other)) || slices.Equal(snapshot(e), before) {
		t.Error("Apply took another step")
	}
	if i := e.Info(); len(i.EvalOrders) != 2 || len(i.Orders) != 2 {
		t.Errorf("%+v", i)
	}
	if v, err := e.NewWork(true, nil); err != nil || v.(*work).by != e.eval.preparer {
		t.Errorf("a work for evaluation: %v", err)
	}
	config.EvalSizes.Src = nil
	if _, err := newEngine(t, config).NewWork(true, nil); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("a work for evaluation without sizes: %v", err)
	}
}
