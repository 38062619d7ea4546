package gnn

import "diskgnn/train/gnn/model"

// projection is the input projection's linear map: z = x·W for every input node.
type projection struct {
	*layer
	weights, dWeights []float32
	x                 []float32
	product           groupedProduct
}

func newProjection(k *layer) *projection {
	p := &projection{layer: k, product: groupedProduct{n: k.width}}
	p.weights, p.dWeights = k.param(model.Self)
	if k.net.training {
		k.net.needPartial(k.rows, k.in*k.width)
	}
	return p
}

func (p *projection) forward(x []float32) error {
	p.x = x
	return p.net.each(p.count(), chunkRows, p)
}

func (p *projection) chunk(_, lo, hi int) {
	p.net.blas.Sgemm(false, false, hi-lo, p.width, p.in, 1, p.x[lo*p.in:], p.in, p.weights, p.width, 0, p.data[lo*p.width:], p.width)
	p.tail.finish(lo, hi)
}

func (p *projection) backward(x, dz []float32) error {
	return p.product.run(p.layer, p.dWeights, x, dz, p.count(), p.rows)
}
