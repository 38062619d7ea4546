package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/train/model"
)

// linear is a convolution of a sum and a product:
//
//	[A(x) | x[dst]]·W                        aggregate first
//	A(x·Wneigh) + x[dst]·Wself               multiply first
//
// where W is Wneigh above Wself, and A is a weighted sum or the maximum, which can only come first.
// A residual's map is Wself, or a third map beside it.
type linear struct {
	*layer
	order             model.Order
	max               bool
	own               bool // there is a Wself
	weights, dWeights cuda.Buffer
	third, dThird     cuda.Buffer // the residual's map, where it is not Wself

	operands cuda.Buffer // of the product per destination, kept for the backward pass
	products cuda.Buffer // multiply first: x·Wneigh
	chosen   cuda.Buffer // the source of every maximum
	beside   bool        // aggregating stores the own rows beside the aggregates
	dA       cuda.Buffer // aggregate first: gradient of the aggregates
	dOwn     cuda.Buffer // gradient of the destinations' own rows
	gap      int         // of the rows of dA and dOwn: side by side, or both as wide as the input
	dy       cuda.Buffer // multiply first: gradient of the products
}

func newLinear(k *layer) conv {
	n, self := k.net, k.net.layout.Has(k.index, model.Self)
	o := &linear{layer: k, order: n.orders[k.index], max: !n.model.Commutes(), own: self || n.model.Residual}
	if self {
		o.weights, o.dWeights = k.param(model.Neighbour, model.Self)
		o.third, o.dThird = k.param(model.ResidualWeight, model.ResidualWeight)
	} else {
		o.weights, o.dWeights = k.param(model.Neighbour, model.ResidualWeight)
	}
	if o.order == model.Multiply {
		o.products = n.floats(n.asked.Src[k.index] * k.width)
	}
	if o.order == model.Aggregate || o.own && k.index == 0 {
		o.operands = n.floats(k.rows() * o.operandWidth())
	}
	o.beside = self && o.order == model.Aggregate && !o.max
	if !n.training {
		return o
	}
	if o.order == model.Multiply {
		o.dy = n.floats(n.asked.Src[k.index] * k.width)
	}
	if k.below == nil {
		return o
	}
	o.gap = k.in
	switch {
	case o.beside:
		o.gap = o.operandWidth()
		o.dA = n.floats(k.rows() * o.gap)
		o.dOwn = after(o.dA, k.in)
	case o.own:
		o.dOwn = n.floats(k.rows() * k.in)
	}
	if o.order == model.Aggregate && !o.beside {
		o.dA = n.floats(k.rows() * k.in)
	}
	if o.max {
		o.chosen = n.floats(k.rows() * k.in)
	}
	return o
}

func (o *linear) operandWidth() int { return o.order.OperandWidth(o.in, o.own) }

func (o *linear) start() {}

func (o *linear) forward(x cuda.Buffer) {
	n, in, out := o.net, o.in, o.width
	own, stride := o.ownRows(x)
	if o.order == model.Aggregate {
		width := o.operandWidth()
		o.aggregate(o.operands, width, x, in)
		n.product(false, false, o.rows(), out, width, 1, o.operands, width, o.weights, out, 0, o.data, out)
	} else {
		n.product(false, false, n.asked.Src[o.index], out, in, 1, x, in, o.weights, out, 0, o.products, out)
		o.aggregate(o.data, out, o.products, out)
		if o.own {
			n.product(false, false, o.rows(), out, in, 1, own, stride, after(o.weights, in*out), out, 1, o.data, out)
		}
	}
	if o.third != (cuda.Buffer{}) {
		n.product(false, false, o.rows(), out, in, 1, own, stride, o.third, out, 1, o.data, out)
	}
}

// ownRows returns the destinations' rows of x, and their stride: in the operands if they are not
// x's first rows or have to be beside the aggregates.
func (o *linear) ownRows(x cuda.Buffer) (own cuda.Buffer, stride int) {
	switch {
	case !o.own:
		return cuda.Buffer{}, 0
	case o.operands == (cuda.Buffer{}):
		return x, o.in
	}
	stride = o.operandWidth()
	own = after(o.operands, stride-o.in)
	if !o.beside {
		o.gather(own, stride, x)
	}
	return own, stride
}

// aggregate stores the aggregates of the rows of y, which have width elements.
func (o *linear) aggregate(out cuda.Buffer, stride int, y cuda.Buffer, width int) {
	n, b := o.net, o.block()
	if o.max {
		n.try(kernels.Maximum{Out: out, Stride: stride, Chosen: o.chosen, X: y, Width: width,
			Indptr: b.indptr, Indices: b.indices, Edges: b.edges, Rows: b.dst}.Launch(n.stream))
		return
	}
	a := kernels.Aggregate{Out: out, Stride: stride, X: y, Width: width, Indptr: b.indptr, Indices: b.indices, Edges: b.edges,
		Outer: b.outer, Inner: b.inner, Pad: n.training && o.order == model.Aggregate, Rows: b.dst}
	if o.beside || b.own != (cuda.Buffer{}) {
		a.OwnX, a.Own, a.Place, a.Beside = y, b.own, b.positions, o.beside
	}
	n.try(a.Launch(n.stream))
}

