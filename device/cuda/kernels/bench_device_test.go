package kernels_test

import (
	"fmt"
	"testing"

	"diskgnn/device/cuda/kernels"
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
				a := kernels.Gather{Out: g.empty(4 * rows * width), Stride: width, Table: g.empty(tableRows * of.RowBytes(width)), Type: of, Width: width,
					Index: put(g, newRandom(1).indices(rows, tableRows)), Rows: kernels.Rows(rows)}
				g.rate(b, rows*(of.RowBytes(width)+4*width+4), func() error { return a.Launch(g.Stream) })
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
			a := kernels.Aggregate{Out: g.empty(4 * benchDst * width), Stride: width, X: g.empty(4 * benchSrc * width), Width: width,
				Indptr: put(g, block.indptr), Indices: put(g, block.indices), Edges: len(block.indices), Outer: g.empty(4 * benchDst), Rows: kernels.Rows(benchDst)}
			g.rate(b, moved+4*benchDst*(width+2), func() error { return a.Launch(g.Stream) })
		})
		b.Run(fmt.Sprintf("%d/transposed", width), func(b *testing.B) {
			g := newGPU(b, benchMemory)
			a := kernels.Aggregate{Out: g.empty(4 * benchSrc * width), Stride: width, X: g.empty(4 * benchDst * width), Width: width, Transposed: true,
				Indptr: put(g, block.tindptr), Indices: put(g, block.tindices), Edges: len(block.tindices), Inner: g.empty(4 * benchDst), Rows: kernels.Rows(benchSrc)}
			g.rate(b, moved+4*benchSrc*(width+1), func() error { return a.Launch(g.Stream) })
		})
	}
}

func BenchmarkScatter(b *testing.B) {
	const width = 256
	block := newRandom(1).block(benchDst, benchSrc, 6)
	g := newGPU(b, benchMemory)
	rows := 4 * benchSrc * width
	a := kernels.Scatter{Aggregate: kernels.Aggregate{Out: g.empty(rows), Stride: width, X: g.empty(4 * benchDst * width), Width: width, Transposed: true,
		Indptr: put(g, block.tindptr), Indices: put(g, block.tindices), Edges: len(block.tindices), Inner: g.empty(4 * benchDst), Rows: kernels.Rows(benchSrc)},
		Y: g.empty(rows), Sums: g.empty(4 * width * kernels.SumRows(benchSrc)), DBias: g.empty(4 * width), Activation: kernels.ReLU,
		Dropout: kernels.Dropout{Rate: kernel.NewDropout(0.5), Stream: put(g, []uint64{1})}}
	g.rate(b, 2*rows+len(block.tindices)*4*(width+1), func() error { return a.Launch(g.Stream) })
}

func BenchmarkTail(b *testing.B) {
	const width, rows = 256, benchDst
	for _, name := range []string{"identity", "relu", "elu"} {
		dropout := kernels.Dropout{Rate: kernel.NewDropout(0.5)}
		b.Run(name, func(b *testing.B) {
			g := newGPU(b, benchMemory)
			dropout.Stream = put(g, []uint64{1})
			a := kernels.Tail{Z: g.empty(4 * rows * width), Width: width, Bias: g.empty(4 * width), Activation: activations[name], Dropout: dropout, Rows: kernels.Rows(rows)}
			g.rate(b, 2*4*rows*width, func() error { return a.Launch(g.Stream) })
		})
		b.Run(name+"/backward", func(b *testing.B) {
			g := newGPU(b, benchMemory)
			dropout.Stream = put(g, []uint64{1})
			a := kernels.TailBackward{G: g.empty(4 * rows * width), Y: g.empty(4 * rows * width), Width: width, Sums: g.empty(4 * width * kernels.SumRows(rows)),
				DBias: g.empty(4 * width), Activation: activations[name], Dropout: dropout, Rows: kernels.Rows(rows)}
			moved := 3 * 4 * rows * width
			if name == "identity" {
				moved /= 3 // gradients are only read
			}
			g.rate(b, moved, func() error { return a.Launch(g.Stream) })
		})
	}
}

