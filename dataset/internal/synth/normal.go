package synth

import (
	"math"

	"diskgnn/internal/rng"
)

// The standard normal distribution by its quantiles: a random word picks one of
// cells of equal probability and a point in it. Inside a cell the distribution
// is taken as uniform; the outermost cells end where their mean is right, so
// that nothing is farther from zero than 4.
const (
	cellBits = 12
	cells    = 1 << cellBits
)

// quantile[i] is where cell i begins, width[i] is how long it is.
var quantile, width [cells]float32

func init() {
	at := func(i int) float64 {
		const tail = 1.0 / cells
		if i == 0 || i == cells {
			inner := math.Sqrt2 * math.Erfinv(1-2*tail)
			mean := math.Exp(-inner*inner/2) / math.Sqrt(2*math.Pi) / tail
			return math.Copysign(2*mean-inner, float64(i)-1)
		}
		return math.Sqrt2 * math.Erfinv(2*float64(i)/cells-1)
	}
	for i := range cells {
		lo, hi := float32(at(i)), float32(at(i+1))
		quantile[i], width[i] = lo, hi-lo
	}
}

func normal(r uint32) float32 {
	i := r >> (32 - cellBits)
	f := float32(r<<cellBits>>9) * (1.0 / (1 << 23)) // 23 bits convert exactly
	return quantile[i] + float32(f*width[i])
}

// normals fills row with independent standard normal numbers, two from every
// random word.
func normals(src *rng.Source, row []float32) {
	n := len(row) &^ 1
	for j := 0; j < n; j += 2 {
		r := src.Uint64()
		row[j], row[j+1] = normal(uint32(r>>32)), normal(uint32(r))
	}
	if n < len(row) {
		row[n] = normal(uint32(src.Uint64() >> 32))
	}
}
