package sampler

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/rng"
	"diskgnn/presample/sampler/samplertest"
)

// TestDrawIsFloyds compares with the reference: in a register, exactly in bits,
// and with the filter that may be wrong.
func TestDrawIsFloyds(t *testing.T) {
	var d drawer
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 70).Draw(t, "k")
		n := k + 1 + rapid.OneOf(rapid.IntRange(0, 80), rapid.IntRange(0, 3000), rapid.IntRange(0, 1<<20)).Draw(t, "more")
		key, start := rapid.Uint64().Draw(t, "key"), rapid.Int64Range(0, 1<<40).Draw(t, "start")
		d.prepare(k)
		pos := make([]int64, k)
		d.draw(pos, start, uint32(n), key)
		for i, want := range samplertest.Draw(n, k, key) {
			if pos[i] != start+int64(want) {
				t.Fatalf("position %d: %d, want %d", i, pos[i]-start, want)
			}
		}
		if i := slices.IndexFunc(d.taken, func(w uint64) bool { return w != 0 }); i >= 0 {
			t.Fatalf("word %d of the taken bits was left behind", i)
		}
	})
}

// TestFilterCollides makes sure that the reference comparison covers positions
// that share a bit of the filter without being equal.
func TestFilterCollides(t *testing.T) {
	var d drawer
	d.prepare(16)
	const n = 1 << 16
	bits := uint64(64 * len(d.taken))
	collided := 0
	for key := range uint64(2000) {
		pos := make([]int64, 16)
		d.draw(pos, 0, n, key)
		seen := map[uint64]int64{}
		for i, p := range pos {
			if q, ok := seen[uint64(p)%bits]; ok && q != p {
				collided++
			}
			seen[uint64(p)%bits] = p
			if want := samplertest.Draw(n, 16, key)[i]; int64(want) != p {
				t.Fatalf("key %d, position %d: %d, want %d", key, i, p, want)
			}
		}
	}
	if collided == 0 {
		t.Error("no two positions shared a bit: the search behind the filter was not tested")
	}
}

// TestDrawIsUniform counts how often each position is taken, over many keys; for
// the smallest case also how often each set is.
func TestDrawIsUniform(t *testing.T) {
	const draws = 20000
	for _, c := range []struct{ n, k int }{{3, 1}, {21, 20}, {64, 10}, {65, 10}, {300, 15}, {1500, 20}, {2500, 20}} {
		var d drawer
		d.prepare(c.k)
		count := make([]int, c.n)
		pos := make([]int64, c.k)
		for node := range uint64(draws) {
			d.draw(pos, 0, uint32(c.n), rng.Key(1, forDraws, 0, 0, 0, node))
			for _, p := range pos {
				count[p]++
			}
		}
		// Each position is taken with probability p = k/n, so that the sum of
		// (count-mean)²/(draws·p·(1-p))·(n-1)/n is chi-square with n-1 degrees.
		p := float64(c.k) / float64(c.n)
		chi := 0.0
		for _, got := range count {
			chi += math.Pow(float64(got)-draws*p, 2) / (draws * p * (1 - p)) * float64(c.n-1) / float64(c.n)
		}
		checkChi(t, c.n-1, chi)
	}
	var d drawer
	d.prepare(3)
	sets := map[[3]int64]int{}
	for key := range uint64(draws) {
		var pos [3]int64
		d.draw(pos[:], 0, 6, rng.Key(2, key))
		slices.Sort(pos[:])
		sets[pos]++
	}
	chi := 0.0
	for _, got := range sets {
		chi += math.Pow(float64(got)-draws/20.0, 2) / (draws / 20.0)
	}
	if len(sets) != 20 {
		t.Errorf("%d of 20 sets of three drawn", len(sets))
	}
	checkChi(t, 19, chi)
}

// checkChi refuses a statistic six standard deviations from its mean, which a
// fair draw of a fixed key reaches once in a thousand million.
func checkChi(t *testing.T, degrees int, chi float64) {
	t.Helper()
	if off := (chi - float64(degrees)) / math.Sqrt(2*float64(degrees)); math.Abs(off) > 6 {
		t.Errorf("chi-square %.1f with %d degrees of freedom: %.1f standard deviations off", chi, degrees, off)
	}
}