func BenchmarkCrossEntropy(b *testing.B) {
	for _, rows := range []int{1024, 262144} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			const classes = 172
			g := newGPU(b, benchMemory)
			a := kernels.CrossEntropy{G: g.empty(4 * rows * classes), Z: put(g, newRandom(1).floats(rows*classes)), Classes: classes, Labels: put(g, make([]int32, rows)),
				Inverse: put(g, []float32{1}), RowLoss: g.empty(8 * rows), Right: g.empty(4 * rows), Score: g.empty(kernels.ScoreBytes), Rows: kernels.Rows(rows)}
			g.rate(b, 2*4*rows*classes, func() error { return a.Launch(g.Stream) })
		})
	}
}

func BenchmarkNorm(b *testing.B) {
	const width, rows = 256, benchDst
	g := newGPU(b, benchMemory)
	z, normed, inverse, column := g.empty(4*rows*width), g.empty(4*rows*width), g.empty(4*rows), g.empty(4*width)
	sums := g.empty(4 * width * kernels.SumRows(rows))
	for _, c := range []struct {
		name   string
		passes int // over a matrix
		launch func() error
	}{
		{"layer", 3, func() error {
			return kernels.LayerNorm{Z: z, Normed: normed, Inverse: inverse, Bias: column, Scale: column, Width: width, Rows: kernels.Rows(rows)}.Launch(g.Stream)
		}},
		{"layer backward", 3, func() error {
			return kernels.LayerNormBackward{G: z, Normed: normed, Inverse: inverse, Scale: column, Width: width, Rows: kernels.Rows(rows)}.Launch(g.Stream)
		}},
		{"sum of products", 2, func() error {
			return kernels.SumProducts{Out: column, A: z, B: normed, Width: width, Sums: sums, Rows: kernels.Rows(rows)}.Launch(g.Stream)
		}},
		{"batch statistics", 2, func() error {
			return kernels.BatchStatistics{Z: z, Mean: column, Inverse: inverse, Variance: column, Width: width, Sums: sums, Rows: kernels.Rows(rows)}.Launch(g.Stream)
		}},
		{"standardize", 3, func() error {
			return kernels.Standardize{Z: z, Normed: normed, Mean: column, Inverse: inverse, Scale: column, Width: width, Rows: kernels.Rows(rows)}.Launch(g.Stream)
		}},
		{"standardize backward", 3, func() error {
			return kernels.StandardizeBackward{G: z, Normed: normed, Inverse: inverse, Scale: column, DShift: column, DScale: column,
				Width: width, Rows: kernels.Rows(rows)}.Launch(g.Stream)
		}},
	} {
		b.Run(c.name, func(b *testing.B) { g.rate(b, c.passes*4*rows*width, c.launch) })
	}
}

func BenchmarkAdam(b *testing.B) {
	const n = 32 << 20
	g := newGPU(b, benchMemory)
	a := kernels.Adam{Weights: g.empty(4 * n), Grads: g.empty(4 * n), Moment1: g.empty(4 * n), Moment2: g.empty(4 * n),
		Step: put(g, make([]float32, kernels.AdamStepBytes/4)), Parameters: n}
	g.rate(b, 7*4*n, func() error { return a.Launch(g.Stream) })
}

func BenchmarkZeroPadding(b *testing.B) {
	const width, rows = 256, benchDst
	g := newGPU(b, benchMemory)
	a := kernels.ZeroPadding{X: g.empty(4 * rows * width), Stride: width, Width: width, Rows: kernels.Count{Most: rows, At: put(g, []uint32{0})}}
	g.rate(b, 4*rows*width, func() error { return a.Launch(g.Stream) })
}

