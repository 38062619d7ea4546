package kernel

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
)

// eachKind runs f with every kind of kernels that the processor has.
func eachKind(t *testing.T, f func(t *testing.T)) {
	before := Kind()
	defer Use(before)
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			if err := Use(kind); err != nil {
				t.Fatal(err)
			}
			f(t)
		})
	}
}

// source draws operands, at any alignment, with NaN on both sides: what a kernel
// reads or writes beyond its operand shows.
type source struct {
	t   *rapid.T
	rng *rand.Rand
	all [][]float32
	own [][2]int
}

func newSource(t *rapid.T) *source {
	return &source{t: t, rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))}
}

func (s *source) floats(n int) []float32 {
	const margin = 17
	from := rapid.IntRange(1, margin).Draw(s.t, "alignment")
	all := slices.Repeat([]float32{float32(math.NaN())}, from+n+margin)
	x := all[from : from+n : from+n]
	for i := range x {
		if x[i] = float32(s.rng.NormFloat64()); s.rng.IntN(8) == 0 {
			x[i] = 0
		}
	}
	s.all, s.own = append(s.all, all), append(s.own, [2]int{from, from + n})
	return x
}

// intact fails unless the margins are NaN still.
func (s *source) intact() {
	for i, all := range s.all {
		for k, v := range all {
			if (k < s.own[i][0] || k >= s.own[i][1]) && v == v {
				s.t.Fatalf("%s wrote outside operand %d", Kind(), i)
			}
		}
	}
}

func patterns(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i, v := range x {
		b[i] = math.Float32bits(v)
	}
	return b
}

// equal fails unless the current kind's results are the plain one's, bit by bit.
func equal(t *rapid.T, what string, got, want []float32) {
	t.Helper()
	if !slices.Equal(patterns(got), patterns(want)) {
		t.Fatalf("%s: %s is\n%v, plain\n%v", Kind(), what, got, want)
	}
}

var widths = rapid.OneOf(rapid.IntRange(1, 70), rapid.IntRange(1, 400), rapid.SampledFrom([]int{8, 16, 32, 64, 128, 256}))

func TestGatherSum(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			s := newSource(t)
			d, rows := widths.Draw(t, "d"), rapid.IntRange(1, 9).Draw(t, "rows")
			x, w := s.floats(d*rows), s.floats(rows)
			list := make([]uint32, rapid.IntRange(0, 30).Draw(t, "edges"))
			for i := range list {
				list[i] = uint32(s.rng.IntN(rows))
			}
			idx := list[:rapid.IntRange(0, len(list)).Draw(t, "degree")]
			if rapid.Bool().Draw(t, "unweighted") {
				w = nil
			}
			scale, add := float32(s.rng.NormFloat64()), rapid.Bool().Draw(t, "add")
			dst := s.floats(d)
			want := slices.Clone(dst)
			GatherSum(dst, x, idx, w, scale, add)
			gatherSumPlain(want, x, idx, w, scale, add)
			equal(t, "dst", dst, want)
			s.intact()
		})
	})
}

// A sum of rows has the same bits however the list is cut, and the plain function's.
func TestAddRows(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			s := newSource(t)
			d, rows := widths.Draw(t, "d"), rapid.IntRange(1, 9).Draw(t, "rows")
			x, dst := s.floats(d*rows), s.floats(d)
			idx := make([]uint32, rapid.IntRange(0, 30).Draw(t, "edges"))
			for i := range idx {
				idx[i] = uint32(s.rng.IntN(rows))
			}
			want := slices.Clone(dst)
			addRowsPlain(want, x, idx)
			cut := rapid.IntRange(0, len(idx)).Draw(t, "cut")
			AddRows(dst, x, idx[:cut])
			AddRows(dst, x, idx[cut:])
			equal(t, "dst", dst, want)
			s.intact()
		})
	})
}

func TestRaiseRows(t *testing.T) {
	nan := float32(math.NaN())
	dst := []float32{2, nan, 0, 1}
	RaiseRows(dst, []float32{9, 9, 9, 9, 1, 5, 7, nan, 3, 1, -4, nan}, []uint32{1, 2})
	if dst[0] != 3 || dst[1] == dst[1] || dst[2] != 7 || dst[3] != 1 {
		t.Errorf("%v", dst)
	}
}

func TestGatherSumByHand(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		x, dst := []float32{1, 2, 3, 10, 20, 30, 100, 200, 300}, []float32{7, 7, 7}
		GatherSum(dst, x, []uint32{2, 0}, nil, 0.5, false)
		if !slices.Equal(dst, []float32{50.5, 101, 151.5}) {
			t.Errorf("mean %v", dst)
		}
		GatherSum(dst, x, []uint32{1, 1}, []float32{0, 0.25, 0}, 1, true)
		if !slices.Equal(dst, []float32{55.5, 111, 166.5}) {
			t.Errorf("weighted, added %v", dst)
		}
		GatherSum(dst, x, nil, nil, 0, false)
		if !slices.Equal(dst, []float32{0, 0, 0}) {
			t.Errorf("of nothing %v", dst)
		}
		GatherSum(nil, nil, nil, nil, 0, false)
	})
}

