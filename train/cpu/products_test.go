package cpu

import (
	"context"
	"maps"
	"testing"

	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

// Five sources, three destinations, two seed nodes; widths 3, 4 and 2: by hand.
func TestStepProducts(t *testing.T) {
	b := &graph.Batch{
		Blocks: []graph.Block{
			{NumSrc: 5, NumDst: 3, Indptr: []uint32{0, 2, 3, 4}, Indices: []uint32{3, 4, 1, 4}},
			{NumSrc: 3, NumDst: 2, Indptr: []uint32{0, 1, 3}, Indices: []uint32{2, 0, 2}},
		},
		Input: make([]uint32, 5), Degree: make([]uint32, 5), Labels: []int32{0, 1},
	}
	type products = map[blas.Product]int
	for name, c := range map[string]struct {
		m    model.Model
		want products
	}{
		"sage": {with(model.Model{Kind: model.SAGE}, model.Aggregate, 0, 3, 4, 2), products{
			{M: 3, N: 4, K: 6, LDA: 6, LDB: 4, LDC: 4}:               1, // [A(x) | x]·W
			{M: 2, N: 2, K: 8, LDA: 8, LDB: 2, LDC: 2}:               1,
			{TransA: true, M: 8, N: 2, K: 2, LDA: 8, LDB: 2, LDC: 2}: 1, // gradients of the weights
			{TransA: true, M: 6, N: 4, K: 3, LDA: 6, LDB: 4, LDC: 4}: 1,
			{TransB: true, M: 2, N: 4, K: 2, LDA: 2, LDB: 2, LDC: 4}: 2, // of the aggregate, and of the destinations
		}},
		"gcn": {with(model.Model{Kind: model.GCN}, model.Multiply, 0, 3, 4, 2), products{
			{M: 5, N: 4, K: 3, LDA: 3, LDB: 4, LDC: 4}:               1, // x·W
			{M: 3, N: 2, K: 4, LDA: 4, LDB: 2, LDC: 2}:               1,
			{TransA: true, M: 4, N: 2, K: 3, LDA: 4, LDB: 2, LDC: 2}: 1, // gradients of the weights
			{TransA: true, M: 3, N: 4, K: 5, LDA: 3, LDB: 4, LDC: 4}: 1,
			{TransB: true, M: 3, N: 4, K: 2, LDA: 2, LDB: 2, LDC: 4}: 1, // of the hidden layer
		}},
		// Two heads of two columns each; rows of x·W and of four scores.
		"gat": {inOrder(gat(2, 0, 3, 2), model.Multiply), products{
			{M: 3, N: 1, K: 2, LDA: 4, LDB: 1, LDC: 8}:               4, // W_h·a_h
			{M: 3, N: 8, K: 3, LDA: 3, LDB: 8, LDC: 8}:               1, // x·[W | …]
			{TransA: true, M: 3, N: 8, K: 3, LDA: 3, LDB: 8, LDC: 8}: 1, // its gradient
			{TransA: true, M: 1, N: 2, K: 3, LDA: 8, LDB: 4, LDC: 2}: 4, // those of a_h
			{M: 3, N: 2, K: 1, LDA: 8, LDB: 2, LDC: 4}:               4, // and of W_h
		}},
	} {
		one := *b
		one.Blocks = b.Blocks[len(b.Blocks)-c.m.Layers():]
		one.Input, one.Degree = b.Input[:one.Blocks[0].NumSrc], b.Degree[:one.Blocks[0].NumSrc]
		e := newEngine(t, engine.Config{Network: c.m, Sizes: graphtest.Roomy(&one), Threads: 2})
		x := make([]float32, 5*3)
		w, err := e.NewWork(false, nil)
		if err == nil {
			err = w.Prepare(&one)
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.StepProducts(context.Background(), w, engine.Rows(x))
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, %v\nwant %v", name, got, err, c.want)
		}
		step(t, e, input(t, e.preparer, &one, x))
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: a later step is counted, too", name)
		}
	}
}
