package cpu

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"diskgnn/graph/graphtest"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// Adam with weight decay, written out in float64 over the engine's own gradients.
func TestWeightDecay(t *testing.T) {
	const rate, decay = 0.01, 0.3
	for _, decoupled := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(31, 1))
		b := large(rng, true)[0]
		e := newEngine(t, engine.Config{Network: with(model.Model{Kind: model.GCN, Norm: model.BatchNorm}, model.Auto, 0, 20, 16, 5), Sizes: graphtest.Roomy(b), Recipe: recipe.Recipe{LR: rate, WeightDecay: decay, Optimizer: optimizerOf(decoupled)}})
		in := input(t, e.preparer, b, graphtest.Features(b, 20, rng))
		n := e.plan.Trained
		m, v := make([]float64, n), make([]float64, n)
		for s := 1; s <= 3; s++ {
			before := widen(e.opt.weights)
			step(t, e, in)
			for i, w := range before[:n] {
				g := float64(e.opt.grads[i]) // with Adam, decay is in it
				if decoupled {
					w -= rate * decay * w
				}
				m[i] = 0.9*m[i] + 0.1*g
				v[i] = 0.999*v[i] + 0.001*g*g
				w -= rate * m[i] / (1 - math.Pow(0.9, float64(s))) / (math.Sqrt(v[i]/(1-math.Pow(0.999, float64(s)))) + 1e-8)
				if got := float64(e.opt.weights[i]); math.Abs(got-w) > 1e-5 {
					t.Fatalf("decoupled %v: step %d: weight %d is %v, want %v", decoupled, s, i, got, w)
				}
			}
		}
	}
}

// With Adam, decay is part of the gradient: of weights, biases and norms alike.
func TestDecayIsInTheGradient(t *testing.T) {
	grads := func(decay float64) []float32 {
		rng := rand.New(rand.NewPCG(33, 1))
		b := large(rng, true)[0]
		e := newEngine(t, engine.Config{Network: with(model.Model{Kind: model.SAGE, Norm: model.LayerNorm}, model.Auto, 0.3, 20, 16, 5), Sizes: graphtest.Roomy(b), Recipe: recipe.Recipe{WeightDecay: decay}})
		w := slices.Clone(e.opt.weights)
		step(t, e, input(t, e.preparer, b, graphtest.Features(b, 20, rng)))
		if decay == 0 {
			for i, v := range w {
				e.opt.grads[i] += 0.5 * v
			}
		}
		return e.opt.grads
	}
	want, got := grads(0), grads(0.5)
	for i := range want {
		if math.Abs(float64(want[i]-got[i])) > 1e-6 {
			t.Fatalf("gradient %d is %v, want %v", i, got[i], want[i])
		}
	}
}

func TestSetLR(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 1))
	b := large(rng, true)[0]
	e := newEngine(t, engine.Config{Network: with(model.Model{Kind: model.GCN}, model.Auto, 0, 20, 16, 5), Sizes: graphtest.Roomy(b)})
	in := input(t, e.preparer, b, graphtest.Features(b, 20, rng))
	if err := e.SetLR(0); err != nil {
		t.Fatal(err)
	}
	before := snapshot(e)
	step(t, e, in)
	if !slices.Equal(before, e.opt.weights) {
		t.Error("the weights moved at rate zero")
	}
	if err := e.SetLR(0.1); err != nil {
		t.Fatal(err)
	}
	step(t, e, in)
	if slices.Equal(before, e.opt.weights) {
		t.Error("the weights did not move")
	}
	for _, rate := range []float64{-1, math.NaN(), math.Inf(1)} {
		if err := e.SetLR(rate); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("rate %v: %v", rate, err)
		}
	}
}

// Running statistics by hand: of a layer's sums 1, 3 and 5, and 2, 2 and 2.
func TestRunningStatistics(t *testing.T) {
	k := &output{width: 2, rows: 3, data: []float32{1, 2, 3, 2, 5, 2}}
	o := &norm{activation: &activation{output: k}, mean: make([]float32, 2), inverse: make([]float32, 2), variance: make([]float32, 2),
		chunkMean: []float32{3, 2}, chunk2: []float32{8, 0}, runMean: []float32{0, 1}, runVar: []float32{1, 1}}
	o.combine(3)
	follow(o.runMean, o.mean)
	follow(o.runVar, o.variance)
	for what, pair := range map[string][2][]float32{
		"mean": {o.mean, {3, 2}}, "variance": {o.variance, {4, 0}}, // unbiased: 8/2
		"inverse":          {o.inverse, {float32(1 / math.Sqrt(8.0/3+1e-5)), float32(1 / math.Sqrt(1e-5))}},
		"running mean":     {o.runMean, {0.3, 1.1}},
		"running variance": {o.runVar, {1.3, 0.9}},
	} {
		for c := range 2 {
			if math.Abs(float64(pair[0][c]-pair[1][c])) > 1e-5*(1+math.Abs(float64(pair[1][c]))) {
				t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
			}
		}
	}
}

