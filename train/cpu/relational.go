package cpu

import (
	"diskgnn/graph"
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// relational is a convolution over relations: for a destination of a type,
//
//	[mean of x by the first relation into the type | … | by the last | x of the destination] · W
//
// where W has the relations' weights above each other, and below them the weights of the destination's own row. It
// aggregates first. The forward pass does not depend on the numbering of sources.
type relational struct {
	*layer
	kinds    *kinds
	tail     *typedTail
	weigh    relationWeights
	weights  [][]float32 // W of every type
	dWeights []float32   // gradient of W of one type
	operands []float32   // of the products, kept for the backward pass
	dA       []float32   // by row of the block: gradient of the means
	dOwn     []float32   // gradient of the destinations' own rows
	product  groupedProduct

	// Inputs of the batch under way.
	x, dz    []float32
	block    *graph.Block
	prepared *prepare.Block
}

// relationWeights makes a type's W of the parameters, and the parameters' gradients of its gradient.
type relationWeights interface {
	fold(kind int, w []float32)
	// unfold adds a type's gradients. They were cleared before the first type.
	unfold(kind int, dW []float32)
}

func newRelational(k *layer, weigh func(o *relational) relationWeights) conv {
	n := k.net
	t := k.tail.(*typedTail)
	o := &relational{layer: k, kinds: t.kinds, tail: t, product: groupedProduct{n: k.width}}
	o.weigh = weigh(o)
	l := k.index - n.first
	n.needLong(n.sizes.Edges[l], k.in)
	widest := 0
	for kind := range o.kinds.into {
		size := o.operandWidth(kind) * k.width
		o.weights = append(o.weights, n.floats(size))
		widest = max(widest, o.operandWidth(kind))
		if n.training {
			n.needPartial(k.rows, size)
		}
	}
	if !n.training {
		n.needScratch(divUp(o.step(widest)*widest, chunkRows))
		return o
	}
	o.operands = n.floats((n.sizes.RowsOf(l) + k.rows) * k.in)
	o.dWeights = n.floats(widest * k.width)
	if k.below != nil {
		o.dA, o.dOwn = n.floats(n.sizes.RowsOf(l)*k.in), n.floats(k.rows*k.in)
	}
	return o
}

// operandWidth returns the width of the operand of a type's destination.
func (o *relational) operandWidth(kind int) int { return (o.kinds.into[kind].n + 1) * o.in }

// step returns the number of destinations that are computed together if their operands, of this width, are not kept:
// fewer than a chunk if these are wide.
func (o *relational) step(width int) int {
	return max(16, min(chunkRows, 4*chunkRows*o.in/width))
}

// at returns where the operand of destination i begins.
func (o *relational) at(kind, i int) int { return (o.kinds.row(kind, i) + i) * o.in }

func (o *relational) begin(x []float32) {
	o.x = x
	o.block, o.prepared = o.layer.block()
}

func (o *relational) forward(x []float32) error {
	o.begin(x)
	o.tail.foldBiases()
	for kind, w := range o.weights {
		if o.kinds.count(kind) > 0 && o.kinds.alive[kind] {
			o.weigh.fold(kind, w)
		}
	}
	return o.net.each(o.block.NumDst, chunkRows, o)
}

// chunk computes the sums of destinations lo to hi.
func (o *relational) chunk(worker, lo, hi int) {
	o.kinds.each(lo, hi, func(kind, lo, hi int) {
		if !o.kinds.alive[kind] {
			return
		}
		width := o.operandWidth(kind)
		if o.operands != nil {
			o.multiply(worker, kind, o.operands[o.at(kind, lo):][:(hi-lo)*width], lo, hi)
			return
		}
		for step := o.step(width); lo < hi; lo += step {
			to := min(lo+step, hi)
			size := (to - lo) * width
			o.multiply(worker, kind, o.net.workerScratch(worker, 1, size), lo, to)
		}
	})
	o.tail.finish(lo, hi)
}

// multiply computes the sums of destinations lo to hi of a type, with room for their operands.
func (o *relational) multiply(worker, kind int, room []float32, lo, hi int) {
	b, in, out, n := o.block, o.in, o.width, o.kinds.into[kind].n
	width, row := o.operandWidth(kind), o.kinds.row(kind, lo)
	to := room
	for i := lo; i < hi; i++ {
		for range n {
			o.mean(worker, to[:in], row)
			row, to = row+1, to[in:]
		}
		at := b.DstPos(i) * in
		copy(to[:in], o.x[at:at+in])
		to = to[in:]
	}
	o.net.blas.Sgemm(false, false, hi-lo, out, width, 1, room, width, o.weights[kind], out, 0, o.data[lo*out:], out)
}

// mean stores the mean of the sources of a row.
func (o *relational) mean(worker int, to []float32, row int) {
	edges := o.block.Indices[o.block.Indptr[row]:o.block.Indptr[row+1]]
	if w := o.prepared.Dst[row]; len(edges) > longSum {
		o.net.gatherLong(worker, to, o.x, edges, nil, w)
	} else {
		kernel.GatherSum(to, o.x, edges, nil, w, false)
	}
}

// backward computes, with dz the gradient of the sums, for every type
//
//	dW = operandsᵀ · dz
//	dx = meansᵀ(dz · Wᵀ), + dz · Wᵀ of the own row at the destinations
func (o *relational) backward(x, dz []float32) error {
	o.begin(x)
	o.dz = dz
	o.tail.unfoldBiases()
	_, d := o.params(model.Neighbour, model.Self)
	clear(d)
	for kind, begin := range o.kinds.begins {
		rows := o.kinds.count(kind)
		if rows == 0 || !o.kinds.alive[kind] {
			continue
		}
		dW := o.dWeights[:len(o.weights[kind])]
		if err := o.product.run(o.net, dW, o.operands[o.at(kind, begin):], dz[begin*o.width:], rows, o.rows); err != nil {
			return err
		}
		o.weigh.unfold(kind, dW)
	}
	if o.dx == nil {
		return nil
	}
	if err := o.net.each(o.block.NumDst, chunkRows, (*operandGradient)(o)); err != nil {
		return err
	}
	return o.net.each(o.block.NumSrc, chunkRows, (*relationSources)(o))
}

// operandGradient computes the gradient of the operands, over destinations.
type operandGradient relational

func (o *operandGradient) chunk(_, lo, hi int) {
	in, out, sgemm := o.in, o.width, o.net.blas.Sgemm
	o.kinds.each(lo, hi, func(kind, lo, hi int) {
		columns := o.kinds.into[kind].n * in
		dA, dOwn := o.dA[o.kinds.row(kind, lo)*in:][:(hi-lo)*columns], o.dOwn[lo*in:hi*in]
		if !o.kinds.alive[kind] {
			clear(dA)
			clear(dOwn)
			return
		}
		w, dz := o.weights[kind], o.dz[lo*out:]
		sgemm(false, true, hi-lo, columns, out, 1, dz, out, w, out, 0, dA, columns)
		sgemm(false, true, hi-lo, in, out, 1, dz, out, w[columns*out:], out, 0, dOwn, in)
	})
}

// relationSources computes the gradient of the input, and passes it to the layer below.
type relationSources relational

func (o *relationSources) chunk(_, lo, hi int) {
	in, p := o.in, o.prepared
	for i := lo; i < hi; i++ {
		row := o.dx[i*in : (i+1)*in]
		kernel.GatherSum(row, o.dA, p.TIndices[p.TIndptr[i]:p.TIndptr[i+1]], p.Dst, 1, false)
		if k, ok := p.Destination(o.block, i); ok {
			kernel.Add(row, o.dOwn[k*in:(k+1)*in])
		}
	}
	o.below.tail.backward(o.dx, lo, hi)
}

// newRelationalSAGE is R-GraphSAGE, with two matrices for each relation.
func newRelationalSAGE(k *layer) conv {
	return newRelational(k, func(o *relational) relationWeights { return (*matricesByRelation)(o) })
}

// matricesByRelation are the weights of R-GraphSAGE: of a relation's means, and of the destination's row, which the
// relations into its type add up. Relations that take no part have zeros, also in the means.
type matricesByRelation relational

// matrix returns the matrix of relation r in a list of them.
func (o *matricesByRelation) matrix(list []float32, r int) []float32 {
	size := o.in * o.width
	return list[r*size : (r+1)*size]
}

func (o *matricesByRelation) fold(kind int, w []float32) {
	means, _ := o.param(model.Neighbour)
	own, _ := o.param(model.Self)
	into := o.kinds.into[kind]
	sum := o.matrix(w, into.n)
	clear(sum)
	for i := range into.n {
		copy(o.matrix(w, i), o.matrix(means, into.lo+i))
		if o.kinds.takesPart[into.lo+i] {
			kernel.Add(sum, o.matrix(own, into.lo+i))
		}
	}
}

func (o *matricesByRelation) unfold(kind int, dW []float32) {
	_, dMeans := o.param(model.Neighbour)
	_, dOwn := o.param(model.Self)
	into := o.kinds.into[kind]
	for i := range into.n {
		if o.kinds.takesPart[into.lo+i] {
			copy(o.matrix(dMeans, into.lo+i), o.matrix(dW, i))
			copy(o.matrix(dOwn, into.lo+i), o.matrix(dW, into.n))
		}
	}
}

// newRelationalGCN is R-GCN, with a matrix for each relation, or bases of these.
func newRelationalGCN(k *layer) conv {
	return newRelational(k, func(o *relational) relationWeights { return (*rootedMatrices)(o) })
}

// rootedMatrices are the weights of R-GCN: of a relation's means, perhaps combined from bases, and of the destination's
// row, the same for every type.
type rootedMatrices relational

func (o *rootedMatrices) fold(kind int, w []float32) {
	means, _ := o.param(model.Neighbour)
	comp, _ := o.param(model.Composition)
	root, _ := o.param(model.Self)
	size, into := o.in*o.width, o.kinds.into[kind]
	if bases := o.net.model.Bases; bases == 0 {
		copy(w, means[into.lo*size:(into.lo+into.n)*size])
	} else if into.n > 0 {
		o.net.blas.Sgemm(false, false, into.n, size, bases, 1, comp[into.lo*bases:], bases, means, size, 0, w, size)
	}
	copy(w[into.n*size:], root)
}

func (o *rootedMatrices) unfold(kind int, dW []float32) {
	means, dMeans := o.param(model.Neighbour)
	comp, dComp := o.param(model.Composition)
	_, dRoot := o.param(model.Self)
	size, into, sgemm := o.in*o.width, o.kinds.into[kind], o.net.blas.Sgemm
	if bases := o.net.model.Bases; bases == 0 {
		copy(dMeans[into.lo*size:], dW[:into.n*size])
	} else if into.n > 0 {
		sgemm(false, true, into.n, bases, size, 1, dW, size, means, size, 0, dComp[into.lo*bases:], bases)
		sgemm(true, false, bases, size, into.n, 1, comp[into.lo*bases:], bases, dW, size, 1, dMeans, size)
	}
	kernel.Add(dRoot, dW[into.n*size:])
}
