package device

import "unsafe"

// Arena allocates zeroed host memory, and counts its bytes. The zero Arena has no memory and only counts:
// so the same code computes the size and takes the memory. The memory is Go's heap, which the garbage
// collector frees. An Arena is for one goroutine.
type Arena struct {
	gives bool
	used  int64
}

// NewArena returns an Arena that allocates, and does not only count.
func NewArena() *Arena { return &Arena{gives: true} }

// mostUsed is more bytes than any memory has. Counting beyond it could overflow.
const mostUsed = 1 << 60

// Take returns n zeroed elements, or nil from an Arena that only counts, and adds their bytes to Used.
func Take[T any](a *Arena, n int) []T {
	var v T
	if each := int64(unsafe.Sizeof(v)); each > 0 && int64(n) > (mostUsed-a.used)/each {
		a.used = mostUsed
	} else {
		a.used += int64(n) * each
	}
	if !a.gives {
		return nil
	}
	return make([]T, n)
}

// Used returns the bytes taken or counted, at most 2⁶⁰.
func (a *Arena) Used() int64 { return a.used }