// A step that fails leaves the running statistics as they were.
func TestStatisticsFollowStepsOnly(t *testing.T) {
	rng := rand.New(rand.NewPCG(37, 1))
	b := large(rng, true)[0]
	e := newEngine(t, engine.Config{Network: with(model.Model{Kind: model.SAGE, Norm: model.BatchNorm}, model.Auto, 0, 20, 16, 5), Sizes: graphtest.Roomy(b)})
	x := graphtest.Features(b, 20, rng)
	x[3] = float32(math.NaN())
	before := snapshot(e)
	if _, err := e.Step(t.Context(), input(t, e.preparer, b, x)); !errors.Is(err, fault.ErrInput) {
		t.Errorf("NaN features: %v", err)
	}
	if !slices.Equal(before, e.opt.weights) {
		t.Error("something moved")
	}
}

// By hand: two classes, logits 0 and log 3, so probabilities 1/4 and 3/4.
func TestLossesByHand(t *testing.T) {
	z, g := []float32{0, float32(math.Log(3))}, make([]float32, 2)
	near := func(what string, got float64, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("loss", softmax(g, z, z[1], 0, 0), math.Log(4))
	near("gradient", float64(g[0]), -0.75)
	near("smoothed loss", softmax(g, z, z[1], 0, 0.2), 0.9*math.Log(4)+0.1*math.Log(4.0/3))
	near("smoothed gradient", float64(g[0]), 0.25-0.9)
	near("smoothed gradient", float64(g[1]), 0.75-0.1)
	sum, right := logistic(g, z, -1, []byte{0b10})
	near("binary loss", sum, math.Log(2)+math.Log(4.0/3))
	near("binary gradient", float64(g[0]), 0.5)
	near("binary gradient", float64(g[1]), -0.25)
	if !right {
		t.Error("0 is no, log 3 is yes: both are right")
	}
	if one, _ := logistic(g, z, 1, nil); one != sum {
		t.Errorf("a label in place of bits: %v, want %v", one, sum)
	}
	if sum, right = logistic(g, []float32{-200, 200}, -1, []byte{0b01}); right || sum != 400 || g[0] != -1 || g[1] != 1 {
		t.Errorf("far off: %v %v %v", sum, g, right)
	}
}

func TestBadLosses(t *testing.T) {
	rng := rand.New(rand.NewPCG(39, 1))
	b := large(rng, false)[0]
	o := engine.Config{Network: with(model.Model{Kind: model.SAGE}, model.Auto, 0, 20, 5), Sizes: graphtest.Roomy(b), Recipe: recipe.Recipe{LR: 1}}
	o.Network.Dims = []int{20, 16, 5}
	o.Network.Orders = nil
	for _, spoil := range []func(o *engine.Config){
		func(o *engine.Config) { o.Loss = "hinge" },
		func(o *engine.Config) { o.LabelSmoothing = 1 },
		func(o *engine.Config) { o.LabelSmoothing = math.NaN() },
		func(o *engine.Config) { o.Loss, o.LabelSmoothing = string(model.Binary), 0.1 },
		func(o *engine.Config) { o.WeightDecay = -1 },
		func(o *engine.Config) { o.WeightDecay = math.Inf(1) },
	} {
		bad := o
		spoil(&bad)
		if _, err := New(bad); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	e := newEngine(t, o)
	b.Targets = make([]byte, b.NumSeeds())
	if _, err := e.Step(t.Context(), input(t, e.preparer, b, graphtest.Features(b, 20, rng))); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "cross-entropy") {
		t.Errorf("targets for the cross-entropy: %v", err)
	}
	b.Targets = make([]byte, 2*b.NumSeeds())
	if err := e.preparer.Prepare(new(Prepared), b); !errors.Is(err, fault.ErrInput) {
		t.Errorf("targets of too many classes: %v", err)
	}
	b.Targets = nil
}

// Two destinations at one source are refused where gradients would go astray.
func TestDestinationsAtOneSource(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 1))
	b := large(rng, true)[0]
	e := newEngine(t, engine.Config{Network: with(model.Model{Kind: model.GCN}, model.Multiply, 0, 20, 16, 5), Sizes: graphtest.Roomy(b)})
	b.Blocks[0].Dst[1] = b.Blocks[0].Dst[0]
	if err := e.preparer.Prepare(new(Prepared), b); !errors.Is(err, fault.ErrInput) {
		t.Error(err)
	}
}

// The names are those of a PyTorch module of PyTorch Geometric's layers.
func TestNames(t *testing.T) {
	m := with(variants["gcn batch all"], model.Auto, 0, 4, 6, 3)
	var names []string
	for _, p := range m.Params() {
		names = append(names, fmt.Sprint(p.Name, p.Shape))
	}
	want := []string{"lin_in.weight[7 4]", "lin_in.bias[7]",
		"convs.0.lin.weight[6 7]", "lins.0.weight[6 7]", "convs.0.bias[6]", "lins.0.bias[6]", "norms.0.weight[6]", "norms.0.bias[6]",
		"convs.1.lin.weight[3 6]", "lins.1.weight[3 6]", "convs.1.bias[3]", "lins.1.bias[3]",
		"norms.0.running_mean[6]", "norms.0.running_var[6]"}
	if !slices.Equal(names, want) {
		t.Errorf("parameters %q", names)
	}
}
