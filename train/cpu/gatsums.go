package cpu

import "diskgnn/internal/kernel"

// attentionSums aggregates first. Its sums over neighbours are those of the input:
//
//	Σ weight · (x·W_h) = (Σ weight · x)·W_h
//	asrc_h·(x·W_h)     = x·(W_h·asrc_h)
//
// for every head h: products per destination, of which sampled blocks have a
// fraction of the sources, and nothing per source. The sums have a row for every
// head; they live in scratch memory for attendRows destinations at a time, and the
// backward pass, which needs them again, makes them again.
//
// The scores that are kept are those before the leaky ReLU; after the backward pass
// they are their gradients.
//
// The forward pass does not depend on how sources are numbered.
type attentionSums struct {
	attention
	vectors         []float32 // W_h·asrc_h of every head, then W_h·adst_h: rows as wide as the input
	dSums           []float32 // by destination and head: gradient of the sums over neighbours, where the input has one
	group, groupLen int       // rows summed together into a gradient, and elements of one group's sums
}

func newAttentionSums(k *layer) *attentionSums {
	n := k.net
	a := new(attentionSums)
	a.make(k, a)
	a.columns = k.in
	a.needLong()
	a.vectors = n.floats(2 * a.heads * k.in)
	sums := attendRows * a.heads * k.in
	if !n.training {
		n.needScratch(divUp(sums, chunkRows))
		return a
	}
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

func (a *attentionSums) sourceScores(scores []float32, sources []uint32) {
	kernel.DotHeads(scores, a.x, a.in, sources, a.vectors, a.heads)
}

func (a *attentionSums) ownScores(own []float32, destination []uint32) {
	kernel.DotHeads(own, a.x, a.in, destination, a.vectors[a.heads*a.in:], a.heads)
}

func (a *attentionSums) gather(row []float32, sources []uint32, w []float32, add bool) {
	kernel.GatherHeads(row, a.x, a.in, sources, w, a.heads, add)
}

// forward: see conv.
func (a *attentionSums) forward(x []float32) error {
	a.begin(x)
	a.vectorsOf(a.vectors, a.in, 1)
	return a.net.each(a.count(), chunkRows, a)
}

// chunk is the forward pass over chunks of destinations.
func (a *attentionSums) chunk(worker, lo, hi int) {
	width := a.heads * a.in
	sums := a.net.workerScratch(worker, attendRows, width)
	for from := lo; from < hi; from += attendRows {
		to := min(from+attendRows, hi)
		for i := from; i < to; i++ {
			a.attend(sums[(i-from)*width:][:width], worker, i)
		}
		a.multiply(sums, from, to)
		if a.residual.size > 0 {
			a.residual.forward(a.block, a.x, sums, from, to)
		}
	}
	a.tail.finish(lo, hi)
}

// head returns where head h's columns begin in the layer's sums, and the factor of
// its results there.
func (a *attentionSums) head(h int) (column int, factor float32) {
	if a.mean {
		return 0, 1 / float32(a.heads)
	}
	return h * a.part, 1
}

// multiply makes the layer's sums of those over neighbours.
func (a *attentionSums) multiply(sums []float32, from, to int) {
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
