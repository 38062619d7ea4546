package cut

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSortPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.Uint64Range(0, 1<<40-1), 0, 600).Draw(t, "keys")
		if rapid.Bool().Draw(t, "few distinct") {
			for i := range key {
				key[i] &= 0xFF00FF
			}
		}
		type pair struct {
			k uint64
			v uint32
		}
		val := make([]uint32, len(key))
		want := make([]pair, len(key))
		for i, k := range key {
			val[i], want[i] = uint32(i), pair{k, uint32(i)}
		}
		slices.SortStableFunc(want, func(a, b pair) int {
			if a.k < b.k {
				return -1
			} else if a.k > b.k {
				return 1
			}
			return 0
		})
		SortPairs(key, make([]uint64, len(key)), val, make([]uint32, len(key)))
		got := make([]pair, len(key))
		for i := range key {
			got[i] = pair{key[i], val[i]}
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(pair{})); d != "" {
			t.Fatal(d)
		}
	})
}
