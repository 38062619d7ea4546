package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"diskgnn/train/cpu/blas"
)

// bound computes a step's matrix products alone, with their operands in the cache: a lower bound of
// a step's time.
type bound struct {
	lib      *blas.Library
	products []blas.Product // every one, the longest first
	flops    float64
	workers  [][3][]float32 // each one's operands, for the largest product
	ms       []float64
}

func newBound(kind string, threads int, counts map[blas.Product]int) (*bound, error) {
	lib, err := blas.Open(kind)
	if err != nil {
		return nil, err
	}
	b := &bound{lib: lib, workers: make([][3][]float32, threads)}
	var most [3]int
	for p, n := range counts {
		b.products = append(b.products, slices.Repeat([]blas.Product{p}, n)...)
		b.flops += float64(n) * p.Flops()
		for i, n := range sizesOf(p) {
			most[i] = max(most[i], n)
		}
	}
	slices.SortFunc(b.products, func(p, q blas.Product) int { return cmp.Compare(q.Flops(), p.Flops()) })
	rng := rand.New(rand.NewPCG(1, 2))
	for w := range b.workers {
		b.workers[w] = operandsOf(rng, most)
	}
	return b, nil
}

// run computes all products once; each free worker takes the next one.
func (b *bound) run() {
	start := time.Now()
	var next atomic.Int64
	var workers sync.WaitGroup
	for _, o := range b.workers {
		workers.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(b.products); i = next.Add(1) - 1 {
				p := b.products[i]
				b.lib.Sgemm(p.TransA, p.TransB, p.M, p.N, p.K, 1, o[0], p.LDA, o[1], p.LDB, 0, o[2], p.LDC)
			}
		})
	}
	workers.Wait()
	b.ms = append(b.ms, milliseconds(start))
}
