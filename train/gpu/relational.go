package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/train/model"
)

// relational is a convolution over relations: for a destination of a type,
//
//	[mean of x by the first relation into the type | … | by the last]·W + x of the destination · Wself + b
//
// where W has the relations' weights above each other. It aggregates first. The means of a type's destinations are
// adjacent rows, and so one operand.
type relational struct {
	byType
	bases int // of R-GCN; 0: every relation has weights of its own

	means, dMeans cuda.Buffer // a matrix of every relation, in their order
	basis, dBasis cuda.Buffer // the bases of means, if there are any
	comp, dComp   cuda.Buffer
	own, dOwn     cuda.Buffer // matrices of the destinations' rows: of every relation, or one
	self, dSelf   cuda.Buffer // of every type; its gradient, of one type

	rows, dRows     cuda.Buffer // the means of x, by row of the block, and their gradients
	ownRows, dOwner cuda.Buffer // the destinations' rows of x, and their gradients
}

func newRelational(k *layer) conv {
	n := k.net
	o := &relational{byType: newByType(k), bases: n.model.Bases}
	size := k.in * k.width
	o.means, o.dMeans = k.param(model.Neighbour, model.Neighbour)
	o.own, o.dOwn = k.param(model.Self, model.Self)
	if o.bases > 0 {
		o.basis, o.dBasis = o.means, o.dMeans
		o.comp, o.dComp = k.param(model.Composition, model.Composition)
		o.means = n.floats(len(o.takesPart) * size)
	}
	rows := n.asked.RowsOf(k.index)
	o.self = n.floats(len(o.into) * size)
	o.rows, o.ownRows = n.floats(rows*k.in), n.floats(k.rows()*k.in)
	if !n.training {
		return o
	}
	if o.bases > 0 {
		o.dMeans = n.floats(len(o.takesPart) * size)
	}
	o.dSelf = n.floats(size)
	if k.below != nil {
		o.dRows, o.dOwner = n.floats(rows*k.in), n.floats(k.rows()*k.in)
	}
	return o
}

// foldWeights makes the matrices of the types from the parameters.
func (o *relational) foldWeights(parts []typePart) {
	if size := o.in * o.width; o.bases > 0 {
		o.net.product(false, false, len(o.takesPart), size, o.bases, 1, o.comp, o.bases, o.basis, size, 0, o.means, size)
	}
	for _, p := range parts {
		o.fold(p, o.matrix(o.self, p.kind), o.own, o.matrix)
	}
}

func (o *relational) forward(x cuda.Buffer) {
	n, b, in, out := o.net, o.block(), o.in, o.width
	parts, rows := o.parts()
	o.foldBias(parts)
	o.foldWeights(parts)
	if rows > 0 {
		n.try(kernels.Aggregate{Out: o.rows, Stride: in, X: x, Width: in, Indptr: b.indptr, Indices: b.indices, Edges: b.edges, Outer: b.outer, Rows: kernels.Rows(rows)}.Launch(n.stream))
	}
	o.gather(o.ownRows, in, x)
	for _, p := range parts {
		z := o.rowsOf(o.data, p)
		if !o.alive[p.kind] {
			n.try(n.stream.Fill(z, 0))
			continue
		}
		beta := float32(0)
		if p.per > 0 {
			n.product(false, false, p.n, out, p.per*in, 1, after(o.rows, p.row*in), p.per*in, after(o.means, p.first*in*out), out, 0, z, out)
			beta = 1
		}
		n.product(false, false, p.n, out, in, 1, after(o.ownRows, p.lo*in), in, o.matrix(o.self, p.kind), out, beta, z, out)
		o.addBias(p)
	}
}

// backward computes, with dz the gradient of the sums, for every type
//
//	dW = meansᵀ·dz     dWself = ownᵀ·dz     dx = meansᵀ(dz·Wᵀ), + dz·Wselfᵀ at the destinations
func (o *relational) backward(_, dz cuda.Buffer) (through bool) {
	n, in, out := o.net, o.in, o.width
	parts, _ := o.parts()
	n.try(n.stream.Fill(o.all, 0))
	if o.bases > 0 {
		n.try(n.stream.Fill(o.dMeans, 0))
	}
	for _, p := range parts {
		if !o.alive[p.kind] {
			continue
		}
		g := o.rowsOf(dz, p)
		if p.per > 0 {
			n.product(true, false, p.per*in, out, p.n, 1, after(o.rows, p.row*in), p.per*in, g, out, 0, after(o.dMeans, p.first*in*out), out)
		}
		n.product(true, false, in, out, p.n, 1, after(o.ownRows, p.lo*in), in, g, out, 0, o.dSelf, out)
		o.unfold(p, o.dSelf, o.dOwn, o.matrix)
		o.biasGradient(p, dz)
	}
	if o.bases > 0 {
		size, relations := in*out, len(o.takesPart)
		n.product(false, true, relations, o.bases, size, 1, o.dMeans, size, o.basis, size, 0, o.dComp, o.bases)
		n.product(true, false, o.bases, size, relations, 1, o.comp, o.bases, o.dMeans, size, 0, o.dBasis, size)
	}
	if o.dx != (cuda.Buffer{}) {
		o.inputGradient(parts, dz)
	}
	return false
}

// inputGradient computes the gradient of the input.
func (o *relational) inputGradient(parts []typePart, dz cuda.Buffer) {
	n, b, in, out := o.net, o.block(), o.in, o.width
	for _, p := range parts {
		dRows, dOwn := part(o.dRows, p.row*in, (p.row+p.rows())*in), part(o.dOwner, p.lo*in, (p.lo+p.n)*in)
		if !o.alive[p.kind] {
			n.try(n.stream.Fill(dRows, 0))
			n.try(n.stream.Fill(dOwn, 0))
			continue
		}
		g := o.rowsOf(dz, p)
		if p.per > 0 {
			n.product(false, true, p.n, p.per*in, out, 1, g, out, after(o.means, p.first*in*out), out, 0, dRows, p.per*in)
		}
		n.product(false, true, p.n, in, out, 1, g, out, o.matrix(o.self, p.kind), out, 0, dOwn, in)
	}
	n.try(kernels.Aggregate{Out: o.dx, Stride: in, X: o.dRows, Width: in, Indptr: b.tindptr, Indices: b.tindices, Edges: b.edges,
		Inner: b.outer, OwnX: o.dOwner, Place: b.place, Transposed: true, Places: b.dst, Rows: b.src}.Launch(n.stream))
}
