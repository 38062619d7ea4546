package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/kernel"
)

// network is the shared state of a model's layers: the plan, the parameters, and the batch that is
// being computed.
type network struct {
	*plan
	*memory
	frame   *frame
	asked   graph.Sizes    // the bucket of the batch being computed; sizes while buffers are made
	dropout kernel.Dropout // none outside training

	weights, grads cuda.Buffer // of all parameters, and of those trained
	zeros          cuda.Buffer // an indptr of nothing
	one            cuda.Buffer // the float32 1

	stream *cuda.Stream
	blas   *cuda.BLAS
	in     *input // the batch being computed
	failed error  // the first launch that was refused
}

// try keeps the first error of a launch.
func (n *network) try(err error) {
	if n.failed == nil {
		n.failed = err
	}
}

// compute directs further work to an input's batch.
func (n *network) compute(i *input) { n.in, n.asked = i, i.now.sizes }

// product enqueues c = alpha·op(a)·op(b) + beta·c, row-major; see cuda.BLAS.
func (n *network) product(transA, transB bool, rows, cols, depth int, alpha float32, a cuda.Buffer, lda int, b cuda.Buffer, ldb int, beta float32, c cuda.Buffer, ldc int) {
	n.try(n.blas.Sgemm(transA, transB, rows, cols, depth, alpha, a, lda, b, ldb, beta, c, ldc))
}

// combine enqueues y = alpha·x + beta·y over a number of elements, in float32, as a product with
// one. With beta zero, y is not read.
func (n *network) combine(elements int, alpha float32, x cuda.Buffer, beta float32, y cuda.Buffer) {
	was := n.blas.Precision
	n.blas.Precision = cuda.Full
	n.product(false, false, elements, 1, 1, alpha, x, 1, n.one, 1, beta, y, 1)
	n.blas.Precision = was
}

// pad makes the rows of x beyond the count zero, for a product that sums over rows.
func (n *network) pad(x cuda.Buffer, width int, rows kernels.Count) {
	n.try(kernels.ZeroPadding{X: x, Stride: width, Width: width, Rows: rows}.Launch(n.stream))
}

// number enqueues the writing of numbers to a buffer of uint32, if there is one.
func (n *network) number(to cuda.Buffer, number func(at int) int) {
	numbers := make([]uint32, to.Bytes()/4)
	for i := range numbers {
		numbers[i] = uint32(number(i))
	}
	n.try(n.stream.CopyIn(to, binio.Bytes(numbers)))
}
