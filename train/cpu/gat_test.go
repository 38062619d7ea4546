package cpu

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/kernel"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// gatReference is GATConv written out in float64, an edge at a time, in PyTorch
// Geometric's order of operations.
type gatReference struct {
	m       *model.Model
	params  map[string][]float64
	factors [][]float64 // per hidden layer, of every unit: 0 dropped, 1/(1−p) kept; nil for ones
}

func newGATReference(e *Engine) *gatReference {
	r := &gatReference{m: e.plan.model, params: map[string][]float64{}}
	for _, p := range e.Values() {
		r.params[p.Name] = widen(p.Data)
	}
	return r
}

// linear returns the product of rows of x with a weight, where there is one.
func (r *gatReference) linear(x []float64, in, out int, name string) []float64 {
	w, rows := r.params[name], len(x)/in
	y := make([]float64, rows*out)
	for i := range rows {
		for k := range in {
			for c := range out {
				y[i*out+c] += x[i*in+k] * w[k*out+c]
			}
		}
	}
	return y
}

func (r *gatReference) layer(l int, b *graph.Block, x []float64) []float64 {
	in, out, heads, part := r.m.In(l), r.m.Out(l), r.m.Heads, r.m.HeadWidth(l)
	name := fmt.Sprintf("convs.%d.", l)
	h := r.linear(x, in, heads*part, name+"lin.weight")
	asrc, adst, bias := r.params[name+"att_src"], r.params[name+"att_dst"], r.params[name+"bias"]
	z := make([]float64, b.NumDst*out)
	for i := range b.NumDst {
		self := b.DstPos(i)
		var sources []int
		for _, s := range b.Indices[b.Indptr[i]:b.Indptr[i+1]] {
			if int(s) != self {
				sources = append(sources, int(s))
			}
		}
		sources = append(sources, self)
		for k := range heads {
			score, sum := make([]float64, len(sources)), 0.0
			for e, s := range sources {
				for c := range part {
					score[e] += asrc[k*part+c]*h[s*heads*part+k*part+c] + adst[k*part+c]*h[self*heads*part+k*part+c]
				}
				if score[e] < 0 {
					score[e] *= 0.2
				}
				sum += math.Exp(score[e])
			}
			for e, s := range sources {
				for c := range part {
					v := math.Exp(score[e]) / sum * h[s*heads*part+k*part+c]
					if l == r.m.Layers()-1 {
						z[i*out+c] += v / float64(heads)
					} else {
						z[i*out+k*part+c] += v
					}
				}
			}
		}
		for c := range out {
			z[i*out+c] += bias[c]
		}
		if r.m.Residual {
			more := r.linear(x[self*in:(self+1)*in], in, out, fmt.Sprintf("lins.%d.weight", l))
			for c := range out {
				z[i*out+c] += more[c] + r.params[fmt.Sprintf("lins.%d.bias", l)][c]
			}
		}
	}
	return z
}

func (r *gatReference) logits(b *graph.Batch, x []float64) []float64 {
	if d := r.m.InputProjection; d > 0 {
		x = r.linear(x, r.m.Features(), d, "lin_in.weight")
		for i := range x {
			x[i] = max(0, x[i]+r.params["lin_in.bias"][i%d])
		}
	}
	for l := range b.Blocks {
		x = r.layer(l, &b.Blocks[l], x)
		if l == len(b.Blocks)-1 {
			break
		}
		for i, v := range x {
			if v < 0 {
				x[i] = math.Expm1(v)
			}
			if r.factors != nil {
				x[i] *= r.factors[l][i]
			}
		}
	}
	return x
}

func (r *gatReference) loss(b *graph.Batch, x []float64) float64 {
	return plainLoss(b, r.logits(b, x), r.m.Classes())
}

// plainLoss is the mean cross-entropy of the labelled seed nodes.
func plainLoss(b *graph.Batch, z []float64, classes int) float64 {
	loss, labelled := 0.0, 0
	for i, y := range b.Labels {
		if y == graph.Unlabelled {
			continue
		}
		labelled++
		sum := 0.0
		for c := range classes {
			sum += math.Exp(z[i*classes+c])
		}
		loss += math.Log(sum) - z[i*classes+int(y)]
	}
	return loss / float64(max(1, labelled))
}

