package cut

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
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
		if d := gocmp.Diff(want, got, gocmp.AllowUnexported(pair{})); d != "" {
			t.Fatal(d)
		}
	})
}

// TestSortKeys sorts by any run of bits. Keys that are equal there keep their order.
func TestSortKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.Uint64(), 0, 600).Draw(t, "keys")
		from := rapid.IntRange(0, 63).Draw(t, "from")
		to := rapid.IntRange(from, min(64, from+44)).Draw(t, "to")
		if rapid.Bool().Draw(t, "few distinct") {
			for i := range key {
				key[i] &= 0x8007_0000_F000_0003
			}
		}
		want := slices.Clone(key)
		slices.SortStableFunc(want, func(a, b uint64) int {
			mask := uint64(1)<<(to-from) - 1
			return cmp.Compare(a>>from&mask, b>>from&mask)
		})
		if SortKeys(key, make([]uint64, len(key)+3), from, to); !slices.Equal(key, want) {
			t.Fatalf("bits %d to %d: got %x, want %x", from, to, key, want)
		}
	})
}

// TestSortKeysByHand: of bits that two digits do not share evenly, those above the last count for nothing.
func TestSortKeysByHand(t *testing.T) {
	key := []uint64{1<<17 | 3, 1 << 16, 3, 1}
	SortKeys(key, make([]uint64, 4), 0, 17)
	if want := []uint64{1, 1<<17 | 3, 3, 1 << 16}; !slices.Equal(key, want) {
		t.Errorf("got %x, want %x", key, want)
	}
}