// backward computes, with dz the gradient of the sums:
//
//	dWneigh = A(x)ᵀ·dz          or xᵀ·dy, where dy = Aᵀ(dz)
//	dWself  = x[dst]ᵀ·dz
//	dx      = Aᵀ(dz·Wneighᵀ)    or dy·Wneighᵀ,     + dz·Wselfᵀ at the destinations
//
// aggregating or multiplying first.
func (o *linear) backward(x, dz cuda.Buffer) (through bool) {
	n, b, in, out := o.net, o.block(), o.in, o.width
	if o.operands != (cuda.Buffer{}) && (o.max || o.own && !o.beside) { // the others are padded
		n.pad(o.operands, o.operandWidth(), b.dst)
	}
	if o.order == model.Aggregate {
		width := o.operandWidth()
		n.product(true, false, width, out, o.rows(), 1, o.operands, width, dz, out, 0, o.dWeights, out)
	} else {
		dy := o.transposed(o.dy, dz, out, out)
		dy.Pad = true
		n.try(dy.Launch(n.stream))
		n.pad(x, in, b.src)
		n.product(true, false, in, out, n.asked.Src[o.index], 1, x, in, o.dy, out, 0, o.dWeights, out)
		if o.own {
			own := x
			if o.operands != (cuda.Buffer{}) {
				own = o.operands
			}
			n.product(true, false, in, out, o.rows(), 1, own, in, dz, out, 0, after(o.dWeights, in*out), out)
		}
	}
	if o.third != (cuda.Buffer{}) {
		n.try(n.stream.Copy(o.dThird, after(o.dWeights, in*out)))
	}
	if o.dx == (cuda.Buffer{}) {
		return false
	}
	return o.inputGradient(dz)
}

func (o *linear) inputGradient(dz cuda.Buffer) (through bool) {
	n, in, out := o.net, o.in, o.width
	switch {
	case o.beside:
		n.product(false, true, o.rows(), o.gap, out, 1, dz, out, o.weights, out, 0, o.dA, o.gap)
	case o.own:
		n.product(false, true, o.rows(), in, out, 1, dz, out, after(o.weights, in*out), out, 0, o.dOwn, in)
	}
	if o.third != (cuda.Buffer{}) {
		n.product(false, true, o.rows(), in, out, 1, dz, out, o.third, out, 1, o.dOwn, o.gap)
	}
	if o.order == model.Multiply {
		n.product(false, true, n.asked.Src[o.index], in, out, 1, o.dy, out, o.weights, out, 0, o.dx, in)
		o.addRest(o.dOwn)
		return false
	}
	if !o.beside {
		n.product(false, true, o.rows(), in, out, 1, dz, out, o.weights, out, 0, o.dA, in)
	}
	return o.scatter()
}

// scatter stores the sources' gradients from the aggregates, and their gradients as destinations.
// It also applies the backward pass of the tail below if nothing has to come between.
func (o *linear) scatter() (through bool) {
	n, b := o.net, o.block()
	if o.max {
		n.try(kernels.MaximumBackward{Out: o.dx, G: o.dA, Chosen: o.chosen, Width: o.in,
			Indptr: b.tindptr, Indices: b.tindices, Edges: b.edges, Rows: b.src}.Launch(n.stream))
		o.addRest(o.dOwn)
		return false
	}
	a, rest := o.transposed(o.dx, o.dA, o.in, o.gap), o.dOwn
	if a.OwnX == (cuda.Buffer{}) {
		a.OwnX, rest = o.dOwn, cuda.Buffer{}
	}
	if rest == (cuda.Buffer{}) && o.below.tail.norm == nil {
		o.below.tail.scatter(&a)
		return true
	}
	n.try(a.Launch(n.stream))
	o.addRest(rest)
	return false
}

// addRest adds the rest of the gradients of the destinations' own rows to dx.
func (o *linear) addRest(dOwn cuda.Buffer) {
	if dOwn != (cuda.Buffer{}) {
		o.addOwn(dOwn, o.gap)
	}
}

// transposed returns the sums by source of g, the gradients of the destinations' aggregates, with
// rows gap apart.
func (o *linear) transposed(out, g cuda.Buffer, width, gap int) kernels.Aggregate {
	b := o.block()
	a := kernels.Aggregate{Out: out, Stride: width, X: g, Gap: gap, Width: width, Indptr: b.tindptr, Indices: b.tindices, Edges: b.edges,
		Outer: b.inner, Inner: b.outer, Place: b.place, Transposed: true, Places: b.dst, Rows: b.src}
	if b.own != (cuda.Buffer{}) {
		a.OwnX, a.Own = g, b.own
	}
	return a
}
