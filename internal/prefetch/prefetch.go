// Package prefetch asks the processor to load memory into its caches ahead of a use. The processor's own prefetchers follow
// one ascending stream well, but not several short ones, and no random places.
package prefetch

import "unsafe"

// Bytes asks for the cache lines of b. It changes nothing, and does not wait.
func Bytes(b []byte) {
	if len(b) > 0 {
		lines(unsafe.SliceData(b), len(b))
	}
}

// At asks for the cache lines in which the elements of s with the given numbers begin. Numbers beyond s do no harm. It
// changes nothing, and does not wait.
func At[T byte | uint32 | int64](s []T, at []uint32) {
	if len(at) > 0 {
		places(unsafe.Pointer(unsafe.SliceData(s)), unsafe.SliceData(at), len(at), int(unsafe.Sizeof(*new(T))))
	}
}

// AtLong is At for elements of four bytes, and numbers above 2³².
func AtLong(s []uint32, at []int64) {
	if len(at) > 0 {
		longPlaces(unsafe.Pointer(unsafe.SliceData(s)), unsafe.SliceData(at), len(at))
	}
}
