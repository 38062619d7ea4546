package cut

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 300).Draw(t, "n")
		s := NewSet(n)
		members := rapid.SliceOfDistinct(rapid.Uint32Range(0, uint32(n-1)), func(v uint32) uint32 { return v }).Draw(t, "members")
		for _, v := range members {
			s.Add(v)
		}
		slices.Sort(members)
		if got := s.Count(); got != int64(len(members)) {
			t.Fatalf("%d members counted, %d added", got, len(members))
		}
		for i, v := range members {
			if !s.Has(v) || s.Place(v) != uint32(i) {
				t.Fatalf("member %d: in the set %t, place %d, want %d", v, s.Has(v), s.Place(v), i)
			}
		}
		lo := rapid.Int64Range(0, n).Draw(t, "lo")
		hi := rapid.Int64Range(lo, n).Draw(t, "hi")
		want := slices.DeleteFunc(slices.Clone(members), func(v uint32) bool { return int64(v) < lo || int64(v) >= hi })
		if got := slices.Collect(s.In(lo, hi)); !slices.Equal(got, want) {
			t.Fatalf("members %v from %d to %d, want %v", got, lo, hi, want)
		}
	})
}
