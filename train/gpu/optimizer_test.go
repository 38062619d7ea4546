package gpu

import (
	"context"
	"math"
	"math/rand/v2"
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

// parts returns a state's weights and moments.
func parts(t testing.TB, e *Engine) (weights, moment1, moment2 []float32) {
	t.Helper()
	s, err := e.State()
	check(t, err)
	return binio.View[float32](s[engine.WeightsPart]), binio.View[float32](s[engine.Moment1Part]), binio.View[float32](s[engine.Moment2Part])
}

// TestWeightDecay: steps of Adam and AdamW, written out in float64 over the engine's own
// moments: AdamW shrinks all that is trained by the rate times the decay, with Adam the
// decay is a part of the gradient.
func TestWeightDecay(t *testing.T) {
	const rate, decay = 0.01, 0.3
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		first := make(map[float64][]float32) // moments after a step of Adam, by decay
		for _, o := range []engine.Config{{}, {Recipe: recipe.Recipe{WeightDecay: decay}}, {Recipe: recipe.Recipe{WeightDecay: decay, Optimizer: recipe.OptimizerAdamW}}} {
			rng := rand.New(rand.NewPCG(5, 6))
			b := someBatch(rng)
			decoupled := o.Optimizer == recipe.OptimizerAdamW
			o.Network, o.Sizes, o.LR, o.Seed = someModel(), graphtest.Roomy(b), rate, 2
			e := newEngine(t, d, o)
			w, x := work(t, e, false, b), graphtest.Features(b, 6, rng)
			n := e.adam.layout.Trained
			before, m, v := parts(t, e)
			for i := range m {
				if m[i] != 0 || v[i] != 0 {
					t.Fatalf("moments %d are %v and %v at first", i, m[i], v[i])
				}
			}
			start := before
			for k := 1; k <= 4; k++ { // the last ones are graphs
				step(t, e, w, x)
				after, m, v := parts(t, e)
				for i := range n {
					want := float64(before[i])
					if decoupled {
						want *= 1 - rate*decay
					}
					want -= rate * float64(m[i]) / (1 - math.Pow(0.9, float64(k))) / (math.Sqrt(float64(v[i])/(1-math.Pow(0.999, float64(k)))) + 1e-8)
					if !(math.Abs(float64(after[i])-want) < 1e-5) {
						t.Fatalf("decay %v, decoupled %v, step %d: weight %d went from %v to %v, want %v", o.WeightDecay, decoupled, k, i, before[i], after[i], want)
					}
				}
				if k == 1 && !decoupled {
					first[o.WeightDecay] = m
				}
				before = after
			}
			if o.WeightDecay == 0 || decoupled {
				continue
			}
			for i := range n {
				if got, want := float64(first[decay][i]-first[0][i]), 0.1*decay*float64(start[i]); !(math.Abs(got-want) < 1e-6) {
					t.Fatalf("decay adds %v to moment %d of weight %v, want %v", got, i, start[i], want)
				}
			}
		}
	})
}