// drawnUnits returns the factors of the last step's dropout.
func drawnUnits(e *Engine, b *graph.Batch) [][]float64 {
	var factors [][]float64
	for l := range b.Blocks[:len(b.Blocks)-1] {
		k := e.net.layers[len(e.net.layers)-len(b.Blocks)+l]
		f := slices.Repeat([]float32{1}, b.Blocks[l].NumDst*k.width)
		for i := range b.Blocks[l].NumDst {
			kernel.BiasReLU(f[i*k.width:(i+1)*k.width], make([]float32, k.width), e.net.dropout, activationOf(k).key(i))
		}
		factors = append(factors, widen(f))
	}
	return factors
}

func gat(heads int, dropout float64, dims ...int) model.Model {
	return model.Model{Kind: model.GAT, Dims: dims, Heads: heads, Dropout: dropout}
}

// residual adds residuals and, of a width above zero, an input projection.
func residual(m model.Model, projection int) model.Model {
	m.Residual, m.InputProjection = true, projection
	return m
}

// inOrder returns a model whose layers take the orders in turn.
func inOrder(m model.Model, orders ...model.Order) model.Model {
	m.Orders = nil
	for l := range m.Layers() {
		m.Orders = append(m.Orders, orders[l%len(orders)])
	}
	return m
}

// bothOrders are the orders that GAT's tests go through.
var bothOrders = []model.Order{model.Aggregate, model.Multiply}

// The gradient of every parameter agrees with central differences of the reference
// loss, for orders, depths, heads, odd widths, dropout, destinations without edges, edges from
// a node to itself and repeated ones; no padding is ever read.
func TestGATGradients(t *testing.T) {
	eachBackend(t, func(t *testing.T, lib string) {
		for i, c := range []struct {
			m         model.Model
			scatter   bool
			maxDegree int
		}{
			{gat(1, 0, 5, 3), true, 3},
			{gat(2, 0, 5, 3), false, 3},
			{gat(1, 0, 1, 1, 2), false, 3},
			{gat(2, 0.3, 7, 6, 4), true, 3},
			{gat(8, 0.5, 3, 16, 2), true, 3},
			{gat(3, 0, 4, 6, 3, 2), false, 70}, // more edges than a run
			{residual(gat(2, 0.3, 7, 6, 4), 0), true, 3},
			{residual(gat(2, 0, 7, 6, 4), 5), true, 3},
			{inOrder(gat(1, 0, 5, 3), model.Multiply), true, 3},
			{inOrder(gat(2, 0, 5, 3), model.Multiply), false, 3},
			{inOrder(gat(1, 0, 1, 1, 2), model.Multiply), false, 3},
			{inOrder(gat(2, 0.3, 7, 6, 4), model.Multiply), true, 3},
			{inOrder(gat(8, 0.5, 3, 16, 2), model.Multiply, model.Aggregate), true, 3},
			{inOrder(gat(8, 0.5, 3, 16, 2), model.Aggregate, model.Multiply), true, 3},
			{inOrder(gat(3, 0, 4, 6, 3, 2), model.Multiply), false, 70},
			{inOrder(residual(gat(2, 0.3, 7, 6, 4), 0), model.Multiply), true, 3},
			{inOrder(residual(gat(2, 0, 7, 6, 4), 5), model.Multiply), true, 3},
		} {
			if c.m.Orders == nil {
				c.m = inOrder(c.m, model.Aggregate)
			}
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			s := graphtest.Shape{Seeds: 9, Classes: c.m.Classes(), Layers: c.m.Layers(), MaxDegree: c.maxDegree, Fresh: 4, Unlabelled: 0.3, Scatter: c.scatter}
			b, other := s.Batch(rng), s.Batch(rng)
			e := newEngine(t, engine.Config{Network: c.m, Sizes: graphtest.Roomy(b, other), Threads: 2, BLAS: lib, Recipe: recipe.Recipe{Seed: uint64(i)}})
			dim := c.m.Features()
			in := input(t, e.preparer, b, graphtest.Features(b, dim, rng))
			e.net.poison()
			step(t, e, input(t, e.preparer, other, graphtest.Features(other, dim, rng))) // leaves its traces in the buffers
			ref := newGATReference(e)
			r := step(t, e, in)
			ref.factors = drawnUnits(e, b)
			x := widen(in.X[:b.Blocks[0].NumSrc*dim])
			if want := ref.loss(b, x); !(math.Abs(r.Loss-want) <= 1e-5) {
				t.Fatalf("case %d: loss %v, reference %v", i, r.Loss, want)
			}
			compareGATGradients(t, fmt.Sprintf("case %d", i), e, ref, b, x)
		}
	})
}

func compareGATGradients(t *testing.T, name string, e *Engine, ref *gatReference, b *graph.Batch, x []float64) {
	t.Helper()
	compareDifferences(t, name, e, func(i int) []float64 { return ref.params[e.plan.Params[i].Name] }, func() float64 { return ref.loss(b, x) }, 1e-5)
}

