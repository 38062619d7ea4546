package binio

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A table that is combined from finer CRCs is the one that is computed from the bytes,
// wherever the file ends.
func TestCombine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fine := rapid.Int64Range(1, 40).Draw(t, "granule")
		coarse := fine * rapid.Int64Range(1, 9).Draw(t, "times")
		b := rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "bytes")
		sums := func(granule int64) Sums {
			s := NewSummer(granule)
			_, _ = s.Write(b)
			return s.Sums()
		}
		s := sums(fine)
		want, got := sums(coarse), s.Combine(coarse)
		if got.Granule != want.Granule || got.Size != want.Size || !slices.Equal(got.CRC, want.CRC) {
			t.Fatalf("%d bytes by %d, combined by %d: %+v, want %+v", len(b), fine, coarse, got, want)
		}
	})
}