// TestEvaluationFollowsSteps: after each step batch norm's statistics are the CPU engine's,
// and so are logits inferred by them, without weights being loaded in between. The rate is
// zero, so that no weight moves but the statistics.
func TestEvaluationFollowsSteps(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		for _, name := range []string{"sage batch", "gat all"} {
			m := variants[name]
			m.Dims, m.Dropout = []int{6, 16, 4}, 0.3
			rng := rand.New(rand.NewPCG(8, 6))
			batches := []*graph.Batch{someBatch(rng), someBatch(rng), someBatch(rng)}
			sizes := graphtest.Roomy(batches...)
			host, err := cpu.New(engine.Config{Network: m, Sizes: sizes, Threads: 1, BLAS: blas.Gonum, Recipe: recipe.Recipe{Seed: 4, LR: 0.01}})
			check(t, err)
			defer host.Close()
			check(t, host.SetLR(0))
			judge, err := host.NewEvaluator(sizes)
			check(t, err)
			e := newEngine(t, d, engine.Config{Network: m, Sizes: sizes, EvalSizes: sizes, Recipe: recipe.Recipe{Seed: 4}})
			check(t, e.SetLR(0))
			eval := work(t, e, true, batches[0])
			x := graphtest.Features(batches[0], 6, rng)
			var before []float32
			for i, b := range batches {
				y := graphtest.Features(b, 6, rng)
				hostStep(t, host, b, y)
				_, err = e.Step(context.Background(), work(t, e, false, b), engine.Rows(y))
				check(t, err)

				in := &cpu.Input{Prepared: new(cpu.Prepared), X: x}
				check(t, judge.Preparer().Prepare(in.Prepared, batches[0]))
				want, err := judge.Infer(context.Background(), in)
				check(t, err)
				got, err := e.Infer(context.Background(), eval, engine.Rows(x))
				check(t, err)
				if d := distance(got, want); !(d < 2e-5) {
					t.Fatalf("%s: after step %d the logits differ by %v", name, i, d)
				}
				if d := distance(snapshot(t, e), hostWeights(host)); !(d < 2e-5) {
					t.Fatalf("%s: after step %d the statistics differ by %v", name, i, d)
				}
				if before != nil && distance(got, before) < 1e-3 {
					t.Fatalf("%s: step %d changed no statistic", name, i)
				}
				before = append(before[:0], got...)
			}
			_, err = e.Finish()
			check(t, err)
		}
	})
}

// TestRunningStatistics: they follow the batches' by a tenth, written out in float64, from
// zero and one; a batch's variance is the unbiased one (PyTorch's BatchNorm1d). The layer's
// sums are the features themselves: one source each, weights of one.
func TestRunningStatistics(t *testing.T) {
	const rows, width = 9, 3
	e := newEngine(t, cudatest.Open(t), engine.Config{Network: model.Model{Kind: model.SAGE, Dims: []int{width, width, 2}, Norm: model.BatchNorm, Aggregator: model.Sum},
		Sizes: graph.Sizes{Src: []int{rows, rows}, Dst: []int{rows, 1}, Edges: []int{rows, 1}}})
	b := &graph.Batch{Blocks: make([]graph.Block, 2), Labels: []int32{1}}
	b.Blocks[0] = graph.Block{NumSrc: rows, NumDst: rows, Indptr: []uint32{0}}
	for i := range uint32(rows) {
		b.Blocks[0].Indices, b.Blocks[0].Indptr = append(b.Blocks[0].Indices, i), append(b.Blocks[0].Indptr, i+1)
		b.Input, b.Degree = append(b.Input, i), append(b.Degree, 1)
	}
	b.Blocks[1] = graph.Block{NumSrc: rows, NumDst: 1, Indptr: []uint32{0, 1}, Indices: []uint32{4}}
	check(t, e.SetLR(0))
	weights := snapshot(t, e)
	at := func(role model.Role) []float32 {
		lo, hi := e.adam.layout.Span(0, role, role)
		return weights[lo:hi]
	}
	for _, role := range []model.Role{model.Neighbour, model.Self, model.Bias} {
		clear(at(role))
	}
	for c := range width {
		at(model.Neighbour)[c*width+c] = 1
	}
	check(t, e.Restore(weights))
	mean, variance := make([]float64, width), []float64{1, 1, 1}
	rng := rand.New(rand.NewPCG(1, 6))
	for k := range 5 {
		x := graphtest.Features(b, width, rng)
		step(t, e, work(t, e, false, b), x)
		weights = snapshot(t, e)
		for c := range width {
			m, v := 0.0, 0.0
			for i := range rows {
				m += float64(x[i*width+c]) / rows
			}
			for i := range rows {
				v += (float64(x[i*width+c]) - m) * (float64(x[i*width+c]) - m) / (rows - 1)
			}
			mean[c], variance[c] = 0.9*mean[c]+0.1*m, 0.9*variance[c]+0.1*v
			if got := float64(at(model.RunningMean)[c]); math.Abs(got-mean[c]) > 1e-6 {
				t.Errorf("step %d: the running mean of column %d is %v, want %v", k, c, got, mean[c])
			}
			if got := float64(at(model.RunningVar)[c]); math.Abs(got-variance[c]) > 1e-6 {
				t.Errorf("step %d: the running variance of column %d is %v, want %v", k, c, got, variance[c])
			}
		}
	}
}
