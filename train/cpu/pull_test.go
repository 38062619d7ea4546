package cpu

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/kernel"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// wholeGraph returns a graph with isolated nodes, parallel edges and edges from nodes to themselves, as lists
// and as a batch of all nodes in every layer.
func wholeGraph(nodes, layers int, rng *rand.Rand) (*graph.CSC, *graph.Batch) {
	g := &graph.CSC{Indptr: []int64{0}}
	b := &graph.Batch{Degree: make([]uint32, nodes), Labels: make([]int32, nodes)}
	for v := range nodes {
		var list []uint32
		for range rng.IntN(12) * rng.IntN(2) {
			list = append(list, uint32(rng.IntN(nodes)), uint32(v))
		}
		slices.Sort(list)
		g.Indices = append(g.Indices, list...)
		g.Indptr = append(g.Indptr, int64(len(g.Indices)))
		b.Input, b.Degree[v] = append(b.Input, uint32(v)), uint32(len(list))
	}
	indptr := make([]uint32, nodes+1)
	for v := range indptr {
		indptr[v] = uint32(g.Indptr[v])
	}
	for range layers {
		b.Blocks = append(b.Blocks, graph.Block{NumSrc: nodes, NumDst: nodes, Indptr: indptr, Indices: g.Indices})
	}
	return g, b
}

// pulled computes all nodes layer by layer, in groups, with lists that rng cuts into runs; edges beyond
// fold are summed apart.
func pulled(t *testing.T, e *Engine, g *graph.CSC, x []float32, group, fold int, rng *rand.Rand) []float32 {
	t.Helper()
	m, n := e.plan.model, g.NumNodes()
	whole := &prepare.Whole{Graph: g, Out: make([]uint32, n), Weighing: m.Weighing()}
	for _, u := range g.Indices {
		whole.Out[u]++
	}
	first := 0
	if m.InputProjection > 0 {
		first = model.InputLayer
	}
	for l := first; l < m.Layers(); l++ {
		a := device.NewArena()
		p := e.newPull(a, l, group, whole, e.opt.weights)
		if bytes, shape := e.PullBytes(l, group); bytes != a.Used() || shape != p.PullShape {
			t.Errorf("layer %d: %d bytes of %+v, planned %d of %+v", l, a.Used(), p.PullShape, bytes, shape)
		}
		// The rows that a group lacks are memory with anything in it.
		pad := func(x []float32, width int) []float32 {
			return append(x[:n*width:n*width], slices.Repeat([]float32{float32(math.NaN())}, group*width)...)
		}
		x = pad(x, p.In)
		rows := x
		if p.Maps {
			rows = pad(make([]float32, n*p.Row), p.Row)
			for lo := 0; lo < n; lo += group {
				p.Map(lo%e.Threads(), rows[lo*p.Row:], x[lo*p.In:], uint32(lo), min(group, n-lo))
			}
		}
		if l == model.InputLayer {
			x = rows
			continue
		}
		y := make([]float32, n*p.Out)
		for lo := 0; lo < n; lo += group {
			nodes := make([]uint32, min(group, n-lo))
			acc := slices.Repeat([]float32{float32(math.NaN())}, len(nodes)*p.Acc)
			p.Begin(0, acc, x[lo*p.In:], len(nodes), nil)
			for i := range nodes {
				nodes[i] = uint32(lo + i)
				add(p, acc[i*p.Acc:(i+1)*p.Acc], rows, g, nodes[i], fold, rng)
			}
			p.Finish(e.Threads()-1, y[lo*p.Out:], acc, x[lo*p.In:], nodes, nil)
		}
		x = y
	}
	return x
}

// add adds the neighbours of v in runs.
func add(p *Pull, acc, rows []float32, g *graph.CSC, v uint32, fold int, rng *rand.Rand) {
	list := slices.Clone(g.Neighbors(v))
	var wide []float64
	if len(list) > fold {
		wide = make([]float64, p.Wide)
	}
	unite := func() {
		for c := range wide {
			wide[c] += float64(acc[c])
			acc[c] = 0
		}
	}
	for at := 0; at < len(list); {
		end := min(len(list), (at/fold+1)*fold, at+1+rng.IntN(20))
		some := list[at:end]
		if p.Loops {
			some = slices.DeleteFunc(slices.Clone(some), func(u uint32) bool { return u == v })
		}
		p.Add(0, acc, wide, rows, some, 0)
		if at = end; at%fold == 0 {
			unite()
		}
	}
	unite()
	for c, s := range wide {
		acc[c] = float32(s)
	}
}

// A layer that pulls rows computes the reference's function, with the same bits however lists are cut and
// with any kind of kernels; long lists are near to it.
func TestPull(t *testing.T) {
	all := maps.Clone(variants)
	for name, m := range map[string]model.Model{
		"gat": {Kind: model.GAT, Heads: 2}, "gat of one head": {Kind: model.GAT, Heads: 1},
		"gat, residual": {Kind: model.GAT, Heads: 4, Residual: true, InputProjection: 6},
	} {
		all[name] = m
	}
	for name, m := range all {
		for _, order := range bothOrders {
			rng := rand.New(rand.NewPCG(9, 9))
			g, b := wholeGraph(61, 2, rng)
			e := newEngine(t, engine.Config{Network: with(m, order, 0.5, 5, 8, 3), Sizes: graphtest.Roomy(b), Threads: 2, BLAS: blas.Gonum})
			for range 3 { // so that running statistics get somewhere
				step(t, e, input(t, e.preparer, b, graphtest.Features(b, 5, rng)))
			}
			x := graphtest.Features(b, 5, rng)
			var want []float64
			if m.Kind == model.GAT {
				want = newGATReference(e).logits(b, widen(x))
			} else {
				want = newReference(e).logits(b, widen(x))
			}
			compare := func(what string, got []float32) {
				t.Helper()
				for i := range want {
					if !(math.Abs(float64(got[i])-want[i]) < 1e-4*(1+math.Abs(want[i]))) {
						t.Fatalf("%s, %s, %s: logit %d is %v, reference %v", name, order, what, i, got[i], want[i])
					}
				}
			}
			got := pulled(t, e, g, x, 16, 1<<12, rng)
			compare("plain", got)
			compare("folded", pulled(t, e, g, x, 16, 3, rng))
			for _, kind := range kernel.Kinds() {
				before := kernel.Kind()
				if err := kernel.Use(kind); err != nil {
					t.Fatal(err)
				}
				if again := pulled(t, e, g, x, 16, 1<<12, rng); !slices.Equal(bits(again), bits(got)) {
					t.Errorf("%s, %s: other bits with other runs and %s kernels", name, order, kind)
				}
				_ = kernel.Use(before)
			}
		}
	}
}

// Orders follow from the graph and the widths; attention multiplies first, the maximum comes first.
func TestInferenceOrders(t *testing.T) {
	for want, m := range map[string]model.Model{
		"[multiply aggregate]": {Kind: model.SAGE, Dims: []int{64, 32, 64}},
		"[aggregate multiply]": {Kind: model.GCN, Dims: []int{64, 128, 4}},
		"[multiply multiply]":  {Kind: model.GAT, Heads: 2, Dims: []int{64, 128, 4}, Orders: []model.Order{model.Aggregate, model.Auto}},
		"[aggregate]":          {Kind: model.SAGE, Aggregator: model.Max, Dims: []int{64, 4}},
	} {
		got, err := InferenceOrders(&m, 1000, 15_000)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%v: %v, %v, want %s", m, got, err, want)
		}
	}
	if _, err := InferenceOrders(&model.Model{}, 1, 1); err == nil {
		t.Error("orders of no model")
	}
}
