package gnn

import (
	"gorgonia.org/gorgonia"

	"diskgnn/graph"
	"diskgnn/train/gnn/kernel"
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
	var grads gorgonia.Nodes
	apply := func(op gorgonia.Op, operands ...*gorgonia.Node) (*gorgonia.Node, error) {
		if k.index > 0 && op.Arity() > len(operands) {
			operands = append(operands, inputs[0])
		}
		return gorgonia.ApplyOp(op, operands...)
	}
	n := k.net
	dy := dz // what reaches x·Wneigh or mean(x)·Wneigh
	var err error
	if k.order == model.Multiply {
		rows := n.sources(k.index)
		op := &productGradient{node: n.node("sageDY", 1, n.floats(rows*k.outDim), rows, k.outDim), layer: k}
		if dy, err = apply(op, dz); err != nil {
			return nil, err
		}
	}
	if k.index > 0 {
		dx, err := gorgonia.ApplyOp(newInputGradient(k), dz, dy, inputs[0], inputs[1], inputs[2])
		if err != nil {
			return nil, err
		}
		grads = append(grads, dx)
	}
	for _, role := range []model.Role{model.Neighbour, model.Self} {
		op := &weightGradient{layer: k, role: role}
		op.node = n.node("sageDW", min(k.index, 1)+1, k.grads[role], k.in, k.outDim)
		upstream := dz
		if role == model.Neighbour {
			upstream = dy
		}
		dw, err := apply(op, upstream)
		if err != nil {
			return nil, err
		}
		grads = append(grads, dw)
	}
	db, err := apply(&biasGradient{node: n.node("sageDB", 1, k.grads[model.Bias], k.outDim), layer: k}, dz)
	return append(grads, db), err
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

// weightGradient computes aᵀ·dz, where a holds what the weight was multiplied with:
// the means, the sources' own rows or, multiplying first, all sources' rows (dz is
// then the products' gradient).
type weightGradient struct {
	node
	layer *layer
	role  model.Role

	a, dz       []float32
	rows, group int
	tiles       int
}

func (o *weightGradient) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	k := o.layer
	b, _ := k.block()
	o.dz, o.rows = floats(v[0]), b.NumDst
	most := k.net.rows(k.index)
	switch {
	case o.role == model.Neighbour && k.order == model.Aggregate:
		o.a = k.means
	case o.role == model.Neighbour:
		o.a, o.rows, most = k.source(v[1:]), b.NumSrc, k.net.sources(k.index)
	case b.Dst != nil:
		o.a = k.self
	default:
		o.a = k.source(v[1:])
	}
	o.group = groupRows(most, len(o.data))
	o.tiles = divUp(k.in, weightTile)
	groups := divUp(o.rows, o.group)
	if groups == 0 {
		clear(o.data)
		return o.out, nil
	}
	if err := k.net.each(groups*o.tiles, 1, o); err != nil {
		return nil, err
	}
	if err := k.net.each(len(o.data), updateGrain, (*groupSum)(o)); err != nil {
		return nil, err
	}
	return o.out, nil
}

// chunk computes one tile of rows of one group's product.
func (o *weightGradient) chunk(_, task, _ int) {
	k := o.layer
	in, out := k.in, k.outDim
	lo := task / o.tiles * o.group
	tile := task % o.tiles * weightTile
	part := k.net.partial[task/o.tiles*len(o.data):]
	k.net.blas.Sgemm(true, false, min(weightTile, in-tile), out, min(o.group, o.rows-lo), 1,
		o.a[lo*in+tile:], in, o.dz[lo*out:], out, 0, part[tile*out:], out)
}

// groupSum adds the groups' products in order, over a range of elements.
type groupSum weightGradient

func (o *groupSum) chunk(_, lo, hi int) {
	partial, size := o.layer.net.partial, len(o.data)
	copy(o.data[lo:hi], partial[lo:hi])
	for at := size; at < divUp(o.rows, o.group)*size; at += size {
		kernel.Add(o.data[lo:hi], partial[at+lo:at+hi])
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
//	dx = dy·Wneighᵀ                  + dz·Wselfᵀ      multiply first
//
// dz reaches the destinations only, which are the first sources.
type inputGradient struct {
	node
	layer, below            *layer
	dMeans                  []float32 // aggregate first: dz·Wneighᵀ
	dz, dy, x, neigh, wself []float32
	block                   *graph.Block
	prepared                *prepared
}

func newInputGradient(k *layer) *inputGradient {
	n := k.net
	rows := n.sources(k.index)
	o := &inputGradient{node: n.node("sageDX", 5, n.floats(rows*k.in), rows, k.in), layer: k, below: n.layers[k.index-1]}
	if k.order == model.Aggregate {
		o.dMeans = n.floats(n.rows(k.index) * k.in)
	}
	return o
}

func (o *inputGradient) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	o.dz, o.dy, o.x, o.neigh, o.wself = floats(v[0]), floats(v[1]), floats(v[2]), floats(v[3]), floats(v[4])
	o.block, o.prepared = o.layer.block()
	if o.layer.order == model.Aggregate {
		if err := o.net.each(o.block.NumDst, chunkRows, (*destinationGradient)(o)); err != nil {
			return nil, err
		}
	}
	return o.out, o.net.each(o.block.NumSrc, chunkRows, o)
}

// destinationGradient is what aggregating first can compute per destination.
type destinationGradient inputGradient

func (o *destinationGradient) chunk(_, lo, hi int) {
	in, out := o.layer.in, o.layer.outDim
	sgemm := o.net.blas.Sgemm
	sgemm(false, true, hi-lo, in, out, 1, o.dz[lo*out:], out, o.neigh, out, 0, o.dMeans[lo*in:], in)
	sgemm(false, true, hi-lo, in, out, 1, o.dz[lo*out:], out, o.wself, out, 0, o.data[lo*in:], in)
}

func (o *inputGradient) chunk(_, lo, hi int) {
	in, out := o.layer.in, o.layer.outDim
	dst := o.block.NumDst
	if o.layer.order == model.Multiply {
		sgemm := o.net.blas.Sgemm
		sgemm(false, true, hi-lo, in, out, 1, o.dy[lo*out:], out, o.neigh, out, 0, o.data[lo*in:], in)
		if m := min(hi, dst); m > lo {
			sgemm(false, true, m-lo, in, out, 1, o.dz[lo*out:], out, o.wself, out, 1, o.data[lo*in:], in)
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
