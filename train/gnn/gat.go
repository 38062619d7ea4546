package gnn

import (
	"diskgnn/graph"
	"diskgnn/internal/kernel"
	"diskgnn/train/gnn/model"
)

const (
	// attendRows destinations are aggregated and multiplied together: fewer than a
	// chunk, since an aggregate has a row for every head.
	attendRows = 128

	// edgeRun edges of a destination are weighed together where nothing is kept of
	// them.
	edgeRun = 64
)

// attention is the convolution of a graph attention network. Where it multiplies
// first, PyTorch Geometric's way, its sums over neighbours come first here:
//
//	Σ weight · (x·W_h) = (Σ weight · x)·W_h
//	asrc_h·(x·W_h)     = x·(W_h·asrc_h)
//
// for every head h: products per destination, of which sampled blocks have a
// fraction of the sources, and nothing per source. The sums have a row for every
// head; they live in scratch memory for attendRows destinations at a time, and the
// backward pass, which needs them again, makes them again.
//
// Every destination is computed by itself from its edges in their order, so that the
// forward pass does not depend on how sources are numbered.
type attention struct {
	*layer
	heads, part     int // and the width of a head's result
	mean            bool
	weights, dW     []float32 // a block of part columns for every head
	src, dst        []float32 // the attention vectors
	dSrc, dDst      []float32
	vectors         []float32 // W_h·asrc_h of every head, then W_h·adst_h: rows as wide as the input
	coefficients    []float32 // by edge and head: the softmax
	scores          []float32 // by edge and head: before the leaky ReLU; after the backward pass their gradients
	dSums           []float32 // by destination and head: gradient of the sums over neighbours, where the input has one
	small           []float32 // of the workers, one after the other
	residual        ownLinear
	group, groupLen int // rows summed together into a gradient, and elements of one group's sums

	// The batch being run.
	x, dz []float32
	block *graph.Block
	edges *looped
}

func newAttention(k *layer) *attention {
	n, m := k.net, k.net.model
	a := &attention{layer: k, heads: m.Heads, part: m.HeadWidth(k.index), mean: k.index == m.Layers()-1}
	a.weights, a.dW = k.param(model.Neighbour)
	a.src, a.dSrc = k.param(model.AttentionSrc)
	a.dst, a.dDst = k.param(model.AttentionDst)
	a.residual.make(k)
	a.vectors = n.floats(2 * a.heads * k.in)
	a.small = n.floats(n.threads * a.smallLen())
	sums := attendRows * a.heads * k.in
	if !n.training {
		n.needScratch(divUp(sums, chunkRows))
		return a
	}
	edges := n.sizes.Edges[k.index-n.first] + k.rows
	a.coefficients, a.scores = n.floats(edges*a.heads), n.floats(edges*a.heads)
	if k.below != nil {
		a.dSums = n.floats(k.rows * a.heads * k.in)
	} else {
		sums *= 2
	}
	n.needScratch(max(divUp(sums, chunkRows), 2*a.heads))
	a.groupLen = a.heads*k.in*(a.part+2) + a.residual.size
	a.group = attentionGroup(k.rows, a.groupLen)
	n.partialFloats = max(n.partialFloats, divUp(k.rows, a.group)*a.groupLen)
	return a
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
	a.block, a.edges = b, &p.looped
}

// forward: see conv.
func (a *attention) forward(x []float32) error {
	a.begin(x)
	sgemm := a.net.blas.Sgemm
	for h := range a.heads {
		w := a.weights[h*a.part:]
		sgemm(false, false, a.in, 1, a.part, 1, w, a.heads*a.part, a.src[h*a.part:], 1, 0, a.vectors[h*a.in:], 1)
		sgemm(false, false, a.in, 1, a.part, 1, w, a.heads*a.part, a.dst[h*a.part:], 1, 0, a.vectors[(a.heads+h)*a.in:], 1)
	}
	return a.net.each(a.count(), chunkRows, (*attend)(a))
}

// attend is the forward pass over chunks of destinations.
type attend attention

func (o *attend) chunk(worker, lo, hi int) {
	a := (*attention)(o)
	width := a.heads * a.in
	sums := a.net.workerScratch(worker, attendRows, width)
	for from := lo; from < hi; from += attendRows {
		to := min(from+attendRows, hi)
		for i := from; i < to; i++ {
			row := sums[(i-from)*width:][:width]
			if a.coefficients == nil {
				a.weighOnline(row, worker, i)
			} else {
				a.weigh(worker, i)
				a.sum(row, i)
			}
		}
		a.multiply(sums, from, to)
		if a.residual.size > 0 {
			a.residual.forward(a.block, a.x, sums, from, to)
		}
	}
	a.tail.finish(lo, hi)
}

// neighbours returns the sources of destination i's edges, and the place of the edges.
func (a *attention) neighbours(i int) (sources []uint32, lo, hi int) {
	lo, hi = int(a.edges.indptr[i]), int(a.edges.indptr[i+1])
	return a.edges.indices[lo:hi], lo * a.heads, hi * a.heads
}

// sum stores the weighted sums over destination i's neighbours.
func (a *attention) sum(row []float32, i int) {
	sources, lo, hi := a.neighbours(i)
	kernel.GatherHeads(row, a.x, a.in, sources, a.coefficients[lo:hi], a.heads, false)
}

// head returns where head h's columns begin in the layer's sums, and the factor of
// its results there.
func (a *attention) head(h int) (column int, factor float32) {
	if a.mean {
		return 0, 1 / float32(a.heads)
	}
	return h * a.part, 1
}

// multiply makes the layer's sums of those over neighbours.
func (a *attention) multiply(sums []float32, from, to int) {
	for h := range a.heads {
		column, factor := a.head(h)
		beta := float32(0)
		if a.mean && h > 0 {
			beta = 1
		}
		a.net.blas.Sgemm(false, false, to-from, a.part, a.in, factor, sums[h*a.in:], a.heads*a.in,
			a.weights[h*a.part:], a.heads*a.part, beta, a.data[from*a.width+column:], a.width)
	}
}
