package cuda_test

import (
	"fmt"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/internal/kernel"
)

// The benchmarks' sizes are those of a mini-batch's outermost layers, far beyond the
// device's own cache: rates are those of its memory.
const (
	benchMemory = 8 << 30
	benchWidth  = 128
	benchSrc    = 1 << 20
	benchDst    = 200_000
	benchDegree = 10
)

// rate runs launch b.N times and reports how fast it moves so many bytes, also as a
// share of what the device's memory can.
func (g *gpu) rate(b *testing.B, bytes int, launch func() error) {
	took := g.timed(b, launch)
	rate := float64(bytes) / took
	b.ReportMetric(rate/1e9, "GB/s")
	b.ReportMetric(100*rate/float64(g.Bandwidth), "%peak")
}

// attached attaches the goroutine, which is another one in every sub-benchmark.
func (g *gpu) attached(b *testing.B) (detach func()) {
	detach, err := g.Attach()
	check(b, err)
	return detach
}

// timed returns the seconds of one launch, by the device's clock.
func (g *gpu) timed(b *testing.B, launch func() error) float64 {
	b.Helper()
	defer g.attached(b)()
	from, err := g.NewEvent()
	check(b, err)
	defer from.Free()
	to, err := g.NewEvent()
	check(b, err)
	defer to.Free()
	check(b, launch())
	check(b, g.Synchronize())
	b.ResetTimer()
	check(b, from.Record(g.Stream))
	for range b.N {
		check(b, launch())
	}
	check(b, to.Record(g.Stream))
	check(b, to.Synchronize())
	b.StopTimer()
	took, err := to.Since(from)
	check(b, err)
	return took.Seconds() / float64(b.N)
}

func BenchmarkGather(b *testing.B) {
	for _, width := range []int{100, benchWidth, 768} {
		for _, of := range dtypes {
			b.Run(fmt.Sprintf("%d/%s", width, of), func(b *testing.B) {
				g := newGPU(b, benchMemory)
				rows := 256 << 20 / (4 * width)
				tableRows := 4 * rows
				a := cuda.Gather{Out: g.empty(4 * rows * width), Stride: width, Table: g.empty(tableRows * of.RowBytes(width)), Type: of, Width: width,
					Index: put(g, newRandom(1).indices(rows, tableRows)), Rows: cuda.Rows(rows)}
				g.rate(b, rows*(of.RowBytes(width)+4*width+4), func() error { return g.Gather(&a) })
			})
		}
	}
}

func BenchmarkAggregate(b *testing.B) {
	r := newRandom(1)
	block := r.block(benchDst, benchSrc, benchDegree)
	for _, width := range []int{47, 100, benchWidth, 256} {
		moved := len(block.indices) * 4 * (width + 1)
		b.Run(fmt.Sprint(width), func(b *testing.B) {
			g := newGPU(b, benchMemory)
			a := cuda.Aggregate{Out: g.empty(4 * benchDst * width), Stride: width, X: g.empty(4 * benchSrc * width), Width: width,
				Indptr: put(g, block.indptr), Indices: put(g, block.indices), Edges: len(block.indices), Outer: g.empty(4 * benchDst), Rows: cuda.Rows(benchDst)}
			g.rate(b, moved+4*benchDst*(width+2), func() error { return g.Aggregate(&a) })
		})
		b.Run(fmt.Sprintf("%d/transposed", width), func(b *testing.B) {
			g := newGPU(b, benchMemory)
			a := cuda.Aggregate{Out: g.empty(4 * benchSrc * width), Stride: width, X: g.empty(4 * benchDst * width), Width: width, Transposed: true,
				Indptr: put(g, block.tindptr), Indices: put(g, block.tindices), Edges: len(block.tindices), Inner: g.empty(4 * benchDst), Rows: cuda.Rows(benchSrc)}
			g.rate(b, moved+4*benchSrc*(width+1), func() error { return g.Aggregate(&a) })
		})
	}
}

func BenchmarkScatter(b *testing.B) {
	const width = 256
	block := newRandom(1).block(benchDst, benchSrc, 6)
	g := newGPU(b, benchMemory)
	rows := 4 * benchSrc * width
	a := cuda.Scatter{Aggregate: cuda.Aggregate{Out: g.empty(rows), Stride: width, X: g.empty(4 * benchDst * width), Width: width, Transposed: true,
		Indptr: put(g, block.tindptr), Indices: put(g, block.tindices), Edges: len(block.tindices), Inner: g.empty(4 * benchDst), Rows: cuda.Rows(benchSrc)},
		Y: g.empty(rows), Sums: g.empty(4 * width * cuda.SumRows(benchSrc)), DBias: g.empty(4 * width), Activation: cuda.ReLU,
		Dropout: cuda.Dropout{Rate: kernel.NewDropout(0.5), Stream: put(g, []uint64{1})}}
	g.rate(b, 2*rows+len(block.tindices)*4*(width+1), func() error { return g.Scatter(&a) })
}

