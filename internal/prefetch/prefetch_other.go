//go:build !amd64 || noasm

package prefetch

import "unsafe"

func lines(*byte, int) {}

func places(unsafe.Pointer, *uint32, int, int) {}

func longPlaces(unsafe.Pointer, *int64, int) {}
