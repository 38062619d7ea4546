package cpu

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/kernel"
	"diskgnn/presample/sampler/samplertest"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// typedVariants are the typed models. Dims, dropout and types are the test's.
var typedVariants = map[string]model.Model{
	"rsage":       {Kind: model.RSAGE},
	"rsage elu":   {Kind: model.RSAGE, Activation: model.ELU},
	"rgcn":        {Kind: model.RGCN},
	"rgcn, bases": {Kind: model.RGCN, Bases: 2},
	"rgat":        {Kind: model.RGAT, Heads: 2},
	"rgat, relu":  {Kind: model.RGAT, Heads: 1, Activation: model.ReLU},
}

// typedWorld is a typed graph with features.
type typedWorld struct {
	types *graph.Types
	g     *graph.CSC
	dim   int
	x     []float32 // by row of features; types without any have zeros
}

func newTypedWorld(rng *rand.Rand, types *graph.Types, degree, dim int) *typedWorld {
	w := &typedWorld{types: types, g: &graph.CSC{Indptr: []int64{0}}, dim: dim}
	for row := range types.NumRows() {
		_, r := types.RowOf(row)
		lo, hi := types.Range(types.Relations[r].Source)
		for range rng.IntN(degree + 1) {
			w.g.Indices = append(w.g.Indices, uint32(lo+rng.Int64N(hi-lo)))
		}
		w.g.Indptr = append(w.g.Indptr, int64(len(w.g.Indices)))
	}
	w.x = make([]float32, int(types.NumFeatureRows())*dim)
	for row := range int(types.NumFeatureRows()) {
		if types.Nodes[types.OfFeatureRow(uint32(row))].Features {
			for c := range dim {
				w.x[row*dim+c] = float32(rng.NormFloat64())
			}
		}
	}
	return w
}

// batch samples a batch for seed nodes of the first type, and returns its features, with NaN beyond them. A packed
// one has its input nodes in another order.
func (w *typedWorld) batch(rng *rand.Rand, seeds, classes int, fanout []int, packed bool) (*graph.Batch, []float32) {
	var nodes []uint32
	for _, v := range rng.Perm(int(w.types.Nodes[0].Count))[:min(seeds, int(w.types.Nodes[0].Count))] {
		nodes = append(nodes, uint32(v))
	}
	b := samplertest.SampleTyped(w.g, w.types, nodes, samplertest.TypedDraws{Fanout: fanout}, rng.Uint64())
	for range nodes {
		y := int32(rng.IntN(classes))
		if rng.IntN(5) == 0 {
			y = graph.Unlabelled
		}
		b.Labels = append(b.Labels, y)
	}
	x := slices.Repeat([]float32{float32(math.NaN())}, (len(b.Input)+3)*w.dim)
	if packed {
		graphtest.Renumber(b, rng.Perm(len(b.Input)))
	}
	for i, row := range b.Input {
		copy(x[i*w.dim:(i+1)*w.dim], w.x[int(row)*w.dim:])
	}
	return b, x
}

// typedModel returns a model of these widths for the world's types, false if its seed nodes would have no logits.
func (w *typedWorld) model(m model.Model, dropout float64, dims ...int) (model.Model, bool) {
	m.Dims, m.Dropout, m.Types = dims, dropout, recipe.Types(w.types, 0)
	return m, m.Validate() == nil
}

// typedCase is a model on random batches of a random graph.
type typedCase struct {
	w      *typedWorld
	m      model.Model
	fanout []int
}

func genTypedCase(t *rapid.T, rng *rand.Rand) typedCase {
	variant := typedVariants[rapid.SampledFrom(slices.Sorted(maps.Keys(typedVariants))).Draw(t, "variant")]
	layers := rapid.IntRange(1, 3).Draw(t, "layers")
	dropout := rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "dropout")
	for {
		w := newTypedWorld(rng, graphtest.Types(rng, int64(rng.IntN(12)+1)), rng.IntN(6), rng.IntN(5)+1)
		dims := []int{w.dim}
		for range layers - 1 {
			dims = append(dims, rng.IntN(2)*2+2)
		}
		if m, ok := w.model(variant, dropout, append(dims, rng.IntN(3)+2)...); ok {
			return typedCase{w, m, slices.Repeat([]int{rng.IntN(5) + 1}, layers)}
		}
	}
}

// The loss, and the gradient of every parameter, agree with the reference: for types without features, types that no
// relation leads to, relations between nodes of one type, packed batches, and up to three layers.
func TestTypedGradients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		c := genTypedCase(t, rng)
		c.checkGradients(t, rng, 7, rapid.SampledFrom([]string{blas.Gonum, blas.Auto}).Draw(t, "library"), rapid.Bool().Draw(t, "packed"))
	})
}

