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
// where W has the relations' weights above each other. It aggregates first. Destinations are ordered by type, and each has
// a row of the block for every relation into its type, so the means of a type's destinations are one operand. Products
// have a row for each of the batch's destinations of the type: the work is launched batch by batch, and not captured.
type relational struct {
	*layer
	into      []relations // into each type
	alive     []bool      // types with rows in the output; other destinations have rows of zeros
	takesPart []bool      // relations
	bases     int         // of R-GCN: 0: every relation has weights of its own

	all            cuda.Buffer // gradients of all parameters of the layer
	means, dMeans  cuda.Buffer // a matrix of every relation, in their order
	basis, dBasis  cuda.Buffer // the bases of means, if there are any
	comp, dComp    cuda.Buffer
	own, dOwn      cuda.Buffer // matrices of the destinations' rows: of every relation, or one
	bias, dBias    cuda.Buffer // likewise
	self, dSelf    cuda.Buffer // the sum of own over the relations into each type
	shift, dShift  cuda.Buffer // the sum of bias
	rows           cuda.Buffer // the means of x, by row of the block
	ownRows        cuda.Buffer // the destinations' rows of x
	dRows, dOwnRow cuda.Buffer // their gradients
	sums           cuda.Buffer // of groups of rows, for the biases
}

func newRelational(k *layer) conv {
	n, m := k.net, k.net.model
	o := &relational{layer: k, alive: m.Alive(k.index + 1), takesPart: m.TakesPart(k.index), bases: m.Bases}
	for kind := range m.Types.Nodes {
		first, count := m.Types.Into(kind)
		o.into = append(o.into, relations{first, count})
	}
	size, types := k.in*k.width, len(o.into)
	_, o.all = k.param(model.Neighbour, model.LastTrained)
	o.means, o.dMeans = k.param(model.Neighbour, model.Neighbour)
	o.own, o.dOwn = k.param(model.Self, model.Self)
	o.bias, o.dBias = k.param(model.Bias, model.Bias)
	if o.bases > 0 {
		o.basis, o.dBasis = o.means, o.dMeans
		o.comp, o.dComp = k.param(model.Composition, model.Composition)
		o.means = n.floats(len(o.takesPart) * size)
	}
	rows := n.asked.RowsOf(k.index)
	o.self, o.shift = n.floats(types*size), n.floats(types*k.width)
	o.rows, o.ownRows = n.floats(rows*k.in), n.floats(k.rows()*k.in)
	if !n.training {
		return o
	}
	if o.bases > 0 {
		o.dMeans = n.floats(len(o.takesPart) * size)
	}
	o.dSelf, o.dShift, o.sums = n.floats(size), n.floats(k.width), n.floats(kernels.SumRows(k.rows())*k.width)
	if k.below != nil {
		o.dRows, o.dOwnRow = n.floats(rows*k.in), n.floats(k.rows()*k.in)
	}
	return o
}

// start makes the bias of the tail zero: the convolution adds the biases of the types.
func (o *relational) start() { o.net.try(o.net.stream.Fill(o.tail.bias, 0)) }

// relations are the relations into a type: from first on, per of them. Each has a row of a destination.
type relations struct{ first, per int }

// typePart is the destinations of a type in the batch.
type typePart struct {
	relations
	kind  int
	lo, n int // the first destination, and how many
	row   int // the first row of the block
}

// parts returns the batch's destinations by type, types without any left out.
func (o *relational) parts() []typePart {
	var parts []typePart
	lo, row := 0, 0
	for kind, end := range o.net.in.ends[o.index] {
		p := typePart{kind: kind, lo: lo, n: int(end) - lo, row: row, relations: o.into[kind]}
		if lo, row = int(end), row+p.n*p.per; p.n > 0 {
			parts = append(parts, p)
		}
	}
	return parts
}

// shares reports whether all types have the same matrix of own rows and the same bias.
func (o *relational) shares() bool {
	return o.own.Bytes() == 4*int64(o.in*o.width) && o.net.model.Kind == model.RGCN
}

// fold makes the matrices of the types from the parameters.
func (o *relational) fold(parts []typePart) {
	n, size := o.net, o.in*o.width
	if o.bases > 0 {
		n.product(false, false, len(o.takesPart), size, o.bases, 1, o.comp, o.bases, o.basis, size, 0, o.means, size)
	}
	for _, p := range parts {
		if o.shares() {
			n.try(n.stream.Copy(o.matrix(o.self, p.kind), o.own))
			n.try(n.stream.Copy(o.row(o.shift, p.kind), o.bias))
			continue
		}
		beta := float32(0)
		for r := p.first; r < p.first+p.per; r++ {
			if o.takesPart[r] {
				n.combine(size, 1, o.matrix(o.own, r), beta, o.matrix(o.self, p.kind))
				n.combine(o.width, 1, o.row(o.bias, r), beta, o.row(o.shift, p.kind))
				beta = 1
			}
		}
	}
}

