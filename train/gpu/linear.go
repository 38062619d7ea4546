package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/train/gnn/model"
)

// linear is GraphSAGE's and GCN's convolution:
//
//	[A(x) | x[dst]]·W                        aggregate first
//	A(x·Wneigh) + x[dst]·Wself               multiply first
//
// where W is Wneigh above Wself, A a weighted sum or the maximum, which can only come
// first. A residual's map is Wself, or a third one beside it.
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
	dA       cuda.Buffer // aggregate first: gradient of the aggregates
	dOwn     cuda.Buffer // gradient of the destinations' own rows
	dy       cuda.Buffer // multiply first: gradient of the products
}

func newLinear(k *layer) *linear {
	n, m := k.net, k.net.model
	o := &linear{layer: k, order: n.orders[k.index], max: !m.Commutes(), own: m.Kind == model.SAGE || m.Residual}
	if m.Kind == model.SAGE {
		o.weights, o.dWeights = k.param(model.Neighbour, model.Self)
		o.third, o.dThird = k.param(model.ResidualWeight, model.ResidualWeight)
	} else {
		o.weights, o.dWeights = k.param(model.Neighbour, model.ResidualWeight)
	}
	if o.order == model.Multiply {
		o.products = n.floats(n.sizes.Src[k.index] * k.width)
	}
	if o.order == model.Aggregate || o.own && k.index == 0 {
		o.operands = n.floats(k.rows * o.operandWidth())
	}
	if !n.training {
		return o
	}
	if o.order == model.Multiply {
		o.dy = n.floats(n.sizes.Src[k.index] * k.width)
	}
	if k.below == nil {
		return o
	}
	if o.order == model.Aggregate {
		o.dA = n.floats(k.rows * k.in)
	}
	if o.own {
		o.dOwn = n.floats(k.rows * k.in)
	}
	if o.max {
		o.chosen = n.floats(k.rows * k.in)
	}
	return o
}

// operandWidth returns the width of the rows that are multiplied with weights,
// destination by destination.
func (o *linear) operandWidth() int {
	width := 0
	if o.order == model.Aggregate {
		width += o.in
	}
	if o.own {
		width += o.in
	}
	return width
}

func (o *linear) start() {}

func (o *linear) forward(x cuda.Buffer) {
	n, in, out := o.net, o.in, o.width
	own, stride := o.ownRows(x)
	if o.order == model.Aggregate {
		width := o.operandWidth()
		o.aggregate(o.operands, width, x, in)
		n.product(false, false, o.rows, out, width, 1, o.operands, width, o.weights, out, 0, o.data, out)
	} else {
		n.product(false, false, n.sizes.Src[o.index], out, in, 1, x, in, o.weights, out, 0, o.products, out)
		o.aggregate(o.data, out, o.products, out)
		if o.own {
			n.product(false, false, o.rows, out, in, 1, own, stride, after(o.weights, in*out), out, 1, o.data, out)
		}
	}
	if o.third != (cuda.Buffer{}) {
		n.product(false, false, o.rows, out, in, 1, own, stride, o.third, out, 1, o.data, out)
	}
}

// ownRows returns the destinations' rows of x, copied where they don't come first or
// where they belong beside the aggregates, and how far apart they are.
func (o *linear) ownRows(x cuda.Buffer) (own cuda.Buffer, stride int) {
	switch {
	case !o.own:
		return cuda.Buffer{}, 0
	case o.operands == (cuda.Buffer{}):
		return x, o.in
	}
	stride = o.operandWidth()
	own = after(o.operands, stride-o.in)
	o.gather(own, stride, x)
	return own, stride
}

// aggregate stores the aggregates of the rows of y, which are width wide.
func (o *linear) aggregate(out cuda.Buffer, stride int, y cuda.Buffer, width int) {
	n, b := o.net, o.block()
	if o.max {
		n.try(n.stream.Maximum(&cuda.Maximum{Out: out, Stride: stride, Chosen: o.chosen, X: y, Width: width,
			Indptr: b.indptr, Indices: b.indices, Edges: b.edges, Rows: b.dst}))
		return
	}
	a := cuda.Aggregate{Out: out, Stride: stride, X: y, Width: width, Indptr: b.indptr, Indices: b.indices, Edges: b.edges,
		Outer: b.outer, Inner: b.inner, Rows: b.dst}
	if b.own != (cuda.Buffer{}) {
		a.OwnX, a.Own, a.Place = y, b.own, b.positions
	}
	n.try(n.stream.Aggregate(&a))
}

