package cpu

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/kernel"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// variants are models of every kind and option. Dims, dropout and orders are the
// test's.
var variants = map[string]model.Model{
	"sage":          {Kind: model.SAGE},
	"sage sum":      {Kind: model.SAGE, Aggregator: model.Sum, Activation: model.ELU},
	"sage max":      {Kind: model.SAGE, Aggregator: model.Max, InputProjection: 6},
	"sage batch":    {Kind: model.SAGE, Norm: model.BatchNorm, Residual: true},
	"gcn":           {Kind: model.GCN},
	"gcn block":     {Kind: model.GCN, GCNNorm: model.BlockNorm, Norm: model.LayerNorm, InputProjection: 4},
	"gcn layer elu": {Kind: model.GCN, Norm: model.LayerNorm, Activation: model.ELU, Residual: true},
	"gcn batch all": {Kind: model.GCN, Norm: model.BatchNorm, Residual: true, InputProjection: 7},
}

// with returns a model of these widths, which may multiply first if it can.
func with(m model.Model, order model.Order, dropout float64, dims ...int) model.Model {
	if !m.Commutes() {
		order = model.Aggregate
	}
	m.Dims, m.Dropout, m.Orders = dims, dropout, repeat(order, len(dims)-1)
	return m
}

// The gradient of every parameter agrees with central differences of the reference
// loss, for depths, orders, odd widths, dropout, destinations without edges, seed
// nodes without labels and renumbered sources; no padding is ever read.
func TestGradients(t *testing.T) {
	eachBackend(t, func(t *testing.T, lib string) {
		for i, c := range []struct {
			dims    []int
			order   model.Order
			dropout float64
			scatter bool
		}{
			{[]int{5, 3}, model.Aggregate, 0, true},
			{[]int{5, 3}, model.Multiply, 0, true},
			{[]int{1, 1, 2}, model.Aggregate, 0, false},
			{[]int{7, 6, 4}, model.Aggregate, 0.3, true},
			{[]int{7, 6, 4}, model.Multiply, 0.3, false},
			{[]int{3, 17, 5, 2}, model.Aggregate, 0.5, false},
			{[]int{3, 17, 5, 2}, model.Multiply, 0.5, true},
		} {
			o := engine.Config{Network: with(model.Model{Kind: model.SAGE}, c.order, c.dropout, c.dims...), Threads: 2, BLAS: lib, Recipe: recipe.Recipe{Seed: uint64(i)}}
			checkGradients(t, fmt.Sprintf("case %d", i), o, uint64(i), c.scatter, 1e-5)
		}
		for name, m := range variants {
			for i, order := range []model.Order{model.Aggregate, model.Multiply} {
				o := engine.Config{Network: with(m, order, 0.3, 4, 6, 3), Threads: 2, BLAS: lib, Recipe: recipe.Recipe{Seed: uint64(i)}}
				checkGradients(t, fmt.Sprintf("%s, %s first", name, order), o, uint64(i), order == model.Multiply, 1e-5)
			}
		}
	})
}

// The same for any combination of options.
func TestGradientsOfAnyModel(t *testing.T) {
	kinds := slices.DeleteFunc(model.Kinds(), func(k model.Kind) bool { return k.Has(model.HeadsOption) || k.Typed() })
	rapid.Check(t, func(t *rapid.T) {
		m := model.Model{
			Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Dropout: rapid.SampledFrom([]float64{0, 0.4}).Draw(t, "dropout"),
			Norm: rapid.SampledFrom(model.Norms).Draw(t, "norm"), Activation: rapid.SampledFrom(model.Activations).Draw(t, "activation"),
			Residual: rapid.Bool().Draw(t, "residual"), InputProjection: rapid.IntRange(0, 4).Draw(t, "projection"),
		}
		m.GCNNorm = rapid.SampledFrom(model.GCNNorms).Draw(t, "gcn norm")
		m.Aggregator = rapid.SampledFrom(model.Aggregators).Draw(t, "aggregator")
		m.ClearOthers()
		m.Dims = rapid.SliceOfN(rapid.IntRange(2, 6), 2, 4).Draw(t, "dims")
		for range m.Layers() {
			order := model.Aggregate
			if m.Commutes() {
				order = rapid.SampledFrom([]model.Order{model.Aggregate, model.Multiply}).Draw(t, "order")
			}
			m.Orders = append(m.Orders, order)
		}
		o := engine.Config{Network: m, Threads: rapid.IntRange(1, 3).Draw(t, "threads"), BLAS: blas.Gonum, Recipe: recipe.Recipe{Seed: rapid.Uint64().Draw(t, "seed"), LabelSmoothing: rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "smoothing")}}
		if rapid.Bool().Draw(t, "binary") {
			o.Loss, o.LabelSmoothing = string(model.Binary), 0
		}
		checkGradients(t, fmt.Sprintf("%+v", o), o, rapid.Uint64().Draw(t, "batch"), rapid.Bool().Draw(t, "scatter"), 1e-5)
	})
}

