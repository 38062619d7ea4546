package plain

import (
	"math"
)

func layerNorm(a *arguments) {
	z, normed, inverse, bias, scale, epsilon, width := a.floats(), a.floats(), a.floats(), a.floats(), a.floats(), a.float(), a.int()
	rows, _ := a.rows()
	LayerNorm(z, normed, inverse, bias[:width], scale[:width], epsilon, width, rows)
}

func layerNormBackward(a *arguments) {
	g, normed, inverse, scale, width := a.floats(), a.floats(), a.floats(), a.floats(), a.int()
	rows, _ := a.rows()
	LayerNormBackward(g, normed, inverse, scale[:width], width, rows)
}

func sumProducts(a *arguments) {
	sums, x, y, width, group := a.floats(), a.floats(), a.floats(), a.int(), a.int()
	rows, most := a.rows()
	groups(rows, most, group, func(i, from, to int) {
		copy(sums[i*width:], SumProducts(part(x, from, to, width), part(y, from, to, width), width, to-from, group))
	})
}

func sumSquares(a *arguments) {
	sums, x, mean, width, group := a.floats(), a.floats(), a.floats(), a.int(), a.int()
	rows, most := a.rows()
	groups(rows, most, group, func(i, from, to int) {
		centred := make([]float32, (to-from)*width)
		for k, v := range part(x, from, to, width) {
			centred[k] = v - mean[k%width]
		}
		copy(sums[i*width:], SumProducts(centred, centred, width, to-from, group))
	})
}

func columnMeans(a *arguments) {
	mean, width := a.floats(), a.int()
	rows, _ := a.rows()
	for c := range width {
		mean[c] /= float32(max(rows, 1))
	}
}

func columnVariances(a *arguments) {
	variance, inverse, epsilon, width := a.floats(), a.floats(), a.float(), a.int()
	rows, _ := a.rows()
	for c := range width {
		squares := float64(variance[c])
		inverse[c] = float32(1 / math.Sqrt(squares/float64(max(rows, 1))+float64(epsilon)))
		variance[c] = float32(squares / float64(max(rows-1, 1)))
	}
}

func standardize(a *arguments) {
	z, normed, mean, inverse, scale, width := a.floats(), a.floats(), a.floats(), a.floats(), a.floats(), a.int()
	rows, _ := a.rows()
	Standardize(z, normed, mean[:width], inverse[:width], scale[:width], width, rows)
}

func standardizeBackward(a *arguments) {
	g, normed, inverse, scale, dShift, dScale, width := a.floats(), a.floats(), a.floats(), a.floats(), a.floats(), a.floats(), a.int()
	rows, _ := a.rows()
	StandardizeBackward(g, normed, inverse[:width], scale[:width], dShift[:width], dScale[:width], width, rows)
}
