package kernels_test

import (
	"testing"

	"diskgnn/device/cuda/kernels"
	"diskgnn/device/cuda/kernels/plain"
)

const epsilon = 1e-5

func TestLayerNormOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, width, rows int) {
		count := most(g, rows)
		z, grads := r.floats(count.Most*width), r.floats(count.Most*width)
		bias, scale := r.floats(width), r.floats(width)
		a := kernels.LayerNorm{Z: put(g, z), Normed: g.empty(4 * len(z)), Inverse: g.empty(4 * count.Most), Bias: put(g, bias), Scale: put(g, scale),
			Epsilon: epsilon, Width: width, Rows: count}
		check(g, a.Launch(g.Stream))
		normed, inverse := nans(len(z)), nans(count.Most)
		plain.LayerNorm(z, normed, inverse, bias, scale, epsilon, width, rows)
		same(g, "output", get[float32](g, a.Z), z)
		same(g, "normed", get[float32](g, a.Normed), normed)
		same(g, "inverse", get[float32](g, a.Inverse), inverse)

		sums := g.empty(4 * width * kernels.SumRows(count.Most))
		d := kernels.SumProducts{Out: g.empty(4 * width), A: put(g, grads), B: a.Normed, Width: width, Sums: sums, Rows: count}
		check(g, d.Launch(g.Stream))
		same(g, "scale's gradient", get[float32](g, d.Out), plain.SumProducts(grads, normed, width, rows, count.Most))

		b := kernels.LayerNormBackward{G: d.A, Normed: a.Normed, Inverse: a.Inverse, Scale: a.Scale, Width: width, Rows: count}
		check(g, b.Launch(g.Stream))
		plain.LayerNormBackward(grads, normed, inverse, scale, width, rows)
		same(g, "gradients", get[float32](g, b.G), grads)
	})
}

func TestBatchNormOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, width, rows int) {
		count := most(g, rows)
		z, grads, scale := r.floats(count.Most*width), r.floats(count.Most*width), r.floats(width)
		sums := g.empty(4 * width * kernels.SumRows(count.Most))
		a := kernels.BatchStatistics{Z: put(g, z), Mean: g.empty(4 * width), Inverse: g.empty(4 * width), Variance: g.empty(4 * width), Epsilon: epsilon,
			Width: width, Sums: sums, Rows: count}
		check(g, a.Launch(g.Stream))
		mean, inverse, variance := plain.BatchStatistics(z, epsilon, width, rows, count.Most)
		clear(z[rows*width:])
		same(g, "mean", get[float32](g, a.Mean), mean)
		same(g, "inverse", get[float32](g, a.Inverse), inverse)
		same(g, "variance", get[float32](g, a.Variance), variance)

		b := kernels.Standardize{Z: a.Z, Normed: g.empty(4 * len(z)), Mean: a.Mean, Inverse: a.Inverse, Scale: put(g, scale), Width: width, Rows: count}
		check(g, b.Launch(g.Stream))
		normed := nans(len(z))
		plain.Standardize(z, normed, mean, inverse, scale, width, rows)
		same(g, "output", get[float32](g, b.Z), z)
		same(g, "normed", get[float32](g, b.Normed), normed)

		shift, along := r.floats(width), r.floats(width)
		c := kernels.StandardizeBackward{G: put(g, grads), Normed: b.Normed, Inverse: a.Inverse, Scale: b.Scale, DShift: put(g, shift), DScale: put(g, along),
			Width: width, Rows: count}
		check(g, c.Launch(g.Stream))
		plain.StandardizeBackward(grads, normed, inverse, scale, shift, along, width, rows)
		same(g, "gradients", get[float32](g, c.G), grads)
	})
}
