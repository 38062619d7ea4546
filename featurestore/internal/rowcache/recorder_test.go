package rowcache

import (
	"testing"

	"pgregory.net/rapid"
)

// By hand: epochs of seven batches in three superbatches are of 2, 2 and 3.
func TestGridByHand(t *testing.T) {
	g := grid{train: 14, perEpoch: 7, parts: 3}
	for batch, want := range [][2]int{{0, 2}, {0, 2}, {2, 4}, {2, 4}, {4, 7}, {4, 7}, {4, 7}, {7, 9}, {7, 9}, {9, 11}, {9, 11}, {11, 14}, {11, 14}, {11, 14}} {
		if first, end := g.of(batch); first != want[0] || end != want[1] {
			t.Errorf("batch %d: %d to %d, want %v", batch, first, end, want)
		}
	}
	if g.longest() != 3 || g.single() || !(grid{7, 7, 1}).single() || (grid{14, 7, 1}).single() {
		t.Errorf("longest %d", g.longest())
	}
}

// Superbatches divide every epoch, none is longer than the longest, and none shorter by two.
func TestGrid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grid{perEpoch: rapid.IntRange(1, 60).Draw(t, "per epoch")}
		g.train = g.perEpoch * rapid.IntRange(1, 3).Draw(t, "epochs")
		g.parts = rapid.IntRange(1, g.perEpoch).Draw(t, "parts")
		count, longest := 0, 0
		for at := 0; at < g.train; count++ {
			first, end := g.of(at)
			if n := end - first; first != at || n > g.longest() || n < g.longest()-1 || n < 1 || first/g.perEpoch != (end-1)/g.perEpoch {
				t.Fatalf("batches %d to %d at %d, the longest is %d", first, end, at, g.longest())
			}
			for ; at < end; at++ {
				if f, e := g.of(at); f != first || e != end {
					t.Fatalf("batch %d: %d to %d, not %d to %d", at, f, e, first, end)
				}
			}
			longest = max(longest, end-first)
		}
		if count != g.parts*g.train/g.perEpoch || longest != g.longest() {
			t.Fatalf("%d superbatches, the longest is %d, not %d", count, longest, g.longest())
		}
	})
}
