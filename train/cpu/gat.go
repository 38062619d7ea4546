package cpu

import (
	"diskgnn/graph"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// edgeRun edges of a destination are weighed together if their weights are not kept.
const edgeRun = 64

// attention is the common part of both orders of a graph attention network's convolution: every
// destination is computed by itself from its edges in their order.
type attention struct {
	*layer
	heads, part  int // and the width of a head's result
	mean         bool
	weights, dW  []float32 // a block of part columns for every head
	src, dst     []float32 // the attention vectors
	dSrc, dDst   []float32
	coefficients []float32 // by edge and head: the softmax; kept in training
	scores       []float32 // by edge and head, in training: see the orders
	small        []float32 // of the workers, one after the other
	residual     ownLinear

	// The order's sums over neighbours, with this number of columns for every head.
	of      headSums
	columns int

	// Inputs of the batch under way.
	x, dz []float32
	block *graph.Block
	edges *prepare.Looped
}

// headSums is the part of an order that differs from the other, for the edges from some sources.
type headSums interface {
	// sourceScores stores the sources' parts of their edges' scores, ownScores the
	// destination's part.
	sourceScores(scores []float32, sources []uint32)
	ownScores(own []float32, destination []uint32)
	// gather stores the sums over the sources, weighted by w, or adds them.
	gather(row []float32, sources []uint32, w []float32, add bool)
}

func (a *attention) make(k *layer, of headSums) {
	n, m := k.net, k.net.model
	*a = attention{layer: k, heads: m.Heads, part: m.HeadWidth(k.index), mean: k.index == m.Layers()-1, of: of}
	a.weights, a.dW = k.param(model.Neighbour)
	a.src, a.dSrc = k.param(model.AttentionSrc)
	a.dst, a.dDst = k.param(model.AttentionDst)
	a.residual.make(k)
	a.small = n.floats(n.threads * a.smallLen())
	if n.training {
		edges := n.sizes.Edges[k.index-n.first] + k.rows
		a.coefficients, a.scores = n.floats(edges*a.heads), n.floats(edges*a.heads)
	}
}

func (a *attention) begin(x []float32) {
	a.x = x
	b, p := a.layer.block()
	a.block, a.edges = b, &p.Looped
}

// neighbours returns the sources of destination i's edges, and the place of the edges.
func (a *attention) neighbours(i int) (sources []uint32, lo, hi int) {
	lo, hi = int(a.edges.Indptr[i]), int(a.edges.Indptr[i+1])
	return a.edges.Indices[lo:hi], lo * a.heads, hi * a.heads
}

// destination returns, of a destination's sources, itself.
func destination(sources []uint32) []uint32 { return sources[len(sources)-1:] }

// vectorsOf stores W_h·asrc_h and W_h·adst_h of every head, as rows of to with stride next and
// elements step apart.
func (a *attention) vectorsOf(to []float32, next, step int) {
	sgemm := a.net.blas.Sgemm
	for h := range a.heads {
		w := a.weights[h*a.part:]
		sgemm(false, false, a.in, 1, a.part, 1, w, a.heads*a.part, a.src[h*a.part:], 1, 0, to[h*next:], step)
		sgemm(false, false, a.in, 1, a.part, 1, w, a.heads*a.part, a.dst[h*a.part:], 1, 0, to[(a.heads+h)*next:], step)
	}
}

// vectorGradients propagates the gradients of the vectors W_h·a_h, in the layout of vectorsOf, to
// their factors.
func (a *attention) vectorGradients(d []float32, next, step int) {
	sgemm, columns := a.net.blas.Sgemm, a.heads*a.part
	one := func(d, v, dv []float32, h int) {
		w, dW := a.weights[h*a.part:], a.dW[h*a.part:]
		sgemm(true, false, 1, a.part, a.in, 1, d, step, w, columns, 0, dv[h*a.part:], a.part)
		sgemm(false, false, a.in, a.part, 1, 1, d, step, v[h*a.part:], a.part, 1, dW, columns)
	}
	for h := range a.heads {
		one(d[h*next:], a.src, a.dSrc, h)
		one(d[(a.heads+h)*next:], a.dst, a.dDst, h)
	}
}

// needLong calls the network's needLong for the heads' sums, and for the sums of their weights.
func (a *attention) needLong() {
	n := a.net
	n.needLong(n.sizes.Edges[a.index-n.first]+1, a.heads*(a.columns+1))
}

// smallLen is the number of floats in one worker's small memory: 3 + edgeRun for every head, rounded
// up to whole cache lines.
func (a *attention) smallLen() int { return divUp((3+edgeRun)*a.heads, 16) * 16 }

// perHead returns the worker's small memory.
func (a *attention) perHead(worker int) (own, top, sum, run []float32) {
	h, s := a.heads, a.small[worker*a.smallLen():][:a.smallLen()]
	return s[:h:h], s[h : 2*h : 2*h], s[2*h : 3*h : 3*h], s[3*h:]
}
