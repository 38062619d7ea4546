package cpu

import (
	"diskgnn/graph"
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// edgeRun edges of a destination are weighed together if their weights are not kept.
const edgeRun = 64

// attention is the common part of both orders of a graph attention network's convolution: every
// destination is computed by itself from its edges in their order.
type attention struct {
	*layer
	weigher
	headMaps
	residual ownLinear

	// Inputs of the batch under way.
	x, dz []float32
	block *graph.Block
	edges *prepare.Looped
}

// weigher weighs the edges of fans: by a softmax over each, for every head.
type weigher struct {
	net          *network
	heads        int
	coefficients []float32 // by edge and head: the softmax; kept in training
	scores       []float32 // by edge and head, in training: see the orders
	small        []float32 // of the workers, one after the other

	// The sums over neighbours, with this number of columns for every head.
	of      headSums
	columns int
}

// fan has edges that are weighed together: all of a destination, or the edges of one of its relations.
type fan struct {
	sources  []uint32
	lo, hi   int      // their places in lists by edge and head
	self     []uint32 // the position of the destination
	relation int
}

// headSums is the part of an order that differs from the other, for the edges from some sources.
type headSums interface {
	// sourceScores stores the sources' parts of their edges' scores, ownScores the
	// destination's part.
	sourceScores(scores []float32, sources []uint32, relation int)
	ownScores(own []float32, destination []uint32, relation int)
	// gather stores the sums over the sources, weighted by w, or adds them.
	gather(row []float32, sources []uint32, w []float32, add bool)
}

func (a *attention) make(k *layer, of headSums) {
	n, m := k.net, k.net.model
	*a = attention{layer: k, headMaps: newHeadMaps(k)}
	a.weights, a.dW = k.param(model.Neighbour)
	a.src, a.dSrc = k.param(model.AttentionSrc)
	a.dst, a.dDst = k.param(model.AttentionDst)
	a.residual.make(k)
	a.weigher.make(n, m.Heads, n.sizes.Edges[k.index-n.first]+k.rows, of)
}

// make takes the memory for blocks of at most edges edges.
func (a *weigher) make(n *network, heads, edges int, of headSums) {
	a.net, a.heads, a.of = n, heads, of
	a.small = n.floats(n.threads * a.smallLen())
	if n.training {
		a.coefficients, a.scores = n.floats(edges*a.heads), n.floats(edges*a.heads)
	}
}

func (a *attention) begin(x []float32) {
	a.x = x
	b, p := a.layer.block()
	a.block, a.edges = b, &p.Looped
}

// fan returns the edges of destination i, of which the last is from itself.
func (a *attention) fan(i int) fan {
	lo, hi := int(a.edges.Indptr[i]), int(a.edges.Indptr[i+1])
	return fan{sources: a.edges.Indices[lo:hi], lo: lo * a.heads, hi: hi * a.heads, self: a.edges.Indices[hi-1 : hi]}
}

// headMaps are the parameters of a layer's heads.
type headMaps struct {
	on          *layer
	number      int       // of heads
	part        int       // the width of a head's result
	mean        bool      // the results of the heads are averaged, not side by side
	weights, dW []float32 // a block of part columns for every head
	src, dst    []float32 // the attention vectors
	dSrc, dDst  []float32
}

func newHeadMaps(k *layer) headMaps {
	m := k.net.model
	return headMaps{on: k, number: m.Heads, part: m.HeadWidth(k.index), mean: k.index == m.Layers()-1}
}

// vectorsOf stores W_h·asrc_h and W_h·adst_h of every head, as rows of to with stride next and
// elements step apart.
func (a *headMaps) vectorsOf(to []float32, next, step int) {
	sgemm := a.on.net.blas.Sgemm
	for h := range a.number {
		w := a.weights[h*a.part:]
		sgemm(false, false, a.on.in, 1, a.part, 1, w, a.number*a.part, a.src[h*a.part:], 1, 0, to[h*next:], step)
		sgemm(false, false, a.on.in, 1, a.part, 1, w, a.number*a.part, a.dst[h*a.part:], 1, 0, to[(a.number+h)*next:], step)
	}
}

// vectorGradients propagates the gradients of the vectors W_h·a_h, in the layout of vectorsOf, to
// their factors.
func (a *headMaps) vectorGradients(d []float32, next, step int) {
	sgemm, columns := a.on.net.blas.Sgemm, a.number*a.part
	one := func(d, v, dv []float32, h int) {
		w, dW := a.weights[h*a.part:], a.dW[h*a.part:]
		sgemm(true, false, 1, a.part, a.on.in, 1, d, step, w, columns, 0, dv[h*a.part:], a.part)
		sgemm(false, false, a.on.in, a.part, 1, 1, d, step, v[h*a.part:], a.part, 1, dW, columns)
	}
	for h := range a.number {
		one(d[h*next:], a.src, a.dSrc, h)
		one(d[(a.number+h)*next:], a.dst, a.dDst, h)
	}
}

// head returns where head h's columns begin in the layer's sums, and the factor of
// its results there.
func (a *headMaps) head(h int) (column int, factor float32) {
	if a.mean {
		return 0, 1 / float32(a.number)
	}
	return h * a.part, 1
}

// multiply makes rows of the layer's sums, z, from the sums over neighbours, which have a row for every head, or adds to them.
func (a *headMaps) multiply(sums []float32, rows int, z []float32, width int, add bool) {
	for h := range a.number {
		column, factor := a.head(h)
		beta := float32(0)
		if add || a.mean && h > 0 {
			beta = 1
		}
		a.on.net.blas.Sgemm(false, false, rows, a.part, a.on.in, factor, sums[h*a.on.in:], a.number*a.on.in, a.weights[h*a.part:], a.number*a.part, beta, z[column:], width)
	}
}

// multiplyBackward propagates the gradient of the layer's sums back to the weights, in dW, to which it adds, and to the sums
// over neighbours, in dSums, where rows are next apart.
func (a *headMaps) multiplyBackward(dW, sums, dSums []float32, next, rows int, dz []float32, width int) {
	sgemm, columns := a.on.net.blas.Sgemm, a.number*a.part
	for h := range a.number {
		column, factor := a.head(h)
		dz := dz[column:]
		sgemm(true, false, a.on.in, a.part, rows, factor, sums[h*a.on.in:], a.number*a.on.in, dz, width, 1, dW[h*a.part:], columns)
		sgemm(false, true, rows, a.on.in, a.part, factor, dz, width, a.weights[h*a.part:], columns, 0, dSums[h*a.on.in:], next)
	}
}

// weighBackward takes the gradient of a fan's sums of rows of x back through the softmax:
// to the scores of its edges, and to the vectors. With d a coefficient's gradient,
// the score's is
//
//	coefficient · (d − Σ coefficient · d) · slope
//
// and the sum over the edges is the product of the sums with their gradient.
func (a *weigher) weighBackward(dVectors, sums, dSums, x []float32, worker int, f fan) {
	in, sources := a.columns, f.sources
	w, scores := a.coefficients[f.lo:f.hi], a.scores[f.lo:f.hi]
	total, _, own, run := a.perHead(worker)
	for h := range a.heads {
		at := h * in
		kernel.DotHeads(total[h:h+1], sums[at:at+in], in, onlyRow, dSums[at:at+in], 1)
	}
	clear(own)
	for from := 0; from < len(sources); from += edgeRun {
		to := min(from+edgeRun, len(sources))
		d := run[:(to-from)*a.heads]
		kernel.DotHeads(d, x, in, sources[from:to], dSums, a.heads)
		kernel.ScoreGradients(scores[from*a.heads:to*a.heads], w[from*a.heads:to*a.heads], d, total, own, model.LeakySlope)
	}
	kernel.GatherHeads(dVectors[:a.heads*in], x, in, sources, scores, a.heads, true)
	kernel.GatherHeads(dVectors[a.heads*in:], x, in, f.self, own, a.heads, true)
}

var onlyRow = []uint32{0}

// setColumns sets the number of columns of a head's sums, and calls the network's needLong for these, and for the sums of their
// weights, of edges edges at most.
func (a *weigher) setColumns(columns, edges int) {
	a.columns = columns
	a.net.needLong(edges, a.heads*(columns+1))
}

// smallLen is the number of floats in one worker's small memory: 3 + edgeRun for every head, rounded
// up to whole cache lines.
func (a *weigher) smallLen() int { return divUp((3+edgeRun)*a.heads, 16) * 16 }

// perHead returns the worker's small memory.
func (a *weigher) perHead(worker int) (own, top, sum, run []float32) {
	h, s := a.heads, a.small[worker*a.smallLen():][:a.smallLen()]
	return s[:h:h], s[h : 2*h : 2*h], s[2*h : 3*h : 3*h], s[3*h:]
}
