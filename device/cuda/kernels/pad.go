package kernels

import "diskgnn/device/cuda"

// ZeroPadding sets the rows of X from the count up to Rows.Most to zero, for products that sum over all
// Rows.Most rows.
type ZeroPadding struct {
	X      cuda.Buffer // float32
	Stride int         // stride of the rows, in floats; at least Width
	Width  int
	Rows   Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a ZeroPadding) Launch(s *cuda.Stream) error {
	l := begin(s, "zero padding")
	l.matrix("the rows", a.X, a.Rows.Most, a.Width, a.Stride)
	l.Int(a.Width)
	l.count(a.Rows)
	const blocks = 512 // few, as there may be nothing to do
	return l.blocks(zeroPadding, a.Rows.Most, a.Width, unit([]int{a.Width, a.Stride}, a.X), blocks)
}
