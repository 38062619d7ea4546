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

// RowsAhead is the number of rows by which a gather of rows asks ahead: BenchmarkGather of featurestore/internal/copier.
const RowsAhead = 8

// Row asks for the beginning of a row: the processor's prefetchers find the rest.
func Row(row []byte) { Bytes(row[:min(len(row), 256)]) }

// At asks for the cache lines in which the elements of s with the given numbers begin. Numbers beyond s do no harm. It
// changes nothing, and does not wait.
func At[T byte | uint32 | int64](s []T, at []uint32) {
	if len(at) > 0 {
		places(unsafe.Pointer(unsafe.SliceData(s)), unsafe.SliceData(at), len(at), int(unsafe.Sizeof(*new(T))))
	}
}

// Ahead is called by a loop that uses the elements of s with the given numbers, in their order, and stands at number i. It asks
// for elements by At, n together: at every n-th number for those after the next n, and at the first for the next n as well.
func Ahead[T byte | uint32 | int64](s []T, at []uint32, i, n int) {
	if i%n == 0 {
		ahead(s, at, i, n)
	}
}

func ahead[T byte | uint32 | int64](s []T, at []uint32, i, n int) {
	from := i + n
	if i == 0 {
		from = 0
	}
	At(s, at[min(from, len(at)):min(i+2*n, len(at))])
}

// AtLong is At for elements of four bytes, and numbers above 2³².
func AtLong(s []uint32, at []int64) {
	if len(at) > 0 {
		longPlaces(unsafe.Pointer(unsafe.SliceData(s)), unsafe.SliceData(at), len(at))
	}
}
