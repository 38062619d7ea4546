package cpu

import (
	"diskgnn/graph"
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
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

// backward adds the destinations' part of the weights' gradient to dW.
func (o *ownLinear) backward(dW []float32, b *graph.Block, x, dz, room []float32, from, to int) {
	rows := o.own(b, x, room, from, to)
	sgemm := o.net.blas.Sgemm
	dz = dz[from*o.width:]
	sgemm(true, false, o.in, o.width, to-from, 1, rows, o.in, dz, o.width, 1, dW, o.width)
	if o.dOwn != nil {
		sgemm(false, true, to-from, o.in, o.width, 1, dz, o.width, o.weights, o.width, 0, o.dOwn[from*o.in:], o.in)
	}
}

// scatter adds the gradient of the destinations' features to the gradient of the sources lo to hi.
func (o *ownLinear) scatter(lo, hi int) {
	b, p := o.layer.block()
	for i := lo; i < hi; i++ {
		if k, ok := p.Destination(b, i); ok {
			kernel.Add(o.dx[i*o.in:(i+1)*o.in], o.dOwn[k*o.in:(k+1)*o.in])
		}
	}
}

// residualGradient sums the gradient of the weights over groups of destinations, for an order that
// has no groups of its own.
type residualGradient struct {
	*ownLinear
	group int // rows of one

	// Inputs of the batch under way.
	block *graph.Block
	x, dz []float32
}

// make notes the gradient's need of shared memory, if there is a residual.
func (r *residualGradient) make(o *ownLinear) {
	r.ownLinear = o
	if o.size == 0 {
		return
	}
	n := o.net
	r.group = attentionGroup(o.rows, o.size)
	n.partialFloats = max(n.partialFloats, divUp(o.rows, r.group)*o.size)
}

func (r *residualGradient) run(b *graph.Block, x, dz []float32) error {
	if r.size == 0 {
		return nil
	}
	r.block, r.x, r.dz = b, x, dz
	groups := divUp(b.NumDst, r.group)
	if err := r.net.each(groups, 1, r); err != nil {
		return err
	}
	clear(r.dWeights)
	for g := range groups {
		kernel.Add(r.dWeights, r.net.partial[g*r.size:][:r.size])
	}
	return nil
}

func (r *residualGradient) chunk(worker, g, _ int) {
	dW := r.net.partial[g*r.size:][:r.size]
	clear(dW)
	room := r.net.workerScratch(worker, attendRows, r.in)
	hi := min((g+1)*r.group, r.block.NumDst)
	for from := g * r.group; from < hi; from += attendRows {
		r.backward(dW, r.block, r.x, r.dz, room, from, min(from+attendRows, hi))
	}
}
