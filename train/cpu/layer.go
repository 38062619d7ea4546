package cpu

// layer is one layer of the network: a convolution, which makes sums for its rows,
// and the tail that follows them.
//
// Gradients that travel from one layer down to the one before are those of its
// sums: the layer above, which computes the gradient of a layer's output, hands every chunk of rows
// to the tail's backward at once, while it is in the cache.
type layer struct {
	output
	below *layer    // whose output is the input; nil: the batch's features are
	in    int       // width of the input's rows
	dx    []float32 // gradient of the input, if it has one
	conv  conv
	tail  tail
}

// conv is what kinds of layers differ in: how the sums follow from the input x. It
// has the layer's block, and the parameters that it asked the network for.
type conv interface {
	// forward stores the sums of the batch's rows in the layer's data, and hands every
	// chunk of chunkRows of them to the tail's finish.
	forward(x []float32) error
	// backward computes the gradients of the convolution's parameters from dz, the
	// gradient of the sums, and, where the layer has a dx, that of x: of which it hands
	// every chunk of chunkRows rows to the backward of the tail below.
	backward(x, dz []float32) error
}

// source returns the layer's input.
func (k *layer) source() []float32 {
	if k.below == nil {
		return k.net.in.X
	}
	return k.below.data
}

// tail is what follows the sums z of a layer, in place and row by row:
//
//	dropout(activation(norm(z + b)))        hidden layers
//	z + b                                   the last layer
//
// Forward, the convolution brackets its work by begin and complete, and calls finish
// for every chunk of rows in between. Backward, whoever computes the gradient of the
// layer's output calls backward for every chunk of rows, which turns it into that of
// the sums; the layer's own backward pass begins with completeBackward. Chunks are
// those of chunkRows rows, in any order, on any goroutine; what is summed over rows
// is summed chunk by chunk and added in the order of the chunks.
type tail interface {
	// begin prepares for a batch.
	begin()
	// finish turns the sums of rows lo to hi into the layer's output, or does what a
	// batch norm can do before it has seen all rows.
	finish(lo, hi int)
	// complete does what had to wait for all rows.
	complete() error
	// backward takes rows lo to hi of g from gradients of the output to gradients of the
	// sums, in place; where there is a batch norm, to those of its own output.
	backward(g []float32, lo, hi int)
	// completeBackward does what had to wait for all rows, and computes the gradients of
	// the tail's parameters.
	completeBackward(dz []float32) error
}
