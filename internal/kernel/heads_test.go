package kernel

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestHeads(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			s := newSource(t)
			d, rows := widths.Draw(t, "d"), rapid.IntRange(1, 9).Draw(t, "rows")
			heads := rapid.OneOf(rapid.IntRange(1, 9), rapid.SampledFrom([]int{1, 4, 8, 16})).Draw(t, "heads")
			x, v := s.floats(d*rows), s.floats(heads*d)
			list, edges := make([]uint32, rapid.IntRange(0, 30).Draw(t, "edges")), make([]uint32, 30)
			for i := range list {
				list[i], edges[i] = uint32(s.rng.IntN(rows)), uint32(s.rng.IntN(30))
			}
			idx := list[:rapid.IntRange(0, len(list)).Draw(t, "degree")]
			n := len(idx)

			dots := s.floats(n * heads)
			want := slices.Clone(dots)
			DotHeads(dots, x, d, idx, v, heads)
			dotHeadsPlain(want, x, d, idx, v, heads)
			equal(t, "dots", dots, want)

			sums, add := s.floats(heads*d), rapid.Bool().Draw(t, "add")
			want = slices.Clone(sums)
			GatherHeads(sums, x, d, idx, dots, heads, add)
			gatherHeadsPlain(want, x, d, idx, dots, heads, add)
			equal(t, "sums", sums, want)

			y, w, dst := s.floats(rows*heads*d), s.floats(30*heads), s.floats(d)
			want = slices.Clone(dst)
			CombineHeads(dst, y, idx, edges, w, heads)
			combineHeadsPlain(want, y, idx, edges, w, heads)
			equal(t, "dst", dst, want)
			s.intact()
		})
	})
}

func TestParts(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			s := newSource(t)
			d, rows := widths.Draw(t, "d"), rapid.IntRange(1, 9).Draw(t, "rows")
			heads := rapid.OneOf(rapid.IntRange(1, 9), rapid.SampledFrom([]int{1, 4, 8, 16})).Draw(t, "heads")
			stride := heads*d + rapid.IntRange(0, 20).Draw(t, "more")
			x, v := s.floats(stride*(rows-1)+heads*d), s.floats(heads*d)
			list := make([]uint32, rapid.IntRange(0, 30).Draw(t, "edges"))
			for i := range list {
				list[i] = uint32(s.rng.IntN(rows))
			}
			idx := list[:rapid.IntRange(0, len(list)).Draw(t, "degree")]

			dots := s.floats(len(idx) * heads)
			want := slices.Clone(dots)
			DotParts(dots, x, d, stride, idx, v, heads)
			dotPartsPlain(want, x, d, stride, idx, v, heads)
			equal(t, "dots", dots, want)

			sums, add := s.floats(heads*d), rapid.Bool().Draw(t, "add")
			want = slices.Clone(sums)
			if !add {
				clear(want)
			}
			GatherParts(sums, x, d, stride, idx, dots, heads, add)
			gatherPartsPlain(want, x, d, stride, idx, dots, heads)
			equal(t, "sums", sums, want)
			s.intact()
		})
	})
}

func TestPartsByHand(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		x := []float32{1, 2, 3, 4, 99, 10, 20, 30, 40} // two heads of two columns, and one column more
		idx := []uint32{1, 0}
		got := make([]float32, 4)
		DotParts(got, x, 2, 5, idx, []float32{1, 1, 0, 1}, 2)
		if !slices.Equal(got, []float32{30, 40, 3, 4}) {
			t.Errorf("dots %v", got)
		}
		sums := []float32{5, 5, 5, 5}
		w := []float32{1, 2, 0.5, 0}
		GatherParts(sums, x, 2, 5, idx, w, 2, true)
		if !slices.Equal(sums, []float32{15.5, 26, 65, 85}) {
			t.Errorf("added %v", sums)
		}
		GatherParts(sums, x, 2, 5, idx, w, 2, false)
		if !slices.Equal(sums, []float32{10.5, 21, 60, 80}) {
			t.Errorf("sums %v", sums)
		}
	})
}

func TestHeadsByHand(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		x := []float32{1, 2, 3, 10, 20, 30}
		idx, edges := []uint32{1, 0}, []uint32{0, 1}
		got := make([]float32, 4)
		DotHeads(got, x, 3, idx, []float32{1, 1, 1, 0, 1, 0}, 2)
		if !slices.Equal(got, []float32{60, 20, 6, 2}) {
			t.Errorf("dots %v", got)
		}
		sums := []float32{5, 5, 5, 5, 5, 5}
		GatherHeads(sums, x, 3, idx, []float32{1, 2, 0.5, 0}, 2, false)
		if !slices.Equal(sums, []float32{10.5, 21, 31.5, 20, 40, 60}) {
			t.Errorf("sums %v", sums)
		}
		dst := make([]float32, 1)
		CombineHeads(dst, x, []uint32{2, 0}, edges, []float32{1, 2, 3, 4}, 2)
		if dst[0] != 1*20+2*30+3*1+4*2 {
			t.Errorf("combined %v", dst)
		}
	})
}