func TestRowKernels(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			s := newSource(t)
			n := widths.Draw(t, "n")
			a, b, c, d := s.floats(n), s.floats(n), s.floats(n), s.floats(n)
			drop, key := NewDropout(rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.99, MaxDropout}).Draw(t, "dropout")), s.rng.Uint64()
			if rapid.Bool().Draw(t, "NaN inside") {
				a[s.rng.IntN(n)] = float32(math.NaN())
			}
			wa, wc, wd := slices.Clone(a), slices.Clone(c), slices.Clone(d)
			compare := func(name string) {
				equal(t, name, a, wa)
				equal(t, name, c, wc)
				equal(t, name, d, wd)
				s.intact()
			}
			Add(c, b)
			addPlain(wc, b)
			compare("Add")
			BiasReLU(a, b, drop, key)
			biasReLUPlain(wa, b, 0, drop, key)
			compare("BiasReLU")
			ReLUBackward(c, a, d, drop.Scale())
			reluBackwardPlain(wc, wa, wd, drop.Scale())
			compare("ReLUBackward")
			step := AdamStep{0.9, 0.999, 0.1, 0.001, 0.01, 1.5, 1e-8}
			for i := range d {
				d[i] = d[i] * d[i]
			}
			copy(wd, d)
			Adam(a, b, c, d, &step)
			adamPlain(wa, b, wc, wd, &step)
			compare("Adam")
		})
	})
}

func TestBiasReLUByHand(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		z := []float32{-1, 0, 1, 2, -3, 4, 5, -6, 7}
		BiasReLU(z, []float32{2, -1, 1, 1, 1, 1, 1, 1, 1}, Dropout{}, 0)
		if !slices.Equal(z, []float32{1, 0, 2, 3, 0, 5, 6, 0, 8}) {
			t.Error(z)
		}
	})
}

func TestReLUBackwardByHand(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		g, y, sums := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9}, []float32{1, 0, 1, 0, 2, 2, 0, 0, 4}, slices.Repeat([]float32{10}, 9)
		ReLUBackward(g, y, sums, 2)
		if !slices.Equal(g, []float32{2, 0, 6, 0, 10, 12, 0, 0, 18}) || !slices.Equal(sums, []float32{12, 10, 16, 10, 20, 22, 10, 10, 28}) {
			t.Error(g, sums)
		}
	})
}

// The rate holds overall, in every column and every row, and neighbouring units,
// rows, steps and layers are independent. Bounds are six standard deviations.
func TestDropoutStatistics(t *testing.T) {
	const rows, cols = 2000, 96
	for _, p := range []float64{0.1, 0.5, 0.8} {
		drop := NewDropout(p)
		mask := func(step, layer int) []bool {
			s, m := NewStream(7, 0, step, layer), make([]bool, rows*cols)
			ones, zeros := slices.Repeat([]float32{1}, cols), make([]float32, cols)
			for i := range rows {
				z := slices.Clone(ones)
				BiasReLU(z, zeros, drop, s.Row(i))
				for c, v := range z {
					if m[i*cols+c] = v == 0; !m[i*cols+c] && v != float32(1/(1-p)) {
						t.Fatalf("a kept one became %v", v)
					}
				}
			}
			return m
		}
		m := mask(3, 1)
		near := func(what string, hits, n int, rate float64) {
			if sd := math.Sqrt(rate * (1 - rate) * float64(n)); math.Abs(float64(hits)-rate*float64(n)) > 6*sd {
				t.Errorf("p %v: %s: %d of %d", p, what, hits, n)
			}
		}
		count := func(n int, f func(i int) bool) (hits int) {
			for i := range n {
				if f(i) {
					hits++
				}
			}
			return hits
		}
		near("all", count(len(m), func(i int) bool { return m[i] }), len(m), p)
		for c := range cols {
			near("a column", count(rows, func(i int) bool { return m[i*cols+c] }), rows, p)
		}
		for i := range rows {
			near("a row", count(cols, func(c int) bool { return m[i*cols+c] }), cols, p)
		}
		for name, other := range map[string][]bool{"next column": m[1:], "next row": m[cols:], "next step": mask(4, 1), "next layer": mask(3, 2)} {
			near(name, count(len(other), func(i int) bool { return m[i] && other[i] }), len(other), p*p)
		}
	}
}

