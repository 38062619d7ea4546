package kernel

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// near fails unless the values agree with the float64 ones but for rounding.
func near(t *rapid.T, what string, got []float32, want func(i int) float64) {
	t.Helper()
	for i, v := range got {
		if w := want(i); !(math.Abs(float64(v)-w) <= 1e-4*(1+math.Abs(w))) {
			t.Fatalf("%s: element %d of %d is %v, want %v", what, i, len(got), v, w)
		}
	}
}

func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// The row loops agree with float64, and read and write nothing beside their rows.
func TestNormRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSource(t)
		n := widths.Draw(t, "n")
		a, b, c, d, e, f := s.floats(n), s.floats(n), s.floats(n), s.floats(n), s.floats(n), s.floats(n)
		was := wide(a)
		Mul(a, a, b)
		near(t, "Mul", a, func(i int) float64 { return was[i] * float64(b[i]) })
		was = wide(a)
		AddProduct(a, b, c)
		near(t, "AddProduct", a, func(i int) float64 { return was[i] + float64(b[i])*float64(c[i]) })
		was = wide(a)
		AddSquares(a, b, c)
		near(t, "AddSquares", a, func(i int) float64 { return was[i] + math.Pow(float64(b[i])-float64(c[i]), 2) })
		was = wide(a)
		AddScaled(a, b, -0.3)
		near(t, "AddScaled", a, func(i int) float64 { return was[i] - 0.3*float64(b[i]) })
		was = wide(a)
		Standardize(a, a, b, c)
		near(t, "Standardize", a, func(i int) float64 { return (was[i] - float64(b[i])) * float64(c[i]) })
		was = wide(a)
		StandardizeBackward(a, b, c, d, e, f)
		near(t, "StandardizeBackward", a, func(i int) float64 {
			return float64(c[i]) * float64(d[i]) * (was[i] - float64(e[i]) - float64(b[i])*float64(f[i]))
		})
		s.intact()
	})
}

// A normalised row has mean 0 and variance 1, and its gradient that of differences.
func TestNormalize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSource(t)
		n := rapid.IntRange(3, 70).Draw(t, "n")
		x, scale, g, normed := s.floats(n), s.floats(n), s.floats(n), s.floats(n)
		x[0], x[1], x[2] = -1, 0.5, 2 // so that there is some variance
		forward := func(x []float64) (y []float64, inverse float64) {
			mean, variance := 0.0, 0.0
			for _, v := range x {
				mean += v / float64(len(x))
			}
			for _, v := range x {
				variance += (v - mean) * (v - mean) / float64(len(x))
			}
			inverse = 1 / math.Sqrt(variance+1e-5)
			for _, v := range x {
				y = append(y, (v-mean)*inverse)
			}
			return y, inverse
		}
		want, wantInverse := forward(wide(x))
		inverse := Normalize(normed, x, 1e-5)
		near(t, "Normalize", normed, func(i int) float64 { return want[i] })
		if math.Abs(float64(inverse)-wantInverse) > 1e-4*wantInverse {
			t.Fatalf("inverse %v, want %v", inverse, wantInverse)
		}
		up, point := wide(g), wide(x)
		sum := func() (l float64) {
			y, _ := forward(point)
			for i := range y {
				l += y[i] * float64(scale[i]) * up[i]
			}
			return l
		}
		NormalizeBackward(g, normed, scale, inverse)
		near(t, "NormalizeBackward", g, func(i int) float64 {
			const h = 1e-6
			was := point[i]
			point[i] = was + h
			l := sum()
			point[i] = was - h
			l -= sum()
			point[i] = was
			return l / (2 * h)
		})
		s.intact()
	})
}

func TestMaxByHand(t *testing.T) {
	x := []float32{1, 9, 3, 4, 5, 3, 7, 5, 3} // three rows
	dst, chosen := make([]float32, 3), make([]uint32, 6)
	GatherMax(dst, chosen[:3], x, []uint32{1, 0, 2, 2})
	if !slices.Equal(dst, []float32{7, 9, 3}) || !slices.Equal(chosen[:3], []uint32{2, 0, 1}) {
		t.Error(dst, chosen)
	}
	GatherMax(dst, nil, x, []uint32{0, 1})
	if !slices.Equal(dst, []float32{4, 9, 3}) {
		t.Error(dst)
	}
	GatherMax(dst, chosen[3:], x, nil)
	if !slices.Equal(dst, []float32{0, 0, 0}) || slices.Max(chosen[3:]) != none || slices.Min(chosen[3:]) != none {
		t.Error(dst, chosen)
	}
	g, back := []float32{1, 2, 3, 4, 5, 6}, []float32{10, 10, 10}
	ScatterMax(back, g, chosen, []uint32{0, 0, 1}, 2) // row 2 twice among the first one's
	if !slices.Equal(back, []float32{11, 10, 10}) {
		t.Error(back)
	}
}

// ELU and its backward pass, dropout included, agree with float64; what is dropped is
// what BiasReLU drops.
func TestELU(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSource(t)
		n := widths.Draw(t, "n")
		z, bias, g, sums := s.floats(n), s.floats(n), s.floats(n), s.floats(n)
		drop, key := NewDropout(rapid.SampledFrom([]float64{0, 0.4, MaxDropout}).Draw(t, "dropout")), s.rng.Uint64()
		kept := slices.Repeat([]float32{1}, n)
		BiasReLU(kept, make([]float32, n), drop, key)
		x, up, before := wide(z), wide(g), wide(sums)
		BiasELU(z, bias, drop, key)
		slope := func(i int) float64 { return float64(kept[i]) * math.Exp(min(0, x[i]+float64(bias[i]))) }
		near(t, "BiasELU", z, func(i int) float64 {
			v := x[i] + float64(bias[i])
			if v < 0 {
				v = math.Expm1(v)
			}
			return v * float64(kept[i])
		})
		ELUBackward(g, z, sums, drop, key)
		near(t, "ELUBackward", g, func(i int) float64 { return up[i] * slope(i) })
		near(t, "sums", sums, func(i int) float64 { return before[i] + up[i]*slope(i) })
		s.intact()
	})
}
