package cpu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// go test -run - -bench Step -benchtime 5x ./train/cpu
//
// BenchmarkStep takes training steps on blocks of the shape that three layers with
// fanouts 10, 15 and 20 have on a large graph: 450 k, 110 k, 12 k and 1,024 nodes. The
// input nodes lie in no order, as after packing.
func BenchmarkStep(b *testing.B) {
	batch, x := benchBatch(128, 172, deepBlocks)
	batch, x = graphtest.Shuffled(batch, x, 128, rand.New(rand.NewPCG(3, 4)))
	for _, c := range []struct {
		name string
		m    model.Model
	}{
		{"sage", model.Model{Kind: model.SAGE}},
		{"gcn", model.Model{Kind: model.GCN}},
		{"gcn,dropout", model.Model{Kind: model.GCN, Dropout: 0.5}},
		{"gcn,layer", model.Model{Kind: model.GCN, Norm: model.LayerNorm}},
		{"gcn,batch", model.Model{Kind: model.GCN, Norm: model.BatchNorm}},
		{"gcn,elu", model.Model{Kind: model.GCN, Activation: model.ELU}},
		{"sage,max", model.Model{Kind: model.SAGE, Aggregator: model.Max}},
		{"sage,projection", model.Model{Kind: model.SAGE, InputProjection: 256}},
		{"gat", model.Model{Kind: model.GAT, Heads: 8}},
		{"gat,dropout", model.Model{Kind: model.GAT, Heads: 8, Dropout: 0.5}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.m.Dims = []int{128, 256, 256, 172}
			benchStep(b, c.m, batch, x)
		})
	}
}

// BenchmarkStepOrders takes steps in both orders of operations and in the one that is
// chosen: on the deep blocks, and on those that two layers with fanout 10 have on a
// graph of 13,700 nodes with 767 features.
func BenchmarkStepOrders(b *testing.B) {
	for _, g := range []struct {
		name         string
		dim, classes int
		blocks       [][4]int
		dims         []int
	}{
		{"wide", 767, 10, [][4]int{{8_000, 13_000, 80_000, 10}, {1_000, 8_000, 10_000, 10}}, []int{767, 256, 10}},
		{"deep", 128, 172, deepBlocks, []int{128, 256, 256, 172}},
	} {
		batch, x := benchBatch(g.dim, g.classes, g.blocks)
		for _, m := range []model.Model{{Kind: model.SAGE}, {Kind: model.GCN}, {Kind: model.GAT, Heads: 8}} {
			for _, order := range []model.Order{model.Aggregate, model.Multiply, model.Auto} {
				b.Run(fmt.Sprintf("%s/%s/%s", g.name, m.Kind, order), func(b *testing.B) {
					m.Dims = g.dims
					m.Orders = repeat(order, m.Layers())
					benchStep(b, m, batch, x)
				})
			}
		}
	}
}

func benchStep(b *testing.B, m model.Model, batch *graph.Batch, x []float32) {
	var sizes graph.Sizes
	sizes.Cover(batch)
	e := newEngine(b, engine.Config{Network: m, Sizes: sizes, Recipe: recipe.Recipe{LR: 1e-3}})
	in := input(b, e.preparer, batch, x)
	step(b, e, in)
	b.ResetTimer()
	for range b.N {
		if err := e.preparer.Prepare(in.Prepared, batch); err != nil {
			b.Fatal(err)
		}
		if _, err := e.Step(context.Background(), in); err != nil {
			b.Fatal(err)
		}
	}
}

// deepBlocks are those of three layers with fanouts 10, 15 and 20: destinations,
// sources, edges and fanout.
var deepBlocks = [][4]int{{110_000, 450_000, 678_000, 10}, {12_000, 110_000, 124_000, 15}, {1_024, 12_000, 13_500, 20}}

// benchBatch returns blocks of these sizes and their features. Sources past the destinations are
// used at least once, other edges favour low positions.
func benchBatch(dim, classes int, blocks [][4]int) (*graph.Batch, []float32) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := new(graph.Batch)
	for _, s := range blocks {
		dst, src, edges, fanout := s[0], s[1], s[2], s[3]
		k := graph.Block{NumSrc: src, NumDst: dst, Indptr: make([]uint32, dst+1), Indices: make([]uint32, edges)}
		for _, place := range rng.Perm(dst * fanout)[:edges] { // no destination above the fanout
			k.Indptr[place/fanout+1]++
		}
		for i := range dst {
			k.Indptr[i+1] += k.Indptr[i]
		}
		for i, e := range rng.Perm(edges) {
			if k.Indices[e] = uint32(dst + i); dst+i >= src {
				u := rng.Float64()
				k.Indices[e] = uint32(u * u * float64(src))
			}
		}
		b.Blocks = append(b.Blocks, k)
	}
	n := b.Blocks[0].NumSrc
	b.Input, b.Degree = make([]uint32, n), make([]uint32, n)
	x := make([]float32, n*dim)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for i := range n {
		b.Input[i], b.Degree[i] = uint32(i), uint32(10+rng.IntN(90))
	}
	for range b.NumSeeds() {
		b.Labels = append(b.Labels, int32(rng.IntN(classes)))
	}
	return b, x
}
