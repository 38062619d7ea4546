package pack

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRankNodes(t *testing.T) {
	// hotness:               node 0  1  2  3  4  5
	rank, touched := rankNodes([]uint32{2, 0, 5, 2, 0, 1})
	if want := []uint32{1, 4, 0, 2, 5, 3}; !slices.Equal(rank, want) || touched != 4 {
		t.Errorf("ranks %v of %d touched nodes, want %v of 4", rank, touched, want)
	}
	rank, touched = rankNodes(nil)
	if len(rank) != 0 || touched != 0 {
		t.Errorf("no nodes: %v, %d", rank, touched)
	}
}

func TestBandEdges(t *testing.T) {
	all := []float64{50, 30, 20, 10, 5}
	for _, c := range []struct {
		touched, cache int64
		percent        []float64
		want           []int64
	}{
		{1000, 50, all, []int64{500, 300, 200, 100, 50}},
		{1000, 0, all, []int64{500, 300, 200, 100, 50, 0}},
		{1000, 120, all, []int64{500, 300, 200, 120}},
		{1000, 1000, all, []int64{1000}},
		{1000, 600, all, []int64{600}},
		{150, 50, all, []int64{150, 100, 50}}, // nothing beyond rank 150 is ever read
		{30, 50, all, []int64{30}},
		{1000, 70, []float64{}, []int64{70}},
	} {
		if got := bandEdges(1000, c.touched, c.cache, c.percent); !slices.Equal(got, c.want) {
			t.Errorf("%d touched, cache %d, bands %v: %v, want %v", c.touched, c.cache, c.percent, got, c.want)
		}
	}
}

func TestBitset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 300).Draw(t, "n")
		s := newBitset(n)
		members := rapid.SliceOfDistinct(rapid.Uint32Range(0, uint32(n-1)), func(v uint32) uint32 { return v }).Draw(t, "members")
		for _, v := range members {
			s.add(v)
		}
		slices.Sort(members)
		if got := s.count(); got != int64(len(members)) {
			t.Fatalf("%d members counted, %d added", got, len(members))
		}
		for i, v := range members {
			if !s.has(v) || s.place(v) != uint32(i) {
				t.Fatalf("member %d: in the set %t, place %d, want %d", v, s.has(v), s.place(v), i)
			}
		}
	})
}

func TestRadixSort(t *testing.T) {
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
		radixSort(key, make([]uint64, len(key)), val, make([]uint32, len(key)))
		got := make([]pair, len(key))
		for i := range key {
			got[i] = pair{key[i], val[i]}
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(pair{})); d != "" {
			t.Fatal(d)
		}
	})
}