func BenchmarkTail(b *testing.B) {
	const width, rows = 256, benchDst
	for _, name := range []string{"identity", "relu", "elu"} {
		dropout := cuda.Dropout{Rate: kernel.NewDropout(0.5)}
		b.Run(name, func(b *testing.B) {
			g := newGPU(b, benchMemory)
			dropout.Stream = put(g, []uint64{1})
			a := cuda.Tail{Z: g.empty(4 * rows * width), Width: width, Bias: g.empty(4 * width), Activation: activations[name], Dropout: dropout, Rows: cuda.Rows(rows)}
			g.rate(b, 2*4*rows*width, func() error { return g.Tail(&a) })
		})
		b.Run(name+"/backward", func(b *testing.B) {
			g := newGPU(b, benchMemory)
			dropout.Stream = put(g, []uint64{1})
			a := cuda.TailBackward{G: g.empty(4 * rows * width), Y: g.empty(4 * rows * width), Width: width, Sums: g.empty(4 * width * cuda.SumRows(rows)),
				DBias: g.empty(4 * width), Activation: activations[name], Dropout: dropout, Rows: cuda.Rows(rows)}
			moved := 3 * 4 * rows * width
			if name == "identity" {
				moved /= 3 // gradients are only read
			}
			g.rate(b, moved, func() error { return g.TailBackward(&a) })
		})
	}
}

func BenchmarkCrossEntropy(b *testing.B) {
	for _, rows := range []int{1024, 262144} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			const classes = 172
			g := newGPU(b, benchMemory)
			a := cuda.CrossEntropy{G: g.empty(4 * rows * classes), Z: put(g, newRandom(1).floats(rows*classes)), Classes: classes, Labels: put(g, make([]int32, rows)),
				Inverse: put(g, []float32{1}), RowLoss: g.empty(8 * rows), Right: g.empty(4 * rows), Score: g.empty(cuda.ScoreBytes), Rows: cuda.Rows(rows)}
			g.rate(b, 2*4*rows*classes, func() error { return g.CrossEntropy(&a) })
		})
	}
}

func BenchmarkNorm(b *testing.B) {
	const width, rows = 256, benchDst
	g := newGPU(b, benchMemory)
	z, normed, inverse, column := g.empty(4*rows*width), g.empty(4*rows*width), g.empty(4*rows), g.empty(4*width)
	sums := g.empty(4 * width * cuda.SumRows(rows))
	for _, c := range []struct {
		name   string
		passes int // over a matrix
		launch func() error
	}{
		{"layer", 3, func() error {
			return g.LayerNorm(&cuda.LayerNorm{Z: z, Normed: normed, Inverse: inverse, Bias: column, Scale: column, Width: width, Rows: cuda.Rows(rows)})
		}},
		{"layer backward", 3, func() error {
			return g.LayerNormBackward(&cuda.LayerNormBackward{G: z, Normed: normed, Inverse: inverse, Scale: column, Width: width, Rows: cuda.Rows(rows)})
		}},
		{"sum of products", 2, func() error {
			return g.SumProducts(&cuda.SumProducts{Out: column, A: z, B: normed, Width: width, Sums: sums, Rows: cuda.Rows(rows)})
		}},
		{"batch statistics", 2, func() error {
			return g.BatchStatistics(&cuda.BatchStatistics{Z: z, Mean: column, Inverse: inverse, Variance: column, Width: width, Sums: sums, Rows: cuda.Rows(rows)})
		}},
		{"standardize", 3, func() error {
			return g.Standardize(&cuda.Standardize{Z: z, Normed: normed, Mean: column, Inverse: inverse, Scale: column, Width: width, Rows: cuda.Rows(rows)})
		}},
		{"standardize backward", 3, func() error {
			return g.StandardizeBackward(&cuda.StandardizeBackward{G: z, Normed: normed, Inverse: inverse, Scale: column, DShift: column, DScale: column,
				Width: width, Rows: cuda.Rows(rows)})
		}},
	} {
		b.Run(c.name, func(b *testing.B) { g.rate(b, c.passes*4*rows*width, c.launch) })
	}
}

func BenchmarkAdam(b *testing.B) {
	const n = 32 << 20
	g := newGPU(b, benchMemory)
	a := cuda.Adam{Weights: g.empty(4 * n), Grads: g.empty(4 * n), Moment1: g.empty(4 * n), Moment2: g.empty(4 * n),
		Step: put(g, make([]float32, cuda.AdamStepBytes/4)), Parameters: n}
	g.rate(b, 7*4*n, func() error { return g.Adam(&a) })
}

