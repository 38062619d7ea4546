//go:build !unix

package device

import "unsafe"

// mapPages takes the pages from Go's heap, one page more than asked so that an
// aligned run can be cut out.
func mapPages(n int) ([]byte, error) {
	mem := make([]byte, n+PageSize)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(mem))) & (PageSize - 1))
	return mem[skip : skip+n : skip+n], nil
}

func unmapPages([]byte) error { return nil }
