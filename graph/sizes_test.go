package graph

import (
	"slices"
	"testing"
	"unsafe"
)

// TestSizesBytes counts what a batch for the largest counts has room for.
func TestSizesBytes(t *testing.T) {
	for _, s := range []Sizes{
		{},
		{Src: []int{7}, Dst: []int{3}, Edges: []int{9}},
		{Src: []int{700, 50, 11}, Dst: []int{50, 11, 4}, Edges: []int{900, 60, 0}},
		{Src: []int{700, 50}, Dst: []int{50, 11}, Edges: []int{900, 60}, Rows: []int{120, 33}},
	} {
		for _, targets := range []int{0, 3} {
			b := s.NewBatch(targets)
			n := 4*(cap(b.Input)+cap(b.Degree)+cap(b.InputTypes)+cap(b.Labels)) + cap(b.Targets) + cap(b.Blocks)*int(unsafe.Sizeof(Block{}))
			for _, k := range b.Blocks {
				n += 4 * (cap(k.Indptr) + cap(k.Indices) + cap(k.Dst))
			}
			if got := s.Bytes(targets); got != int64(n) {
				t.Errorf("%+v, targets of %d bytes: %d bytes, have %d", s, targets, got, n)
			}
		}
	}
}

// Rows are counted in typed graphs alone.
func TestSizesOfRows(t *testing.T) {
	var s, sum Sizes
	b := typedBatch()
	s.Cover(b)
	if typed := s.NewBatch(0); cap(typed.InputTypes) != 4 || typed.Degree != nil {
		t.Errorf("room for %d types and %d degrees of 4 input nodes", cap(typed.InputTypes), cap(typed.Degree))
	}
	if !slices.Equal(s.Rows, []int{5, 4}) || s.RowsOf(1) != 4 || !slices.Equal(s.Dst, []int{3, 2}) {
		t.Errorf("%+v", s)
	}
	sum.Merge(s)
	s.Rows = []int{4, 7}
	sum.Merge(s)
	if !slices.Equal(sum.Rows, []int{5, 7}) {
		t.Errorf("merged: %+v", sum)
	}
	b.Types, b.Blocks = nil, b.Blocks[:0]
	if s = (Sizes{Dst: []int{3}}); s.RowsOf(0) != 3 {
		t.Errorf("%d rows of 3 destinations", s.RowsOf(0))
	}
	if s.Cover(b); s.Rows != nil {
		t.Errorf("without types: %v", s.Rows)
	}
}
