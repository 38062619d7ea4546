package kernel

import "math"

// Exp replaces the numbers of x, which must be at most zero, by their exponentials, within 2 units in the
// last place. Numbers below −86 become exp(−86), which is negligible when added to one. NaN stays NaN.
func Exp(x []float32) {
	if level == plain {
		expPlain(x)
		return
	}
	expSIMD(x)
}

// BiasELU finishes one row of a hidden layer as BiasReLU does, with the exponential
// linear unit: v where it is positive, else exp(v) − 1.
func BiasELU(z, bias []float32, drop Dropout, key uint64) {
	bias = bias[:len(z)]
	if level == plain {
		biasELUPlain(z, bias, 0, drop, key)
		return
	}
	biasELUSIMD(z, bias, drop, key)
}

// ELUBackward replaces g, the gradient of one row of BiasELU's output, by the gradient of its input, and
// adds the result to the column sums. y is BiasELU's output for the row. It draws the mask again, since a
// kept unit may be zero too.
func ELUBackward(g, y, sums []float32, drop Dropout, key uint64) {
	y, sums = y[:len(g)], sums[:len(g)]
	if level == plain {
		eluBackwardPlain(g, y, sums, 0, drop, key)
		return
	}
	eluBackwardSIMD(g, y, sums, drop, key)
}

func expPlain(x []float32) {
	for i, v := range x {
		x[i] = expOf(v)
	}
}

// expOf returns exp(v) for v ≤ 0. With n, the integer closest to v·log₂e, it is 2ⁿ times the exponential
// of v − n·ln 2, a polynomial (Cephes). The product with log₂e is rounded to an integer by adding a number
// with a last place of one.
func expOf(v float32) float32 {
	const round = 3 << 22
	if v < -86 {
		v = -86
	}
	t := float32(v*math.Log2E) + round
	n := t - round
	power := math.Float32frombits((math.Float32bits(t) + 127) << 23)
	v -= float32(n * 0.693359375) // ln 2, in two parts
	v -= float32(n * -2.12194440e-4)
	p := float32(1.9875691500e-4)
	p = float32(p*v) + 1.3981999507e-3
	p = float32(p*v) + 8.3334519073e-3
	p = float32(p*v) + 4.1665795894e-2
	p = float32(p*v) + 1.6666665459e-1
	p = float32(p*v) + 5.0000001201e-1
	return float32((float32(p*float32(v*v)) + v + 1) * power)
}

// biasELUPlain and eluBackwardPlain start at column from.
func biasELUPlain(z, bias []float32, from int, drop Dropout, key uint64) {
	bias = bias[:len(z)]
	scale := drop.Scale()
	for c := from; c < len(z); c++ {
		v := z[c] + bias[c]
		negative := v
		if v > 0 {
			negative = 0
		}
		z[c] = drop.keep(float32((relu(v)+(expOf(negative)-1))*scale), key, c)
	}
}

func eluBackwardPlain(g, y, sums []float32, from int, drop Dropout, key uint64) {
	y, sums = y[:len(g)], sums[:len(g)]
	scale := drop.Scale()
	for c := from; c < len(g); c++ {
		v := drop.keep(float32(g[c]*(min(y[c], 0)+scale)), key, c)
		g[c] = v
		sums[c] += v
	}
}

// keep returns v, or zero where the column of the row with this key is dropped.
func (d Dropout) keep(v float32, key uint64, column int) float32 {
	below := (int64(draw(key, uint32(column))) - int64(d.threshold)) >> 63 // all ones or zeros
	return math.Float32frombits(math.Float32bits(v) &^ uint32(below))
}
