package gpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/binio"
	"diskgnn/train/cpu"
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
	"sage max":      {Kind: model.SAGE, Aggregator: model.Max, InputProjection: 6, Residual: true},
	"sage batch":    {Kind: model.SAGE, Norm: model.BatchNorm, Residual: true},
	"sage projects": {Kind: model.SAGE, InputProjection: 8, Norm: model.LayerNorm},
	"gcn":           {Kind: model.GCN},
	"gcn block":     {Kind: model.GCN, GCNNorm: model.BlockNorm, Norm: model.LayerNorm, InputProjection: 4},
	"gcn layer elu": {Kind: model.GCN, Norm: model.LayerNorm, Activation: model.ELU, Residual: true},
	"gcn batch all": {Kind: model.GCN, Norm: model.BatchNorm, Residual: true, InputProjection: 7},
	"gat":           {Kind: model.GAT, Heads: 2},
	"gat all":       {Kind: model.GAT, Heads: 4, Norm: model.BatchNorm, Residual: true, InputProjection: 5, Activation: model.ReLU},
}

// onDevices runs a test on the emulated device and on a real one, where there is one.
func onDevices(t *testing.T, test func(t *testing.T, d *cuda.Device)) {
	cudatest.Everywhere(t, cudatest.Orders, test)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newEngine makes an engine whose memory is full of NaN, wherever nothing was written.
func newEngine(t testing.TB, d *cuda.Device, o engine.Config) *Engine {
	t.Helper()
	o.Device = d
	if o.LR == 0 {
		o.LR = 0.01
	}
	e, err := New(o)
	check(t, err)
	t.Cleanup(e.Close)
	check(t, e.device.Attached(e.poison))
	return e
}

// poison fills all buffers of activations and gradients with NaN.
func (e *Engine) poison() error {
	fill := func(b cuda.Buffer) {
		if b.Bytes() > 0 {
			e.train.try(e.main.Fill(b, 0xFF))
		}
	}
	for _, n := range []*machine{e.train, e.eval} {
		if n == nil {
			continue
		}
		for _, k := range n.layers {
			fill(k.data)
			fill(k.dx)
			switch c := k.conv.(type) {
			case *linear:
				for _, b := range []cuda.Buffer{c.operands, c.products, c.dA, c.dOwn, c.dy} {
					fill(b)
				}
			case *relational:
				for _, b := range []cuda.Buffer{c.self, c.dSelf, c.shift, c.dShift, c.rows, c.ownRows, c.dRows, c.dOwner, c.sums} {
					fill(b)
				}
				if c.bases > 0 {
					fill(c.means)
					fill(c.dMeans)
				}
			case *relationAttention:
				for _, b := range []cuda.Buffer{c.shift, c.dShift, c.sums, c.stacked, c.dStacked, c.dSpread, c.scorers[0], c.scorers[1], c.dScorers[0], c.dScorers[1], c.scores,
					c.dScores, c.owns, c.dOwns, c.softmax, c.dEdges, c.gathered, c.dGather, c.ownRows, c.dOwnRows} {
					fill(b)
				}
			case *attention:
				for _, b := range []cuda.Buffer{c.own, c.dOwn, c.scores, c.dScores, c.dOwns, c.stacked, c.dStacked, c.softmax, c.dEdges, c.sums, c.dSums, c.scorers, c.dScorers, c.dSpread} {
					fill(b)
				}
			}
		}
	}
	fill(e.train.loss.grad)
	fill(e.train.grads)
	for i := range e.inputs {
		fill(e.inputs[i].x)
		fill(e.inputs[i].frame)
	}
	return errors.Join(e.train.failed, e.main.Synchronize())
}

func work(t testing.TB, e *Engine, eval bool, b *graph.Batch) *Work {
	t.Helper()
	w, err := e.NewWork(eval, nil)
	check(t, err)
	check(t, w.Prepare(b))
	return w.(*Work)
}

func step(t testing.TB, e *Engine, w *Work, x []float32) *engine.Outcome {
	t.Helper()
	_, err := e.Step(context.Background(), w, engine.Rows(x))
	check(t, err)
	o, err := e.Finish()
	check(t, err)
	return o
}

func snapshot(t testing.TB, e *Engine) []float32 {
	t.Helper()
	w, err := e.Snapshot(nil)
	check(t, err)
	return w
}

func bits(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i, v := range x {
		b[i] = math.Float32bits(v)
	}
	return b
}

// distance returns the largest difference, relative to the largest of want.
func distance(got, want []float32) float64 {
	most, scale := 0.0, 1e-6
	for i, v := range want {
		scale = max(scale, math.Abs(float64(v)))
		d := math.Abs(float64(v) - float64(got[i]))
		if !(d <= math.MaxFloat64) {
			return math.Inf(1)
		}
		most = max(most, d)
	}
	return most / scale
}

// Losses, logits, gradients and statistics are the CPU engine's, for every kind of model,
// both orders, renumbered input nodes and dropout, in a bucket and beyond it.
func TestStepsLikeCPU(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		for name, m := range variants {
			for seed, order := range []model.Order{model.Aggregate, model.Multiply} {
				for _, dropout := range []float64{0, 0.4} {
					if order == model.Multiply && (m.Kind == model.GAT || !m.Commutes()) {
						continue
					}
					m.Dims, m.Dropout, m.Orders = []int{5, 12, 3}, dropout, []model.Order{order, order}
					t.Run(fmt.Sprintf("%s/%s/%v", name, order, dropout), func(t *testing.T) {
						compare(t, d, m, uint64(seed), order == model.Aggregate, 0, "")
					})
				}
			}
		}
		m := model.Model{Kind: model.SAGE, Dims: []int{5, 8, 8, 4}, Orders: []model.Order{model.Auto, model.Multiply, model.Aggregate}}
		compare(t, d, m, 9, true, 0.2, model.CrossEntropy)
		compare(t, d, m, 9, true, 0, model.Binary)
	})
}

