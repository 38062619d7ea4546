package gpu

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

func someModel() model.Model {
	return model.Model{Kind: model.SAGE, Dims: []int{6, 16, 4}, Dropout: 0.5, Norm: model.BatchNorm}
}

func someBatch(rng *rand.Rand) *graph.Batch {
	return graphtest.Shape{Seeds: 40, Classes: 4, Layers: 2, MaxDegree: 4, Fresh: 30, Scatter: true}.Batch(rng)
}

// Graphs of steps, and steps asked for one after the other without waiting, give the
// bits of single launches; two runs give the same.
func TestEqualBits(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		for _, name := range []string{"sage max", "sage batch", "gcn block", "gat all"} {
			m := variants[name]
			m.Dims, m.Dropout = []int{6, 16, 4}, 0.3
			var first []float32
			var losses []float64
			for run, direct := range []bool{true, false, false} {
				rng := rand.New(rand.NewPCG(1, 2))
				batches := []*graph.Batch{someBatch(rng), someBatch(rng), someBatch(rng)}
				e := newEngine(t, d, engine.Config{Network: m, Sizes: graphtest.Roomy(batches...), Buckets: []graph.Sizes{graphtest.Roomy(batches[1])}, NoGraphs: direct})
				var found []float64
				tell := func(o *engine.Outcome, err error) {
					check(t, err)
					if o != nil {
						found = append(found, o.Loss)
					}
				}
				w := []*Work{work(t, e, false, batches[0]), work(t, e, false, batches[1])}
				for i := range 6 {
					b := batches[i%3]
					check(t, w[i%2].Prepare(b))
					tell(e.Step(context.Background(), w[i%2], engine.Rows(graphtest.Features(b, 6, rng))))
				}
				tell(e.Finish())
				if got := snapshot(t, e); run == 0 {
					first, losses = got, found
				} else if !slices.Equal(bits(got), bits(first)) || !slices.Equal(found, losses) {
					t.Errorf("%s: run %d: losses %v, before %v", name, run, found, losses)
				}
				if len(found) != 6 {
					t.Errorf("%s: %d outcomes of 6 steps", name, len(found))
				}
			}
		}
	})
}

// Renumbering the input nodes, as another cache of the pack does, changes no bit where the
// outermost layer aggregates first, or an input projection comes before it.
func TestNumberingOfInputNodes(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		for name, m := range variants {
			for _, order := range []model.Order{model.Aggregate, model.Multiply} {
				if order == model.Multiply && (m.InputProjection == 0 || m.Kind == model.GAT || !m.Commutes()) || m.Kind == model.GAT && m.InputProjection == 0 {
					continue
				}
				m.Dims, m.Dropout, m.Orders = []int{6, 16, 4}, 0.3, []model.Order{order, order}
				rng := rand.New(rand.NewPCG(5, 6))
				batches := []*graph.Batch{someBatch(rng), someBatch(rng), someBatch(rng)}
				o := engine.Config{Network: m, Sizes: graphtest.Roomy(batches...)}
				plain, moved := newEngine(t, d, o), newEngine(t, d, o)
				for i, b := range batches {
					x := graphtest.Features(b, 6, rng)
					permuted, y := graphtest.Shuffled(b, x, 6, rng)
					r, q := step(t, plain, work(t, plain, false, b), x), step(t, moved, work(t, moved, false, permuted), y)
					if r.Loss != q.Loss {
						t.Errorf("%s, %s first: step %d: loss %v, renumbered %v", name, order, i, r.Loss, q.Loss)
					}
				}
				if !slices.Equal(bits(snapshot(t, plain)), bits(snapshot(t, moved))) {
					t.Errorf("%s, %s first: other weights after renumbering", name, order)
				}
			}
		}
	})
}

// Going on from a saved state gives the bits of the run that was never stopped.
func TestLoadState(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		rng := rand.New(rand.NewPCG(3, 4))
		b := someBatch(rng)
		o := engine.Config{Network: someModel(), Sizes: graphtest.Roomy(b), Recipe: recipe.Recipe{Seed: 3, WeightDecay: 0.01}}
		x := graphtest.Features(b, 6, rng)
		e := newEngine(t, d, o)
		w := work(t, e, false, b)
		step(t, e, w, x)
		saved, err := e.State()
		check(t, err)
		saved = maps.Clone(saved)
		for name := range saved {
			saved[name] = slices.Clone(saved[name])
		}
		want := *step(t, e, w, x)
		again := newEngine(t, d, o)
		check(t, again.LoadState(saved))
		v := work(t, again, false, b)
		if got := step(t, again, v, x); got.Loss != want.Loss || !slices.Equal(bits(snapshot(t, again)), bits(snapshot(t, e))) {
			t.Errorf("resumed: %v, not interrupted: %v", got.Loss, want.Loss)
		}
		for what, spoil := range map[string]func(s map[string][]byte){
			"an empty state":  func(s map[string][]byte) { clear(s) },
			"a missing part":  func(s map[string][]byte) { delete(s, "adam.moment2") },
			"a part too many": func(s map[string][]byte) { s["momentum"] = nil },
			"a short part":    func(s map[string][]byte) { s["adam.moment1"] = s["adam.moment1"][4:] },
			"a short step":    func(s map[string][]byte) { s["adam.step"] = nil },
		} {
			s := maps.Clone(saved)
			spoil(s)
			if err := again.LoadState(s); !errors.Is(err, fault.ErrInput) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := again.Restore(nil); !errors.Is(err, fault.ErrInput) {
			t.Errorf("no weights: %v", err)
		}
	})
}

