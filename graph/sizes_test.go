package graph

import (
	"testing"
	"unsafe"
)

// TestSizesBytes counts what a batch for the largest counts has room for.
func TestSizesBytes(t *testing.T) {
	for _, s := range []Sizes{
		{},
		{Src: []int{7}, Dst: []int{3}, Edges: []int{9}},
		{Src: []int{700, 50, 11}, Dst: []int{50, 11, 4}, Edges: []int{900, 60, 0}},
	} {
		for _, targets := range []int{0, 3} {
			b := s.NewBatch(targets)
			n := 4*(cap(b.Input)+cap(b.Degree)+cap(b.Labels)) + cap(b.Targets) + cap(b.Blocks)*int(unsafe.Sizeof(Block{}))
			for _, k := range b.Blocks {
				n += 4 * (cap(k.Indptr) + cap(k.Indices) + cap(k.Dst))
			}
			if got := s.Bytes(targets); got != int64(n) {
				t.Errorf("%+v, targets of %d bytes: %d bytes, have %d", s, targets, got, n)
			}
		}
	}
}
