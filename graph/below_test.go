package graph

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SliceOf(rapid.Uint32Range(0, 40)).Draw(t, "positions")
		n := rapid.SampledFrom([]int{0, 1, 30, 40, 41, 1 << 32}).Draw(t, "n")
		if rapid.Bool().Draw(t, "a large one") {
			s = append(s, 1<<32-1)
		}
		want := slices.IndexFunc(s, func(p uint32) bool { return int(p) >= n })
		if i, ok := below(s, n); ok != (want < 0) || !ok && i != want {
			t.Fatalf("%d, %t: want %d", i, ok, want)
		}
	})
}