// Two sources and a destination, one head, one unit: by hand.
func TestGATByHand(t *testing.T) {
	b := &graph.Batch{Blocks: []graph.Block{{NumSrc: 3, NumDst: 1, Indptr: []uint32{0, 4}, Indices: []uint32{1, 0, 2, 0}}},
		Input: make([]uint32, 3), Degree: make([]uint32, 3), Labels: []int32{0}}
	weights := map[string][]float32{"convs.0.lin.weight": {1, 10}, "convs.0.att_src": {1, 0}, "convs.0.att_dst": {-1, 0}, "convs.0.bias": {0, 5}}
	for _, order := range bothOrders {
		e := newEngine(t, engine.Config{Network: inOrder(gat(1, 0, 1, 2), order), Sizes: graphtest.Roomy(b)})
		for _, p := range e.Values() {
			copy(p.Data, weights[p.Name])
		}
		v, err := e.NewEvaluator(graphtest.Roomy(b))
		if err != nil {
			t.Fatal(err)
		}
		// h is 1, 3 and −4 in the first column; the scores are 3−1 = 2, −4−1 = −5, which
		// becomes −1, and 1−1 = 0 for the node itself, once.
		got, err := v.Infer(context.Background(), input(t, v.preparer, b, []float32{1, 3, -4}))
		if err != nil {
			t.Fatal(err)
		}
		sum := math.Exp(2) + math.Exp(-1) + 1
		mean := (3*math.Exp(2) - 4*math.Exp(-1) + 1) / sum
		for c, want := range []float64{mean, 10*mean + 5} {
			if math.Abs(float64(got[c])-want) > 1e-5 {
				t.Errorf("logit %d is %v, want %v", c, got[c], want)
			}
		}
	}
}

// Neither the number of threads nor the kind of kernels changes a bit of the weights.
func TestGATThreadsAndKernelsGiveEqualBits(t *testing.T) {
	want := make(map[string][]uint32)
	eachBackend(t, func(t *testing.T, lib string) {
		for name, m := range map[string]model.Model{
			"aggregate":          inOrder(gat(4, 0.5, 20, 24, 5), model.Aggregate),
			"multiply":           inOrder(gat(4, 0.5, 20, 24, 5), model.Multiply),
			"multiply, residual": inOrder(residual(gat(4, 0.5, 20, 24, 5), 12), model.Multiply),
		} {
			for _, threads := range []int{1, 2, 5} {
				rng := rand.New(rand.NewPCG(3, 4))
				batches := large(rng, true)
				e := newEngine(t, engine.Config{Network: m, Sizes: graphtest.Roomy(batches...), Threads: threads, BLAS: lib})
				for _, b := range batches {
					step(t, e, input(t, e.preparer, b, graphtest.Features(b, 20, rng)))
				}
				if got, key := bits(e.opt.weights), lib+name; want[key] == nil {
					want[key] = got
				} else if !slices.Equal(got, want[key]) {
					t.Errorf("%s: %d threads with %s kernels give other weights than one with plain ones", name, threads, kernel.Kind())
				}
			}
		}
	})
}

// Renumbering the input nodes changes no bit where the outermost layer aggregates
// first.
func TestGATNumberingOfInputNodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	batches := large(rng, false)
	o := engine.Config{Network: inOrder(gat(4, 0.4, 20, 16, 5), model.Aggregate, model.Multiply), Sizes: graphtest.Roomy(batches...), Threads: 2}
	plain, moved := newEngine(t, o), newEngine(t, o)
	for i, b := range batches {
		x := graphtest.Features(b, 20, rng)
		permuted, y := graphtest.Shuffled(b, x, 20, rng)
		if r, q := step(t, plain, input(t, plain.preparer, b, x)), step(t, moved, input(t, moved.preparer, permuted, y)); r != q {
			t.Errorf("step %d: %v, renumbered %v", i, r, q)
		}
	}
	if !slices.Equal(bits(plain.opt.weights), bits(moved.opt.weights)) {
		t.Error("other weights after renumbering")
	}
}

