package cpu

import "diskgnn/train/model"

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
