package cpu

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"diskgnn/graph"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// layer is one layer of the network: a convolution, which makes sums for its rows,
// and the tail that follows them. Its rows are the destinations of its block; those
// of the input projection are the input nodes.
//
// Gradients that travel from one layer down to the one before are those of its
// sums: the layer above, which computes the gradient of a layer's output, hands every chunk of rows
// to the tail's backward at once, while it is in the cache.
type layer struct {
	net       *network
	index     int    // of the model's layers, or model.InputLayer
	below     *layer // whose output is the input; nil: the batch's features are
	in, width int    // of the input's rows and of its own
	rows      int    // at most
	data      []float32
	dx        []float32 // gradient of the input, if it has one
	conv      conv
	tail      tail
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

func newLayer(n *network, index int, below *layer) *layer {
	k := &layer{net: n, index: index, below: below, in: n.model.In(index), width: n.model.Out(index), rows: n.rows(index)}
	k.data = n.floats(k.rows * k.width)
	if n.training && below != nil {
		k.dx = n.floats(below.rows * below.width)
	}
	k.tail.make(k)
	k.conv = newConv(k)
	return k
}

// convs has the convolution of every kind of model.
var convs = map[model.Kind]func(*layer) conv{
	model.SAGE: newLinear,
	model.GCN:  newLinear,
	model.GAT:  newAttention,
}

// newConv makes a layer's convolution. The kind is one that Validate of the model accepts.
func newConv(k *layer) conv {
	if k.index == model.InputLayer {
		return newProjection(k)
	}
	kind := k.net.model.Kind
	if convs[kind] == nil {
		panic(fmt.Sprintf("cpu: no layer of the kind %q", kind))
	}
	return convs[kind](k)
}

// param returns the values of the layer's parameter with this role and, in training,
// where its gradient goes; nil where it has none.
func (k *layer) param(r model.Role) (values, grads []float32) { return k.params(r, r) }

// params does the same for the parameters with roles from one to another, as one.
func (k *layer) params(from, to model.Role) (values, grads []float32) {
	n := k.net
	values = n.span(n.weights, k.index, from, to)
	if to <= model.LastTrained {
		grads = n.span(n.grads, k.index, from, to)
	}
	return values, grads
}

// block returns the batch's block for this layer and what was derived from it.
func (k *layer) block() (*graph.Block, *prepare.Block) {
	p, i := k.net.in.Prepared, max(0, k.index-k.net.first)
	return &p.Batch().Blocks[i], &p.Blocks[i]
}

// count returns how many rows the batch has.
func (k *layer) count() int {
	b, _ := k.block()
	if k.index == model.InputLayer {
		return b.NumSrc
	}
	return b.NumDst
}

// source returns the layer's input.
func (k *layer) source() []float32 {
	if k.below == nil {
		return k.net.in.X
	}
	return k.below.data
}

// forward is a layer's forward pass as an operation of its parameters and its input.
type forward struct {
	node
	layer *layer
}

func (o *forward) Do(...gorgonia.Value) (gorgonia.Value, error) {
	k := o.layer
	k.tail.begin()
	if err := k.conv.forward(k.source()); err != nil {
		return nil, err
	}
	return o.out, k.tail.complete()
}

func (o *forward) DiffWRT(inputs int) []bool {
	wrt := make([]bool, inputs)
	for i := range wrt {
		wrt[i] = true
	}
	return wrt
}

// SymDiff makes one operation of the layer's whole backward pass. dz is the gradient
// of the sums.
func (o *forward) SymDiff(inputs gorgonia.Nodes, _, dz *gorgonia.Node) (gorgonia.Nodes, error) {
	k, n := o.layer, o.layer.net
	grads := n.layerParams(n.grads, k.index)
	if k.below == nil {
		dp, err := gorgonia.ApplyOp(&backward{n.node("backward", 1, grads, len(grads)), k}, dz)
		return gorgonia.Nodes{dp}, err
	}
	dx, err := gorgonia.ApplyOp(&backward{n.node("backward", 2, k.dx, k.below.rows, k.below.width), k}, dz, inputs[1])
	if err != nil {
		return nil, err
	}
	dp, err := gorgonia.ApplyOp(&computed{n.node("gradients", 1, grads, len(grads))}, dx)
	return gorgonia.Nodes{dp, dx}, err
}

// backward is a layer's backward pass as an operation of the gradient of its sums
// and, but for the first layer, of its input. Its result is the gradient of the
// input; those of the parameters are computed with it.
type backward struct {
	node
	layer *layer
}

func (o *backward) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	k, dz := o.layer, floats(v[0])
	if err := k.tail.completeBackward(dz); err != nil {
		return nil, err
	}
	return o.out, k.conv.backward(k.source(), dz)
}

// computed hands on what the operation before it has computed on the way.
type computed struct{ node }

func (o *computed) Do(...gorgonia.Value) (gorgonia.Value, error) { return o.out, nil }

// projection is the input projection's linear map: z = x·W for every input node. In
// training the input nodes come in the order of their ids, and their rows are gathered:
// see prepare.Prepared.
type projection struct {
	*layer
	weights, dWeights []float32
	x                 []float32
	order             []uint32 // where the rows lie in x; nil: in order
	product           groupedProduct
}

func newProjection(k *layer) *projection {
	p := &projection{layer: k, product: groupedProduct{n: k.width}}
	p.weights, p.dWeights = k.param(model.Self)
	if k.net.training {
		k.net.needPartial(k.rows, k.in*k.width)
		k.net.needScratch(k.in)
	}
	return p
}

func (p *projection) forward(x []float32) error {
	p.x, p.order = x, p.net.in.Prepared.Order
	return p.net.each(p.count(), chunkRows, p)
}

func (p *projection) chunk(worker, lo, hi int) {
	x := p.x[lo*p.in:]
	if p.order != nil {
		x = p.net.workerScratch(worker, hi-lo, p.in)
		gatherColumns(x, p.in, p.x, p.order[lo:hi], 0)
	}
	p.net.blas.Sgemm(false, false, hi-lo, p.width, p.in, 1, x, p.in, p.weights, p.width, 0, p.data[lo*p.width:], p.width)
	p.tail.finish(lo, hi)
}

func (p *projection) backward(x, dz []float32) error {
	p.product.order = p.order
	return p.product.run(p.layer, p.dWeights, x, dz, p.count(), p.rows)
}

// gatherColumns stores columns of the given rows of x, which are in wide: as many from the
// first on as the rows of to have.
func gatherColumns(to []float32, in int, x []float32, rows []uint32, from int) {
	width := len(to) / len(rows)
	for i, at := range rows {
		copy(to[i*width:(i+1)*width], x[int(at)*in+from:])
	}
}
