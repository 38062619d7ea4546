package gnn

import (
	"gorgonia.org/gorgonia"

	"diskgnn/graph"
	"diskgnn/internal/kernel"
	"diskgnn/train/gnn/model"
)

// DiffWRT: the outermost layer's features are not an operand, so nothing computes
// their gradient.
func (k *layer) DiffWRT(inputs int) []bool {
	wrt := make([]bool, inputs)
	for i := range wrt {
		wrt[i] = true
	}
	return wrt
}

// SymDiff builds the gradient operations of the layer's operands. dz is the
// gradient of the output before its activation.
func (k *layer) SymDiff(inputs gorgonia.Nodes, _, dz *gorgonia.Node) (gorgonia.Nodes, error) {
	n := k.net
	upstream := gorgonia.Nodes{dz}
	if k.order == model.Multiply {
		rows := n.sources(k.index)
		dy, err := gorgonia.ApplyOp(&productGradient{node: n.node("sageDY", 1, n.floats(rows*k.outDim), rows, k.outDim), layer: k}, dz)
		if err != nil {
			return nil, err
		}
		upstream = append(upstream, dy)
	}
	dw, err := gorgonia.ApplyOp(newWeightGradient(k, len(upstream)+min(k.index, 1)), append(upstream, inputs[2:]...)...)
	if err != nil {
		return nil, err
	}
	db, err := gorgonia.ApplyOp(&biasGradient{node: n.node("sageDB", 1, k.dBias, k.outDim), layer: k}, dz)
	if err != nil || k.index == 0 {
		return gorgonia.Nodes{dw, db}, err
	}
	dx, err := gorgonia.ApplyOp(newInputGradient(k, len(upstream)+2), append(upstream, inputs[0], inputs[2])...)
	return gorgonia.Nodes{dw, db, dx}, err
}

// biasGradient adds the column sums that were made chunk by chunk together with
// its operand, in order.
type biasGradient struct {
	node
	layer *layer
}

func (o *biasGradient) Do(...gorgonia.Value) (gorgonia.Value, error) {
	b, _ := o.layer.block()
	clear(o.data)
	for c := range divUp(b.NumDst, chunkRows) {
		kernel.Add(o.data, o.layer.biasSums[c*len(o.data):(c+1)*len(o.data)])
	}
	return o.out, nil
}

// weightGradient computes the gradient of both weights: what they were multiplied
// with, transposed, times the gradient of the product. Its operands are dz,
// multiplying first dy, and x but for the outermost layer.
type weightGradient struct {
	node
	layer *layer
	sum   groupedProduct
}

func newWeightGradient(k *layer, arity int) *weightGradient {
	return &weightGradient{node: k.net.node("sageDW", arity, k.dWeights, 2*k.in, k.outDim), layer: k}
}

func (o *weightGradient) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	k, s := o.layer, &o.sum
	b, _ := k.block()
	dz, most := floats(v[0]), k.net.rows(k.index)
	if k.order == model.Aggregate {
		return o.out, s.run(k, o.data, k.operands, dz, b.NumDst, most)
	}
	x, half := k.source(v), len(o.data)/2
	if err := s.run(k, o.data[:half], x, floats(v[1]), b.NumSrc, k.net.sources(k.index)); err != nil {
		return nil, err
	}
	if b.Dst != nil {
		x = k.operands
	}
	return o.out, s.run(k, o.data[half:], x, dz, b.NumDst, most)
}

// groupedProduct computes c = aᵀ·b, which sums over rows, group by group.
type groupedProduct struct {
	net     *network
	c, a, b []float32
	m, n    int // of c
	rows    int
	group   int // rows in a group
	tiles   int // of c's rows
}

// run sums over the given rows of a and b, of which there are at most most.
func (p *groupedProduct) run(k *layer, c, a, b []float32, rows, most int) error {
	p.net, p.c, p.a, p.b, p.rows = k.net, c, a, b, rows
	p.n = k.outDim
	p.m = len(c) / p.n
	p.group = groupRows(most, len(c))
	p.tiles = divUp(p.m, weightTile)
	if rows == 0 {
		clear(c)
		return nil
	}
	if err := p.net.each(p.groups()*p.tiles, 1, p); err != nil {
		return err
	}
	return p.net.each(len(c), updateGrain, (*groupSum)(p))
}

func (p *groupedProduct) groups() int { return divUp(p.rows, p.group) }

// chunk computes one tile of rows of one group's product.
func (p *groupedProduct) chunk(_, task, _ int) {
	g, tile := task/p.tiles, task%p.tiles*weightTile
	lo := g * p.group
	p.net.blas.Sgemm(true, false, min(weightTile, p.m-tile), p.n, min(p.group, p.rows-lo), 1,
		p.a[lo*p.m+tile:], p.m, p.b[lo*p.n:], p.n, 0, p.net.partial[g*len(p.c)+tile*p.n:], p.n)
}

