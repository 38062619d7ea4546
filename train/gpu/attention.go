package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/dtype"
	"diskgnn/train/model"
)

// attention is the convolution of a graph attention network. It aggregates first:
//
//	Σ weight · (x·W_h) = (Σ weight · x)·W_h
//	asrc_h·(x·W_h)     = x·(W_h·asrc_h)
//
// for every head h. The vectors W_h·a_h are one product, of W with a matrix that holds
// a_h in head h's part of row h, and zeros.
type attention struct {
	*layer
	heads, part int // and the width of a head's result
	mean        bool

	weights, dWeights cuda.Buffer // a block of part columns for every head
	stacked, dStacked cuda.Buffer // the mean's: these blocks above one another
	stack, unstack    cuda.Buffer // uint32: where the rows of one lie in the other
	vectors, dVectors cuda.Buffer // the attention vectors, the sources' first
	third, dThird     cuda.Buffer // the residual's map

	spread   cuda.Buffer // 2·heads rows as wide as W: the attention vectors, spread
	dSpread  cuda.Buffer
	diagonal cuda.Buffer // uint32: where they lie in it, in units of part
	scorers  cuda.Buffer // in rows of 2·heads: W_h·asrc_h, then W_h·adst_h
	dScorers cuda.Buffer

	scores, dScores cuda.Buffer // by source, as kernels.EdgeSoftmax has them
	dOwns           cuda.Buffer // by destination: gradients of its parts
	softmax         cuda.Buffer // by edge
	dEdges          cuda.Buffer
	sums, dSums     cuda.Buffer // by destination, a row for every head

	own  cuda.Buffer // the residual's: the destinations' rows of x, where they don't come first
	dOwn cuda.Buffer // gradient of these rows
}

func newAttention(k *layer) conv {
	n, m := k.net, k.net.model
	a := &attention{layer: k, heads: m.Heads, part: m.HeadWidth(k.index), mean: k.index == m.Layers()-1}
	a.weights, a.dWeights = k.param(model.Neighbour, model.Neighbour)
	a.vectors, a.dVectors = k.param(model.AttentionSrc, model.AttentionDst)
	a.third, a.dThird = k.param(model.ResidualWeight, model.ResidualWeight)
	src, edges := n.asked.Src[k.index], n.asked.Edges[k.index]+k.rows()
	a.spread, a.scorers = n.floats(2*a.heads*a.columns()), n.floats(2*a.heads*k.in)
	a.scores = n.floats(src * 2 * a.heads)
	a.softmax, a.sums = n.floats(edges*a.heads), n.floats(k.rows()*a.heads*k.in)
	if m.Residual && k.index == 0 {
		a.own = n.floats(k.rows() * k.in)
	}
	if a.mean {
		a.stacked, a.stack = n.floats(k.in*a.columns()), n.floats(k.in*a.heads)
	}
	if !n.training {
		return a
	}
	if a.mean {
		a.dStacked, a.unstack = n.floats(k.in*a.columns()), n.floats(k.in*a.heads)
	}
	a.dSpread, a.dScorers, a.diagonal = n.floats(2*a.heads*a.columns()), n.floats(2*a.heads*k.in), n.floats(2*a.heads)
	a.dScores, a.dOwns = n.floats(src*2*a.heads), n.floats(k.rows()*a.heads)
	a.dEdges, a.dSums = n.floats(edges*a.heads), n.floats(k.rows()*a.heads*k.in)
	if m.Residual && k.below != nil {
		a.dOwn = n.floats(k.rows() * k.in)
	}
	return a
}

// columns returns the width of W.
func (a *attention) columns() int { return a.heads * a.part }

func (a *attention) start() {
	h := a.heads
	a.net.try(a.net.stream.Fill(a.spread, 0))
	a.net.number(a.diagonal, func(r int) int { return r*h + r%h })
	a.net.number(a.stack, func(r int) int { return r%a.in*h + r/a.in })
	a.net.number(a.unstack, func(r int) int { return r%h*a.in + r/h })
}

