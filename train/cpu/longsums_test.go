package cpu

import (
	"context"
	"math"
	"slices"
	"testing"

	"diskgnn/graph"
	"diskgnn/internal/kernel"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

// hub is a destination with so many edges, all but the first from the same source.
func hub(edges int) *graph.Batch {
	indices := slices.Repeat([]uint32{2}, edges)
	indices[0] = 1
	return &graph.Batch{Blocks: []graph.Block{{NumSrc: 3, NumDst: 1, Indptr: []uint32{0, uint32(edges)}, Indices: indices}},
		Input: []uint32{0, 1, 2}, Degree: []uint32{uint32(edges), 0, 0}, Labels: []int32{0}}
}

// ofOnes returns an engine of one layer and one column, whose linear maps are the
// identity and whose attention is −1 for sources, 2 for destinations.
func ofOnes(t *testing.T, m model.Model, order model.Order, b *graph.Batch) *Engine {
	m.Dims, m.Orders = []int{1, 1}, []model.Order{order}
	var sizes graph.Sizes
	sizes.Cover(b)
	e := newEngine(t, engine.Config{Network: m, Sizes: sizes, Threads: 2, BLAS: blas.Gonum})
	for _, p := range e.Values() {
		switch p.Role {
		case model.Neighbour:
			p.Data[0] = 1
		case model.AttentionSrc:
			p.Data[0] = -1
		case model.AttentionDst:
			p.Data[0] = 2
		default:
			clear(p.Data)
		}
	}
	return e
}

// Sums over more neighbours than a float32 can count are right, in inference and in
// training: where the first term is so large that each of the others rounds away.
func TestLongSums(t *testing.T) {
	const edges, large = 1 << 18, 1 << 24
	b := hub(edges)
	sage, ones := []float32{0, large, 1}, large+edges-1.0
	// A source's weight is exp(20 − x) of the first one's.
	attended := []float32{20, 0, 17}
	others := (edges - 1) * math.Exp(-17)
	for name, c := range map[string]struct {
		m    model.Model
		x    []float32
		want float64
	}{
		"mean":      {model.Model{Kind: model.SAGE}, sage, ones / edges},
		"sum":       {model.Model{Kind: model.SAGE, Aggregator: model.Sum}, sage, ones},
		"gcn":       {model.Model{Kind: model.GCN}, sage, ones / math.Sqrt(edges+1)},
		"gcn block": {model.Model{Kind: model.GCN, GCNNorm: model.BlockNorm}, sage, (large + math.Sqrt(edges-1)) / math.Sqrt(edges+1)},
		"gat":       {model.Model{Kind: model.GAT, Heads: 1}, attended, others * 17 / (1 + others)},
	} {
		for _, order := range bothOrders {
			e := ofOnes(t, c.m, order, b)
			var sizes graph.Sizes
			sizes.Cover(b)
			v, err := e.NewEvaluator(sizes)
			if err != nil {
				t.Fatal(err)
			}
			got, err := v.Infer(context.Background(), input(t, v.preparer, b, c.x))
			if err != nil {
				t.Fatal(err)
			}
			in := input(t, e.preparer, b, c.x)
			inferred := float64(got[0])
			step(t, e, in)
			for what, got := range map[string]float64{"inferred": inferred, "trained on": float64(e.logits(in)[0])} {
				if math.Abs(got/c.want-1) > 5e-4 {
					t.Errorf("%s, %s first, %s: %v, want %v", name, order, what, got, c.want)
				}
			}
		}
	}
}

// The blocks of long sums are those of short ones: where these are exact, so are they.
func TestLongSumsOfManyOnes(t *testing.T) {
	const edges = 1<<24 + 1<<20
	b := hub(edges)
	for _, m := range []model.Model{{Kind: model.SAGE, Aggregator: model.Sum}, {Kind: model.GAT, Heads: 1}} {
		e := ofOnes(t, m, model.Aggregate, hub(1))
		var sizes graph.Sizes
		sizes.Cover(b)
		v, err := e.NewEvaluator(sizes)
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Infer(context.Background(), input(t, v.preparer, b, []float32{0, 1, 1}))
		if err != nil {
			t.Fatal(err)
		}
		want := float32(edges)
		if m.Kind == model.GAT { // the loop's score is 0, the others' −1/5
			ones := edges * math.Exp(-0.2)
			want = float32(ones / (ones + 1))
		}
		if got[0] != want {
			t.Errorf("%s of %d ones: %v, want %v", m.Kind, edges, got[0], want)
		}
	}
}

// Up to where sums are long they have the bits of a plain one, and beyond them those of
// any kind of kernels.
func TestLongSumsBegin(t *testing.T) {
	for _, edges := range []int{longSum, longSum + 1} {
		b := hub(edges)
		x := []float32{0, 3, 0.1}
		var first []float32
		for _, kind := range kernel.Kinds() {
			before := kernel.Kind()
			if err := kernel.Use(kind); err != nil {
				t.Fatal(err)
			}
			e := ofOnes(t, model.Model{Kind: model.SAGE, Aggregator: model.Sum}, model.Aggregate, b)
			var sizes graph.Sizes
			sizes.Cover(b)
			v, err := e.NewEvaluator(sizes)
			if err != nil {
				t.Fatal(err)
			}
			got, err := v.Infer(context.Background(), input(t, v.preparer, b, x))
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = slices.Clone(got)
			}
			if !slices.Equal(got, first) {
				t.Errorf("%d edges, %s kernels: %v, not %v", edges, kind, got, first)
			}
			_ = kernel.Use(before)
		}
		plain := []float32{0}
		kernel.GatherSum(plain, x, b.Blocks[0].Indices, nil, 1, false)
		if same := plain[0] == first[0]; same != (edges == longSum) {
			t.Errorf("%d edges: %v, a plain sum is %v", edges, first[0], plain[0])
		}
	}
}
