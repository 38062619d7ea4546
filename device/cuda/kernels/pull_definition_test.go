package kernels_test

import (
	"math"
	"testing"

	"diskgnn/device/cuda/kernels"
)

// twoLists are the lists 4, 5, 5 and 5 of two rows, all of it in a block that begins at node 4. The first is long.
func twoLists(g *gpu) kernels.Lists {
	return kernels.Lists{Starts: put(g, []uint64{0, 3, 4}), Sources: put(g, []uint32{4, 5, 5, 5}), From: put(g, []uint32{0, 0}), To: put(g, []uint32{3, 1}),
		First: 4, Fold: 2, Wide: put(g, []float64{0.5, 0}), Long: put(g, []uint32{0}), Many: 1, Rows: 2}
}

// A long list's sums go to the wide ones, 0.5 and 0 before, behind its second source and at its end; a short list's stay.
// The third column of the accumulators is not touched.
func TestPullByDefinition(t *testing.T) {
	byDefinition(t, func(g *gpu) {
		x := []float32{1, 2, 10, 20}
		p := kernels.Pull{Lists: twoLists(g), Acc: put(g, []float32{100, 200, 7, 300, 400, 8}), Stride: 3, X: put(g, x), Width: 2}
		check(g, p.Launch(g.Stream))
		same(g, "sums", get[float32](g, p.Acc), []float32{0, 0, 7, 310, 420, 8})
		if w := get[float64](g, p.Wide); w[0] != 121.5 || w[1] != 242 {
			t.Errorf("wide sums: %v", w)
		}
		u := kernels.PullUnfold{Acc: p.Acc, Stride: 3, Wide: p.Wide, Width: 2, Long: p.Long, Many: 1}
		check(g, u.Launch(g.Stream))
		same(g, "unfolded", get[float32](g, p.Acc), []float32{121.5, 242, 7, 310, 420, 8})

		inf := float32(math.Inf(-1))
		p = kernels.Pull{Lists: twoLists(g), Acc: put(g, []float32{inf, inf, 7, 15, 15, 8}), Stride: 3, X: put(g, x), Width: 2, Max: true}
		check(g, p.Launch(g.Stream))
		same(g, "largest", get[float32](g, p.Acc), []float32{10, 20, 7, 15, 20, 8})
	})
}

// Destination 7 has the sources 5, 6 and itself, in two heads of two columns; the slope is ½. Written out for the first
// head, of which the destination's score is 1:
//
//	own row  score 0+1 = 1              sums 1, 2                         weights 1
//	5        score ln 2 + 1, the top    sums ½·(1, 2) + (10, 20)          weights ½ + 1
//	6        score 2 ln 2 + 1, the top  sums ½·(10.5, 21) + (99.75, 199.5)  weights ¾ + 1
//
// In the second one, of which it is −3, the scores are −ln 2, −2 ln 2, below the top, and 0: leaky of twice that. The
// list is long in one half of the cases: the wide sums then have everything, scaled as the tops rise.
func TestPullHeadsByDefinition(t *testing.T) {
	ln2, nan := float32(math.Ln2), float32(math.NaN())
	own := []float32{1, 2, 3, 4, 0, 3 - 2*ln2, 1, -3}
	x := []float32{
		10, 20, 30, 40, ln2, 3 - 4*ln2, nan, nan,
		99.75, 199.5, 166, 338, 2 * ln2, 3, nan, nan,
		nan, nan, nan, nan, nan, nan, nan, nan, // left out
	}
	byDefinition(t, func(g *gpu) {
		for _, c := range []struct{ long, listed bool }{{}, {long: true}, {listed: true}, {true, true}} {
			g.reset()
			b := kernels.PullBegin{Acc: g.empty(4 * 10), Own: put(g, own), Heads: 2, Part: 2, Slope: 0.5, Rows: 1}
			check(g, b.Launch(g.Stream))
			near(g, "begun", get[float32](g, b.Acc), []float32{1, 2, 3, 4, 1, 1, 1, -ln2, 1, -3}, 1e-6)
			p := kernels.PullHeads{Acc: b.Acc, X: put(g, x), Heads: 2, Part: 2, Slope: 0.5, Base: 7, Lists: kernels.Lists{
				Starts: put(g, []uint64{0, 3}), Sources: put(g, []uint32{5, 6, 7}), From: put(g, []uint32{0}), To: put(g, []uint32{3}), First: 5, Fold: 3, Rows: 1}}
			if c.listed {
				p.Base, p.Nodes = 0, put(g, []uint32{7})
			}
			want := []float32{105, 210, 175, 350, 1.75, 1.75, 1 + 2*ln2, 0, 1, -3}
			if c.long {
				p.Fold, p.Wide, p.Long, p.Many = 1, put(g, make([]float64, 6)), put(g, []uint32{0}), 1
				check(g, p.Launch(g.Stream))
				near(g, "sums of a long list", get[float32](g, p.Acc), append(make([]float32, 6), want[6:]...), 1e-6)
				check(g, kernels.PullUnfold{Acc: p.Acc, Stride: 10, Wide: p.Wide, Width: 6, Long: p.Long, Many: 1}.Launch(g.Stream))
			} else {
				check(g, p.Launch(g.Stream))
			}
			near(g, "sums", get[float32](g, p.Acc), want, 1e-6)
			s := kernels.SettleHeads{Out: g.empty(4 * 4), Acc: p.Acc, Heads: 2, Part: 2, Rows: 1}
			check(g, s.Launch(g.Stream))
			near(g, "heads side by side", get[float32](g, s.Out), []float32{60, 120, 100, 200}, 1e-6)
			s.Out, s.Mean = g.empty(4*2), true
			check(g, s.Launch(g.Stream))
			near(g, "their mean", get[float32](g, s.Out), []float32{80, 160}, 1e-6)
			s.Add = true
			check(g, s.Launch(g.Stream))
			near(g, "the mean, added", get[float32](g, s.Out), []float32{160, 320}, 1e-6)
		}
	})
}