// backward computes, with dz the gradient of the sums:
//
//	dWneigh = A(x)ᵀ·dz          or xᵀ·dy, where dy = Aᵀ(dz)
//	dWself  = x[dst]ᵀ·dz
//	dx      = Aᵀ(dz·Wneighᵀ)    or dy·Wneighᵀ,     + dz·Wselfᵀ at the destinations
//
// aggregating or multiplying first.
func (o *linear) backward(x, dz cuda.Buffer) {
	n, b, in, out := o.net, o.block(), o.in, o.width
	n.pad(dz, out, b.dst)
	if o.operands != (cuda.Buffer{}) {
		n.pad(o.operands, o.operandWidth(), b.dst)
	}
	if o.order == model.Aggregate {
		width := o.operandWidth()
		n.product(true, false, width, out, o.rows, 1, o.operands, width, dz, out, 0, o.dWeights, out)
	} else {
		o.scatter(o.dy, dz, out, cuda.Buffer{})
		n.pad(x, in, b.src)
		n.pad(o.dy, out, b.src)
		n.product(true, false, in, out, n.sizes.Src[o.index], 1, x, in, o.dy, out, 0, o.dWeights, out)
		if o.own {
			own := x
			if o.operands != (cuda.Buffer{}) {
				own = o.operands
			}
			n.product(true, false, in, out, o.rows, 1, own, in, dz, out, 0, after(o.dWeights, in*out), out)
		}
	}
	if o.third != (cuda.Buffer{}) {
		n.try(n.stream.Copy(o.dThird, after(o.dWeights, in*out)))
	}
	if o.dx != (cuda.Buffer{}) {
		o.inputGradient(dz)
	}
}

func (o *linear) inputGradient(dz cuda.Buffer) {
	n, in, out := o.net, o.in, o.width
	if o.own {
		n.product(false, true, o.rows, in, out, 1, dz, out, after(o.weights, in*out), out, 0, o.dOwn, in)
	}
	if o.third != (cuda.Buffer{}) {
		n.product(false, true, o.rows, in, out, 1, dz, out, o.third, out, 1, o.dOwn, in)
	}
	rest := o.dOwn
	if o.order == model.Multiply {
		n.product(false, true, n.sizes.Src[o.index], in, out, 1, o.dy, out, o.weights, out, 0, o.dx, in)
	} else {
		n.product(false, true, o.rows, in, out, 1, dz, out, o.weights, out, 0, o.dA, in)
		rest = o.scatter(o.dx, o.dA, in, o.dOwn)
	}
	if rest != (cuda.Buffer{}) {
		o.addOwn(rest)
	}
}

// scatter stores what sources get of g, whose rows are gradients of the destinations'
// aggregates, and with it what they get as destinations: it returns what is left to be
// added of that.
func (o *linear) scatter(out, g cuda.Buffer, width int, dOwn cuda.Buffer) (rest cuda.Buffer) {
	n, b := o.net, o.block()
	if o.max {
		n.try(n.stream.MaximumBackward(&cuda.MaximumBackward{Out: out, G: g, Chosen: o.chosen, Width: width,
			Indptr: b.tindptr, Indices: b.tindices, Edges: b.edges, Rows: b.src}))
		return dOwn
	}
	a := cuda.Aggregate{Out: out, Stride: width, X: g, Width: width, Indptr: b.tindptr, Indices: b.tindices, Edges: b.edges,
		Outer: b.inner, Inner: b.outer, Place: b.place, Transposed: true, Places: b.dst, Rows: b.src}
	if b.own != (cuda.Buffer{}) {
		a.OwnX, a.Own, rest = g, b.own, dOwn
	} else {
		a.OwnX = dOwn
	}
	n.try(n.stream.Aggregate(&a))
	return rest
}