// The largest rate drops all but one of 2³² units, and no rate that is let through wraps
// to one that drops none.
func TestDropoutRange(t *testing.T) {
	if d := NewDropout(MaxDropout); d.Threshold() != math.MaxUint32 || d.Scale() != 1<<32 {
		t.Errorf("the largest rate: threshold %#x, scale %v", d.Threshold(), d.Scale())
	}
	if d := NewDropout(0); d.Threshold() != 0 || d.Scale() != 1 {
		t.Errorf("no dropout: threshold %#x, scale %v", d.Threshold(), d.Scale())
	}
	for _, p := range []float64{-0.1, math.Nextafter(MaxDropout, 1), 0.99999999999, 1, math.NaN()} {
		if CheckDropout(p) == nil {
			t.Errorf("a rate of %v is let through", p)
		}
	}
	eachKind(t, func(t *testing.T) {
		const rows, cols = 500, 96
		drop, s, zeros := NewDropout(MaxDropout), NewStream(7, 0, 3, 1), make([]float32, cols)
		for i := range rows {
			for _, unit := range []func(z, bias []float32, drop Dropout, key uint64){BiasReLU, BiasELU} {
				z := slices.Repeat([]float32{1}, cols)
				unit(z, zeros, drop, s.Row(i))
				if slices.Max(z) > 0 {
					t.Fatalf("row %d keeps a unit", i)
				}
			}
		}
	})
}

// What is kept is multiplied by 1/(1−p), forward and backward, so that the mean over masks
// is what it would be without dropout. Bounds are six standard deviations.
func TestDropoutKeepsTheMean(t *testing.T) {
	const n = 100000
	for p, scale := range map[float64]float32{0: 1, 0.2: 1.25, 0.5: 2, 0.75: 4, 0.9: 10} {
		drop := NewDropout(p)
		if drop.Scale() != scale {
			t.Errorf("p %v: the scale is %v, want %v", p, drop.Scale(), scale)
		}
		eachKind(t, func(t *testing.T) {
			ones, zeros := slices.Repeat([]float32{1}, n), make([]float32, n)
			relu, elu := slices.Clone(ones), slices.Clone(ones)
			key := NewStream(7, 0, 3, 1).Row(2)
			BiasReLU(relu, zeros, drop, key)
			BiasELU(elu, zeros, drop, key)
			reluBack, eluBack := slices.Clone(ones), slices.Clone(ones)
			ReLUBackward(reluBack, relu, slices.Clone(zeros), drop.Scale())
			ELUBackward(eluBack, elu, slices.Clone(zeros), drop, key)
			sum := 0.0
			for i, v := range relu {
				if sum += float64(v); v != 0 && v != scale {
					t.Fatalf("p %v: %v is left of one", p, v)
				}
				if elu[i] != v || reluBack[i] != v || eluBack[i] != v {
					t.Fatalf("p %v: of one ReLU leaves %v, ELU %v, their gradients %v and %v", p, v, elu[i], reluBack[i], eluBack[i])
				}
			}
			if sd := math.Sqrt(p / (1 - p) * n); math.Abs(sum-n) > 6*sd {
				t.Errorf("p %v: the sum of %d ones is %v", p, n, sum)
			}
		})
	}
}

// The mask is part of what a seed promises: it must never change.
func TestDropoutMaskIsFixed(t *testing.T) {
	key := NewStream(1, 0, 2, 3).Row(4)
	if key != 0xd12982b1da74d431 {
		t.Errorf("row key %#x", key)
	}
	if got := draw(key, 5); got != 0x90dbd47f {
		t.Errorf("draw %#x", got)
	}
}

func TestUse(t *testing.T) {
	before := Kind()
	defer Use(before)
	for _, kind := range []string{"", "sse", "AVX2"} {
		if err := Use(kind); !errors.Is(err, fault.ErrUsage) || Kind() != before {
			t.Errorf("Use(%q): %v, kind %s", kind, err, Kind())
		}
	}
	if Kinds()[0] != "plain" {
		t.Errorf("kinds %q", Kinds())
	}
	if initial("plain") != plain || initial("") != supported || initial("neon") != supported {
		t.Error("the environment's choice")
	}
}

func TestNoAllocation(t *testing.T) {
	x, idx := make([]float32, 4*100), []uint32{0, 1, 2, 3}
	dst, drop := make([]float32, 100), NewDropout(0.5)
	eachKind(t, func(t *testing.T) {
		if n := testing.AllocsPerRun(100, func() {
			GatherSum(dst, x, idx, nil, 1, true)
			BiasReLU(dst, x[:100], drop, 1)
			ReLUBackward(dst, x[:100], x[100:200], 2)
			DotHeads(dst, x, 50, idx, x, 2)
			GatherHeads(dst, x, 50, idx, x, 2, true)
			CombineHeads(dst, x, idx[:2], idx, x, 2)
			Exp(dst)
			BiasELU(dst, x[:100], drop, 1)
			ELUBackward(dst, x[:100], x[100:200], drop, 1)
		}); n > 0 {
			t.Errorf("%v allocations", n)
		}
	})
}