// compare takes the same steps with both engines. Renumbered means that the outermost
// block's destinations are scattered among its sources.
func compare(t *testing.T, d *cuda.Device, m model.Model, seed uint64, scatter bool, smoothing float64, loss model.Loss) {
	t.Helper()
	compareOn(t, d, m, seed, scatter, smoothing, loss, graphtest.Shape.Batch)
}

// compareOn is compare for batches that are drawn by a function of their shape.
func compareOn(t *testing.T, d *cuda.Device, m model.Model, seed uint64, scatter bool, smoothing float64, loss model.Loss, draw func(graphtest.Shape, *rand.Rand) *graph.Batch) {
	t.Helper()
	const tolerance = 2e-5
	rng := rand.New(rand.NewPCG(seed, 2))
	s := graphtest.Shape{Seeds: 40, Classes: m.Classes(), Layers: m.Layers(), MaxDegree: 4, Fresh: 30, Unlabelled: 0.1, Scatter: scatter}
	batches := []*graph.Batch{draw(s, rng), draw(s, rng), draw(s, rng)}
	s.Seeds, s.Fresh, s.Scatter = 25, 20, !scatter
	smaller := draw(s, rng)
	batches[1] = smaller
	if loss == model.Binary {
		for _, b := range batches[1:] {
			b.Targets = make([]byte, len(b.Labels)*graph.TargetBytes(m.Classes()))
			for i := range b.Targets {
				b.Targets[i] = byte(rng.IntN(1 << m.Classes()))
			}
		}
	}
	sizes := graphtest.Roomy(batches...)
	host, err := cpu.New(engine.Config{Network: m, Sizes: sizes, Threads: 2, BLAS: blas.Gonum, Recipe: recipe.Recipe{Seed: seed, LR: 0.01, WeightDecay: 0.01, Optimizer: optimizerOf(scatter), LabelSmoothing: smoothing, Loss: string(loss)}})
	check(t, err)
	defer host.Close()
	buckets := []graph.Sizes{graphtest.Roomy(smaller)}
	gpu := newEngine(t, d, engine.Config{Network: m, Sizes: sizes, Buckets: buckets, EvalSizes: sizes, Recipe: recipe.Recipe{Seed: seed, WeightDecay: 0.01, Optimizer: optimizerOf(scatter), LabelSmoothing: smoothing, Loss: string(loss)}})
	if got := snapshot(t, gpu); !slices.Equal(bits(got), bits(hostWeights(host))) {
		t.Fatal("other initial weights")
	}
	for i, b := range append(batches, batches...) {
		// Both begin each step from the same weights; see compareMoments.
		check(t, gpu.Restore(hostWeights(host)))
		x := graphtest.Features(b, m.Features(), rng)
		want := hostStep(t, host, b, x)
		w := work(t, gpu, false, b)
		got := step(t, gpu, w, x)
		if !(math.Abs(got.Loss-want.Loss) <= tolerance) || got.Count != want.Count {
			t.Fatalf("step %d: loss %v of %d, on the CPU %v of %d", i, got.Loss, got.Count, want.Loss, want.Count)
		}
		if d := distance(got.Logits, want.Logits); !(d < tolerance) || len(got.Logits) != len(want.Logits) {
			t.Fatalf("step %d: logits differ by %v", i, d)
		}
		if !slices.Equal(got.Labels, b.Labels) || !slices.Equal(got.Targets, b.Targets) {
			t.Fatalf("step %d: labels of another batch", i)
		}
		compareMoments(t, i, gpu, host, tolerance)
	}
	if k := gpu.inputs[1].buckets; !k[0].warm || !k[1].warm {
		t.Fatal("all batches were of one bucket")
	}
	v, err := host.NewEvaluator(sizes)
	check(t, err)
	for i, b := range batches {
		check(t, gpu.Restore(hostWeights(host)))
		x := graphtest.Features(b, m.Features(), rng)
		in := &cpu.Input{Prepared: new(cpu.Prepared), X: x}
		check(t, v.Preparer().Prepare(in.Prepared, b))
		want, err := v.Infer(context.Background(), in)
		check(t, err)
		got, err := gpu.Infer(context.Background(), work(t, gpu, true, b), engine.Rows(x))
		check(t, err)
		if d := distance(got, want); !(d < tolerance) || len(got) != len(want) {
			t.Fatalf("batch %d: inferred logits differ by %v", i, d)
		}
	}
}