// groupSum adds the groups' products in order, over a range of elements.
type groupSum groupedProduct

func (p *groupSum) chunk(_, lo, hi int) {
	partial, size := p.net.partial, len(p.c)
	copy(p.c[lo:hi], partial[lo:hi])
	for g := 1; g < (*groupedProduct)(p).groups(); g++ {
		kernel.Add(p.c[lo:hi], partial[g*size+lo:g*size+hi])
	}
}

// productGradient, multiplying first, takes the gradient of the means back to the
// products that they were made of.
type productGradient struct {
	node
	layer    *layer
	dz       []float32
	prepared *prepared
}

func (o *productGradient) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	var b *graph.Block
	b, o.prepared = o.layer.block()
	o.dz = floats(v[0])
	return o.out, o.net.each(b.NumSrc, chunkRows, o)
}

func (o *productGradient) chunk(_, lo, hi int) {
	p, d := o.prepared, o.layer.outDim
	for i := lo; i < hi; i++ {
		kernel.GatherSum(o.data[i*d:(i+1)*d], o.dz, p.tindices[p.tindptr[i]:p.tindptr[i+1]], p.inverse, 1, false)
	}
}

// inputGradient computes the gradient of a layer's input, which is the output of
// the layer before, and takes it through that one's activation:
//
//	dx = scatter(dz·Wneighᵀ / degree) + dz·Wselfᵀ      aggregate first
//	dx = dy·Wneighᵀ                   + dz·Wselfᵀ      multiply first
//
// dz reaches the destinations only, which are the first sources. Its operands are
// dz, multiplying first dy, W and x.
type inputGradient struct {
	node
	layer, below          *layer
	dMeans                []float32 // aggregate first: dz·Wneighᵀ
	dz, dy, neigh, own, x []float32
	block                 *graph.Block
	prepared              *prepared
}

func newInputGradient(k *layer, arity int) *inputGradient {
	n := k.net
	rows := n.sources(k.index)
	o := &inputGradient{node: n.node("sageDX", arity, n.floats(rows*k.in), rows, k.in), layer: k, below: n.layers[k.index-1]}
	if k.order == model.Aggregate {
		o.dMeans = n.floats(n.rows(k.index) * k.in)
	}
	return o
}

func (o *inputGradient) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	k := o.layer
	w := floats(v[len(v)-2])
	o.dz, o.neigh, o.own, o.x = floats(v[0]), w[:len(w)/2], w[len(w)/2:], k.source(v)
	o.block, o.prepared = k.block()
	if k.order == model.Multiply {
		o.dy = floats(v[1])
	} else if err := o.net.each(o.block.NumDst, chunkRows, (*destinationGradient)(o)); err != nil {
		return nil, err
	}
	return o.out, o.net.each(o.block.NumSrc, chunkRows, o)
}

// destinationGradient is what aggregating first can compute per destination.
type destinationGradient inputGradient

func (o *destinationGradient) chunk(_, lo, hi int) {
	in, out := o.layer.in, o.layer.outDim
	sgemm := o.net.blas.Sgemm
	sgemm(false, true, hi-lo, in, out, 1, o.dz[lo*out:], out, o.neigh, out, 0, o.dMeans[lo*in:], in)
	sgemm(false, true, hi-lo, in, out, 1, o.dz[lo*out:], out, o.own, out, 0, o.data[lo*in:], in)
}

func (o *inputGradient) chunk(_, lo, hi int) {
	in, out := o.layer.in, o.layer.outDim
	dst := o.block.NumDst
	if o.layer.order == model.Multiply {
		sgemm := o.net.blas.Sgemm
		sgemm(false, true, hi-lo, in, out, 1, o.dy[lo*out:], out, o.neigh, out, 0, o.data[lo*in:], in)
		if m := min(hi, dst); m > lo {
			sgemm(false, true, m-lo, in, out, 1, o.dz[lo*out:], out, o.own, out, 1, o.data[lo*in:], in)
		}
	}
	p := o.prepared
	sums := o.below.biasSums[lo/chunkRows*in:][:in]
	clear(sums)
	for i := lo; i < hi; i++ {
		row := o.data[i*in : (i+1)*in]
		if o.layer.order == model.Aggregate {
			kernel.GatherSum(row, o.dMeans, p.tindices[p.tindptr[i]:p.tindptr[i+1]], p.inverse, 1, i < dst)
		}
		kernel.ReLUBackward(row, o.x[i*in:(i+1)*in], sums, o.below.scale())
	}
}
