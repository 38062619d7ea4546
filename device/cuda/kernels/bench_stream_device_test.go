package kernels_test

import (
	"fmt"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
)

// BenchmarkGatherHost gathers rows that lie in pinned host memory: over the bus.
func BenchmarkGatherHost(b *testing.B) {
	for _, of := range dtypes {
		b.Run(string(of), func(b *testing.B) {
			const rows, tableRows, width = 1 << 18, 1 << 20, benchWidth
			g := newGPU(b, benchMemory)
			p, err := g.NewPinned(int64(tableRows * of.RowBytes(width)))
			check(b, err)
			b.Cleanup(p.Free)
			table, err := p.Buffer()
			check(b, err)
			a := kernels.Gather{Out: g.empty(4 * rows * width), Stride: width, Table: table, Type: of, Width: width,
				Index: put(g, newRandom(1).indices(rows, tableRows)), Rows: kernels.Rows(rows)}
			g.rate(b, rows*of.RowBytes(width), func() error { return a.Launch(g.Stream) })
		})
	}
}

func BenchmarkCopy(b *testing.B) {
	const bytes = 1 << 30
	g := newGPU(b, benchMemory)
	p, err := g.NewPinned(bytes)
	check(b, err)
	defer p.Free()
	on, other := g.empty(bytes), g.empty(bytes)
	for _, c := range []struct {
		name string
		copy func() error
	}{
		{"in", func() error { return g.CopyIn(on, p.Bytes()) }},
		{"out", func() error { return g.CopyOut(p.Bytes(), on) }},
		{"within", func() error { return g.Copy(other, on) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			moved := bytes
			if c.name == "within" {
				moved *= 2
			}
			g.rate(b, moved, c.copy)
		})
	}
}

func BenchmarkSgemm(b *testing.B) {
	const m, n, k = benchDst, 256, 256
	g := newGPU(b, benchMemory)
	r := newRandom(1)
	x, y, z := put(g, r.floats(m*k)), put(g, r.floats(k*n)), g.empty(4*m*n)
	workspace := g.empty(cuda.BLASWorkspace)
	blas, err := g.NewBLAS(workspace)
	check(b, err)
	defer blas.Free()
	b.Log(blas.Version())
	for _, p := range []cuda.Precision{cuda.Full, cuda.TF32, cuda.BF16} {
		blas.Precision = p
		b.Run(p.String(), func(b *testing.B) {
			took := g.timed(b, func() error { return blas.Sgemm(false, false, m, n, k, 1, x, k, y, n, 0, z, n) })
			b.ReportMetric(2*m*n*k/took/1e12, "TFLOP/s")
		})
		b.Run(p.String()+"/weights", func(b *testing.B) {
			took := g.timed(b, func() error { return blas.Sgemm(true, false, k, n, m, 1, x, k, z, n, 0, y, n) })
			b.ReportMetric(2*m*n*k/took/1e12, "TFLOP/s")
		})
	}
}

// BenchmarkLaunch is what it costs the host to ask for work: one by one, or as a graph.
func BenchmarkLaunch(b *testing.B) {
	const width, rows, launches = 128, 64, 20
	g := newGPU(b, benchMemory)
	a := kernels.ZeroPadding{X: g.empty(4 * rows * width), Stride: width, Width: width, Rows: kernels.Count{Most: rows, At: put(g, []uint32{0})}}
	b.Run("alone", func(b *testing.B) {
		defer g.attached(b)()
		b.ReportAllocs()
		for range b.N {
			check(b, a.Launch(g.Stream))
		}
		check(b, g.Synchronize())
	})
	b.Run(fmt.Sprintf("graph of %d", launches), func(b *testing.B) {
		defer g.attached(b)()
		graph, err := g.Capture("zeros", func() error {
			for range launches {
				if err := a.Launch(g.Stream); err != nil {
					return err
				}
			}
			return nil
		})
		check(b, err)
		defer graph.Free()
		b.ResetTimer()
		b.ReportAllocs()
		for range b.N {
			check(b, graph.Launch(g.Stream))
		}
		check(b, g.Synchronize())
	})
}

func BenchmarkOpen(b *testing.B) {
	for range b.N {
		d, err := kernels.Open(0, cuda.Options{})
		if err != nil {
			b.Skip(err)
		}
		d.Close()
	}
}