func TestSetLR(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		rng := rand.New(rand.NewPCG(5, 4))
		b := someBatch(rng)
		e := newEngine(t, d, engine.Config{Network: model.Model{Kind: model.GCN, Dims: []int{6, 16, 4}}, Sizes: graphtest.Roomy(b)})
		w, x := work(t, e, false, b), graphtest.Features(b, 6, rng)
		before := snapshot(t, e)
		for range 4 { // the last ones are graphs
			check(t, e.SetLR(0))
			step(t, e, w, x)
		}
		if !slices.Equal(snapshot(t, e), before) {
			t.Error("the weights moved at rate zero")
		}
		check(t, e.SetLR(0.1))
		if step(t, e, w, x); slices.Equal(snapshot(t, e), before) {
			t.Error("the weights did not move")
		}
		if err := e.SetLR(math.NaN()); !errors.Is(err, fault.ErrUsage) {
			t.Error(err)
		}
	})
}

func TestRefusals(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		rng := rand.New(rand.NewPCG(7, 4))
		b := someBatch(rng)
		sizes := graphtest.Roomy(b)
		good := engine.Config{Network: someModel(), Sizes: sizes, Device: d, Recipe: recipe.Recipe{LR: 0.1}}
		for what, spoil := range map[string]func(o *engine.Config){
			"no model": func(o *engine.Config) { o.Network.Dims = nil },
			"gat's products": func(o *engine.Config) {
				o.Network = model.Model{Kind: model.GAT, Heads: 2, Dims: []int{6, 16, 4}, Orders: []model.Order{model.Multiply, model.Auto}}
			},
			"no rate":          func(o *engine.Config) { o.LR = 0 },
			"a negative decay": func(o *engine.Config) { o.WeightDecay = -1 },
			"an unknown loss":  func(o *engine.Config) { o.Loss = "hinge" },
			"no sizes":         func(o *engine.Config) { o.Sizes = graph.Sizes{} },
			"a large bucket":   func(o *engine.Config) { o.Buckets = []graph.Sizes{graphtest.Roomy(b)}; o.Buckets[0].Edges[1]++ },
			"a smaller bucket": func(o *engine.Config) { o.Buckets = []graph.Sizes{sizes, graphtest.Roomy(b)}; o.Buckets[1].Edges[0]-- },
			"sizes of one":     func(o *engine.Config) { o.EvalSizes = graph.Sizes{Src: []int{1}, Dst: []int{1}, Edges: []int{1}} },
		} {
			o := good
			spoil(&o)
			if e, err := New(o); !errors.Is(err, fault.ErrUsage) {
				t.Errorf("%s: %v, %v", what, e, err)
			}
		}
		e := newEngine(t, d, good)
		w, x := work(t, e, false, b), graphtest.Features(b, 6, rng)
		if _, err := e.NewWork(true, nil); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("evaluation without sizes: %v", err)
		}
		if _, err := e.Step(context.Background(), w, engine.Rows(x[:7])); !errors.Is(err, fault.ErrInput) {
			t.Errorf("few features: %v", err)
		}
		unprepared, err := e.NewWork(false, nil)
		check(t, err)
		if _, err := e.Step(context.Background(), unprepared, engine.Rows(x)); !errors.Is(err, fault.ErrInput) {
			t.Errorf("not prepared: %v", err)
		}
		ended, end := context.WithCancel(context.Background())
		end()
		if _, err := e.Step(ended, w, engine.Rows(x)); !errors.Is(err, context.Canceled) {
			t.Errorf("ended: %v", err)
		}
		x[0] = float32(math.NaN())
		_, err = e.Step(context.Background(), w, engine.Rows(x))
		check(t, err)
		if o, err := e.Finish(); !errors.Is(err, fault.ErrInput) || !math.IsNaN(o.Loss) {
			t.Errorf("NaN: %v, %v", o, err)
		}
	})
}
