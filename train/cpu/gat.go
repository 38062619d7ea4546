package cpu

import (
	"diskgnn/graph"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

const (
	// attendRows destinations are one worker's at a time where each takes long: fewer
	// than a chunk.
	attendRows = 128

	// edgeRun edges of a destination are weighed together where nothing is kept of
	// them.
	edgeRun = 64
)

// attention is what both orders of a graph attention network's convolution have in
// common: every destination is computed by itself from its edges in their order.
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

	// What the order sums over neighbours: for every head so many columns.
	of      headSums
	columns int

	// The batch being run.
	x, dz []float32
	block *graph.Block
	edges *prepare.Looped
}

// headSums is what the orders differ in, for the edges from some sources.
type headSums interface {
	// sourceScores stores the sources' parts of their edges' scores, ownScores the
	// destination's part.
	sourceScores(scores []float32, sources []uint32)
	ownScores(own []float32, destination []uint32)
	// gather stores the sums over the sources, weighted by w, or adds them.
	gather(row []float32, sources []uint32, w []float32, add bool)
}

func newAttention(k *layer) conv {
	if k.net.orders[k.index-k.net.first] == model.Multiply {
		return newAttentionProducts(k)
	}
	return newAttentionSums(k)
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

// attentionGroup returns the rows of one group in a sum over at most rows rows that
// gives so many elements. A group is one worker's at a time.
func attentionGroup(rows, elements int) int {
	groups := max(minGroups, min(maxGroups, maxGroupBytes/4/elements))
	return divUp(divUp(rows, groups), attendRows) * attendRows
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

// attend stores the weighted sums over destination i's neighbours.
func (a *attention) attend(row []float32, worker, i int) {
	edges := int(a.edges.Indptr[i+1] - a.edges.Indptr[i])
	switch {
	case a.coefficients != nil:
		a.weigh(worker, i)
		a.sum(row, worker, i)
	case edges > longSum:
		a.weighLong(row, worker, i)
	default:
		a.weighOnline(row, worker, i)
	}
}

// sum does the same with the coefficients that were kept.
func (a *attention) sum(row []float32, worker, i int) {
	sources, lo, hi := a.neighbours(i)
	if w := a.coefficients[lo:hi]; len(sources) > longSum {
		a.sumLong(row, worker, sources, w)
	} else {
		a.of.gather(row, sources, w, false)
	}
}

// vectorsOf stores W_h·asrc_h and W_h·adst_h of every head, as rows of to that begin
// next apart and whose elements are step apart.
func (a *attention) vectorsOf(to []float32, next, step int) {
	sgemm := a.net.blas.Sgemm
	for h := range a.heads {
		w := a.weights[h*a.part:]
		sgemm(false, false, a.in, 1, a.part, 1, w, a.heads*a.part, a.src[h*a.part:], 1, 0, to[h*next:], step)
		sgemm(false, false, a.in, 1, a.part, 1, w, a.heads*a.part, a.dst[h*a.part:], 1, 0, to[(a.heads+h)*next:], step)
	}
}

// vectorGradients takes the gradients of the vectors W_h·a_h, which lie as vectorsOf
// stores them, to their factors.
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
