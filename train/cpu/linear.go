package cpu

import (
	"diskgnn/graph"
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// linear is a convolution with sums that are linear in the neighbours' aggregate A(x)
// and, with own weights, in the destination's features.
//
//	[A(x) | x[dst]]·W                        aggregate first
//	A(x·Wneigh) + x[dst]·Wself               multiply first
//
// where W is Wneigh above Wself. A is a weighted sum (see prepare.Block), or the maximum,
// which can only come first. A residual's map is Wself, or added to it.
type linear struct {
	*layer
	order    model.Order
	max      bool
	own      bool // there is a Wself
	weights  []float32
	dWeights []float32
	folded   []float32 // W with the residual's map added to Wself, where it has one itself
	residual []float32
	dMore    []float32 // gradient of residual

	operands []float32 // of the product per destination, kept for the backward pass
	products []float32 // multiply first: x·Wneigh
	argmax   []uint32  // the source of every maximum
	dA       []float32 // aggregate first: gradient of the aggregate
	dOwn     []float32 // gradient through Wself, where destinations may be scattered
	dy       []float32 // multiply first: gradient of the products
	product  groupedProduct

	// Inputs of the batch under way.
	w, x, dz []float32
	block    *graph.Block
	prepared *prepare.Block
}

func newLinear(k *layer) conv {
	n := k.net
	o := &linear{layer: k, order: n.orders[k.index-n.first], max: !n.model.Commutes(), own: n.Has(k.index, model.Self) || n.model.Residual,
		product: groupedProduct{n: k.width}}
	o.takeWeights()
	outermost, width := k.index == n.first, o.operandWidth()
	if n.needLong(n.sizes.Edges[k.index-n.first], k.in); o.order == model.Multiply {
		o.products = n.floats(n.sources(k.index) * k.width)
		n.needLong(n.sizes.Edges[k.index-n.first], k.width)
	}
	if !n.training {
		n.needScratch(width)
		return o
	}
	if o.order == model.Aggregate || outermost {
		o.operands = n.floats(k.rows * width)
	}
	if width > 0 {
		n.needPartial(k.rows, width*k.width)
	}
	if o.order == model.Multiply {
		o.dy = n.floats(n.sources(k.index) * k.width)
		n.needPartial(n.sources(k.index), k.in*k.width)
	}
	if k.below == nil {
		return o
	}
	if o.order == model.Aggregate {
		o.dA = n.floats(k.rows * k.in)
	}
	if o.own && outermost {
		o.dOwn = n.floats(k.rows * k.in)
	}
	if o.max {
		o.argmax = n.indices(k.rows * k.in)
	}
	return o
}

// takeWeights finds the layer's weights, which are adjacent.
func (o *linear) takeWeights() {
	if !o.net.Has(o.index, model.Self) {
		o.weights, o.dWeights = o.params(model.Neighbour, model.ResidualWeight)
		return
	}
	o.weights, o.dWeights = o.params(model.Neighbour, model.Self)
	if o.net.model.Residual {
		o.residual, o.dMore = o.param(model.ResidualWeight)
		o.folded = o.net.floats(2 * o.in * o.width)
	}
}

func (o *linear) operandWidth() int { return o.order.OperandWidth(o.in, o.own) }

// fold sets the weights of the layer's products.
func (o *linear) fold() {
	o.w = o.weights
	if o.folded != nil {
		half := o.in * o.width
		copy(o.folded, o.weights)
		kernel.Add(o.folded[half:], o.residual)
		o.w = o.folded
	}
}

func (o *linear) forward(x []float32) error {
	o.fold()
	o.x = x
	o.block, o.prepared = o.layer.block()
	if o.order == model.Multiply {
		if err := o.net.each(o.block.NumSrc, chunkRows, (*multiplySources)(o)); err != nil {
			return err
		}
	}
	return o.net.each(o.block.NumDst, chunkRows, o)
}

// chunk computes the sums of destinations lo to hi.
func (o *linear) chunk(worker, lo, hi int) {
	in, out, sgemm := o.in, o.width, o.net.blas.Sgemm
	z := o.data[lo*out : hi*out]
	width := o.operandWidth()
	switch {
	case o.order == model.Aggregate:
		rows := o.room(worker, lo, hi)
		o.aggregate(worker, rows, width, o.x, in, lo, hi)
		if o.own {
			o.ownRows(rows[in:], width, lo, hi)
		}
		sgemm(false, false, hi-lo, out, width, 1, rows, width, o.w, out, 0, z, out)
	default:
		o.aggregate(worker, z, out, o.products, out, lo, hi)
		if !o.own {
			break
		}
		rows := o.x[lo*in:]
		if o.block.Dst != nil {
			rows = o.room(worker, lo, hi)
			o.ownRows(rows, in, lo, hi)
		}
		sgemm(false, false, hi-lo, out, in, 1, rows, in, o.w[in*out:], out, 1, z, out)
	}
	o.tail.finish(lo, hi)
}

// room returns memory for the operands of destinations lo to hi: the memory kept for the backward
// pass, or the worker's own.
func (o *linear) room(worker, lo, hi int) []float32 {
	width := o.operandWidth()
	if o.operands != nil {
		return o.operands[lo*width : hi*width]
	}
	return o.net.workerScratch(worker, hi-lo, width)
}

// aggregate stores the aggregates of the rows of y, with d elements, for destinations lo to hi, in
// rows that are stride apart.
func (o *linear) aggregate(worker int, rows []float32, stride int, y []float32, d, lo, hi int) {
	b, p := o.block, o.prepared
	for i := lo; i < hi; i++ {
		row, edges := rows[(i-lo)*stride:][:d], b.Indices[b.Indptr[i]:b.Indptr[i+1]]
		switch {
		case o.max:
			kernel.GatherMax(row, o.chosen(i), y, edges)
			continue
		case len(edges) > longSum:
			o.net.gatherLong(worker, row, y, edges, p.Src, at(p.Dst, i))
		default:
			kernel.GatherSum(row, y, edges, p.Src, at(p.Dst, i), false)
		}
		if p.Own != nil {
			at := b.DstPos(i) * d
			kernel.AddScaled(row, y[at:at+d], p.Own[i])
		}
	}
}

// chosen returns the memory of destination i's argmax; nil if backward needs none.
func (o *linear) chosen(i int) []uint32 {
	if o.argmax == nil {
		return nil
	}
	return o.argmax[i*o.in : (i+1)*o.in]
}

// at returns an element of w, or 1 if w is nil, which stands for ones.
func at(w []float32, i int) float32 {
	if w == nil {
		return 1
	}
	return w[i]
}

// ownRows stores the rows of x of destinations lo to hi, in rows that are stride
// apart.
func (o *linear) ownRows(rows []float32, stride, lo, hi int) {
	in := o.in
	for i := lo; i < hi; i++ {
		row := rows[(i-lo)*stride:][:in]
		if o.block.Dst == nil {
			copy(row, o.x[i*in:])
		} else {
			kernel.GatherSum(row, o.x, o.block.Dst[i:i+1], nil, 1, false)
		}
	}
}

// multiplySources computes x·Wneigh over chunks of sources.
type multiplySources linear

func (o *multiplySources) chunk(_, lo, hi int) {
	o.net.blas.Sgemm(false, false, hi-lo, o.width, o.in, 1, o.x[lo*o.in:], o.in, o.w, o.width, 0, o.products[lo*o.width:], o.width)
}

// projection is the input projection's linear map: z = x·W for every input node. In training the
// input nodes are sorted by id, and their rows are gathered: see prepare.Prepared.
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
	return p.product.run(p.net, p.dWeights, x, dz, p.count(), p.rows)
}
