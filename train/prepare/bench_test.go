package prepare

import (
	"testing"

	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/train/model"
)

// BenchmarkPrepare measures one thread:
//
//	go test -run '^$' -bench Prepare -cpu 1 ./train/prepare
func BenchmarkPrepare(b *testing.B) {
	batch := graphtest.Deep()
	var sizes graph.Sizes
	sizes.Cover(batch)
	for _, c := range []struct {
		name  string
		m     model.Model
		order model.Order // of the outermost layer
	}{
		{"sage", model.Model{Kind: model.SAGE}, model.Aggregate},
		{"sage-multiply", model.Model{Kind: model.SAGE}, model.Multiply},
		{"gcn", model.Model{Kind: model.GCN}, model.Aggregate},
		{"gcn-multiply", model.Model{Kind: model.GCN}, model.Multiply},
		{"gcn-block", model.Model{Kind: model.GCN, GCNNorm: model.BlockNorm}, model.Aggregate},
		{"gat", model.Model{Kind: model.GAT, Heads: 4}, model.Aggregate},
		{"gat-multiply", model.Model{Kind: model.GAT, Heads: 4}, model.Multiply},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.m.Dims = []int{128, 256, 256, 172}
			r := New(&c.m, []model.Order{c.order, model.Aggregate, model.Aggregate}, sizes, true)
			p := new(Prepared)
			if err := r.Prepare(p, batch); err != nil { // takes the memory
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Prepare(p, batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
