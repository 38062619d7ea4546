package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/train/model"
)

// byType is the part of a typed layer that follows from the node types: destinations are ordered by type, and each has a row of
// the block for every relation into its type. Each type has its own bias: the sum of its relations', or the only one.
//
// Products have a row for each of the batch's destinations of a type: typed work is launched batch by batch, and not
// captured.
type byType struct {
	*layer
	into      []relations // into each type
	alive     []bool      // types with rows in the output; other destinations have rows of zeros
	takesPart []bool      // relations
	shared    bool        // all types have the same own matrix and the same bias

	all           cuda.Buffer // gradients of all parameters of the layer
	bias, dBias   cuda.Buffer // of every relation, or one
	shift, dShift cuda.Buffer // the bias of every type; its gradient, of one type
	sums          cuda.Buffer // of groups of rows, for the biases
}

// relations are the relations into a type: from first on, per of them. Each has a row of a destination.
type relations struct{ first, per int }

// typePart is the destinations of a type in the batch.
type typePart struct {
	relations
	kind  int
	lo, n int // the first destination, and how many
	row   int // the first row of the block
}

// rows returns the number of rows of the block.
func (p *typePart) rows() int { return p.n * p.per }

func newByType(k *layer) byType {
	n, m := k.net, k.net.model
	o := byType{layer: k, alive: m.Alive(k.index + 1), takesPart: m.TakesPart(k.index), shared: m.Kind == model.RGCN}
	for kind := range m.Types.Nodes {
		first, count := m.Types.Into(kind)
		o.into = append(o.into, relations{first, count})
	}
	_, o.all = k.param(model.Neighbour, model.LastTrained)
	o.bias, o.dBias = k.param(model.Bias, model.Bias)
	o.shift = n.floats(len(o.into) * k.width)
	if n.training {
		o.dShift, o.sums = n.floats(k.width), n.floats(kernels.SumRows(k.rows())*k.width)
	}
	return o
}

// start makes the bias of the tail zero: the convolution adds the biases of the types.
func (o *byType) start() { o.net.try(o.net.stream.Fill(o.tail.bias, 0)) }

// parts returns the batch's destinations by type, types without any left out, and the number of rows of the block.
func (o *byType) parts() (parts []typePart, rows int) {
	lo := 0
	for kind, end := range o.net.in.ends[o.index] {
		p := typePart{kind: kind, lo: lo, n: int(end) - lo, row: rows, relations: o.into[kind]}
		if lo, rows = int(end), rows+p.rows(); p.n > 0 {
			parts = append(parts, p)
		}
	}
	return parts, rows
}

// foldBias makes the biases of the types.
func (o *byType) foldBias(parts []typePart) {
	for _, p := range parts {
		o.fold(p, o.vector(o.shift, p.kind), o.bias, o.vector)
	}
}

// fold stores in to the sum of the parameters of the relations that take part, or the only one.
func (o *byType) fold(p typePart, to, params cuda.Buffer, of func(list cuda.Buffer, i int) cuda.Buffer) {
	if o.shared {
		o.net.try(o.net.stream.Copy(to, params))
		return
	}
	beta := float32(0)
	for r := p.first; r < p.first+p.per; r++ {
		if o.takesPart[r] {
			o.net.combine(int(to.Bytes()/4), 1, of(params, r), beta, to)
			beta = 1
		}
	}
}

// unfold adds a type's gradient to the gradients of the parameters.
func (o *byType) unfold(p typePart, from, grads cuda.Buffer, of func(list cuda.Buffer, i int) cuda.Buffer) {
	if o.shared {
		o.net.combine(int(from.Bytes()/4), 1, from, 1, grads)
		return
	}
	for r := p.first; r < p.first+p.per; r++ {
		if o.takesPart[r] {
			o.net.try(o.net.stream.Copy(of(grads, r), from))
		}
	}
}

// matrix and vector return a matrix and a bias of a list of them.
func (o *byType) matrix(list cuda.Buffer, i int) cuda.Buffer {
	return part(list, i*o.in*o.width, (i+1)*o.in*o.width)
}

func (o *byType) vector(list cuda.Buffer, i int) cuda.Buffer {
	return part(list, i*o.width, (i+1)*o.width)
}

// rowsOf returns the rows of a type's destinations in a matrix of the layer's width.
func (o *byType) rowsOf(z cuda.Buffer, p typePart) cuda.Buffer {
	return part(z, p.lo*o.width, (p.lo+p.n)*o.width)
}

// addBias adds the bias of a type to its rows.
func (o *byType) addBias(p typePart) {
	o.net.try(kernels.Tail{Z: o.rowsOf(o.data, p), Width: o.width, Bias: o.vector(o.shift, p.kind), Activation: kernels.Identity, Rows: kernels.Rows(p.n)}.Launch(o.net.stream))
}

// biasGradient adds the column sums of a type's rows of dz to the gradients of the biases.
func (o *byType) biasGradient(p typePart, dz cuda.Buffer) {
	o.net.try(kernels.TailBackward{G: o.rowsOf(dz, p), Width: o.width, Sums: o.sums, DBias: o.dShift, Activation: kernels.Identity, Rows: kernels.Rows(p.n)}.Launch(o.net.stream))
	o.unfold(p, o.dShift, o.dBias, o.vector)
}