// checkGradients takes two steps on batches of this number of seed nodes, and compares the second.
func (c typedCase) checkGradients(t fataler, rng *rand.Rand, seeds int, lib string, packed bool) {
	t.Helper()
	b, x := c.w.batch(rng, seeds, c.m.Classes(), c.fanout, packed)
	other, y := c.w.batch(rng, 5, c.m.Classes(), c.fanout, !packed)
	e, err := New(engine.Config{Network: c.m, Sizes: graphtest.Roomy(b, other), Threads: rng.IntN(3) + 1, BLAS: lib, Recipe: recipe.Recipe{Seed: rng.Uint64(), LR: 0.01}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	one := func(b *graph.Batch, x []float32) result {
		in := &Input{Prepared: new(Prepared), X: x}
		if err := e.preparer.Prepare(in.Prepared, b); err != nil {
			t.Fatal(err)
		}
		r, err := e.Step(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	e.net.poison()
	one(other, y) // leaves its traces in the buffers
	// Rows of biases that no gradient has reached would be zeros, and scores of them at the kink of the leaky ReLU.
	for _, p := range e.Values() {
		for i, v := range p.Data {
			if v == 0 {
				p.Data[i] = float32(rng.NormFloat64()) / 10
			}
		}
	}
	ref := newTypedReference(e)
	r := one(b, x)
	var nearest float64
	if ref.factors, nearest = keptUnits(t, e, b); nearest < 1e-6 {
		return // rounding decides whether a unit is on this side of ReLU's kink
	}
	wide := widen(x[:len(b.Input)*c.w.dim])
	if want := ref.loss(b, wide); !(math.Abs(r.Loss-want) <= 1e-5) {
		t.Fatalf("loss %v, reference %v", r.Loss, want)
	}
	compareDifferences(t, fmt.Sprintf("%+v", c.m), e, func(i int) []float64 { return ref.params[e.plan.Params[i].Name] }, func() float64 { return ref.loss(b, wide) }, 1e-5)
}

// The same where types end one after the other: nothing leads to the last type, so that the type before it has no rows
// after the second layer, though the third reads its nodes.
func TestTypedGradientsWhereTypesEnd(t *testing.T) {
	types := &graph.Types{
		Nodes:     []graph.NodeType{{Name: "a", Count: 9, Features: true}, {Name: "b", Count: 9, Features: true}, {Name: "c", Count: 9, Features: true}},
		Relations: []graph.Relation{{Source: 0, Name: "r", Destination: 0}, {Source: 1, Name: "r", Destination: 0}, {Source: 2, Name: "r", Destination: 1}, {Source: 2, Name: "s", Destination: 1}},
	}
	if err := types.Check(); err != nil {
		t.Fatal(err)
	}
	for name, m := range typedVariants {
		rng := rand.New(rand.NewPCG(23, 24))
		w := newTypedWorld(rng, types, 4, 3)
		m, ok := w.model(m, 0, 3, 4, 4, 4, 2)
		if !ok {
			t.Fatal(name)
		}
		typedCase{w, m, []int{3, 3, 3, 3}}.checkGradients(t, rng, 7, blas.Gonum, true)
	}
}

// The same for types of more rows than a chunk has, that begin within one.
func TestTypedGradientsOfManyRows(t *testing.T) {
	for _, m := range []model.Model{typedVariants["rsage elu"], typedVariants["rgat"]} {
		rng := rand.New(rand.NewPCG(25, 26))
		w, _ := largeTyped(rng, 2)
		m, _ = w.model(m, 0, 2, 2, 2)
		typedCase{w, m, []int{3, 3}}.checkGradients(t, rng, 350, blas.Gonum, false)
	}
}

// tinyTypes are papers, which cite papers, authors, who write papers, and venues, to which nothing leads.
func tinyTypes() *graph.Types {
	t := &graph.Types{
		Nodes:     []graph.NodeType{{Name: "paper", Count: 3, Features: true}, {Name: "author", Count: 2, Features: true}, {Name: "venue", Count: 1}},
		Relations: []graph.Relation{{Source: 0, Name: "cites", Destination: 0}, {Source: 1, Name: "writes", Destination: 0}, {Source: 2, Name: "prints", Destination: 0}},
	}
	if err := t.Check(); err != nil {
		panic(err)
	}
	return t
}

// Paper 0 cites papers 1 and 2, and has author 0; paper 1 has no neighbours. One layer, one unit, by hand.
func TestTypedByHand(t *testing.T) {
	types := tinyTypes()
	b := &graph.Batch{Types: types, Input: []uint32{0, 1, 2, 3, 5}, Labels: []int32{0, 1}, Blocks: []graph.Block{{
		NumSrc: 5, NumDst: 2, Indptr: []uint32{0, 2, 3, 4, 4, 4, 4}, Indices: []uint32{1, 2, 3, 4}, Dst: []uint32{0, 1}, Ends: []uint32{3, 4, 5}}}}
	x := []float32{1, 2, 4, 7, 0}
	attended := float32((2*math.Exp(1) + 4*math.Exp(3)) / (math.Exp(1) + math.Exp(3))) // scores are 2−1 and 4−1
	for name, c := range map[string]struct {
		m       model.Model
		weights map[string][]float32 // others are zero
		want    [4]float32
	}{
		"rsage": {model.Model{Kind: model.RSAGE}, map[string][]float32{
			"convs.0.convs.<paper___cites___paper>.lin_l.weight": {1, 10}, "convs.0.convs.<author___writes___paper>.lin_l.weight": {2, 0},
			"convs.0.convs.<venue___prints___paper>.lin_l.weight": {9, 9}, "convs.0.convs.<venue___prints___paper>.lin_l.bias": {0.5, 0},
			"convs.0.convs.<paper___cites___paper>.lin_r.weight": {1, 0}, "convs.0.convs.<author___writes___paper>.lin_r.weight": {3, -1},
		}, [4]float32{3 + 14 + 4 + 0.5, 30 - 1, 8 + 0.5, -2}}, // means 3 and 7; own rows times 4 and −1
		"rgcn": {model.Model{Kind: model.RGCN}, map[string][]float32{
			"convs.0.weight": {1, 10, 2, 0, 9, 9}, "convs.0.root": {4, -1}, "convs.0.bias": {0.5, 0},
		}, [4]float32{21.5, 29, 8.5, -2}},
		"rgcn, bases": {model.Model{Kind: model.RGCN, Bases: 2}, map[string][]float32{
			"convs.0.weight": {1, 0, 0, 2}, "convs.0.comp": {1, 5, 2, 0, 9, 9}, "convs.0.root": {4, -1}, "convs.0.bias": {0.5, 0},
		}, [4]float32{21.5, 29, 8.5, -2}},
		"rgat": {model.Model{Kind: model.RGAT, Heads: 1}, map[string][]float32{
			"convs.0.convs.<paper___cites___paper>.lin.weight": {1, 10}, "convs.0.convs.<author___writes___paper>.lin.weight": {2, 0},
			"convs.0.convs.<paper___cites___paper>.att_src": {1, 0}, "convs.0.convs.<paper___cites___paper>.att_dst": {-1, 0},
			"convs.0.convs.<author___writes___paper>.att_src": {3, 4}, "convs.0.convs.<venue___prints___paper>.bias": {0.5, 0},
		}, [4]float32{attended + 14 + 0.5, 10 * attended, 0.5, 0}},
	} {
		c.m.Dims, c.m.Types = []int{1, 2}, recipe.Types(types, 0)
		e := newEngine(t, engine.Config{Network: c.m, Sizes: graphtest.Roomy(b)})
		for _, p := range e.Values() {
			clear(p.Data)
			copy(p.Data, c.weights[p.Name])
			delete(c.weights, p.Name)
		}
		if len(c.weights) > 0 {
			t.Errorf("%s: no parameters %v", name, c.weights)
		}
		v, err := e.NewEvaluator(graphtest.Roomy(b))
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Infer(t.Context(), input(t, v.preparer, b, x))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			if math.Abs(float64(got[i]-want)) > 1e-5 {
				t.Errorf("%s: logits %v, want %v", name, got, c.want)
				break
			}
		}
	}
}

// largeTyped returns a world with batches of several chunks of rows, of all types.
func largeTyped(rng *rand.Rand, dim int) (*typedWorld, func(packed bool) (*graph.Batch, []float32)) {
	types := &graph.Types{
		Nodes: []graph.NodeType{{Name: "a", Count: 4000, Features: true}, {Name: "b", Count: 3000, Features: true}, {Name: "c", Count: 900}},
		Relations: []graph.Relation{{Source: 0, Name: "r", Destination: 0}, {Source: 1, Name: "r", Destination: 0}, {Source: 2, Name: "r", Destination: 0},
			{Source: 0, Name: "r", Destination: 1}, {Source: 2, Name: "s", Destination: 1}, {Source: 1, Name: "r", Destination: 2}},
	}
	if err := types.Check(); err != nil {
		panic(err)
	}
	w := newTypedWorld(rng, types, 4, dim)
	return w, func(packed bool) (*graph.Batch, []float32) { return w.batch(rng, 700, 5, []int{3, 3}, packed) }
}

// Neither the number of threads nor the kind of kernels changes a bit of the weights, nor does the order of the input
// nodes.
func TestTypedBits(t *testing.T) {
	want := make(map[string][]uint32)
	eachBackend(t, func(t *testing.T, lib string) {
		w, batch := largeTyped(rand.New(rand.NewPCG(3, 4)), 20)
		var batches []*graph.Batch
		var xs [][]float32
		for range 2 {
			b, x := batch(false)
			batches, xs = append(batches, b), append(xs, x)
		}
		for name, m := range typedVariants {
			m, _ = w.model(m, 0.5, 20, 24, 5)
			for _, threads := range []int{1, 2, 4} {
				rng := rand.New(rand.NewPCG(5, 6))
				e := newEngine(t, engine.Config{Network: m, Sizes: graphtest.Roomy(batches...), Threads: threads, BLAS: lib})
				for i, b := range batches {
					x := xs[i]
					if threads == 4 {
						b, x = graphtest.Shuffled(b, x, 20, rng)
					}
					step(t, e, input(t, e.preparer, b, x))
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

// An evaluator computes the logits of the reference, with long sums too.
func TestTypedInfer(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	w, batch := largeTyped(rng, 20)
	b, _ := batch(false)
	// Two destinations of type a; the first has many neighbours by its first relation, and one by its second.
	const many = 2 * longSum
	k := graph.Block{NumSrc: 3, NumDst: 2, Indptr: []uint32{0, many, many + 1, many + 1, many + 2, many + 2, many + 2}, Dst: []uint32{0, 1}, Ends: []uint32{2, 3, 3}}
	for range many {
		k.Indices = append(k.Indices, uint32(rng.IntN(2)))
	}
	k.Indices = append(k.Indices, 2, 0)
	hub := &graph.Batch{Types: w.types, Blocks: []graph.Block{k}, Input: []uint32{0, 1, 4000}, Labels: []int32{0, 0}}
	// And many relations, so that the operands of a chunk do not fit at once.
	wide := divided(graphtest.Shape{Seeds: 700, Classes: 5, Layers: 1, MaxDegree: 60, Fresh: 50}.Batch(rng), 40)
	for name, m := range typedVariants {
		for _, b := range []*graph.Batch{b, hub, wide} {
			m.Dims, m.Dropout, m.Types = append(slices.Repeat([]int{20}, len(b.Blocks)), 5), 0.5, recipe.Types(b.Types, 0)
			x := graphtest.Features(b, 20, rng)
			e := newEngine(t, engine.Config{Network: m, Sizes: graphtest.Roomy(b), Threads: 2})
			v, err := e.NewEvaluator(graphtest.Roomy(b))
			if err != nil {
				t.Fatal(err)
			}
			v.net.poison()
			got, err := v.Infer(t.Context(), input(t, v.preparer, b, x))
			if err != nil {
				t.Fatal(err)
			}
			want := newTypedReference(e).logits(b, widen(x[:len(b.Input)*20]))
			if len(got) != len(want) {
				t.Fatalf("%d logits, want %d", len(got), len(want))
			}
			for i := range got {
				if !(math.Abs(float64(got[i])-want[i]) < 1e-4*(1+math.Abs(want[i]))) {
					t.Fatalf("%s: logit %d is %v, reference %v", name, i, got[i], want[i])
				}
			}
		}
	}
}

// The engine and its evaluator allocate the predicted bytes.
func TestTypedMemoryBytes(t *testing.T) {
	w, batch := largeTyped(rand.New(rand.NewPCG(17, 18)), 20)
	b, x := batch(true)
	for name, m := range typedVariants {
		m, _ = w.model(m, 0.5, 20, 300, 5)
		o := engine.Config{Network: m, Sizes: graphtest.Roomy(b), Threads: 3, BLAS: blas.Gonum, Recipe: recipe.Recipe{LR: 0.1}}
		want, _, err := MemoryBytes(o)
		if err != nil {
			t.Fatal(err)
		}
		e := newEngine(t, o)
		if got := e.net.held() + 16*int64(len(e.opt.weights)); got != want {
			t.Errorf("%s: allocated %d bytes, predicted %d", name, got, want)
		}
		sizes := graph.Sizes{Src: []int{5000, 1000}, Dst: []int{1000, 100}, Edges: []int{90000, 900}, Rows: []int{4000, 300}} // long sums
		if want, err = e.EvaluatorBytes(sizes); err != nil {
			t.Fatal(err)
		}
		v, err := e.NewEvaluator(sizes)
		if err != nil {
			t.Fatal(err)
		}
		if v.net.held() != want {
			t.Errorf("%s: evaluator allocated %d bytes, predicted %d", name, v.net.held(), want)
		}
		if !racing {
			allocatesLittle(t, name, e, b, input(t, e.preparer, b, x))
		}
	}
}

// With one type and one relation, R-GraphSAGE is GraphSAGE.
func TestOneRelationIsSAGE(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	b := large(rng, false)[0]
	x := graphtest.Features(b, 20, rng)
	typed := divided(b, 1)
	plain := newEngine(t, engine.Config{Network: with(model.Model{Kind: model.SAGE}, model.Aggregate, 0.3, 20, 16, 5), Sizes: graphtest.Roomy(b)})
	m := model.Model{Kind: model.RSAGE, Dims: []int{20, 16, 5}, Dropout: 0.3, Types: recipe.Types(typed.Types, 0)}
	e := newEngine(t, engine.Config{Network: m, Sizes: graphtest.Roomy(typed)})
	if !slices.Equal(e.opt.weights, plain.opt.weights) {
		t.Fatal("other initial weights")
	}
	for i := range 3 {
		want, got := step(t, plain, input(t, plain.preparer, b, x)), step(t, e, input(t, e.preparer, typed, x))
		if math.Abs(got.Loss-want.Loss) > 1e-6 || got.Correct != want.Correct {
			t.Errorf("step %d: %+v, GraphSAGE %+v", i, got, want)
		}
		for k, g := range e.opt.grads {
			if math.Abs(float64(g-plain.opt.grads[k])) > 1e-6 {
				t.Fatalf("step %d: gradient %d is %v, GraphSAGE's %v", i, k, g, plain.opt.grads[k])
			}
		}
	}
}

// BenchmarkTypedStep takes training steps on the blocks of BenchmarkStep, where the edges of a destination are divided among
// relations. With one relation, R-GraphSAGE does GraphSAGE's work.
func BenchmarkTypedStep(b *testing.B) {
	batch, x := benchBatch(128, 172, deepBlocks)
	batch, x = graphtest.Shuffled(batch, x, 128, rand.New(rand.NewPCG(3, 4)))
	for _, c := range []struct {
		m         model.Model
		relations int
	}{
		{model.Model{Kind: model.SAGE}, 0},
		{model.Model{Kind: model.RSAGE}, 1}, {model.Model{Kind: model.RSAGE}, 3}, {model.Model{Kind: model.RGCN, Bases: 2}, 3},
		{model.Model{Kind: model.GAT, Heads: 4}, 0},
		{model.Model{Kind: model.RGAT, Heads: 4}, 1}, {model.Model{Kind: model.RGAT, Heads: 4}, 3},
	} {
		b.Run(fmt.Sprintf("%s/%d", c.m.Kind, c.relations), func(b *testing.B) {
			c.m.Dims, c.m.Orders = []int{128, 256, 256, 172}, repeat(model.Aggregate, 3)
			if c.relations == 0 {
				benchStep(b, c.m, batch, x)
				return
			}
			typed := divided(batch, c.relations)
			c.m.Types, c.m.Orders = recipe.Types(typed.Types, 0), nil
			benchStep(b, c.m, typed, x)
		})
	}
}

// divided returns the batch of a graph with one type, where the edges of each destination are divided among relations.
func divided(b *graph.Batch, relations int) *graph.Batch {
	types := &graph.Types{Nodes: []graph.NodeType{{Name: "node", Count: 1 << 30, Features: true}}}
	for r := range relations {
		types.Relations = append(types.Relations, graph.Relation{Name: fmt.Sprint(r)})
	}
	if err := types.Check(); err != nil {
		panic(err)
	}
	d := *b
	d.Types, d.Degree, d.Blocks = types, nil, slices.Clone(b.Blocks)
	for l := range d.Blocks {
		k := &d.Blocks[l]
		k.Ends, k.Indptr, k.Dst = []uint32{uint32(k.NumSrc)}, []uint32{0}, nil
		for i := range k.NumDst {
			lo, hi := int(b.Blocks[l].Indptr[i]), int(b.Blocks[l].Indptr[i+1])
			for r := range relations {
				k.Indptr = append(k.Indptr, uint32(lo+(hi-lo)*(r+1)/relations))
			}
			k.Dst = append(k.Dst, uint32(b.Blocks[l].DstPos(i)))
		}
	}
	return &d
}