func BenchmarkEdgeSoftmax(b *testing.B) {
	const heads = 8
	r := newRandom(1)
	block := r.block(benchDst, benchSrc, benchDegree)
	edges := len(block.indices)
	g := newGPU(b, benchMemory)
	a := kernels.EdgeSoftmaxBackward{EdgeSoftmax: kernels.EdgeSoftmax{Weights: g.empty(4 * edges * heads), Scores: put(g, r.floats(benchSrc*2*heads)), Heads: heads, Slope: 0.2, Indptr: put(g, block.indptr), Indices: put(g, block.indices), Edges: edges,
		Rows: kernels.Rows(benchDst)}, Grads: g.empty(4 * edges * heads), OwnGrads: g.empty(4 * benchDst * heads)}
	b.Run("forward", func(b *testing.B) {
		g.rate(b, 4*edges*(2*heads+1), func() error { return a.EdgeSoftmax.Launch(g.Stream) })
	})
	b.Run("backward", func(b *testing.B) {
		g.rate(b, 4*edges*(4*heads+1), func() error { return a.Launch(g.Stream) })
	})
	sum := kernels.SumEdges{Out: a.Scores, Values: a.Grads, Own: a.OwnGrads, Heads: heads, Indptr: put(g, block.tindptr), Edges: put(g, block.tedges),
		Places: kernels.Rows(benchDst), Rows: kernels.Rows(benchSrc)}
	b.Run("sum", func(b *testing.B) {
		g.rate(b, 4*edges*(heads+1)+4*benchSrc*2*heads, func() error { return sum.Launch(g.Stream) })
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
	sum := kernels.AggregateHeads{Out: y, X: x, Width: width, Heads: heads, Weights: w, Indptr: indptr, Indices: indices, Edges: edges, Rows: kernels.Rows(benchDst)}
	dots := kernels.EdgeDots{Out: w, X: x, Y: y, Width: width, Heads: heads, Indptr: indptr, Indices: indices, Edges: edges, Rows: kernels.Rows(benchDst)}
	back := kernels.CombineHeads{Out: x, Y: y, Width: width, Heads: heads, Weights: w, Indptr: put(g, block.tindptr), Indices: put(g, block.tindices),
		Edges: put(g, block.tedges), Entries: edges, Rows: kernels.Rows(benchSrc)}
	lists, rows := 4*edges*(heads+1), 4*benchDst*heads*width
	b.Run("aggregate", func(b *testing.B) {
		g.rate(b, 4*edges*width+rows+lists, func() error { return sum.Launch(g.Stream) })
	})
	b.Run("dots", func(b *testing.B) {
		g.rate(b, 4*edges*width+rows+lists, func() error { return dots.Launch(g.Stream) })
	})
	b.Run("combine", func(b *testing.B) {
		g.rate(b, 4*edges*heads*width+4*benchSrc*width+lists, func() error { return back.Launch(g.Stream) })
	})
}

func BenchmarkMaximum(b *testing.B) {
	const width = benchWidth
	block := newRandom(1).block(benchDst, benchSrc, benchDegree)
	edges := len(block.indices)
	g := newGPU(b, benchMemory)
	chosen := g.empty(4 * benchDst * width)
	a := kernels.Maximum{Out: g.empty(4 * benchDst * width), Stride: width, Chosen: chosen, X: g.empty(4 * benchSrc * width), Width: width,
		Indptr: put(g, block.indptr), Indices: put(g, block.indices), Edges: edges, Rows: kernels.Rows(benchDst)}
	back := kernels.MaximumBackward{Out: a.X, G: a.Out, Chosen: chosen, Width: width, Indptr: put(g, block.tindptr), Indices: put(g, block.tindices),
		Edges: edges, Rows: kernels.Rows(benchSrc)}
	b.Run("forward", func(b *testing.B) {
		g.rate(b, 4*(edges+2*benchDst)*width, func() error { return a.Launch(g.Stream) })
	})
	b.Run("backward", func(b *testing.B) {
		g.rate(b, 4*(2*edges+benchSrc)*width, func() error { return back.Launch(g.Stream) })
	})
}