func TestScores(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			s := newSource(t)
			heads := rapid.OneOf(rapid.IntRange(1, 70), rapid.SampledFrom([]int{1, 4, 8, 16, 256, 1024})).Draw(t, "heads")
			n := rapid.IntRange(0, 9).Draw(t, "edges") * heads
			scores, w, d, own, top := s.floats(n), s.floats(n), s.floats(n), s.floats(heads), s.floats(heads)
			if n > 0 && rapid.Bool().Draw(t, "odd values") {
				scores[s.rng.IntN(n)] = float32(math.NaN())
				scores[s.rng.IntN(n)] = float32(math.Inf(1))
			}
			ws, ww, wo, wt := slices.Clone(scores), slices.Clone(w), slices.Clone(own), slices.Clone(top)
			LeakyScores(w, scores, own, top, 0.2)
			leakyScoresPlain(ww, ws, wo, wt, 0.2)
			equal(t, "scores", scores, ws)
			equal(t, "w", w, ww)
			equal(t, "top", top, wt)
			in := slices.Clone(d)
			LeakyScores(in, in, own, top, 0.2)
			leakyScoresPlain(d, slices.Clone(d), wo, wt, 0.2)
			equal(t, "in place", in, d)
			ScoreGradients(scores, w, d, top, own, 0.2)
			scoreGradientsPlain(ws, w, d, top, wo, 0.2)
			equal(t, "gradients", scores, ws)
			equal(t, "own", own, wo)
			s.intact()
		})
	})
}

// Two heads, two edges.
func TestScoresByHand(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		scores, w, top := []float32{1, -2, 0.5, 8}, make([]float32, 4), []float32{-9, 5}
		LeakyScores(w, scores, []float32{1, -2}, top, 0.25)
		if !slices.Equal(scores, []float32{2, -4, 1.5, 6}) || !slices.Equal(w, []float32{2, -1, 1.5, 6}) || !slices.Equal(top, []float32{2, 6}) {
			t.Errorf("scores %v, activated %v, largest %v", scores, w, top)
		}
		own := []float32{0, 1}
		ScoreGradients(scores, []float32{0.5, 0.5, 1, 1}, []float32{3, 9, 2, 0}, []float32{1, 1}, own, 0.25)
		if !slices.Equal(scores, []float32{1, 1, 1, -1}) || !slices.Equal(own, []float32{2, 1}) {
			t.Errorf("gradients %v, own %v", scores, own)
		}
	})
}

func TestExp(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		var x []float32
		for v := float32(0); v > -90; v -= 0.0037 {
			x = append(x, v)
		}
		x = append(x, float32(math.Inf(-1)), -1e-30, float32(math.NaN()), -86, -87)
		y := slices.Clone(x)
		Exp(y)
		for i, v := range x {
			want := math.Exp(max(float64(v), -86))
			if v != v {
				if y[i] == y[i] {
					t.Error("the exponential of NaN is a number")
				}
			} else if math.Abs(float64(y[i])-want) > 2.4e-7*want {
				t.Fatalf("exp(%v) = %v, want %v", v, y[i], want)
			}
		}
		plain := slices.Clone(x)
		expPlain(plain)
		for n := range 40 { // of any length, and nothing beyond
			part := slices.Clone(x)
			Exp(part[:n])
			if !slices.Equal(patterns(part[:n]), patterns(plain[:n])) || part[n] != x[n] {
				t.Fatalf("%d numbers: %v", n, part[:n+1])
			}
		}
		if !slices.Equal(patterns(y[:len(y)-3]), patterns(plain[:len(y)-3])) {
			t.Error("other bits than plain")
		}
	})
}

func TestELUKinds(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			s := newSource(t)
			n := widths.Draw(t, "n")
			z, bias, g, sums := s.floats(n), s.floats(n), s.floats(n), s.floats(n)
			drop, key := NewDropout(rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.99, MaxDropout}).Draw(t, "dropout")), s.rng.Uint64()
			if rapid.Bool().Draw(t, "NaN inside") {
				z[s.rng.IntN(n)] = float32(math.NaN())
			}
			wz, wg, ws := slices.Clone(z), slices.Clone(g), slices.Clone(sums)
			BiasELU(z, bias, drop, key)
			biasELUPlain(wz, bias, 0, drop, key)
			equal(t, "BiasELU", z, wz)
			ELUBackward(g, z, sums, drop, key)
			eluBackwardPlain(wg, wz, ws, 0, drop, key)
			equal(t, "ELUBackward", g, wg)
			equal(t, "sums", sums, ws)
			s.intact()
		})
	})
}

// The unit, its mask and its slope, against the definition.
func TestELUByDefinition(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		const n = 100
		for _, p := range []float64{0, 0.5} {
			drop, ones := NewDropout(p), slices.Repeat([]float32{1}, n)
			z, relu, zeros := make([]float32, n), slices.Clone(ones), make([]float32, n)
			for i := range z {
				z[i] = float32(i-n/2) / 8
			}
			v := slices.Clone(z)
			BiasELU(v, zeros, drop, 42)
			BiasReLU(relu, zeros, drop, 42) // keeps the same units
			g, sums := slices.Clone(ones), slices.Clone(ones)
			ELUBackward(g, v, sums, drop, 42)
			for i := range z {
				want, slope := float64(z[i]), 1.0
				if z[i] < 0 {
					want, slope = math.Expm1(want), math.Exp(want)
				}
				f := float64(relu[i])
				if math.Abs(float64(v[i])-f*want) > 1e-6 || math.Abs(float64(g[i])-f*slope) > 1e-6 || sums[i] != 1+g[i] {
					t.Errorf("p %v: elu(%v) = %v, slope %v; want %v times %v and %v", p, z[i], v[i], g[i], f, want, slope)
				}
			}
		}
	})
}
