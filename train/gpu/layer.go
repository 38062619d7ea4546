package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/dtype"
	"diskgnn/train/model"
)

// layer is one layer of the network: a convolution, which makes the sums of its rows, and the tail
// after them.
type layer struct {
	output
	below *layer      // its output is the input; nil: the batch's features are the input
	in    int         // width of the input's rows
	dx    cuda.Buffer // gradient of the input, if it has one
	conv  conv
	tail  tail
}

// conv is the interface of the kinds of layers.
type conv interface {
	// start fills constant buffers.
	start()
	// forward makes the layer's sums of the input x.
	forward(x cuda.Buffer)
	// backward computes the gradients of the convolution's parameters from dz, the gradient of the
	// sums with zero padding, and the gradient of x if the layer has a dx. It reports whether it
	// also applied the backward pass of the tail of the layer below. It may change x's padding.
	backward(x, dz cuda.Buffer) (through bool)
}

// source returns the layer's input.
func (k *layer) source() cuda.Buffer {
	if k.below == nil {
		return k.net.in.x
	}
	return k.below.data
}

// gather stores the destinations' rows of x.
func (k *layer) gather(out cuda.Buffer, stride int, x cuda.Buffer) {
	b := k.block()
	k.net.try(kernels.Gather{Out: out, Stride: stride, Table: x, Type: dtype.Float32, Width: k.in, Index: b.positions, Rows: b.dst}.Launch(k.net.stream))
}

// addOwn adds the gradient of the destinations' own rows, which are gap apart, to the gradient of
// the input.
func (k *layer) addOwn(dOwn cuda.Buffer, gap int) {
	n, b := k.net, k.block()
	rows := b.src
	if b.place == (cuda.Buffer{}) {
		rows = b.dst // which come first
	}
	n.try(kernels.Aggregate{Out: k.dx, Stride: k.in, X: dOwn, Gap: gap, Width: k.in, Indptr: n.zeros, Indices: n.zeros,
		OwnX: dOwn, Place: b.place, Transposed: true, Places: b.dst, Add: true, Rows: rows}.Launch(n.stream))
}

// projection is the input projection's linear map. In training the input nodes are sorted by id,
// and their rows are gathered: see prepare.Prepared.
type projection struct {
	*layer
	weights, dWeights cuda.Buffer
	ordered           cuda.Buffer // the rows of x in order, kept for the backward pass
}

func newProjection(k *layer) *projection {
	p := &projection{layer: k}
	p.weights, p.dWeights = k.param(model.Self, model.Self)
	if k.net.training {
		p.ordered = k.net.floats(k.rows() * k.in)
	}
	return p
}

func (p *projection) start() {}

func (p *projection) forward(x cuda.Buffer) {
	n := p.net
	if n.training {
		n.try(kernels.Gather{Out: p.ordered, Stride: p.in, Table: x, Type: dtype.Float32, Width: p.in, Index: n.in.order, Rows: p.count()}.Launch(n.stream))
		x = p.ordered
	}
	n.product(false, false, p.rows(), p.width, p.in, 1, x, p.in, p.weights, p.width, 0, p.data, p.width)
}

func (p *projection) backward(_, dz cuda.Buffer) (through bool) {
	p.net.pad(p.ordered, p.in, p.count())
	p.net.product(true, false, p.in, p.width, p.rows(), 1, p.ordered, p.in, dz, p.width, 0, p.dWeights, p.width)
	return false
}
