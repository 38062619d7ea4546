package cpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// steps are batches whose seed nodes have labels in different numbers, one of them in none.
func steps(rng *rand.Rand) (batches []*graph.Batch, xs [][]float32) {
	for _, unlabelled := range []int{0, 5, 30, 12, 1} {
		b := graphtest.Shape{Seeds: 30, Classes: 5, Layers: 2, MaxDegree: 4, Fresh: 20}.Batch(rng)
		for i := range unlabelled {
			b.Labels[i] = graph.Unlabelled
		}
		batches, xs = append(batches, b), append(xs, graphtest.Features(b, 20, rng))
	}
	return batches, xs
}

func prepared(t testing.TB, e *Engine, b *graph.Batch) engine.Work {
	t.Helper()
	w, err := e.NewWork(false, nil)
	if err == nil {
		err = w.Prepare(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestStepOfBatches: a step's gradient is the mean, over all labelled seed nodes of its batches, of
// what each batch by itself has: computed in float64 from engines that take one batch a step.
// The running statistics follow one batch after the other. An epoch's last step has fewer.
func TestStepOfBatches(t *testing.T) {
	for name, c := range map[string]struct {
		m    model.Model
		loss string
	}{
		"sage": {model.Model{Kind: model.SAGE, Dims: []int{20, 16, 5}, Dropout: 0.5, Norm: model.BatchNorm}, recipe.LossCrossEntropy},
		"gcn":  {model.Model{Kind: model.GCN, Dims: []int{20, 16, 5}, GCNNorm: model.BlockNorm}, recipe.LossBinary},
		"gat":  {model.Model{Kind: model.GAT, Dims: []int{20, 16, 5}, Heads: 4, Dropout: 0.3, Norm: model.BatchNorm}, recipe.LossCrossEntropy},
	} {
		rng := rand.New(rand.NewPCG(8, 1))
		batches, xs := steps(rng)
		config := engine.Config{Network: c.m, Sizes: graphtest.Roomy(batches...), Recipe: recipe.Recipe{LR: 0.01, Seed: 3, Loss: c.loss}}
		several := config
		several.Accumulate = 3
		e := newEngine(t, several)
		for at := 0; at < len(batches); at += 3 {
			end := min(at+3, len(batches))
			running := widen(snapshot(e)[e.plan.Trained:])
			gradient, labelled := make([]float64, e.plan.Trained), 0.0
			for b := at; b < end; b++ {
				one := newEngine(t, config)
				if err := one.Restore(snapshot(e)); err != nil {
					t.Fatal(err)
				}
				place := engine.Place{Epoch: 2, Batch: b}
				want, err := one.Backward(context.Background(), prepared(t, one, batches[b]), engine.Rows(xs[b]), place)
				if err != nil {
					t.Fatal(err)
				}
				for i, g := range one.opt.grads {
					gradient[i] += float64(g) * float64(want.Count)
				}
				labelled += float64(want.Count)
				for i, v := range one.batch {
					running[i] += 0.1 * (float64(v) - running[i])
				}
				got, err := e.Backward(context.Background(), prepared(t, e, batches[b]), engine.Rows(xs[b]), place)
				if err != nil || got.Loss != want.Loss || got.Count != want.Count {
					t.Fatalf("%s: batch %d: %+v, want %+v, %v", name, b, got, want, err)
				}
			}
			before := snapshot(e)
			if err := e.Apply(); err != nil {
				t.Fatal(err)
			}
			for i, g := range gradient {
				if want := g / labelled; math.Abs(float64(e.opt.grads[i])-want) > 1e-5*(1e-2+math.Abs(want)) {
					t.Fatalf("%s, batches %d to %d: gradient %d is %v, want %v", name, at, end, i, e.opt.grads[i], want)
				}
			}
			after := snapshot(e)
			for i, want := range running {
				if got := float64(after[e.plan.Trained+i]); math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
					t.Fatalf("%s: running statistic %d is %v, want %v", name, i, got, want)
				}
			}
			if slices.Equal(before, after) {
				t.Errorf("%s: the weights did not move", name)
			}
		}
		if e.opt.step != 2 {
			t.Errorf("%s: %d steps", name, e.opt.step)
		}
	}
}

// TestContributions: steps of contributions that the caller sums have the bits of those that the
// engine sums.
func TestContributions(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 2))
	batches, xs := steps(rng)
	m := model.Model{Kind: model.SAGE, Dims: []int{20, 16, 5}, Dropout: 0.5, Norm: model.BatchNorm}
	run := func(apart bool) string {
		e := newEngine(t, engine.Config{Network: m, Sizes: graphtest.Roomy(batches...), Apart: apart, Recipe: recipe.Recipe{LR: 0.01, WeightDecay: 0.1, Accumulate: 3}})
		layout := m.Layout()
		sum, c := engine.NewSum(device.NewArena(), &layout, 3), make([]float32, layout.Count())
		for b := range batches {
			o, err := e.Backward(context.Background(), prepared(t, e, batches[b]), engine.Rows(xs[b]), engine.Place{Batch: b})
			if err == nil && apart {
				err = e.Contribution(c)
				sum.Add(c[:layout.Trained], c[layout.Trained:], o.Count)
			}
			if b%3 == 2 || b == len(batches)-1 {
				if apart {
					err = errors.Join(err, e.ApplySum(sum))
					sum.Reset()
				} else {
					err = errors.Join(err, e.Apply())
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return fmt.Sprint(bits(snapshot(e)))
	}
	if run(true) != run(false) {
		t.Error("other weights")
	}
}

// TestStepIsDropped: a batch that fails takes the step's earlier batches with it.
func TestStepIsDropped(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 3))
	batches, xs := steps(rng)
	e := newEngine(t, engine.Config{Network: model.Model{Kind: model.SAGE, Dims: []int{20, 16, 5}}, Sizes: graphtest.Roomy(batches...), Recipe: recipe.Recipe{LR: 0.01, Accumulate: 2}})
	other := newEngine(t, e.opts)
	backward := func(e *Engine, b int, ctx context.Context) error {
		_, err := e.Backward(ctx, prepared(t, e, batches[b]), engine.Rows(xs[b]), engine.Place{Batch: b})
		return err
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := errors.Join(backward(e, 0, context.Background())); err != nil {
		t.Fatal(err)
	}
	if err := backward(e, 1, ended); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for _, e := range []*Engine{e, other} {
		if err := errors.Join(backward(e, 1, context.Background()), backward(e, 3, context.Background()), e.Apply()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(snapshot(e), snapshot(other)) {
		t.Error("the batch before the failure is in the next step")
	}
}

// TestStepRefuses: what is out of turn.
func TestStepRefuses(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 4))
	batches, xs := steps(rng)
	config := engine.Config{Network: model.Model{Kind: model.SAGE, Dims: []int{20, 16, 5}}, Sizes: graphtest.Roomy(batches...), Recipe: recipe.Recipe{LR: 0.01, Accumulate: 1}}
	config.Apart = true
	e := newEngine(t, config)
	layout := config.Network.Layout()
	sum := engine.NewSum(device.NewArena(), &layout, 1)
	sum.Gradients = sum.Gradients[1:]
	for what, got := range map[string]error{
		"Apply of what is kept apart": e.Apply(), "a short contribution": e.Contribution(make([]float32, 3)), "a short sum": e.ApplySum(sum),
	} {
		if !errors.Is(got, fault.ErrUsage) && !errors.Is(got, fault.ErrInput) {
			t.Errorf("%s: %v", what, got)
		}
	}
	config.Apart, config.Accumulate = false, 2
	e = newEngine(t, config)
	for b := range 3 {
		_, err := e.Backward(context.Background(), prepared(t, e, batches[b]), engine.Rows(xs[b]), engine.Place{Batch: b})
		if (err != nil) != (b == 2) || err != nil && !errors.Is(err, fault.ErrUsage) {
			t.Errorf("batch %d of a step of two: %v", b, err)
		}
	}
}
