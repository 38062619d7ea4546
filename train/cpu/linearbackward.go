package cpu

import (
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
)

// backward computes, with dz the gradient of the sums:
//
//	dWneigh = A(x)ᵀ·dz          or xᵀ·dy, where dy = Aᵀ(dz)
//	dWself  = x[dst]ᵀ·dz
//	dx      = Aᵀ(dz·Wneighᵀ)    or dy·Wneighᵀ,     + dz·Wselfᵀ at the destinations
//
// aggregating or multiplying first.
func (o *linear) backward(x, dz []float32) error {
	o.x, o.dz = x, dz
	o.block, o.prepared = o.layer.block()
	if o.order == model.Multiply {
		if err := o.net.each(o.block.NumSrc, chunkRows, (*productGradient)(o)); err != nil {
			return err
		}
	}
	if err := o.weightGradient(); err != nil || o.dx == nil {
		return err
	}
	if o.order == model.Aggregate || o.dOwn != nil {
		if err := o.net.each(o.block.NumDst, chunkRows, (*destinationGradient)(o)); err != nil {
			return err
		}
	}
	return o.net.each(o.block.NumSrc, chunkRows, (*inputGradient)(o))
}

func (o *linear) weightGradient() error {
	defer func() { copy(o.dMore, o.dWeights[len(o.dWeights)-len(o.dMore):]) }()
	if o.order == model.Aggregate {
		return o.product.run(o.net, o.dWeights, o.operands, o.dz, o.block.NumDst, o.rows)
	}
	neigh := o.in * o.width
	if err := o.product.run(o.net, o.dWeights[:neigh], o.x, o.dy, o.block.NumSrc, o.net.sources(o.index)); err != nil || !o.own {
		return err
	}
	own := o.x
	if o.block.Dst != nil {
		own = o.operands
	}
	return o.product.run(o.net, o.dWeights[neigh:], own, o.dz, o.block.NumDst, o.rows)
}

// productGradient, multiplying first, propagates the gradient of the sums to their products.
type productGradient linear

func (o *productGradient) chunk(_, lo, hi int) {
	d := o.width
	for i := lo; i < hi; i++ {
		(*linear)(o).scatter(o.dy[i*d:(i+1)*d], o.dz, i, false)
	}
}

// scatter stores or adds in row the gradient of source i from g, the gradients of the destinations'
// aggregates.
func (o *linear) scatter(row, g []float32, i int, add bool) {
	p := o.prepared
	targets := p.TIndices[p.TIndptr[i]:p.TIndptr[i+1]]
	if o.max {
		if !add {
			clear(row)
		}
		kernel.ScatterMax(row, g, o.argmax, targets, uint32(i))
		return
	}
	kernel.GatherSum(row, g, targets, p.Dst, at(p.Src, i), add)
	if p.Own == nil {
		return
	}
	if k, ok := p.Destination(o.block, i); ok {
		kernel.AddScaled(row, g[k*len(row):(k+1)*len(row)], p.Own[k])
	}
}

// destinationGradient is the part that can be computed per destination: if the layer aggregates
// first, the gradient of the aggregates; the part through Wself, directly in place if destinations
// are the first sources.
type destinationGradient linear

func (o *destinationGradient) chunk(_, lo, hi int) {
	in, out, sgemm := o.in, o.width, o.net.blas.Sgemm
	if o.order == model.Aggregate {
		sgemm(false, true, hi-lo, in, out, 1, o.dz[lo*out:], out, o.w, out, 0, o.dA[lo*in:], in)
	}
	if !o.own {
		return
	}
	to := o.dOwn
	if to == nil {
		to = o.dx
	}
	sgemm(false, true, hi-lo, in, out, 1, o.dz[lo*out:], out, o.w[in*out:], out, 0, to[lo*in:], in)
}

// inputGradient computes the gradient of the input, and passes it to the layer below.
type inputGradient linear

func (o *inputGradient) chunk(_, lo, hi int) {
	in := o.in
	if o.order == model.Multiply {
		o.multiplied(lo, hi)
	}
	for i := lo; i < hi; i++ {
		row := o.dx[i*in : (i+1)*in]
		if o.order == model.Aggregate {
			(*linear)(o).scatter(row, o.dA, i, o.own && o.dOwn == nil && i < o.block.NumDst)
		}
		if o.dOwn == nil {
			continue
		}
		if k, ok := o.prepared.Destination(o.block, i); ok {
			kernel.Add(row, o.dOwn[k*in:(k+1)*in])
		}
	}
	o.below.tail.backward(o.dx, lo, hi)
}

// multiplied is the gradient through products: of sources and, if destinations are the first of
// them, through Wself.
func (o *inputGradient) multiplied(lo, hi int) {
	in, out, sgemm := o.in, o.width, o.net.blas.Sgemm
	sgemm(false, true, hi-lo, in, out, 1, o.dy[lo*out:], out, o.w, out, 0, o.dx[lo*in:], in)
	if m := min(hi, o.block.NumDst); o.own && o.dOwn == nil && m > lo {
		sgemm(false, true, m-lo, in, out, 1, o.dz[lo*out:], out, o.w[in*out:], out, 1, o.dx[lo*in:], in)
	}
}