// Attention that begins without an own row has the mean of the rows that it adds: of none, and then of one with any score.
func TestPullHeadsWithoutOwnRows(t *testing.T) {
	inf := float32(math.Inf(-1))
	byDefinition(t, func(g *gpu) {
		b := kernels.PullBegin{Acc: put(g, []float32{9, 9, 9, 9, 9, 9, 9, 9, 9, 9}), Heads: 2, Part: 2, Slope: 0.5, Rows: 1}
		check(g, b.Launch(g.Stream))
		same(g, "begun", get[float32](g, b.Acc), []float32{0, 0, 0, 0, 0, 0, inf, inf, 0, 0})
		s := kernels.SettleHeads{Out: put(g, []float32{1, 2, 3, 4}), Acc: b.Acc, Heads: 2, Part: 2, Add: true, Rows: 1}
		check(g, s.Launch(g.Stream))
		same(g, "of nothing, added", get[float32](g, s.Out), []float32{1, 2, 3, 4})
		s.Add = false
		check(g, s.Launch(g.Stream))
		same(g, "of nothing", get[float32](g, s.Out), []float32{0, 0, 0, 0})
		p := kernels.PullHeads{Acc: b.Acc, X: put(g, []float32{5, 6, 7, 8, -100, 100, 0, 0}), Heads: 2, Part: 2, Slope: 0.5, Nodes: put(g, []uint32{math.MaxUint32}), Lists: kernels.Lists{
			Starts: put(g, []uint64{0, 1}), Sources: put(g, []uint32{0}), From: put(g, []uint32{0}), To: put(g, []uint32{1}), Fold: 3, Rows: 1}}
		check(g, p.Launch(g.Stream))
		same(g, "a row", get[float32](g, p.Acc), []float32{5, 6, 7, 8, 1, 1, -50, 100, 0, 0})
		check(g, s.Launch(g.Stream))
		same(g, "its mean", get[float32](g, s.Out), []float32{5, 6, 7, 8})
	})
}

// An accumulator with the factor 0 does not count, even if it is not finite.
func TestSettleByDefinition(t *testing.T) {
	inf, nan := float32(math.Inf(-1)), float32(math.NaN())
	byDefinition(t, func(g *gpu) {
		acc := put(g, []float32{inf, nan, 9, 9, 1, 2, 9, 9})
		s := kernels.Settle{Out: put(g, []float32{5, 5, 5, 6, 6, 6}), Stride: 3, Acc: acc, Gap: 4, Width: 2, Factors: put(g, []float32{0, 3}), Rows: 2}
		check(g, s.Launch(g.Stream))
		same(g, "without own rows", get[float32](g, s.Out), []float32{0, 0, 5, 3, 6, 6})
		s.Own, s.Owns = put(g, []float32{10, 20, 30, 40}), put(g, []float32{2, 0.5})
		check(g, s.Launch(g.Stream))
		same(g, "with own rows", get[float32](g, s.Out), []float32{20, 40, 5, 18, 26, 6})
		r := kernels.ScaleRows{X: put(g, []float32{1, 2, 3, 4}), Width: 2, Factors: put(g, []float32{2, -1}), Rows: 2}
		check(g, r.Launch(g.Stream))
		same(g, "scaled", get[float32](g, r.X), []float32{2, 4, -3, -4})
		check(g, kernels.FillFloats{X: r.X, Value: -7, Count: 3}.Launch(g.Stream))
		same(g, "filled", get[float32](g, r.X), []float32{-7, -7, -7, -4})
	})
}
