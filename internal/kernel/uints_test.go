package kernel

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestWidenUints: every kind widens any number of words, and writes nothing else.
func TestWidenUints(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			src := rapid.SliceOfN(rapid.Uint32(), 0, 70).Draw(t, "words")
			got, want := make([]int64, len(src)+9), make([]int64, len(src)+9)
			WidenUints(got, src)
			widenUintsPlain(want, src)
			if !slices.Equal(got, want) {
				t.Fatalf("%v became %v", src, got)
			}
		})
	})
}

// TestFillRuns: runs of any length, also empty ones, beside the same one by one.
func TestFillRuns(t *testing.T) {
	got := make([]int64, 7)
	FillRuns(got, []uint32{2, 2, 5, 6, 7})
	if want := []int64{0, 0, 2, 2, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.IntRange(0, 11), 0, 20).Draw(t, "lengths")
		var want []int64
		ends := make([]uint32, len(lengths))
		for i, n := range lengths {
			for range n {
				want = append(want, int64(i))
			}
			ends[i] = uint32(len(want))
		}
		got := make([]int64, len(want))
		FillRuns(got, ends)
		if !slices.Equal(got, want) {
			t.Fatalf("runs of %v: %v", lengths, got)
		}
	})
}