// Both orders compute the same function, and the same gradients but for rounding, of
// nodes with more edges than a run, too.
func TestGATOrdersAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for name, b := range map[string]*graph.Batch{
		"large": large(rng, true)[0],
		"dense": graphtest.Shape{Seeds: 60, Classes: 5, Layers: 2, MaxDegree: 3 * edgeRun, Fresh: 3, Scatter: true}.Batch(rng),
	} {
		x := graphtest.Features(b, 20, rng)
		for _, m := range []model.Model{gat(4, 0.2, 20, 16, 5), residual(gat(4, 0.2, 20, 16, 5), 12)} {
			var first result
			var grads []float32
			for i, orders := range [][]model.Order{{model.Aggregate}, {model.Multiply}, {model.Aggregate, model.Multiply}, {model.Multiply, model.Aggregate}} {
				e := newEngine(t, engine.Config{Network: inOrder(m, orders...), Sizes: graphtest.Roomy(b)})
				r := step(t, e, input(t, e.preparer, b, x))
				if i == 0 {
					first, grads = r, e.opt.grads
					continue
				}
				if math.Abs(r.Loss-first.Loss) > 1e-5 {
					t.Errorf("%s, %v: loss %v, aggregating first %v", name, orders, r.Loss, first.Loss)
				}
				for k, g := range e.opt.grads {
					if math.Abs(float64(g-grads[k])) > 1e-5 {
						t.Fatalf("%s, %v: gradient %d is %v, aggregating first %v", name, orders, k, g, grads[k])
					}
				}
			}
		}
	}
}

// An evaluator keeps nothing of the edges; of more edges than a run, too.
func TestGATInferMatchesReference(t *testing.T) {
	eachBackend(t, func(t *testing.T, lib string) {
		for _, order := range bothOrders {
			inferLikeReference(t, engine.Config{Network: inOrder(gat(2, 0.5, 5, 8, 3), order), Threads: 2, BLAS: lib})
		}
	})
}

func inferLikeReference(t *testing.T, o engine.Config) {
	t.Helper()
	rng := rand.New(rand.NewPCG(9, 9))
	b := graphtest.Shape{Seeds: 6, Classes: 3, Layers: 2, MaxDegree: 3, Fresh: 3}.Batch(rng)
	big := graphtest.Shape{Seeds: 300, Classes: 3, Layers: 2, MaxDegree: 4 * edgeRun, Fresh: 50, Scatter: true}.Batch(rng)
	o.Sizes = graphtest.Roomy(b)
	e := newEngine(t, o)
	for i := range e.opt.weights {
		e.opt.weights[i] *= 3 // scores that differ
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
	want := newGATReference(e).logits(big, widen(x[:len(x)-3*5]))
	if len(got) != len(want) {
		t.Fatalf("%d logits, want %d", len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(float64(got[i])-want[i]) < 1e-4) {
			t.Fatalf("logit %d is %v, reference %v", i, got[i], want[i])
		}
	}
}

// What is predicted is what is allocated, by engine, evaluator and preparer.
func TestGATMemoryBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	batches := large(rng, true)
	for _, m := range []model.Model{
		inOrder(gat(4, 0, 20, 300, 5), model.Aggregate), inOrder(gat(4, 0, 20, 300, 5), model.Multiply),
		inOrder(residual(gat(4, 0, 20, 300, 5), 0), model.Multiply, model.Auto),
	} {
		o := engine.Config{Network: m, Sizes: graphtest.Roomy(batches...), Threads: 3, BLAS: blas.Gonum, Recipe: recipe.Recipe{LR: 0.1}}
		want, _, err := MemoryBytes(o)
		if err != nil {
			t.Fatal(err)
		}
		e := newEngine(t, o)
		if got := e.net.held() + 16*int64(len(e.opt.weights)); got != want {
			t.Errorf("allocated %d bytes, predicted %d", got, want)
		}
		sizes := graph.Sizes{Src: []int{5000, 1000}, Dst: []int{1000, 100}, Edges: []int{90000, 900}} // long sums
		if want, err = e.EvaluatorBytes(sizes); err != nil {
			t.Fatal(err)
		}
		v, err := e.NewEvaluator(sizes)
		if err != nil {
			t.Fatal(err)
		}
		if v.net.held() != want {
			t.Errorf("evaluator allocated %d bytes, predicted %d", v.net.held(), want)
		}
	}
}

func TestGATStepAllocatesLittle(t *testing.T) {
	if racing {
		t.Skip("the race detector allocates")
	}
	rng := rand.New(rand.NewPCG(19, 20))
	b := large(rng, true)[0]
	for _, order := range bothOrders {
		e := newEngine(t, engine.Config{Network: inOrder(gat(4, 0.5, 20, 64, 5), order), Sizes: graphtest.Roomy(b), Threads: 2})
		in := input(t, e.preparer, b, graphtest.Features(b, 20, rng))
		allocatesLittle(t, "gat, "+string(order)+" first", e, b, in)
	}
}
