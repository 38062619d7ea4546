package cpu

import (
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
)

// attentionProducts multiplies first, PyTorch Geometric's way: a row for every source, of x·W and
// of the parts of its scores,
//
//	x·[W | W_h·asrc_h of every head h | W_h·adst_h of every head h]
//
// in one product, and sums over neighbours of the heads' parts of rows. The backward
// pass gathers the gradients of the rows, by the transposed edges.
//
// In the backward pass the memory of the scores holds the coefficients' gradients, and then the
// scores' own.
type attentionProducts struct {
	attention
	stride              int       // of a row
	extended, dExtended []float32 // the weights of the product
	products, dProducts []float32 // a row for every source
	product             groupedProduct
	residualWeights     residualGradient
}

func newAttentionProducts(k *layer) *attentionProducts {
	n := k.net
	a := new(attentionProducts)
	a.make(k, a)
	a.setColumns(a.part, n.sizes.Edges[k.index-n.first]+1)
	a.stride = a.heads * (a.part + 2)
	a.extended = n.floats(k.in * a.stride)
	a.products = n.floats(n.sources(k.index) * a.stride)
	own := 0 // the rows of destinations for the residual
	if a.residual.size > 0 {
		own = k.in
	}
	n.needScratch(max(own, divUp(a.heads*a.part, chunkRows)))
	if !n.training {
		return a
	}
	a.dProducts = n.floats(n.sources(k.index) * a.stride)
	a.dExtended = n.floats(k.in * a.stride)
	a.product.n = a.stride
	n.needPartial(n.sources(k.index), k.in*a.stride)
	a.residualWeights.make(&a.residual)
	return a
}

func (a *attentionProducts) sourceScores(scores []float32, sources []uint32, _ int) {
	a.copyScores(scores, sources, a.heads*a.part)
}

func (a *attentionProducts) ownScores(own []float32, destination []uint32, _ int) {
	a.copyScores(own, destination, a.heads*(a.part+1))
}

// copyScores copies the part of every source's row that begins at a column.
func (a *attentionProducts) copyScores(scores []float32, sources []uint32, column int) {
	for i, s := range sources {
		copy(scores[i*a.heads:(i+1)*a.heads], a.products[int(s)*a.stride+column:])
	}
}

func (a *attentionProducts) gather(row []float32, sources []uint32, w []float32, add bool) {
	kernel.GatherParts(row, a.products, a.part, a.stride, sources, w, a.heads, add)
}

// extend sets the weights of the product.
func (a *attentionProducts) extend() {
	columns := a.heads * a.part
	for i := range a.in {
		copy(a.extended[i*a.stride:], a.weights[i*columns:(i+1)*columns])
	}
	a.vectorsOf(a.extended[columns:], 1, a.stride)
}

// forward: see conv.
func (a *attentionProducts) forward(x []float32) error {
	a.begin(x)
	a.extend()
	if err := a.net.each(a.block.NumSrc, chunkRows, (*multiplyInput)(a)); err != nil {
		return err
	}
	return a.net.each(a.count(), chunkRows, a)
}

// multiplyInput computes the rows of chunks of sources.
type multiplyInput attentionProducts

func (o *multiplyInput) chunk(_, lo, hi int) {
	o.net.blas.Sgemm(false, false, hi-lo, o.stride, o.in, 1, o.x[lo*o.in:], o.in, o.extended, o.stride, 0, o.products[lo*o.stride:], o.stride)
}

// chunk computes the layer's sums of destinations lo to hi.
func (a *attentionProducts) chunk(worker, lo, hi int) {
	for i := lo; i < hi; i++ {
		row := a.data[i*a.width : (i+1)*a.width]
		if !a.mean {
			a.attend(row, worker, a.fan(i))
			continue
		}
		parts := a.net.workerScratch(worker, 1, a.heads*a.part)
		a.attend(parts, worker, a.fan(i))
		a.average(row, parts)
	}
	if a.residual.size > 0 {
		room := a.net.workerScratch(worker, hi-lo, a.in)
		a.residual.forward(a.block, a.x, room, lo, hi)
	}
	a.tail.finish(lo, hi)
}

// average stores the mean of the heads' parts.
func (a *attentionProducts) average(row, parts []float32) {
	copy(row, parts)
	for h := 1; h < a.heads; h++ {
		kernel.Add(row, parts[h*a.part:(h+1)*a.part])
	}
	scale(row, 1/float32(a.heads))
}

