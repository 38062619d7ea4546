package gnn

import (
	"gorgonia.org/gorgonia"

	"diskgnn/graph"
	"diskgnn/train/gnn/kernel"
	"diskgnn/train/gnn/model"
)

// layer is the forward pass of one GraphSAGE layer as a single operation:
//
//	act(mean(x)·Wneigh + x[dst]·Wself + b)       aggregate first
//	act(mean(x·Wneigh) + x[dst]·Wself + b)       multiply first
//
// Its operands are x (none in the outermost layer, which reads the batch's own
// features), Wneigh, Wself, b.
//
// Gradients that travel from one layer down to the one before are those of its
// values before the activation: whoever computes the gradient of a layer's output
// takes it through the activation at once, while the row is in the cache, and sums
// the columns for the bias. See inputGradient and crossEntropy.
type layer struct {
	node
	index, in, outDim int
	order             model.Order
	hidden            bool // activation and dropout follow
	fan               forward

	// Kept for the backward pass; in evaluation per worker, and a chunk's only.
	means   []float32 // aggregate first: mean(x)
	self    []float32 // outermost layer: x[dst] when the destinations are scattered
	scratch []float32

	products []float32 // multiply first: x·Wneigh
	biasSums []float32 // column sums of the gradient, by chunk of rows

	grads [3][]float32 // where the parameters' gradients go, by role
}

func newLayer(n *network, l int, scratch []float32) *layer {
	in, out, rows := n.model.In(l), n.model.Out(l), n.rows(l)
	arity := 3
	if l > 0 {
		arity = 4
	}
	k := &layer{index: l, in: in, outDim: out, order: n.orders[l], hidden: l < n.model.Layers()-1, scratch: scratch}
	k.node = n.node("sage", arity, n.floats(rows*out), rows, out)
	k.fan.layer = k
	if k.order == model.Multiply {
		k.products = n.floats(n.sources(l) * out)
	}
	if n.training {
		k.biasSums = n.floats(divUp(rows, chunkRows) * out)
		if k.order == model.Aggregate {
			k.means = n.floats(rows * in)
		}
		if l == 0 {
			k.self = n.floats(rows * in)
		}
	}
	return k
}

// block returns the batch's block for this layer and what was derived from it.
func (k *layer) block() (*graph.Block, *prepared) {
	p := k.net.in.Prepared
	return &p.batch.Blocks[k.index], &p.blocks[k.index]
}

// source returns x: the features of the block's sources.
func (k *layer) source(operands []gorgonia.Value) []float32 {
	if k.index == 0 {
		return k.net.in.X
	}
	return floats(operands[0])
}

// scale is the factor of the gradients of units that dropout kept.
func (k *layer) scale() float32 { return k.net.dropout.Scale() }

// Do computes the layer's output for the batch's destinations.
func (k *layer) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	f := &k.fan
	weights := v[len(v)-3:]
	f.x, f.neigh, f.self, f.bias = k.source(v), floats(weights[0]), floats(weights[1]), floats(weights[2])
	f.block, f.prepared = k.block()
	f.stream = kernel.NewStream(k.net.seed, k.net.step, k.index)
	if k.order == model.Multiply {
		if err := k.net.each(f.block.NumSrc, chunkRows, (*multiplySources)(f)); err != nil {
			return nil, err
		}
	}
	if err := k.net.each(f.block.NumDst, chunkRows, f); err != nil {
		return nil, err
	}
	return k.out, nil
}

// forward is one run of a layer over chunks of destinations.
type forward struct {
	layer                *layer
	x, neigh, self, bias []float32
	block                *graph.Block
	prepared             *prepared
	stream               kernel.Stream
}

func (f *forward) chunk(worker, lo, hi int) {
	k := f.layer
	in, out, rows := k.in, k.outDim, hi-lo
	sgemm := k.net.blas.Sgemm
	z := k.data[lo*out : hi*out]
	if k.order == model.Multiply {
		f.mean(z, k.products, out, lo)
	} else {
		means := k.room(worker, 0, k.means, lo, hi)
		f.mean(means, f.x, in, lo)
		sgemm(false, false, rows, out, in, 1, means, in, f.neigh, out, 0, z, out)
	}
	sgemm(false, false, rows, out, in, 1, f.own(worker, lo, hi), in, f.self, out, 1, z, out)
	if !k.hidden {
		for i := range rows {
			kernel.Add(z[i*out:(i+1)*out], f.bias)
		}
		return
	}
	for i := range rows {
		kernel.BiasReLU(z[i*out:(i+1)*out], f.bias, k.net.dropout, f.stream.Row(lo+i))
	}
}

// mean stores, from destination lo on, the means of the sources' rows of y, which
// are d wide.
func (f *forward) mean(dst, y []float32, d, lo int) {
	b := f.block
	for i := range len(dst) / d {
		kernel.GatherSum(dst[i*d:(i+1)*d], y, b.Indices[b.Indptr[lo+i]:b.Indptr[lo+i+1]], nil, f.prepared.inverse[lo+i], false)
	}
}

// own returns the rows of x of the destinations lo to hi, one after the other.
func (f *forward) own(worker, lo, hi int) []float32 {
	in := f.layer.in
	if f.block.Dst == nil {
		return f.x[lo*in : hi*in]
	}
	rows := f.layer.room(worker, 1, f.layer.self, lo, hi)
	for i, s := range f.block.Dst[lo:hi] {
		copy(rows[i*in:(i+1)*in], f.x[int(s)*in:])
	}
	return rows
}

// room returns memory for the rows lo to hi of an intermediate result: the place
// where the backward pass finds them, or else one of the worker's two.
func (k *layer) room(worker, which int, kept []float32, lo, hi int) []float32 {
	if k.net.training {
		return kept[lo*k.in : hi*k.in]
	}
	size := len(k.scratch) / k.net.threads / 2
	at := (2*worker + which) * size
	return k.scratch[at : at+(hi-lo)*k.in]
}

// multiplySources computes x·Wneigh over chunks of sources.
type multiplySources forward

func (f *multiplySources) chunk(_, lo, hi int) {
	k := f.layer
	k.net.blas.Sgemm(false, false, hi-lo, k.outDim, k.in, 1, f.x[lo*k.in:], k.in, f.neigh, k.outDim, 0, k.products[lo*k.outDim:], k.outDim)
}
