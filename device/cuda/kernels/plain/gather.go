// Package plain computes the functions of package kernels in plain Go on host memory. It is their
// specification and the reference of tests, and an emulated device launches it. It shares the inner
// loops with the CPU engine (internal/kernel), so that a kernel's result equals the CPU's.
package plain

import (
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/dtype"
	"diskgnn/internal/kernel"
)

// GatherParts is Gather of a table that several devices share: parts hold the rows below near, or
// all rows if far is nil.
func GatherParts(out []float32, stride int, parts [][]byte, far []byte, near int, from dtype.Type, width int, index []uint32, rows int) {
	size := from.RowBytes(width)
	for i := range rows {
		at := i
		if index != nil {
			at = int(index[i])
		}
		part, place := far, at-near
		if far == nil || at < near {
			part, place = parts[at%len(parts)], at/len(parts)
		}
		kernel.Widen(out[i*stride:][:width], part[place*size:][:size], from, width)
	}
}

// Gather copies rows of a table, widened; see kernels.Gather.
func Gather(out []float32, stride int, table, far []byte, near int, from dtype.Type, width int, index []uint32, rows int) {
	size := from.RowBytes(width)
	for i := range rows {
		at := i
		if index != nil {
			at = int(index[i])
		}
		part := table
		if far != nil && at >= near {
			part, at = far, at-near
		}
		kernel.Widen(out[i*stride:][:width], part[at*size:][:size], from, width)
	}
}

// ZeroPadding makes rows from count up to most zero; see kernels.ZeroPadding.
func ZeroPadding(x []float32, stride, width, count, most int) {
	for i := count; i < most; i++ {
		clear(x[i*stride:][:width])
	}
}

// Scatter takes gradients back through an aggregation and a tail, and returns their
// sums; see kernels.Scatter.
func Scatter(g, x []float32, width int, b *Block, y []float32, a kernels.Activation, d *Dropout, rows, most int) (dBias []float32) {
	Aggregate(g, width, x, width, b, rows)
	dBias = TailBackward(g, y, width, a, d, rows, most)
	ZeroPadding(g, width, width, rows, most)
	return dBias
}
