package prepare

import (
	"math/rand/v2"
	"testing"

	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/train/model"
)

// deep returns a batch as large as those of 1024 seeds and fanouts 10, 15 and 20, packed:
// every source past the destinations is used at least once, other edges favour some, and
// the outermost block's sources are in an order of their own.
func deep() *graph.Batch {
	rng := rand.New(rand.NewPCG(1, 2))
	b := new(graph.Batch)
	for _, s := range []struct{ dst, src, edges, fanout int }{{110_000, 450_000, 678_000, 10}, {12_000, 110_000, 124_000, 15}, {1024, 12_000, 13_500, 20}} {
		k := graph.Block{NumSrc: s.src, NumDst: s.dst, Indptr: make([]uint32, s.dst+1), Indices: make([]uint32, s.edges)}
		for _, place := range rng.Perm(s.dst * s.fanout)[:s.edges] { // no destination above the fanout
			k.Indptr[place/s.fanout+1]++
		}
		for i := range s.dst {
			k.Indptr[i+1] += k.Indptr[i]
		}
		// New sources are numbered as they are met.
		next, left := s.dst, s.src-s.dst
		for e := range k.Indices {
			if rng.IntN(s.edges-e) < left {
				k.Indices[e] = uint32(next)
				next, left = next+1, left-1
			} else {
				u := rng.Float64()
				k.Indices[e] = uint32(u * u * float64(next))
			}
		}
		b.Blocks = append(b.Blocks, k)
	}
	for i := range b.Blocks[0].NumSrc {
		b.Input, b.Degree = append(b.Input, uint32(i)), append(b.Degree, uint32(3/(rng.Float64()+1e-4)))
	}
	for range b.NumSeeds() {
		b.Labels = append(b.Labels, int32(rng.IntN(172)))
	}
	graphtest.Renumber(b, rng.Perm(b.Blocks[0].NumSrc))
	return b
}

// BenchmarkPrepare measures one thread:
//
//	go test -run '^$' -bench Prepare -cpu 1 ./train/prepare
func BenchmarkPrepare(b *testing.B) {
	batch := deep()
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
