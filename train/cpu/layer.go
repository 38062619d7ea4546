package cpu

// layer is one layer of the network: a convolution, which makes the sums of its rows, and the tail
// after them.
//
// Layers pass down gradients of their sums: the layer above computes the gradient of a layer's
// output, and passes every chunk of rows to the tail's backward at once, while it is in the cache.
type layer struct {
	output
	below *layer    // its output is the input; nil: the batch's features are the input
	in    int       // width of the input's rows
	dx    []float32 // gradient of the input, if it has one
	conv  conv
	tail  tail
}

// conv is the interface of the kinds of layers: the computation of the sums from the input x. It
// has the layer's block, and the parameters that it requested from the network.
type conv interface {
	// forward stores the sums of the batch's rows in the layer's data, and passes every chunk of
	// chunkRows of them to the tail's finish.
	forward(x []float32) error
	// backward computes the gradients of the convolution's parameters from dz, the gradient of the
	// sums, and, if the layer has a dx, the gradient of x. It passes every chunk of chunkRows rows
	// of that to the backward of the tail below.
	backward(x, dz []float32) error
}

// source returns the layer's input.
func (k *layer) source() []float32 {
	if k.below == nil {
		return k.net.in.X
	}
	return k.below.data
}

// tail computes a layer's output from its sums z, in place and row by row:
//
//	dropout(activation(norm(z + b)))        hidden layers
//	z + b                                   the last layer
//
// In the forward pass the convolution calls begin first and complete last, and finish for every
// chunk of rows in between. In the backward pass the code that computes the gradient of the layer's
// output calls backward for every chunk of rows, which turns it into the gradient of the sums; the
// layer's own backward pass begins with completeBackward. Chunks have chunkRows rows, and come in
// any order, on any goroutine; sums over rows are made chunk by chunk and added in the order of the
// chunks.
type tail interface {
	// begin prepares for a batch.
	begin()
	// finish turns the sums of rows lo to hi into the layer's output, or does the part of a batch
	// norm that needs no other rows.
	finish(lo, hi int)
	// complete does the part that needs all rows.
	complete() error
	// backward turns rows lo to hi of g from gradients of the output into gradients of the sums, in
	// place; with a batch norm, into gradients of the norm's output.
	backward(g []float32, lo, hi int)
	// completeBackward does the part that needs all rows, and computes the gradients of the tail's
	// parameters.
	completeBackward(dz []float32) error
}