// permute copies the rows of a head's weights between the layouts of W and of the stacked blocks.
func (a *attention) permute(to, from, index cuda.Buffer) {
	a.net.try(kernels.Gather{Out: to, Stride: a.part, Table: from, Type: dtype.Float32, Width: a.part, Index: index,
		Rows: kernels.Rows(a.in * a.heads)}.Launch(a.net.stream))
}

func (a *attention) forward(x cuda.Buffer) {
	n, b, h := a.net, a.block(), a.heads
	a.score(x)
	weigh := a.edgeSoftmax()
	n.try(weigh.Launch(n.stream))
	n.try(kernels.AggregateHeads{Out: a.sums, X: x, Width: a.in, Heads: h, Weights: a.softmax,
		Indptr: b.indptr, Indices: b.indices, Edges: b.edges, Rows: b.dst}.Launch(n.stream))
	a.multiply()
	if a.third != (cuda.Buffer{}) {
		n.product(false, false, a.rows(), a.width, a.in, 1, a.ownRows(x), a.in, a.third, a.width, 1, a.data, a.width)
	}
}

// score computes the scoring vectors, and the scores.
func (a *attention) score(x cuda.Buffer) {
	n, h, columns := a.net, a.heads, a.columns()
	for i := range 2 { // of sources, of destinations
		n.try(kernels.Gather{Out: after(a.spread, i*h*columns), Stride: columns + a.part, Table: after(a.vectors, i*columns),
			Type: dtype.Float32, Width: a.part, Rows: kernels.Rows(h)}.Launch(n.stream))
	}
	n.product(false, true, a.in, 2*h, columns, 1, a.weights, columns, a.spread, columns, 0, a.scorers, 2*h)
	n.product(false, false, n.asked.Src[a.index], 2*h, a.in, 1, x, a.in, a.scorers, 2*h, 0, a.scores, 2*h)
}

// ownRows returns the destinations' rows of x.
func (a *attention) ownRows(x cuda.Buffer) cuda.Buffer {
	if a.own == (cuda.Buffer{}) {
		return x
	}
	a.gather(a.own, a.in, x)
	return a.own
}

func (a *attention) edgeSoftmax() kernels.EdgeSoftmax {
	b := a.block()
	return kernels.EdgeSoftmax{Weights: a.softmax, Scores: a.scores, Place: b.positions, Heads: a.heads, Slope: model.LeakySlope,
		Indptr: b.indptr, Indices: b.indices, Edges: b.edges, Rows: b.dst}
}

// factor is the weight of a head in the mean.
func (a *attention) factor() float32 { return 1 / float32(a.heads) }

// multiply makes the layer's sums from the sums over neighbours. The mean of the heads is one
// product, with W's blocks above one another.
func (a *attention) multiply() {
	n, h, columns := a.net, a.heads, a.columns()
	if a.mean {
		a.permute(a.stacked, a.weights, a.stack)
		n.product(false, false, a.rows(), a.part, h*a.in, a.factor(), a.sums, h*a.in, a.stacked, a.part, 0, a.data, a.width)
		return
	}
	n.try(n.blas.SgemmBatch(cuda.Batch{Count: h, NextX: a.in, NextY: a.part, NextZ: a.part}, false, false, a.rows(), a.part, a.in,
		1, a.sums, h*a.in, a.weights, columns, 0, a.data, a.width))
}

// multiplyBack computes the gradients of W and of the sums over neighbours.
func (a *attention) multiplyBack(dz cuda.Buffer) {
	n, h, columns := a.net, a.heads, a.columns()
	if a.mean {
		n.product(true, false, h*a.in, a.part, a.rows(), a.factor(), a.sums, h*a.in, dz, a.width, 0, a.dStacked, a.part)
		a.permute(a.dWeights, a.dStacked, a.unstack)
		n.product(false, true, a.rows(), h*a.in, a.part, a.factor(), dz, a.width, a.stacked, a.part, 0, a.dSums, h*a.in)
		return
	}
	a.weightGradient(dz)
	n.try(n.blas.SgemmBatch(cuda.Batch{Count: h, NextX: a.part, NextY: a.part, NextZ: a.in}, false, true, a.rows(), a.in, a.part,
		1, dz, a.width, a.weights, columns, 0, a.dSums, h*a.in))
}

