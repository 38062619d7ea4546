package gnn

import (
	"diskgnn/graph"
	"diskgnn/internal/kernel"
	"diskgnn/train/gnn/model"
)

// ownLinear adds a linear map of the destinations' own features to a layer's sums,
// some destinations at a time: a residual.
type ownLinear struct {
	*layer
	size              int // of the weights; 0: there are none
	weights, dWeights []float32
	dOwn              []float32 // gradient of the destinations' features, where the input has one
}

func (o *ownLinear) make(k *layer) {
	o.layer = k
	if !k.net.model.Residual {
		return
	}
	o.size = k.in * k.width
	o.weights, o.dWeights = k.param(model.ResidualWeight)
	if k.net.training && k.below != nil {
		o.dOwn = k.net.floats(k.rows * k.in)
	}
}

// own returns the features of some destinations, copied to room if they are scattered.
func (o *ownLinear) own(b *graph.Block, x, room []float32, from, to int) []float32 {
	if b.Dst == nil {
		return x[from*o.in:]
	}
	for i := from; i < to; i++ {
		s := b.DstPos(i)
		copy(room[(i-from)*o.in:], x[s*o.in:(s+1)*o.in])
	}
	return room
}

func (o *ownLinear) forward(b *graph.Block, x, room []float32, from, to int) {
	rows := o.own(b, x, room, from, to)
	o.net.blas.Sgemm(false, false, to-from, o.width, o.in, 1, rows, o.in, o.weights, o.width, 1, o.data[from*o.width:], o.width)
}

// backward adds to dW what the destinations have of the weights' gradient.
func (o *ownLinear) backward(dW []float32, b *graph.Block, x, dz, room []float32, from, to int) {
	rows := o.own(b, x, room, from, to)
	sgemm := o.net.blas.Sgemm
	dz = dz[from*o.width:]
	sgemm(true, false, o.in, o.width, to-from, 1, rows, o.in, dz, o.width, 1, dW, o.width)
	if o.dOwn != nil {
		sgemm(false, true, to-from, o.in, o.width, 1, dz, o.width, o.weights, o.width, 0, o.dOwn[from*o.in:], o.in)
	}
}

// scatter adds the gradient of the destinations' features to that of the sources lo
// to hi.
func (o *ownLinear) scatter(lo, hi int) {
	b, p := o.layer.block()
	for i := lo; i < hi; i++ {
		if k, ok := p.destination(b, i); ok {
			kernel.Add(o.dx[i*o.in:(i+1)*o.in], o.dOwn[k*o.in:(k+1)*o.in])
		}
	}
}
