package gpu

import (
	"fmt"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/dtype"
	"diskgnn/train/model"
)

// layer is one layer of the network: a convolution, which makes sums for its rows, and
// the tail that follows them. Its rows are the destinations of its block; those of the
// input projection are the input nodes.
type layer struct {
	net       *network
	index     int    // of the model's layers, or model.InputLayer
	below     *layer // whose output is the input; nil: the batch's features are
	in, width int    // of the input's rows and of its own
	data      cuda.Buffer
	dx        cuda.Buffer // gradient of the input, if it has one
	conv      conv
	tail      tail
}

// conv is what kinds of layers differ in.
type conv interface {
	// start fills what never changes.
	start()
	// forward makes the layer's sums of the input x.
	forward(x cuda.Buffer)
	// backward computes the gradients of the convolution's parameters from dz, that of
	// the sums, whose padding is zero, and that of x where the layer has a dx. It reports
	// whether it took that through the tail of the layer below, too. x's padding may be
	// changed.
	backward(x, dz cuda.Buffer) (through bool)
}

func newLayer(n *network, index int, below *layer) *layer {
	k := &layer{net: n, index: index, below: below, in: n.model.In(index), width: n.model.Out(index)}
	k.data = n.floats(k.rows() * k.width)
	if n.training && below != nil {
		k.dx = n.floats(below.rows() * below.width)
	}
	k.tail.make(k)
	k.conv = newConv(k)
	return k
}

// convolution is a row of the table of convolutions.
type convolution struct {
	make       func(*layer) conv
	multiplies bool // it can multiply first
	bySource   bool // training sums by source in every block, which is transposed for it
}

// convolutions has a row for every kind of model.
var convolutions = map[model.Kind]convolution{
	model.SAGE: {make: newLinear, multiplies: true},
	model.GCN:  {make: newLinear, multiplies: true},
	model.GAT:  {make: newAttention, bySource: true},
}

// newConv makes a layer's convolution. The kind is one that Validate of the model accepts.
func newConv(k *layer) conv {
	if k.index == model.InputLayer {
		return newProjection(k)
	}
	kind := k.net.model.Kind
	c, ok := convolutions[kind]
	if !ok {
		panic(fmt.Sprintf("gpu: no layer of the kind %q", kind))
	}
	return c.make(k)
}

// param returns the values of the layer's parameters with roles from one to another and,
// in training, where their gradients go; none where it has none.
func (k *layer) param(from, to model.Role) (values, grads cuda.Buffer) {
	lo, hi := k.net.layout.Span(k.index, from, to)
	if lo == hi {
		return cuda.Buffer{}, cuda.Buffer{}
	}
	values = part(k.net.weights, lo, hi)
	if k.net.training && to <= model.LastTrained {
		grads = part(k.net.grads, lo, hi)
	}
	return values, grads
}

// block returns the batch's block for this layer.
func (k *layer) block() *block { return &k.net.in.now.blocks[max(0, k.index)] }

// rows returns how many rows a launch is for.
func (k *layer) rows() int {
	if k.index == model.InputLayer {
		return k.net.asked.Src[0]
	}
	return k.net.asked.Dst[k.index]
}

// count returns how many rows the batch has.
func (k *layer) count() kernels.Count {
	if k.index == model.InputLayer {
		return k.block().src
	}
	return k.block().dst
}

// source returns the layer's input.
func (k *layer) source() cuda.Buffer {
	if k.below == nil {
		return k.net.in.x
	}
	return k.below.data
}

// gather stores the rows of x of the destinations.
func (k *layer) gather(out cuda.Buffer, stride int, x cuda.Buffer) {
	b := k.block()
	k.net.try(kernels.Gather{Out: out, Stride: stride, Table: x, Type: dtype.Float32, Width: k.in, Index: b.positions, Rows: b.dst}.Launch(k.net.stream))
}

// addOwn adds to the gradient of the input that of the destinations' own rows, which
// are gap apart.
func (k *layer) addOwn(dOwn cuda.Buffer, gap int) {
	n, b := k.net, k.block()
	rows := b.src
	if b.place == (cuda.Buffer{}) {
		rows = b.dst // which come first
	}
	n.try(kernels.Aggregate{Out: k.dx, Stride: k.in, X: dOwn, Gap: gap, Width: k.in, Indptr: n.zeros, Indices: n.zeros,
		OwnX: dOwn, Place: b.place, Transposed: true, Places: b.dst, Add: true, Rows: rows}.Launch(n.stream))
}

// projection is the input projection's linear map. In training the input nodes come in
// the order of their ids, and their rows are gathered: see prepare.Prepared.
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
