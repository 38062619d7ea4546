package kernel

import "math"

// BiasELU finishes one row of a hidden layer in place, as BiasReLU does, with ELU for
// activation: x, or exp(x) − 1 where x is negative.
func BiasELU(z, bias []float32, drop Dropout, key uint64) {
	bias = bias[:len(z)]
	scale := drop.Scale()
	for c := range z {
		v := z[c] + bias[c]
		switch {
		case draw(key, uint32(c)) < drop.threshold:
			v = 0
		case v < 0:
			v = float32(math.Expm1(float64(v))) * scale
		default:
			v *= scale
		}
		z[c] = v
	}
}

// ELUBackward takes the gradient g of one row back through BiasELU, in place, and adds
// the result to the column sums. y is what BiasELU made of the row with this key.
func ELUBackward(g, y, sums []float32, drop Dropout, key uint64) {
	y, sums = y[:len(g)], sums[:len(g)]
	scale := drop.Scale()
	for c := range g {
		v := float32(0)
		switch {
		case draw(key, uint32(c)) < drop.threshold:
		case y[c] < 0:
			v = float32(g[c] * (y[c] + scale))
		default:
			v = float32(g[c] * scale)
		}
		g[c] = v
		sums[c] += v
	}
}