// weightGradient computes the gradient of W if heads have columns of their own: head by head, since
// cuBLAS does not split the rows of a batch's products.
func (a *attention) weightGradient(dz cuda.Buffer) {
	n, h, columns := a.net, a.heads, a.columns()
	for i := range h {
		n.product(true, false, a.in, a.part, a.rows(), 1, after(a.sums, i*a.in), h*a.in, after(dz, i*a.part), a.width, 0,
			after(a.dWeights, i*a.part), columns)
	}
}

func (a *attention) backward(x, dz cuda.Buffer) (through bool) {
	n, b, h := a.net, a.block(), a.heads
	n.pad(a.sums, h*a.in, b.dst)
	a.multiplyBack(dz)
	n.try(kernels.EdgeDots{Out: a.dEdges, X: x, Y: a.dSums, Width: a.in, Heads: h,
		Indptr: b.indptr, Indices: b.indices, Edges: b.edges, Rows: b.dst}.Launch(n.stream))
	n.try(kernels.EdgeSoftmaxBackward{EdgeSoftmax: a.edgeSoftmax(), Grads: a.dEdges, OwnGrads: a.dOwns}.Launch(n.stream))
	n.try(kernels.SumEdges{Out: a.dScores, Values: a.dEdges, Own: a.dOwns, Heads: h, Indptr: b.tindptr, Edges: b.tedges,
		Place: b.place, Places: b.dst, Rows: b.src}.Launch(n.stream))
	n.pad(x, a.in, b.src)
	a.scorersGradient(x)
	if a.third != (cuda.Buffer{}) {
		own := x
		if a.own != (cuda.Buffer{}) {
			own = a.own
			n.pad(own, a.in, b.dst)
		}
		n.product(true, false, a.in, a.width, a.rows(), 1, own, a.in, dz, a.width, 0, a.dThird, a.width)
	}
	if a.dx != (cuda.Buffer{}) {
		a.inputGradient(dz)
	}
	return false
}

// scorersGradient propagates the gradients of the scores to W and the attention vectors.
func (a *attention) scorersGradient(x cuda.Buffer) {
	n, h, columns := a.net, a.heads, a.columns()
	n.product(true, false, a.in, 2*h, n.asked.Src[a.index], 1, x, a.in, a.dScores, 2*h, 0, a.dScorers, 2*h)
	n.product(false, false, a.in, columns, 2*h, 1, a.dScorers, 2*h, a.spread, columns, 1, a.dWeights, columns)
	n.product(true, false, 2*h, columns, a.in, 1, a.dScorers, 2*h, a.weights, columns, 0, a.dSpread, columns)
	n.try(kernels.Gather{Out: a.dVectors, Stride: a.part, Table: a.dSpread, Type: dtype.Float32, Width: a.part,
		Index: a.diagonal, Rows: kernels.Rows(2 * h)}.Launch(n.stream))
}

func (a *attention) inputGradient(dz cuda.Buffer) {
	n, b, h := a.net, a.block(), a.heads
	n.try(kernels.CombineHeads{Out: a.dx, Y: a.dSums, Width: a.in, Heads: h, Weights: a.softmax,
		Indptr: b.tindptr, Indices: b.tindices, Edges: b.tedges, Entries: b.edges, Rows: b.src}.Launch(n.stream))
	n.product(false, true, n.asked.Src[a.index], a.in, 2*h, 1, a.dScores, 2*h, a.scorers, 2*h, 1, a.dx, a.in)
	if a.third != (cuda.Buffer{}) {
		n.product(false, true, a.rows(), a.in, a.width, 1, dz, a.width, a.third, a.width, 0, a.dOwn, a.in)
		a.addOwn(a.dOwn, a.in)
	}
}
