package cpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
	"diskgnn/train/recipe"
)

// eachBackend runs the test with every BLAS library and every kind of kernels that
// this machine has.
func eachBackend(t *testing.T, f func(t *testing.T, lib string)) {
	before := kernel.Kind()
	defer kernel.Use(before)
	libs := []string{blas.Gonum}
	for _, kind := range []string{blas.OpenBLAS, blas.Builtin} {
		if _, err := blas.Open(kind); err == nil {
			libs = append(libs, kind)
		}
	}
	for _, lib := range libs {
		for _, kind := range kernel.Kinds() {
			t.Run(lib+"/"+kind, func(t *testing.T) {
				if err := kernel.Use(kind); err != nil {
					t.Fatal(err)
				}
				f(t, lib)
			})
		}
	}
}

func newEngine(t testing.TB, o engine.Config) *Engine {
	t.Helper()
	if o.LR == 0 {
		o.LR = 0.01
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func input(t testing.TB, r *prepare.Preparer, b *graph.Batch, x []float32) *Input {
	t.Helper()
	in := &Input{Prepared: new(Prepared), X: x}
	if err := r.Prepare(in.Prepared, b); err != nil {
		t.Fatal(err)
	}
	return in
}

func step(t testing.TB, e *Engine, in *Input) result {
	t.Helper()
	r, err := e.Step(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func repeat(o model.Order, layers int) []model.Order { return slices.Repeat([]model.Order{o}, layers) }

// poison fills every buffer of a network with NaN: what a step then reads without
// having written it shows.
func (m *machine) poison() {
	for _, b := range m.buffers {
		for i := range b {
			b[i] = float32(math.NaN())
		}
	}
}

// held counts what a network has allocated.
func (m *machine) held() int64 {
	total := 0
	for _, b := range m.buffers {
		total += 4 * len(b)
	}
	total += 8 * len(m.wide)
	if m.loss != nil {
		total += 8*len(m.loss.rowLoss) + 8*len(m.loss.correct)
	}
	for _, k := range m.layers {
		switch c := k.conv.(type) {
		case *linear:
			total += 4 * len(c.argmax)
		case *relationAttention:
			if c.scorers != nil {
				total += 4 * len(c.scorers.relations)
			}
		}
	}
	return int64(total)
}

// large returns batches of several chunks and groups of rows.
func large(rng *rand.Rand, scatter bool) []*graph.Batch {
	s := graphtest.Shape{Seeds: 700, Classes: 5, Layers: 2, MaxDegree: 4, Fresh: 900, Unlabelled: 0.1, Scatter: scatter}
	return []*graph.Batch{s.Batch(rng), s.Batch(rng), s.Batch(rng)}
}

func bits(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i, v := range x {
		b[i] = math.Float32bits(v)
	}
	return b
}

// Neither the number of threads nor the kind of kernels changes a bit of the
// weights.
func TestThreadsAndKernelsGiveEqualBits(t *testing.T) {
	want := make(map[string][]uint32)
	eachBackend(t, func(t *testing.T, lib string) {
		for name, m := range variants {
			for _, order := range []model.Order{model.Aggregate, model.Multiply} {
				if order == model.Multiply && !m.Commutes() {
					continue
				}
				for _, threads := range []int{1, 2, 5} {
					rng := rand.New(rand.NewPCG(3, 4))
					batches := large(rng, true)[:2]
					e := newEngine(t, engine.Config{Network: with(m, order, 0.5, 20, 19, 5), Sizes: graphtest.Roomy(batches...), Threads: threads, BLAS: lib})
					for _, b := range batches {
						step(t, e, input(t, e.preparer, b, graphtest.Features(b, 20, rng)))
					}
					got, key := bits(e.opt.weights), lib+name+string(order)
					if want[key] == nil {
						want[key] = got
					}
					if !slices.Equal(got, want[key]) {
						t.Errorf("%s, %s first: %d threads with %s kernels give other weights than one with plain ones", name, order, threads, kernel.Kind())
					}
				}
			}
		}
	})
}

// Renumbering the input nodes changes no bit when the outermost layer aggregates
// first, or an input projection comes before it, and the first loss by less than 1e-5
// when it multiplies first.
func TestNumberingOfInputNodes(t *testing.T) {
	for name, m := range variants {
		for _, order := range []model.Order{model.Aggregate, model.Multiply} {
			rng := rand.New(rand.NewPCG(5, 6))
			batches := large(rng, false)
			o := engine.Config{Network: with(m, model.Aggregate, 0.4, 20, 16, 5), Sizes: graphtest.Roomy(batches...), Threads: 2}
			if m.Commutes() {
				o.Network.Orders[0] = order
			}
			exact := o.Network.Orders[0] == model.Aggregate || m.InputProjection > 0
			plain, moved := newEngine(t, o), newEngine(t, o)
			for i, b := range batches {
				x := graphtest.Features(b, 20, rng)
				permuted, y := graphtest.Shuffled(b, x, 20, rng)
				r, q := step(t, plain, input(t, plain.preparer, b, x)), step(t, moved, input(t, moved.preparer, permuted, y))
				if exact && r != q || math.Abs(r.Loss-q.Loss) > 1e-5 && i == 0 {
					t.Errorf("%s, %s first: step %d: %v, renumbered %v", name, order, i, r, q)
				}
			}
			if exact && !slices.Equal(bits(plain.opt.weights), bits(moved.opt.weights)) {
				t.Errorf("%s, %s first: other weights after renumbering", name, order)
			}
		}
	}
}

// Both orders compute the same function.
func TestOrdersAgree(t *testing.T) {
	for name, m := range variants {
		if !m.Commutes() {
			continue
		}
		rng := rand.New(rand.NewPCG(7, 8))
		b := large(rng, true)[0]
		x := graphtest.Features(b, 20, rng)
		var first result
		for i, orders := range [][]model.Order{{model.Aggregate, model.Aggregate}, {model.Multiply, model.Aggregate}, {model.Aggregate, model.Multiply}, {model.Multiply, model.Multiply}} {
			o := engine.Config{Network: with(m, model.Auto, 0.2, 20, 16, 5), Sizes: graphtest.Roomy(b)}
			o.Network.Orders = orders
			e := newEngine(t, o)
			r := step(t, e, input(t, e.preparer, b, x))
			if i == 0 {
				first = r
			}
			if math.Abs(r.Loss-first.Loss) > 1e-5 {
				t.Errorf("%s, %v: loss %v, aggregating first %v", name, orders, r.Loss, first.Loss)
			}
		}
	}
}

func TestInferMatchesReference(t *testing.T) {
	eachBackend(t, func(t *testing.T, lib string) {
		for name, m := range variants {
			for _, order := range []model.Order{model.Aggregate, model.Multiply} {
				rng := rand.New(rand.NewPCG(9, 9))
				b := graphtest.Shape{Seeds: 6, Classes: 3, Layers: 2, MaxDegree: 3, Fresh: 3}.Batch(rng)
				big := graphtest.Shape{Seeds: 600, Classes: 3, Layers: 2, MaxDegree: 9, Fresh: 50, Scatter: true}.Batch(rng)
				e := newEngine(t, engine.Config{Network: with(m, order, 0.5, 5, 8, 3), Sizes: graphtest.Roomy(b), Threads: 2, BLAS: lib})
				for range 3 { // so that running statistics get somewhere
					step(t, e, input(t, e.preparer, b, graphtest.Features(b, 5, rng)))
				}
				v, err := e.NewEvaluator(graphtest.Roomy(big))
				if err != nil {
					t.Fatal(err)
				}
				v.net.poison()
				x := graphtest.Features(big, 5, rng)
				got, err := v.Infer(context.Background(), input(t, v.preparer, big, x))
				if err != nil {
					t.Fatal(err)
				}
				want := newReference(e).logits(big, widen(x))
				if len(got) != len(want) {
					t.Fatalf("%d logits, want %d", len(got), len(want))
				}
				for i := range got {
					if !(math.Abs(float64(got[i])-want[i]) < 1e-4*(1+math.Abs(want[i]))) {
						t.Fatalf("%s, %s: logit %d is %v, reference %v", name, order, i, got[i], want[i])
					}
				}
			}
		}
	})
}

// A small batch can be learnt by heart.
func TestOverfit(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	b := graphtest.Shape{Seeds: 40, Classes: 4, Layers: 2, MaxDegree: 3, Fresh: 60}.Batch(rng)
	e := newEngine(t, engine.Config{Network: model.Model{Kind: model.SAGE, Dims: []int{16, 32, 4}}, Sizes: graphtest.Roomy(b)})
	in := input(t, e.preparer, b, graphtest.Features(b, 16, rng))
	var r result
	for range 150 {
		r = step(t, e, in)
	}
	if r.Loss > 0.05 || r.Correct != r.Count || r.Count != 40 {
		t.Errorf("after 150 steps: %+v", r)
	}
}

// One weight, one node: Adam's first two steps by hand.
func TestAdamByHand(t *testing.T) {
	o := newOptimizer(&plan{Layout: model.Layout{Offsets: []int{0, 1}, Params: make([]model.Param, 1), Trained: 1}}, device.NewArena(), &engine.Config{Recipe: recipe.Recipe{LR: 0.1}})
	p := newPool(1)
	o.weights[0], o.grads[0] = 1, 2
	o.update(p)
	// m = .2, v = .004; the corrected moments are 2 and 4: a step of the rate.
	if got := o.weights[0]; math.Abs(float64(got)-0.9) > 1e-6 {
		t.Errorf("first step leads to %v, want 0.9", got)
	}
	o.grads[0] = -1
	o.update(p)
	// m = .18−.1 = .08, /.19 = .421053; v = .003996+.001 = .004996, /.001999 = 2.499250.
	want := 0.9 - 0.1*0.42105263/math.Sqrt(2.49924962)
	if got := o.weights[0]; math.Abs(float64(got)-want) > 1e-6 {
		t.Errorf("second step leads to %v, want %v", got, want)
	}
}

func TestUnlabelledBatchHasNoGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	b := graphtest.Shape{Seeds: 5, Classes: 3, Layers: 1, MaxDegree: 3, Fresh: 4, Unlabelled: 1}.Batch(rng)
	e := newEngine(t, engine.Config{Network: model.Model{Kind: model.SAGE, Dims: []int{4, 3}}, Sizes: graphtest.Roomy(b)})
	before := snapshot(e)
	e.net.poison()
	if r := step(t, e, input(t, e.preparer, b, graphtest.Features(b, 4, rng))); r != (result{}) {
		t.Errorf("result %+v", r)
	}
	if !slices.Equal(before, e.opt.weights) || e.opt.step != 1 {
		t.Error("the weights moved, or the step does not count")
	}
}

// Going on from a saved state gives the bits of the run that was never stopped.
func TestLoadState(t *testing.T) {
	for name, m := range variants {
		rng := rand.New(rand.NewPCG(15, 16))
		b := large(rng, true)[0]
		o := engine.Config{Network: with(m, model.Auto, 0.5, 20, 16, 5), Sizes: graphtest.Roomy(b), Recipe: recipe.Recipe{Seed: 3, WeightDecay: 0.01}}
		x := graphtest.Features(b, 20, rng)
		e := newEngine(t, o)
		in := input(t, e.preparer, b, x)
		step(t, e, in)
		saved := make(map[string][]byte)
		state, err := e.State()
		if err != nil {
			t.Fatal(err)
		}
		for name, b := range state {
			saved[name] = slices.Clone(b)
		}
		weights := snapshot(e)
		want := step(t, e, in)
		again := newEngine(t, o)
		if err := again.LoadState(saved); err != nil {
			t.Fatal(err)
		}
		if got := step(t, again, input(t, again.preparer, b, x)); got != want || !slices.Equal(bits(again.opt.weights), bits(e.opt.weights)) {
			t.Errorf("%s: resumed: %+v, not interrupted: %+v", name, got, want)
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
			if err := again.LoadState(s); !errors.Is(err, fault.ErrInput) || !slices.Equal(bits(again.opt.weights), bits(e.opt.weights)) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		if err := again.Restore(weights); err != nil || !slices.Equal(snapshot(again), weights) {
			t.Errorf("%s: LoadWeights: %v", name, err)
		}
		if err := again.Restore(nil); !errors.Is(err, fault.ErrInput) {
			t.Errorf("%s: no weights: %v", name, err)
		}
	}
}

func TestParams(t *testing.T) {
	e := newEngine(t, engine.Config{Network: model.Model{Kind: model.SAGE, Dims: []int{4, 6, 3}}, Sizes: graph.Sizes{Src: []int{9, 5}, Dst: []int{5, 2}, Edges: []int{9, 4}}, Recipe: recipe.Recipe{Seed: 1}})
	var names []string
	for _, p := range e.Values() {
		names = append(names, fmt.Sprintf("%s %d×%d", p.Name, p.Rows, p.Cols))
		bound, zero := 1/math.Sqrt(float64(e.plan.model.In(p.Layer))), 0
		for _, v := range p.Data {
			if math.Abs(float64(v)) > bound {
				t.Errorf("%s: initial value %v beyond %v", p.Name, v, bound)
			}
			if v == 0 {
				zero++
			}
		}
		if len(p.Data) != p.Rows*p.Cols || zero > 0 {
			t.Errorf("%s: %d values, %d zero", p.Name, len(p.Data), zero)
		}
	}
	want := []string{"convs.0.lin_l.weight 4×6", "convs.0.lin_r.weight 4×6", "convs.0.lin_l.bias 1×6",
		"convs.1.lin_l.weight 6×3", "convs.1.lin_r.weight 6×3", "convs.1.lin_l.bias 1×3"}
	if !slices.Equal(names, want) {
		t.Errorf("parameters %q", names)
	}
	other := newEngine(t, e.opts)
	if !slices.Equal(e.opt.weights, other.opt.weights) {
		t.Error("equal seeds, other initial weights")
	}
}

// What MemoryBytes predicts is what New allocates, and Preparer.Bytes what Prepare
// does.
func TestMemoryBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	batches := large(rng, true)
	for name, m := range variants {
		for _, order := range []model.Order{model.Aggregate, model.Multiply, model.Auto} {
			o := engine.Config{Network: with(m, order, 0.5, 20, 300, 5), Sizes: graphtest.Roomy(batches...), Threads: 3, BLAS: blas.Gonum, Recipe: recipe.Recipe{LR: 0.1, Accumulate: len(name) % 4}}
			want, _, err := MemoryBytes(o)
			if err != nil {
				t.Fatal(err)
			}
			e := newEngine(t, o)
			if got := e.net.held() + 4*int64(len(e.opt.weights)+3*len(e.opt.grads)+len(e.batch)+summed(e)); got != want {
				t.Errorf("%s, %s: allocated %d bytes, predicted %d", name, order, got, want)
			}
			sizes := graph.Sizes{Src: []int{5000, 1000}, Dst: []int{1000, 100}, Edges: []int{90000, 900}} // long sums
			want, err = e.EvaluatorBytes(sizes)
			if err != nil {
				t.Fatal(err)
			}
			v, err := e.NewEvaluator(sizes)
			if err != nil {
				t.Fatal(err)
			}
			if v.net.held() != want {
				t.Errorf("%s, %s: evaluator allocated %d bytes, predicted %d", name, order, v.net.held(), want)
			}
		}
	}
}

// A step allocates what Gorgonia's machine does, a few kilobytes, whatever the batch.
func TestStepAllocatesLittle(t *testing.T) {
	if racing {
		t.Skip("the race detector allocates")
	}
	for name, m := range variants {
		rng := rand.New(rand.NewPCG(19, 20))
		b := large(rng, true)[0]
		e := newEngine(t, engine.Config{Network: with(m, model.Auto, 0.5, 20, 64, 5), Sizes: graphtest.Roomy(b), Threads: 2, Recipe: recipe.Recipe{WeightDecay: 0.1}})
		in := input(t, e.preparer, b, graphtest.Features(b, 20, rng))
		allocatesLittle(t, name, e, b, in)
	}
}

// allocatesLittle takes some steps after a first one.
func allocatesLittle(t *testing.T, name string, e *Engine, b *graph.Batch, in *Input) {
	t.Helper()
	step(t, e, in)
	const steps = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range steps {
		if err := e.preparer.Prepare(in.Prepared, b); err != nil {
			t.Fatal(err)
		}
		step(t, e, in)
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / steps; n > 16<<10 {
		t.Errorf("%s: %d bytes in %d allocations a step", name, n, (after.Mallocs-before.Mallocs)/steps)
	}
}

func TestCancel(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	b := large(rng, false)[0]
	o := engine.Config{Network: model.Model{Kind: model.SAGE, Dims: []int{20, 16, 5}, Dropout: 0.5}, Sizes: graphtest.Roomy(b)}
	x := graphtest.Features(b, 20, rng)
	e := newEngine(t, o)
	in := input(t, e.preparer, b, x)
	before := snapshot(e)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Step(ctx, in); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled step: %v", err)
	}
	if !slices.Equal(before, e.opt.weights) || e.opt.step != 0 {
		t.Error("a cancelled step left its mark")
	}
	fresh := newEngine(t, o)
	if got, want := step(t, e, in), step(t, fresh, input(t, fresh.preparer, b, x)); got != want {
		t.Errorf("after a cancelled step: %+v, want %+v", got, want)
	}
}

func TestLossNotFinite(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	b := graphtest.Shape{Seeds: 5, Classes: 3, Layers: 2, MaxDegree: 3, Fresh: 4}.Batch(rng)
	e := newEngine(t, engine.Config{Network: model.Model{Kind: model.SAGE, Dims: []int{4, 8, 3}}, Sizes: graphtest.Roomy(b)})
	before := snapshot(e)
	x := graphtest.Features(b, 4, rng)
	x[0] = float32(math.NaN())
	if _, err := e.Step(context.Background(), input(t, e.preparer, b, x)); !errors.Is(err, fault.ErrInput) {
		t.Errorf("NaN features: %v", err)
	}
	if !slices.Equal(before, e.opt.weights) {
		t.Error("the weights moved")
	}
}

func TestBadInput(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	s := graphtest.Shape{Seeds: 5, Classes: 3, Layers: 2, MaxDegree: 3, Fresh: 4}
	b := s.Batch(rng)
	e := newEngine(t, engine.Config{Network: model.Model{Kind: model.SAGE, Dims: []int{4, 8, 3}}, Sizes: graphtest.Roomy(b)})
	for name, spoil := range map[string]func(b *graph.Batch){
		"label beyond":    func(b *graph.Batch) { b.Labels[2] = 3 },
		"label negative":  func(b *graph.Batch) { b.Labels[2] = -2 },
		"source beyond":   func(b *graph.Batch) { b.Blocks[0].Indices[0] = 1 << 20 },
		"too few labels":  func(b *graph.Batch) { b.Labels = b.Labels[1:] },
		"scattered inner": func(b *graph.Batch) { b.Blocks[1].Dst = make([]uint32, b.Blocks[1].NumDst) },
		"depth":           func(b *graph.Batch) { b.Blocks = b.Blocks[:1]; b.Labels = make([]int32, b.Blocks[0].NumDst) },
		"too large": func(b *graph.Batch) {
			*b = *graphtest.Shape{Seeds: 50, Classes: 3, Layers: 2, MaxDegree: 3, Fresh: 4}.Batch(rng)
		},
	} {
		bad := s.Batch(rng)
		spoil(bad)
		if err := e.preparer.Prepare(new(Prepared), bad); !errors.Is(err, fault.ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx := context.Background()
	if _, err := e.Step(ctx, &Input{Prepared: new(Prepared)}); !errors.Is(err, fault.ErrInput) {
		t.Errorf("not prepared: %v", err)
	}
	if _, err := e.Step(ctx, input(t, e.preparer, b, make([]float32, 3))); !errors.Is(err, fault.ErrInput) {
		t.Errorf("too few features: %v", err)
	}
	v, err := e.NewEvaluator(graphtest.Roomy(b))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Step(ctx, input(t, v.preparer, b, graphtest.Features(b, 4, rng))); !errors.Is(err, fault.ErrInput) {
		t.Errorf("prepared for the evaluator: %v", err)
	}
}

func TestBadOptions(t *testing.T) {
	good := engine.Config{Network: model.Model{Kind: model.SAGE, Dims: []int{4, 3}}, Sizes: graph.Sizes{Src: []int{9}, Dst: []int{5}, Edges: []int{9}}, Recipe: recipe.Recipe{LR: 0.1}}
	for name, spoil := range map[string]func(o *engine.Config){
		"kind":     func(o *engine.Config) { o.Network.Kind = "mlp" },
		"depth":    func(o *engine.Config) { o.Network.Dims = []int{4} },
		"width":    func(o *engine.Config) { o.Network.Dims = []int{4, 0} },
		"dropout":  func(o *engine.Config) { o.Network.Dropout = 1 },
		"NaN":      func(o *engine.Config) { o.Network.Dropout = math.NaN() },
		"orders":   func(o *engine.Config) { o.Network.Orders = repeat(model.Auto, 2) },
		"order":    func(o *engine.Config) { o.Network.Orders = repeat("sideways", 1) },
		"sizes":    func(o *engine.Config) { o.Sizes.Src = nil },
		"typical":  func(o *engine.Config) { o.Typical.Src = []int{1, 2} },
		"negative": func(o *engine.Config) { o.Sizes.Edges = []int{-1} },
		"threads":  func(o *engine.Config) { o.Threads = -1 },
		"rate":     func(o *engine.Config) { o.LR = 0 },
		"library":  func(o *engine.Config) { o.BLAS = "mkl" },
	} {
		o := good
		spoil(&o)
		if _, err := New(o); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	newEngine(t, good)
}

// An engine that was closed and forgotten gives its buffers back.
func TestEngineIsCollected(t *testing.T) {
	o := engine.Config{Network: model.Model{Kind: model.SAGE, Dims: []int{4, 8, 3}}, Recipe: recipe.Recipe{LR: 0.1}}
	rng := rand.New(rand.NewPCG(27, 28))
	b := graphtest.Shape{Seeds: 5, Classes: 3, Layers: 2, MaxDegree: 3, Fresh: 4}.Batch(rng)
	o.Sizes = graphtest.Roomy(b)
	var gone [2]weak.Pointer[float32]
	func() {
		e, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		step(t, e, input(t, e.preparer, b, graphtest.Features(b, 4, rng)))
		v, err := e.NewEvaluator(o.Sizes)
		if err != nil {
			t.Fatal(err)
		}
		gone[0], gone[1] = weak.Make(&e.net.layers[0].data[0]), weak.Make(&v.net.layers[0].data[0])
		e.Close()
	}()
	for range 5 { // the machine's finalizer takes a turn of its own
		runtime.GC()
	}
	if gone[0].Value() != nil || gone[1].Value() != nil {
		t.Error("buffers of a closed engine are still held")
	}
}

// A panic on any of the workers comes out of the pool with the stack of that worker.
func TestPoolPanics(t *testing.T) {
	p := newPool(3)
	defer p.close()
	defer func() {
		v, ok := recover().(*fault.PanicError)
		if !ok || v.Value != "boom" || !strings.Contains(string(v.Stack), "cpu.(*bomb).chunk") {
			t.Errorf("recovered %+v", v)
		}
		if err := p.each(context.Background(), 5, 1, new(bomb)); err != nil { // it is usable again
			t.Error(err)
		}
	}()
	_ = p.each(context.Background(), 1000, 1, &bomb{at: 700})
}

// bomb is work that panics in one chunk, none with 0.
type bomb struct{ at int }

func (b *bomb) chunk(_, lo, _ int) {
	if lo == b.at && lo > 0 {
		panic("boom")
	}
}

// Every kind of model has a layer, and a test of its gradients: see variants.
func TestEveryKindHasALayer(t *testing.T) {
	tested := map[model.Kind]bool{gat(2, 0, 4, 3).Kind: true}
	for _, m := range variants {
		tested[m.Kind] = true
	}
	for _, m := range typedVariants {
		tested[m.Kind] = true
	}
	for _, kind := range model.Kinds() {
		if convs[kind] == nil || !tested[kind] {
			t.Errorf("%s: there is a layer: %v, and a test: %v", kind, convs[kind] != nil, tested[kind])
		}
	}
}

// A kind that the model has and the engine has not is a bug, not a layer of another kind.
func TestNoLayerOfAnUnknownKind(t *testing.T) {
	defer func() {
		if r := fmt.Sprint(recover()); r != `cpu: no layer of the kind "mlp"` {
			t.Error(r)
		}
	}()
	newConv(&layer{output: output{net: &network{plan: &plan{model: &model.Model{Kind: "mlp"}}}}})
}

// summed counts the elements of the step's sum.
func summed(e *Engine) int {
	if e.sum == nil {
		return 0
	}
	return len(e.sum.Gradients) + cap(e.sum.Statistics)
}
