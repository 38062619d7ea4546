package plain

import (
	"diskgnn/device/cuda/kernels"
)

// Scatter takes gradients back through an aggregation and a tail, and returns their
// sums; see kernels.Scatter.
func Scatter(g, x []float32, width int, b *Block, y []float32, a kernels.Activation, d *Dropout, rows, most int) (dBias []float32) {
	Aggregate(g, width, x, width, b, rows)
	dBias = TailBackward(g, y, width, a, d, rows, most)
	ZeroPadding(g, width, width, rows, most)
	return dBias
}
