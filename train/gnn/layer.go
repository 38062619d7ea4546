package gnn

import (
	"gorgonia.org/gorgonia"

	"diskgnn/graph"
	"diskgnn/internal/kernel"
	"diskgnn/train/gnn/model"
)

// layer is the forward pass of one GraphSAGE layer as a single operation:
//
//	act([mean(x) | x[dst]]·W + b)                aggregate first
//	act(mean(x·Wneigh) + x[dst]·Wself + b)       multiply first
//
// where W is Wneigh above Wself. Its operands are W, b and, but for the outermost
// layer, which reads the batch's own features, x.
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
	pass              forward

	operands []float32 // of the product per destination, kept for the backward pass
	scratch  []float32 // in evaluation: the same for a chunk, one after the other for every worker
	products []float32 // multiply first: x·Wneigh
	biasSums []float32 // column sums of the gradient, by chunk of rows

	dWeights, dBias []float32 // where the parameters' gradients go
}

func newLayer(n *network, l int, scratch []float32) *layer {
	in, out, rows := n.model.In(l), n.model.Out(l), n.rows(l)
	k := &layer{index: l, in: in, outDim: out, order: n.orders[l], hidden: l < n.model.Layers()-1, scratch: scratch}
	k.node = n.node("sage", 2+min(l, 1), n.floats(rows*out), rows, out)
	k.pass.layer = k
	if k.order == model.Multiply {
		k.products = n.floats(n.sources(l) * out)
	}
	if n.training {
		k.biasSums = n.floats(divUp(rows, chunkRows) * out)
		if n.keepsOperands(l) {
			k.operands = n.floats(rows * n.operandWidth(l))
		}
	}
	return k
}

// block returns the batch's block for this layer and what was derived from it.
func (k *layer) block() (*graph.Block, *prepared) {
	p := k.net.in.Prepared
	return &p.batch.Blocks[k.index], &p.blocks[k.index]
}

// source returns x, the features of the block's sources, given an operation's last
// operand.
func (k *layer) source(operands []gorgonia.Value) []float32 {
	if k.index == 0 {
		return k.net.in.X
	}
	return floats(operands[len(operands)-1])
}

// scale is the factor of the gradients of units that dropout kept.
func (k *layer) scale() float32 { return k.net.dropout.Scale() }

// Do computes the layer's output for the batch's destinations.
func (k *layer) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	f := &k.pass
	f.weights, f.bias, f.x = floats(v[0]), floats(v[1]), k.source(v)
	f.block, f.prepared = k.block()
	f.stream = kernel.NewStream(k.net.seed, k.net.step, k.index)
	if k.order == model.Multiply {
		if err := k.net.each(f.block.NumSrc, chunkRows, (*multiplySources)(f)); err != nil {
			return nil, err
		}
	}
	return k.out, k.net.each(f.block.NumDst, chunkRows, f)
}

// forward is one run of a layer over chunks of destinations.
type forward struct {
	layer            *layer
	weights, bias, x []float32
	block            *graph.Block
	prepared         *prepared
	stream           kernel.Stream
}

func (f *forward) chunk(worker, lo, hi int) {
	k := f.layer
	in, out := k.in, k.outDim
	z := k.data[lo*out : hi*out]
	if k.order == model.Aggregate {
		rows := k.room(worker, lo, hi)
		f.means(rows, 2*in, f.x, in, lo, hi)
		f.own(rows[in:], 2*in, lo, hi)
		k.net.blas.Sgemm(false, false, hi-lo, out, 2*in, 1, rows, 2*in, f.weights, out, 0, z, out)
	} else {
		f.means(z, out, k.products, out, lo, hi)
		rows := f.x[lo*in:]
		if f.block.Dst != nil {
			rows = k.room(worker, lo, hi)
			f.own(rows, in, lo, hi)
		}
		k.net.blas.Sgemm(false, false, hi-lo, out, in, 1, rows, in, f.weights[in*out:], out, 1, z, out)
	}
	f.finish(z, lo)
}

// means stores the means of the neighbours' rows of y, which are d wide, for the
// destinations lo to hi, in rows that are stride apart.
func (f *forward) means(rows []float32, stride int, y []float32, d, lo, hi int) {
	b := f.block
	for i := lo; i < hi; i++ {
		at := (i - lo) * stride
		kernel.GatherSum(rows[at:at+d], y, b.Indices[b.Indptr[i]:b.Indptr[i+1]], nil, f.prepared.inverse[i], false)
	}
}

// own stores the rows of x of the destinations lo to hi, in rows that are stride
// apart.
func (f *forward) own(rows []float32, stride, lo, hi int) {
	in := f.layer.in
	for i := lo; i < hi; i++ {
		row := rows[(i-lo)*stride:][:in]
		if f.block.Dst == nil {
			copy(row, f.x[i*in:])
		} else {
			kernel.GatherSum(row, f.x, f.block.Dst[i:i+1], nil, 1, false)
		}
	}
}

// finish turns the sums z of the destinations from lo on into the layer's output.
func (f *forward) finish(z []float32, lo int) {
	k, d := f.layer, f.layer.outDim
	for i := range len(z) / d {
		row := z[i*d : (i+1)*d]
		if k.hidden {
			kernel.BiasReLU(row, f.bias, k.net.dropout, f.stream.Row(lo+i))
		} else {
			kernel.Add(row, f.bias)
		}
	}
}

// room returns memory for the operands of the destinations lo to hi: where the
// backward pass finds them or, in evaluation, the worker's own.
func (k *layer) room(worker, lo, hi int) []float32 {
	width := k.net.operandWidth(k.index)
	if k.net.training {
		return k.operands[lo*width : hi*width]
	}
	return k.scratch[worker*k.net.scratchFloats():][:(hi-lo)*width]
}

// multiplySources computes x·Wneigh over chunks of sources.
type multiplySources forward

func (f *multiplySources) chunk(_, lo, hi int) {
	k := f.layer
	k.net.blas.Sgemm(false, false, hi-lo, k.outDim, k.in, 1, f.x[lo*k.in:], k.in, f.weights, k.outDim, 0, k.products[lo*k.outDim:], k.outDim)
}
