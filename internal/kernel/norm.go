package kernel

import "math"

// These loops are in plain Go for every kind. They have the guarantee of the package: the same operations
// in the same order for every kind, and no product fused with a sum.

// Mul stores the products a·b of two rows in dst, which may be one of them.
func Mul(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

// AddProduct adds the products a·b of two rows to dst.
func AddProduct(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] += float32(a[i] * b[i])
	}
}

// AddScaled adds factor·src to dst.
func AddScaled(dst, src []float32, factor float32) { GatherSum(dst, src, firstRow, nil, factor, true) }

var firstRow = []uint32{0}

// AddSquares adds the squares of row − mean to dst.
func AddSquares(dst, row, mean []float32) {
	row, mean = row[:len(dst)], mean[:len(dst)]
	for i := range dst {
		v := row[i] - mean[i]
		dst[i] += float32(v * v)
	}
}

// Standardize stores (row − mean)·inverse in dst, which may be row.
func Standardize(dst, row, mean, inverse []float32) {
	row, mean, inverse = row[:len(dst)], mean[:len(dst)], inverse[:len(dst)]
	for i := range dst {
		dst[i] = (row[i] - mean[i]) * inverse[i]
	}
}

// StandardizeBackward replaces g, the gradient of a batch norm's output, by the gradient of its input:
// scale·inverse·(g − meanG − normed·meanGX).
func StandardizeBackward(g, normed, scale, inverse, meanG, meanGX []float32) {
	n := len(g)
	normed, scale, inverse, meanG, meanGX = normed[:n], scale[:n], inverse[:n], meanG[:n], meanGX[:n]
	for i := range g {
		g[i] = float32(scale[i]*inverse[i]) * (g[i] - meanG[i] - float32(normed[i]*meanGX[i]))
	}
}

// Normalize stores (row − mean)·inverse in dst, which may be row, and returns inverse, 1/√(variance +
// epsilon). Mean and variance are computed from the row.
func Normalize(dst, row []float32, epsilon float32) float32 {
	dst = dst[:len(row)]
	if len(row) == 0 {
		return 0
	}
	n := float32(len(row))
	mean := sum(row) / n
	for i, v := range row {
		dst[i] = v - mean
	}
	inverse := float32(1 / math.Sqrt(float64(dot(dst, dst)/n+epsilon)))
	for i := range dst {
		dst[i] *= inverse
	}
	return inverse
}

// NormalizeBackward replaces g, the gradient of scale·normed, by the gradient of Normalize's input. With
// h = scale·g, it is inverse·(h − mean of h − normed · mean of h·normed).
func NormalizeBackward(g, normed, scale []float32, inverse float32) {
	normed, scale = normed[:len(g)], scale[:len(g)]
	for i := range g {
		g[i] *= scale[i]
	}
	n := float32(len(g))
	mean, along := sum(g)/n, dot(g, normed)/n
	for i := range g {
		g[i] = (g[i] - mean - float32(normed[i]*along)) * inverse
	}
}

// sum adds the elements of a row, in eight partial sums.
func sum(x []float32) float32 {
	var s [8]float32
	for ; len(x) >= 8; x = x[8:] {
		v := (*[8]float32)(x)
		s[0], s[1], s[2], s[3] = s[0]+v[0], s[1]+v[1], s[2]+v[2], s[3]+v[3]
		s[4], s[5], s[6], s[7] = s[4]+v[4], s[5]+v[5], s[6]+v[6], s[7]+v[7]
	}
	for i, v := range x {
		s[i] += v
	}
	return total(&s)
}

// dot adds the products of two rows' elements in the same way.
func dot(x, y []float32) float32 {
	var s [8]float32
	y = y[:len(x)]
	for ; len(x) >= 8; x, y = x[8:], y[8:] {
		v, w := (*[8]float32)(x), (*[8]float32)(y)
		s[0], s[1], s[2], s[3] = s[0]+float32(v[0]*w[0]), s[1]+float32(v[1]*w[1]), s[2]+float32(v[2]*w[2]), s[3]+float32(v[3]*w[3])
		s[4], s[5], s[6], s[7] = s[4]+float32(v[4]*w[4]), s[5]+float32(v[5]*w[5]), s[6]+float32(v[6]*w[6]), s[7]+float32(v[7]*w[7])
	}
	for i, v := range x {
		s[i] += float32(v * y[i])
	}
	return total(&s)
}

func total(s *[8]float32) float32 {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}
