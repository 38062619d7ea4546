package sampler

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"diskgnn/graph"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
)

// rmat makes a recursive-matrix graph (.57, .19, .19): each edge descends one
// quadrant for each bit of the node ids. Duplicates and self-loops stay.
func rmat(scale, edges int, seed uint64) *graph.CSC {
	src := rng.New(seed)
	from, to := make([]uint32, edges), make([]uint32, edges)
	g := &graph.CSC{Indptr: make([]int64, 1<<scale+1), Indices: make([]uint32, edges)}
	for i := range from {
		var u, v uint32
		for range scale {
			switch r := src.Float64(); {
			case r < .57:
				u, v = 2*u, 2*v
			case r < .76:
				u, v = 2*u, 2*v+1
			case r < .95:
				u, v = 2*u+1, 2*v
			default:
				u, v = 2*u+1, 2*v+1
			}
		}
		from[i], to[i] = u, v
		g.Indptr[v+1]++
	}
	for v := range 1 << scale {
		g.Indptr[v+1] += g.Indptr[v]
	}
	at := make([]int64, 1<<scale)
	for i, v := range to {
		g.Indices[g.Indptr[v]+at[v]] = from[i]
		at[v]++
	}
	return g
}

var benchGraph = sync.OnceValue(func() *graph.CSC { return rmat(18, 5_000_000, 1) })

// BenchmarkSample draws batches of 1024 seeds at fanout 10,15,20 on one core,
// with both kinds of table, and encodes them.
//
//	go test -run '^$' -bench Sample -cpu 1 ./presample/sampler
func BenchmarkSample(b *testing.B) {
	g := benchGraph()
	nodes := int64(g.NumNodes())
	fanout := []int{10, 15, 20}
	for _, kind := range []string{"array", "hash"} {
		for _, encode := range []bool{false, true} {
			name := kind
			if encode {
				name += "/encode"
			}
			b.Run(name, func(b *testing.B) {
				s := New(g, fanout, Options{Hash: kind == "hash"})
				s.batch.Labels = make([]int32, 1024)
				var e mbfile.Encoded
				seeds := make([]uint32, 1024)
				edges, key := 0, uint64(0)
				draw := func() {
					for i := range seeds { // an odd factor: all different
						seeds[i] = uint32(uint64(i)*0x9E3779B1+key*0x85EBCA6B) & uint32(nodes-1)
					}
					if err := s.sample(context.Background(), &s.batch, seeds, key); err != nil {
						b.Fatal(err)
					}
					if encode {
						e.Encode(&s.batch)
					}
					key++
				}
				for range 4 {
					draw()
				}
				b.ReportAllocs()
				for b.Loop() {
					draw()
					edges += s.batch.NumEdges()
				}
				b.ReportMetric(float64(edges)/b.Elapsed().Seconds()/1e6, "Medges/s")
			})
		}
	}
}

// BenchmarkLabor draws the same batches by LABOR, which depend on each other or do not.
func BenchmarkLabor(b *testing.B) {
	g := benchGraph()
	nodes := int64(g.NumNodes())
	for _, dependency := range []int{0, 64} {
		b.Run(fmt.Sprint("dependency ", dependency), func(b *testing.B) {
			from := laborSeeds(mbfile.Params{BatchDependency: dependency}, 1)
			s := New(g, []int{10, 15, 20}, Options{})
			seeds := make([]uint32, 1024)
			for i := range seeds {
				seeds[i] = uint32(uint64(i)*0x9E3779B1) & uint32(nodes-1)
			}
			edges, batch := 0, 0
			for b.Loop() {
				if err := byLabor(s, from, ID{Epoch: batch}).sample(context.Background(), &s.batch, seeds, 0); err != nil {
					b.Fatal(err)
				}
				batch++
				edges += s.batch.NumEdges()
			}
			b.ReportMetric(float64(edges)/b.Elapsed().Seconds()/1e6, "Medges/s")
		})
	}
}

// BenchmarkDraw draws 15 of lists of several lengths: in a register, exactly in
// bits, and with the filter.
func BenchmarkDraw(b *testing.B) {
	for _, n := range []uint32{20, 60, 500, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var d drawer
			d.prepare(15)
			pos := make([]int64, 15)
			key := uint64(0)
			for b.Loop() {
				d.draw(pos, 0, n, key)
				key++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(15*b.N), "ns/draw")
		})
	}
}