// fataler is what tests and rapid's have in common.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// checkGradients takes two steps, the first of which leaves its traces in the
// buffers, and compares the second.
func checkGradients(t fataler, name string, o engine.Config, seed uint64, scatter bool, tolerance float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	m := &o.Network
	s := graphtest.Shape{Seeds: 9, Classes: m.Classes(), Layers: m.Layers(), MaxDegree: 3, Fresh: 4, Unlabelled: 0.3, Scatter: scatter}
	b, other := s.Batch(rng), s.Batch(rng)
	o.Sizes, o.LR = graphtest.Roomy(b, other), 0.01
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if o.Loss == string(model.Binary) && rng.IntN(2) == 0 { // else the labels are what is meant
		b.Targets = make([]byte, 9*graph.TargetBytes(m.Classes()))
		for i := range b.Targets {
			b.Targets[i] = byte(rng.Uint32())
		}
		other.Targets = b.Targets
	}
	one := func(b *graph.Batch) (result, []float32) {
		x := graphtest.Features(b, m.Features(), rng)
		in := &Input{Prepared: new(Prepared), X: x}
		if err := e.preparer.Prepare(in.Prepared, b); err != nil {
			t.Fatal(err)
		}
		r, err := e.Step(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		return r, x[:b.Blocks[0].NumSrc*m.Features()]
	}
	e.net.poison()
	one(other)
	ref := newReference(e)
	ref.training = true
	r, x := one(b)
	var nearest float64
	ref.factors, nearest = keptUnits(t, e, b)
	wide := widen(x)
	ref.steepness = 1
	want := ref.loss(b, wide)
	// Where all of a row or column is nearly alike, a norm makes more of its rounding.
	tolerance *= ref.steepness
	if nearest < 1e-6*ref.steepness {
		return // rounding decides whether a unit is on this side of ReLU's kink
	}
	if !(math.Abs(r.Loss-want) <= tolerance*(1+math.Abs(want))) {
		t.Fatalf("%s: loss %v, reference %v", name, r.Loss, want)
	}
	compareGradients(t, name, e, ref, b, wide, tolerance)
}

// keptUnits draws the mask of the last step again: what dropout makes of ones. It also
// leaves out the units that ReLU made zero, since those that are at its kink, as a
// unit without any input is, have no derivative to compare. nearest is the value of the
// unit that is nearest to it from above.
func keptUnits(t fataler, e *Engine, b *graph.Batch) (factors [][]float64, nearest float64) {
	factors, nearest = make([][]float64, e.plan.model.Layers()), math.Inf(1)
	ids := slices.Sorted(slices.Values(b.Input)) // the order in which the input nodes are projected
	for _, k := range e.net.layers[:len(e.net.layers)-1] {
		rows, at := b.Blocks[0].NumSrc, len(factors)-1
		if k.index != model.InputLayer {
			rows, at = b.Blocks[k.index].NumDst, k.index
		}
		unit, bias := make([]float32, k.width), make([]float32, k.width)
		for i := range rows {
			for c := range unit {
				unit[c] = 1
			}
			row, data := i, i
			if k.index == model.InputLayer {
				row = int(b.Input[i])
				data, _ = slices.BinarySearch(ids, b.Input[i])
			}
			kernel.BiasReLU(unit, bias, e.net.dropout, activationOf(k).stream.Row(row))
			for _, f := range unit {
				if f != 0 && f != float32(1/(1-e.plan.model.Dropout)) {
					t.Fatalf("what dropout %v keeps is multiplied by %v", e.plan.model.Dropout, f)
				}
			}
			for c, y := range k.data[data*k.width : (data+1)*k.width] {
				if e.plan.model.Unit() != model.ReLU {
					continue
				}
				if y == 0 {
					unit[c] = 0
				} else {
					nearest = min(nearest, float64(y))
				}
			}
			factors[at] = append(factors[at], widen(unit)...)
		}
	}
	return factors, nearest
}

func compareGradients(t fataler, name string, e *Engine, ref *reference, b *graph.Batch, x []float64, tolerance float64) {
	t.Helper()
	compareDifferences(t, name, e, func(i int) []float64 { return ref.params[i] }, func() float64 { return ref.loss(b, x) }, tolerance)
}

// compareDifferences compares the engine's gradient with central differences of a
// reference's loss over its copies of the parameters, in the engine's order.
func compareDifferences(t fataler, name string, e *Engine, weights func(i int) []float64, loss func() float64, tolerance float64) {
	t.Helper()
	const h = 1e-8 // small enough that hardly a unit crosses the kink of ReLU
	at := 0
	for i, p := range e.plan.Params {
		if !p.Trained() {
			continue
		}
		w := weights(i)
		for j := range w {
			was := w[j]
			w[j] = was + h
			up := loss()
			w[j] = was - h
			down := loss()
			w[j] = was
			want, got := (up-down)/(2*h), float64(e.opt.grads[at])
			if !(math.Abs(got-want) <= tolerance+max(tolerance, 1e-4)*math.Abs(want)) {
				t.Fatalf("%s: d loss / d %s[%d] is %v, by differences %v", name, p.Name, j, got, want)
			}
			at++
		}
	}
}