func BenchmarkZeroPadding(b *testing.B) {
	const width, rows = 256, benchDst
	g := newGPU(b, benchMemory)
	a := cuda.ZeroPadding{X: g.empty(4 * rows * width), Stride: width, Width: width, Rows: cuda.Count{Most: rows, At: put(g, []uint32{0})}}
	g.rate(b, 4*rows*width, func() error { return g.ZeroPadding(&a) })
}

func BenchmarkEdgeSoftmax(b *testing.B) {
	const heads = 8
	r := newRandom(1)
	block := r.block(benchDst, benchSrc, benchDegree)
	edges := len(block.indices)
	g := newGPU(b, benchMemory)
	a := cuda.EdgeSoftmaxBackward{EdgeSoftmax: cuda.EdgeSoftmax{Weights: g.empty(4 * edges * heads), Scores: put(g, r.floats(benchSrc*2*heads)), Heads: heads, Slope: 0.2, Indptr: put(g, block.indptr), Indices: put(g, block.indices), Edges: edges,
		Rows: cuda.Rows(benchDst)}, Grads: g.empty(4 * edges * heads), OwnGrads: g.empty(4 * benchDst * heads)}
	b.Run("forward", func(b *testing.B) {
		g.rate(b, 4*edges*(2*heads+1), func() error { return g.EdgeSoftmax(&a.EdgeSoftmax) })
	})
	b.Run("backward", func(b *testing.B) {
		g.rate(b, 4*edges*(4*heads+1), func() error { return g.EdgeSoftmaxBackward(&a) })
	})
	sum := cuda.SumEdges{Out: a.Scores, Values: a.Grads, Own: a.OwnGrads, Heads: heads, Indptr: put(g, block.tindptr), Edges: put(g, block.tedges),
		Places: cuda.Rows(benchDst), Rows: cuda.Rows(benchSrc)}
	b.Run("sum", func(b *testing.B) {
		g.rate(b, 4*edges*(heads+1)+4*benchSrc*2*heads, func() error { return g.SumEdges(&sum) })
	})
}

func BenchmarkHeads(b *testing.B) {
	const heads, width = 8, benchWidth
	r := newRandom(1)
	block := r.block(benchDst, benchSrc, benchDegree)
	edges := len(block.indices)
	g := newGPU(b, benchMemory)
	x, w, y := g.empty(4*benchSrc*width), g.empty(4*edges*heads), g.empty(4*benchDst*heads*width)
	indptr, indices := put(g, block.indptr), put(g, block.indices)
	sum := cuda.AggregateHeads{Out: y, X: x, Width: width, Heads: heads, Weights: w, Indptr: indptr, Indices: indices, Edges: edges, Rows: cuda.Rows(benchDst)}
	dots := cuda.EdgeDots{Out: w, X: x, Y: y, Width: width, Heads: heads, Indptr: indptr, Indices: indices, Edges: edges, Rows: cuda.Rows(benchDst)}
	back := cuda.CombineHeads{Out: x, Y: y, Width: width, Heads: heads, Weights: w, Indptr: put(g, block.tindptr), Indices: put(g, block.tindices),
		Edges: put(g, block.tedges), Entries: edges, Rows: cuda.Rows(benchSrc)}
	lists, rows := 4*edges*(heads+1), 4*benchDst*heads*width
	b.Run("aggregate", func(b *testing.B) {
		g.rate(b, 4*edges*width+rows+lists, func() error { return g.AggregateHeads(&sum) })
	})
	b.Run("dots", func(b *testing.B) {
		g.rate(b, 4*edges*width+rows+lists, func() error { return g.EdgeDots(&dots) })
	})
	b.Run("combine", func(b *testing.B) {
		g.rate(b, 4*edges*heads*width+4*benchSrc*width+lists, func() error { return g.CombineHeads(&back) })
	})
}

func BenchmarkMaximum(b *testing.B) {
	const width = benchWidth
	block := newRandom(1).block(benchDst, benchSrc, benchDegree)
	edges := len(block.indices)
	g := newGPU(b, benchMemory)
	chosen := g.empty(4 * benchDst * width)
	a := cuda.Maximum{Out: g.empty(4 * benchDst * width), Stride: width, Chosen: chosen, X: g.empty(4 * benchSrc * width), Width: width,
		Indptr: put(g, block.indptr), Indices: put(g, block.indices), Edges: edges, Rows: cuda.Rows(benchDst)}
	back := cuda.MaximumBackward{Out: a.X, G: a.Out, Chosen: chosen, Width: width, Indptr: put(g, block.tindptr), Indices: put(g, block.tindices),
		Edges: edges, Rows: cuda.Rows(benchSrc)}
	b.Run("forward", func(b *testing.B) {
		g.rate(b, 4*(edges+2*benchDst)*width, func() error { return g.Maximum(&a) })
	})
	b.Run("backward", func(b *testing.B) {
		g.rate(b, 4*(2*edges+benchSrc)*width, func() error { return g.MaximumBackward(&back) })
	})
}
