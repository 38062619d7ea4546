package plain

import (
	"math"

	"diskgnn/internal/kernel"
)

// LayerNorm normalises rows of width elements of z in place, and stores the normalised rows in normed and
// 1/√(variance + epsilon) of every row in inverse; see kernels.LayerNorm.
func LayerNorm(z, normed, inverse, bias, scale []float32, epsilon float32, width, rows int) {
	for i := range rows {
		row, to := z[i*width:][:width], normed[i*width:][:width]
		kernel.Add(row, bias)
		inverse[i] = kernel.Normalize(to, row, epsilon)
		kernel.Mul(row, to, scale)
	}
}

// LayerNormBackward replaces the gradients g of LayerNorm's output by the gradients of its input; see
// kernels.LayerNormBackward.
func LayerNormBackward(g, normed, inverse, scale []float32, width, rows int) {
	for i := range rows {
		kernel.NormalizeBackward(g[i*width:][:width], normed[i*width:][:width], scale, inverse[i])
	}
}

// SumProducts returns, for every column, the sum over rows of a·b; see kernels.SumProducts. most is the
// upper limit of rows, which determines the order of the sum.
func SumProducts(a, b []float32, width, rows, most int) []float32 {
	return sumGroups(width, rows, most, func(sum []float32, i int) {
		kernel.AddProduct(sum, a[i*width:][:width], b[i*width:][:width])
	})
}

// BatchStatistics returns the mean, 1/√(variance + epsilon) and the unbiased variance of every column over
// rows; see kernels.BatchStatistics.
func BatchStatistics(z []float32, epsilon float32, width, rows, most int) (mean, inverse, variance []float32) {
	n := float32(max(rows, 1))
	mean = sumGroups(width, rows, most, func(sum []float32, i int) { kernel.Add(sum, z[i*width:][:width]) })
	for c := range mean {
		mean[c] /= n
	}
	variance = sumGroups(width, rows, most, func(sum []float32, i int) { kernel.AddSquares(sum, z[i*width:][:width], mean) })
	inverse = make([]float32, width)
	for c, v := range variance {
		inverse[c] = float32(1 / math.Sqrt(float64(v)/float64(max(rows, 1))+float64(epsilon)))
		variance[c] = float32(float64(v) / float64(max(rows-1, 1)))
	}
	return mean, inverse, variance
}

// Standardize normalises the columns of z in place, by the given means and inverse deviations, and stores
// the normalised rows in normed; see kernels.Standardize.
func Standardize(z, normed, mean, inverse, scale []float32, width, rows int) {
	for i := range rows {
		row, to := z[i*width:][:width], z[i*width:][:width]
		if normed != nil {
			to = normed[i*width:][:width]
		}
		kernel.Standardize(to, row, mean, inverse)
		kernel.Mul(row, to, scale)
	}
}

// StandardizeBackward replaces the gradients g of Standardize's output by the gradients of its input,
// statistics included; see kernels.StandardizeBackward.
func StandardizeBackward(g, normed, inverse, scale, dShift, dScale []float32, width, rows int) {
	meanG, meanGX := make([]float32, width), make([]float32, width)
	for c := range width {
		meanG[c], meanGX[c] = dShift[c]/float32(rows), dScale[c]/float32(rows)
	}
	for i := range rows {
		kernel.StandardizeBackward(g[i*width:][:width], normed[i*width:][:width], scale, inverse, meanG, meanGX)
	}
}
