package synth

import (
	"math"
	"slices"

	"diskgnn/internal/rng"
)

// FeaturesTarget is the accuracy that features alone reach: 40 %, or ten points
// above guessing for graphs of two or three classes.
func FeaturesTarget(classes int) float64 { return max(0.40, 1/float64(classes)+0.10) }

// Features fills row, of Dim elements, with a node's features.
func (m *Model) Features(row []float32, v uint32) {
	c := int(m.Community(v))
	src := rng.New(rng.Key(m.p.Seed, keyFeatures, uint64(v)))
	normals(&src, row)
	for j, x := range m.means[c*m.p.Dim : (c+1)*m.p.Dim] {
		row[j] += x
	}
}

// Classify returns the class with the nearest mean: the best guess from features alone.
func (m *Model) Classify(row []float32) int32 {
	best, class := math.Inf(1), 0
	for c := range m.p.Classes {
		var sum float64
		for j, x := range m.means[c*m.p.Dim : (c+1)*m.p.Dim] {
			d := float64(row[j] - x)
			sum += d * d
		}
		if sum < best {
			best, class = sum, c
		}
	}
	return int32(class)
}

// calibrateWork bounds the multiplications that calibration takes.
const calibrateWork = 1 << 28

// calibratedMeans draws a mean per class and scales all of them so that features
// alone reach FeaturesTarget.
//
// A sample of class c with noise z, its means scaled by s, is nearer to its own
// mean than to another class j's if s·|m_c−m_j|² + 2·z·(m_c−m_j) > 0. So every
// sample has a scale from which on it is recognised, and the scale at which a
// share of all samples is recognised is a quantile.
func calibratedMeans(seed uint64, dim, classes int) []float32 {
	means := make([]float32, classes*dim)
	src := rng.New(rng.Key(seed, keyMeans))
	normals(&src, means)
	mean := func(c int) []float32 { return means[c*dim : (c+1)*dim] }

	samples := min(max(calibrateWork/(classes*dim), 512), 16384)
	from := make([]float64, samples)
	apart := make([]float64, classes) // |m_c − m_j|² of the sample's class c
	z := make([]float32, dim)
	src = rng.New(rng.Key(seed, keyCalibrate))
	last := -1
	for i := range from {
		c := i * classes / samples
		if c != last {
			for j := range classes {
				apart[j] = distance(mean(c), mean(j))
			}
			last = c
		}
		normals(&src, z)
		own := dot(z, mean(c))
		for j := range classes {
			if j != c {
				from[i] = max(from[i], 2*(dot(z, mean(j))-own)/apart[j])
			}
		}
	}
	slices.Sort(from)
	k := float64(classes)
	// Among the recognised nodes, LabelNoise have another label; among the others, some have by chance
	// the label that they are taken for.
	share := (FeaturesTarget(classes) - LabelNoise/(k-1)) / (1 - LabelNoise - LabelNoise/(k-1))
	scale := from[min(int(share*float64(samples)), samples-1)]
	// A coarse grid hides the last bits, in which machines may differ.
	scale = math.Round(scale*4096) / 4096
	for i := range means {
		means[i] = float32(float64(means[i]) * scale)
	}
	return means
}

func dot(a, b []float32) float64 {
	var s0, s1 float64
	for len(a) >= 2 {
		s0 += float64(a[0]) * float64(b[0])
		s1 += float64(a[1]) * float64(b[1])
		a, b = a[2:], b[2:]
	}
	if len(a) > 0 {
		s0 += float64(a[0]) * float64(b[0])
	}
	return s0 + s1
}

func distance(a, b []float32) float64 {
	var sum float64
	for j, x := range a {
		d := float64(x) - float64(b[j])
		sum += d * d
	}
	return sum
}

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
