package main

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"diskgnn/train/cpu/blas"
)

// bound computes a step's matrix products alone, their operands in the cache: a step
// cannot be faster.
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
		rows := [3]int{p.M, p.K, p.M}
		if p.TransA {
			rows[0] = p.K
		}
		if p.TransB {
			rows[1] = p.N
		}
		for i, width := range []int{p.LDA, p.LDB, p.LDC} {
			most[i] = max(most[i], rows[i]*width)
		}
	}
	slices.SortFunc(b.products, func(p, q blas.Product) int { return cmp.Compare(q.Flops(), p.Flops()) })
	rng := rand.New(rand.NewPCG(1, 2))
	for w := range b.workers {
		for i, n := range most {
			b.workers[w][i] = make([]float32, n)
			for k := range b.workers[w][i] {
				b.workers[w][i][k] = float32(rng.NormFloat64())
			}
		}
	}
	return b, nil
}

// run computes all products once, whichever worker is free the next one.
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

// report adds what was measured to a step's report.
func (b *bound) report(to map[string]any, stepMS float64) {
	ms := median(b.ms)
	maps.Copy(to, map[string]any{"gflop": b.flops / 1e9, "sgemm_gflops": b.flops / 1e6 / ms, "sgemm_ms": ms, "step_per_sgemm": stepMS / ms})
}

func milliseconds(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1e3 }

// median sorts the values.
func median(ms []float64) float64 {
	slices.Sort(ms)
	return (ms[(len(ms)-1)/2] + ms[len(ms)/2]) / 2
}