// matrix and row return a matrix and a bias of a list of them.
func (o *relational) matrix(list cuda.Buffer, i int) cuda.Buffer {
	return part(list, i*o.in*o.width, (i+1)*o.in*o.width)
}

func (o *relational) row(list cuda.Buffer, i int) cuda.Buffer {
	return part(list, i*o.width, (i+1)*o.width)
}

func (o *relational) forward(x cuda.Buffer) {
	n, b, in, out := o.net, o.block(), o.in, o.width
	parts := o.parts()
	o.fold(parts)
	rows := 0
	for _, p := range parts {
		rows += p.n * p.per
	}
	if rows > 0 {
		n.try(kernels.Aggregate{Out: o.rows, Stride: in, X: x, Width: in, Indptr: b.indptr, Indices: b.indices, Edges: b.edges, Outer: b.outer, Rows: kernels.Rows(rows)}.Launch(n.stream))
	}
	o.gather(o.ownRows, in, x)
	for _, p := range parts {
		z := part(o.data, p.lo*out, (p.lo+p.n)*out)
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
		n.try(kernels.Tail{Z: z, Width: out, Bias: o.row(o.shift, p.kind), Activation: kernels.Identity, Rows: kernels.Rows(p.n)}.Launch(n.stream))
	}
}

// backward computes, with dz the gradient of the sums, for every type
//
//	dW = meansᵀ·dz     dWself = ownᵀ·dz     dx = meansᵀ(dz·Wᵀ), + dz·Wselfᵀ at the destinations
func (o *relational) backward(_, dz cuda.Buffer) (through bool) {
	n, in, out := o.net, o.in, o.width
	parts := o.parts()
	n.try(n.stream.Fill(o.all, 0))
	if o.bases > 0 {
		n.try(n.stream.Fill(o.dMeans, 0))
	}
	for _, p := range parts {
		if !o.alive[p.kind] {
			continue
		}
		g := part(dz, p.lo*out, (p.lo+p.n)*out)
		if p.per > 0 {
			n.product(true, false, p.per*in, out, p.n, 1, after(o.rows, p.row*in), p.per*in, g, out, 0, after(o.dMeans, p.first*in*out), out)
		}
		n.product(true, false, in, out, p.n, 1, after(o.ownRows, p.lo*in), in, g, out, 0, o.dSelf, out)
		n.try(kernels.TailBackward{G: g, Width: out, Sums: o.sums, DBias: o.dShift, Activation: kernels.Identity, Rows: kernels.Rows(p.n)}.Launch(n.stream))
		o.unfold(p)
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

// unfold adds the gradients of a type's own matrix and bias to the parameters' gradients.
func (o *relational) unfold(p typePart) {
	n := o.net
	if o.shares() {
		n.combine(o.in*o.width, 1, o.dSelf, 1, o.dOwn)
		n.combine(o.width, 1, o.dShift, 1, o.dBias)
		return
	}
	for r := p.first; r < p.first+p.per; r++ {
		if o.takesPart[r] {
			n.try(n.stream.Copy(o.matrix(o.dOwn, r), o.dSelf))
			n.try(n.stream.Copy(o.row(o.dBias, r), o.dShift))
		}
	}
}

// inputGradient computes the gradient of the input.
func (o *relational) inputGradient(parts []typePart, dz cuda.Buffer) {
	n, b, in, out := o.net, o.block(), o.in, o.width
	for _, p := range parts {
		dRows, dOwn := part(o.dRows, p.row*in, (p.row+p.n*p.per)*in), part(o.dOwnRow, p.lo*in, (p.lo+p.n)*in)
		if !o.alive[p.kind] {
			if p.per > 0 {
				n.try(n.stream.Fill(dRows, 0))
			}
			n.try(n.stream.Fill(dOwn, 0))
			continue
		}
		g := after(dz, p.lo*out)
		if p.per > 0 {
			n.product(false, true, p.n, p.per*in, out, 1, g, out, after(o.means, p.first*in*out), out, 0, dRows, p.per*in)
		}
		n.product(false, true, p.n, in, out, 1, g, out, o.matrix(o.self, p.kind), out, 0, dOwn, in)
	}
	n.try(kernels.Aggregate{Out: o.dx, Stride: in, X: o.dRows, Width: in, Indptr: b.tindptr, Indices: b.tindices, Edges: b.edges,
		Inner: b.outer, OwnX: o.dOwnRow, Place: b.place, Transposed: true, Places: b.dst, Rows: b.src}.Launch(n.stream))
}