// compareMoments compares what Adam has summed up of the gradients, parameter by
// parameter, and the statistics that are not trained. Weights are no measure: Adam makes
// whole steps of gradients that are nothing but rounding.
func compareMoments(t *testing.T, i int, g *Engine, cpu *cpu.Engine, tolerance float64) {
	t.Helper()
	state, err := g.State()
	check(t, err)
	want, err := cpu.State()
	check(t, err)
	for _, part := range []string{engine.Moment1Part, engine.Moment2Part} {
		got, want := binio.View[float32](state[part]), binio.View[float32](want[part])
		whole := 0.0
		for _, v := range want {
			whole = max(whole, math.Abs(float64(v)))
		}
		for k, p := range g.adam.layout.Params {
			for at := g.adam.layout.Offsets[k]; p.Trained() && at < g.adam.layout.Offsets[k+1]; at++ {
				if d := math.Abs(float64(got[at]) - float64(want[at])); !(d <= tolerance*max(whole, 1e-4)) {
					t.Fatalf("step %d: %s: %s %d is %v, on the CPU %v", i, p.Name, part, at-g.adam.layout.Offsets[k], got[at], want[at])
				}
			}
		}
	}
	weights, cpuWeights := snapshot(t, g), hostWeights(cpu)
	for at := g.adam.layout.Trained; at < len(weights); at++ {
		if d := math.Abs(float64(weights[at]) - float64(cpuWeights[at])); !(d <= tolerance*max(1, math.Abs(float64(cpuWeights[at])))) {
			t.Fatalf("step %d: statistic %d is %v, on the CPU %v", i, at-g.adam.layout.Trained, weights[at], cpuWeights[at])
		}
	}
}

// Every kind of model has a layer, and is among the variants.
func TestEveryKindHasALayer(t *testing.T) {
	tested := map[model.Kind]bool{}
	for _, m := range slices.Concat(slices.Collect(maps.Values(variants)), slices.Collect(maps.Values(typedVariants))) {
		tested[m.Kind] = true
	}
	for _, kind := range model.Kinds() {
		if convolutions[kind].make == nil || !tested[kind] {
			t.Errorf("%s: there is a layer: %v, and a test: %v", kind, convolutions[kind].make != nil, tested[kind])
		}
	}
}

// A kind that the model has and the engine has not is a bug, not a layer of another kind.
func TestNoLayerOfAnUnknownKind(t *testing.T) {
	defer func() {
		if r := fmt.Sprint(recover()); r != `gpu: no layer of the kind "mlp"` {
			t.Error(r)
		}
	}()
	newConv(&layer{output: output{net: &network{plan: &plan{model: &model.Model{Kind: "mlp"}}}}})
}