// backward: see conv.
func (a *attentionProducts) backward(x, dz []float32) error {
	a.begin(x)
	a.dz = dz
	if err := a.net.each(a.count(), attendRows, (*scoreGradient)(a)); err != nil {
		return err
	}
	if err := a.residualWeights.run(a.block, x, dz); err != nil {
		return err
	}
	if err := a.net.each(a.block.NumSrc, chunkRows, (*rowGradient)(a)); err != nil {
		return err
	}
	sources := a.net.sources(a.index)
	if err := a.product.run(a.net, a.dExtended, x, a.dProducts, a.block.NumSrc, sources); err != nil {
		return err
	}
	columns := a.heads * a.part
	for i := range a.in {
		copy(a.dW[i*columns:(i+1)*columns], a.dExtended[i*a.stride:])
	}
	a.vectorGradients(a.dExtended[columns:], 1, a.stride)
	return nil
}

// scoreGradient propagates the gradient of the sums to the coefficients and back through the
// softmax to the scores, over destinations.
type scoreGradient attentionProducts

func (o *scoreGradient) chunk(worker, lo, hi int) {
	a := (*attentionProducts)(o)
	own, total, unused, run := a.perHead(worker)
	for i := lo; i < hi; i++ {
		f := a.fan(i)
		sources, w, d := f.sources, a.coefficients[f.lo:f.hi], a.scores[f.lo:f.hi]
		kernel.DotParts(d, a.products, a.part, a.stride, sources, a.ofHeads(worker, i), a.heads)
		clear(total)
		addProducts(total, w, d)
		a.ownScores(own, f.self, 0)
		clear(unused)
		for len(sources) > 0 {
			n := min(edgeRun, len(sources))
			s := run[:n*a.heads]
			a.sourceScores(s, sources[:n], 0)
			kernel.LeakyScores(s, s, own, unused, model.LeakySlope) // which are positive where they were
			kernel.ScoreGradients(s, w[:len(s)], d[:len(s)], total, unused, model.LeakySlope)
			copy(d, s)
			sources, w, d = sources[n:], w[len(s):], d[len(s):]
		}
	}
}

// ofHeads returns the gradient of destination i's sums, head by head.
func (a *attentionProducts) ofHeads(worker, i int) []float32 {
	dz := a.dz[i*a.width : (i+1)*a.width]
	if !a.mean {
		return dz
	}
	parts := a.net.workerScratch(worker, 1, a.heads*a.part)
	copy(parts, dz)
	scale(parts[:a.part], 1/float32(a.heads))
	for h := 1; h < a.heads; h++ {
		copy(parts[h*a.part:(h+1)*a.part], parts)
	}
	return parts
}

// rowGradient computes the gradient of the sources' rows and, if the layer has one, of the input.
type rowGradient attentionProducts

func (o *rowGradient) chunk(worker, lo, hi int) {
	a := (*attentionProducts)(o)
	columns := a.heads * a.part
	for s := lo; s < hi; s++ {
		row := a.dProducts[s*a.stride:][:a.stride]
		a.gatherBack(row[:columns], worker, s)
		clear(row[columns:])
		a.addScores(row[columns:], s)
	}
	if a.below == nil {
		return
	}
	a.net.blas.Sgemm(false, true, hi-lo, a.in, a.stride, 1, a.dProducts[lo*a.stride:], a.stride, a.extended, a.stride, 0, a.dx[lo*a.in:], a.in)
	if a.residual.size > 0 {
		a.residual.scatter(lo, hi)
	}
	a.below.tail.backward(a.dx, lo, hi)
}

// gatherBack sums the gradients of the sums that source s is part of, with the weights of s.
func (a *attentionProducts) gatherBack(row []float32, worker, s int) {
	e := a.edges
	lo, hi := int(e.TIndptr[s]), int(e.TIndptr[s+1])
	if lo == hi {
		clear(row)
	}
	_, _, _, run := a.perHead(worker)
	for from := lo; from < hi; from += edgeRun {
		to := min(from+edgeRun, hi)
		w := run[:(to-from)*a.heads]
		for i, edge := range e.TEdges[from:to] {
			copy(w[i*a.heads:(i+1)*a.heads], a.coefficients[int(edge)*a.heads:])
		}
		if a.mean {
			scale(w, 1/float32(a.heads))
			kernel.GatherHeads(row, a.dz, a.part, e.TIndices[from:to], w, a.heads, from > lo)
		} else {
			kernel.GatherParts(row, a.dz, a.part, a.width, e.TIndices[from:to], w, a.heads, from > lo)
		}
	}
}
