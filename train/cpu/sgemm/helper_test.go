package sgemm

import "unsafe"

func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

func address(x []float32) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(x))) }
