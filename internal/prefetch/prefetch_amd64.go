//go:build amd64 && !noasm

package prefetch

import "unsafe"

// lines asks for the cache lines from p on, every 64 bytes up to n bytes. n is above 0.
//
//go:noescape
func lines(p *byte, n int)

// places asks for the cache lines at p + size·at[i], for i below n, which is above 0.
//
//go:noescape
func places(p unsafe.Pointer, at *uint32, n, size int)

// longPlaces asks for the cache lines at p + 4·at[i], for i below n, which is above 0.
//
//go:noescape
func longPlaces(p unsafe.Pointer, at *int64, n int)
