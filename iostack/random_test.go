package iostack

import (
	"testing"

	"pgregory.net/rapid"
)

// TestShuffledIsAPermutation: each number once, another order for another seed,
// and few steps to a neighbour.
func TestShuffledIsAPermutation(t *testing.T) {
	all := func(n int64, seed uint64) []int64 {
		var list []int64
		for s := newShuffled(n, seed); ; {
			v, ok := s.next()
			if !ok {
				return list
			}
			list = append(list, v)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 3000).Draw(t, "n")
		seen := make([]bool, n)
		list := all(n, rapid.Uint64().Draw(t, "seed"))
		for _, v := range list {
			if v < 0 || v >= n || seen[v] {
				t.Fatalf("%d of 0…%d: out of range or twice", v, n-1)
			}
			seen[v] = true
		}
		if int64(len(list)) != n {
			t.Fatalf("%d numbers of %d", len(list), n)
		}
	})
	a, b := all(10000, 1), all(10000, 2)
	near, equal := 0, 0
	for i := range a {
		if i > 0 && a[i]-a[i-1] < 100 && a[i-1]-a[i] < 100 {
			near++
		}
		if a[i] == b[i] {
			equal++
		}
	}
	if near > 500 || equal > 100 { // chance gives 199 and 1
		t.Errorf("%d steps of 10,000 are short, %d numbers have one place under two seeds", near, equal)
	}
}
