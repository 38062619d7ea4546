package device

import "unsafe"

// Arena hands out host memory, zeroed, and counts it. The zero Arena has no memory and only
// counts, so that the code which takes memory also finds out how much it will be. The memory
// is Go's: it is given back once nothing refers to it. An Arena belongs to one goroutine.
type Arena struct {
	gives bool
	used  int64
}

// NewArena returns an Arena that has memory.
func NewArena() *Arena { return &Arena{gives: true} }

// mostUsed is more than any memory has: to count on from there could overflow.
const mostUsed = 1 << 60

// Take returns n elements, or nil from an Arena that only counts.
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

// Used returns the bytes taken, 2⁶⁰ if there were more.
func (a *Arena) Used() int64 { return a.used }
