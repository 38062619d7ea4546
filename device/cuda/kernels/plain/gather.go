// Package plain computes the functions of package kernels in plain Go on host memory. It is their
// specification and the reference of tests, and an emulated device launches it. It shares the inner
// loops with the CPU engine (internal/kernel), so that a kernel's result equals the CPU's.
package plain

import (
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/dtype"
	"diskgnn/internal/kernel"
)

// GatherParts is Gather of a table that several devices share. The rows below near, or all rows if far is
// nil, are divided among parts: row r is row r / len(parts) of parts[r % len(parts)].
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

// Gather copies rows of width elements of type from into out, widened to float32: row i of out, at
// i·stride, is the table's row index[i], or row i if index is nil. If far is not nil, it holds the table's
// rows from near on. See kernels.Gather.
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

// ZeroPadding sets the rows count ≤ i < most of x to zero: width elements at i·stride. See
// kernels.ZeroPadding.
func ZeroPadding(x []float32, stride, width, count, most int) {
	for i := count; i < most; i++ {
		clear(x[i*stride:][:width])
	}
}

// Scatter takes gradients x of an aggregation's output back through the aggregation b and the tail with
// output y, into g. It returns the gradient of the bias, and sets the rows rows ≤ i < most of g to zero.
// See kernels.Scatter.
func Scatter(g, x []float32, width int, b *Block, y []float32, a kernels.Activation, d *Dropout, rows, most int) (dBias []float32) {
	Aggregate(g, width, x, width, b, rows)
	dBias = TailBackward(g, y, width, a, d, rows, most)
	ZeroPadding(g, width, width, rows, most)
	return dBias
}
