package cpu

import (
	"diskgnn/internal/kernel"
)

// attentionSums aggregates first. Its sums over neighbours are sums of the input:
//
//	Σ weight · (x·W_h) = (Σ weight · x)·W_h
//	asrc_h·(x·W_h)     = x·(W_h·asrc_h)
//
// for every head h. There are products per destination and none per source: sampled blocks have far
// fewer destinations than sources. The sums have a row for every head; they live in scratch memory
// for attendRows destinations at a time, and the backward pass computes them again.
//
// The kept scores are those before the leaky ReLU; the backward pass replaces them by their
// gradients.
//
// The forward pass does not depend on the numbering of sources.
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
	a.setColumns(k.in, n.sizes.Edges[k.index-n.first]+1)
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

func (a *attentionSums) sourceScores(scores []float32, sources []uint32, _ int) {
	kernel.DotHeads(scores, a.x, a.in, sources, a.vectors, a.heads)
}

func (a *attentionSums) ownScores(own []float32, destination []uint32, _ int) {
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
			a.attend(sums[(i-from)*width:][:width], worker, a.fan(i))
		}
		a.multiply(sums, to-from, a.data[from*a.width:], a.width, false)
		if a.residual.size > 0 {
			a.residual.forward(a.block, a.x, sums, from, to)
		}
	}
	a.tail.finish(lo, hi)
}

// backward: see conv. Each worker takes groups of destinations; sums over destinations are made
// group by group.
func (a *attentionSums) backward(x, dz []float32) error {
	a.begin(x)
	a.dz = dz
	groups := divUp(a.count(), a.group)
	if groups == 0 {
		clear(a.net.partial[:a.groupLen])
	}
	if err := a.net.each(groups, 1, (*attendBackward)(a)); err != nil {
		return err
	}
	if err := a.net.each(a.groupLen, updateGrain, (*addGroups)(a)); err != nil {
		return err
	}
	a.parameterGradients()
	if a.below == nil {
		return nil
	}
	return a.net.each(a.block.NumSrc, chunkRows, (*attendSources)(a))
}

// attendBackward is the backward pass over the destinations of a group. The group's sums are the
// gradient of the vectors, and the part of the weights' gradient that comes through the sums over
// neighbours.
type attendBackward attentionSums

func (o *attendBackward) chunk(worker, g, _ int) {
	a := (*attentionSums)(o)
	width := a.heads * a.in
	var sums, dSums []float32
	if a.dSums != nil {
		sums = a.net.workerScratch(worker, attendRows, width)
	} else {
		both := a.net.workerScratch(worker, 2*attendRows, width)
		sums, dSums = both[:len(both)/2], both[len(both)/2:]
	}
	partial := a.net.partial[g*a.groupLen:][:a.groupLen]
	clear(partial)
	dW, dVectors := partial[:len(a.weights)], partial[len(a.weights):]
	dResidual := dVectors[len(a.vectors):]
	hi := min((g+1)*a.group, a.count())
	for from := g * a.group; from < hi; from += attendRows {
		to := min(from+attendRows, hi)
		if a.dSums != nil {
			dSums = a.dSums[from*width:]
		}
		for i := from; i < to; i++ {
			a.sum(sums[(i-from)*width:][:width], worker, a.fan(i))
		}
		a.multiplyBackward(dW, sums, dSums, width, to-from, a.dz[from*a.width:], a.width)
		for i := from; i < to; i++ {
			at := (i - from) * width
			a.weighBackward(dVectors, sums[at:at+width], dSums[at:at+width], a.x, worker, a.fan(i))
		}
		if a.residual.size > 0 {
			a.residual.backward(dResidual, a.block, a.x, a.dz, sums, from, to)
		}
	}
}

// addGroups adds the groups' sums to the first one's, in order.
type addGroups attentionSums

func (o *addGroups) chunk(_, lo, hi int) {
	a := (*attentionSums)(o)
	partial := a.net.partial
	for g := 1; g < divUp(a.count(), a.group); g++ {
		kernel.Add(partial[lo:hi], partial[g*a.groupLen+lo:g*a.groupLen+hi])
	}
}

// parameterGradients propagates the groups' sums to the parameters.
func (a *attentionSums) parameterGradients() {
	partial := a.net.partial[:a.groupLen]
	copy(a.dW, partial)
	dVectors := partial[len(a.weights):]
	copy(a.residual.dWeights, dVectors[len(a.vectors):])
	a.vectorGradients(dVectors, a.in, 1)
}

// attendSources computes the gradient of the input, over chunks of sources:
//
//	Σ coefficient · gradient of the sums        over the edges and heads
//	Σ gradient of the score · vector            as a source, and as a destination
type attendSources attentionSums

func (o *attendSources) chunk(worker, lo, hi int) {
	a := (*attentionSums)(o)
	e, width := a.edges, 2*a.heads
	scores := a.net.workerScratch(worker, hi-lo, width)
	clear(scores)
	for s := lo; s < hi; s++ {
		from, to := e.TIndptr[s], e.TIndptr[s+1]
		kernel.CombineHeads(a.dx[s*a.in:(s+1)*a.in], a.dSums, e.TIndices[from:to], e.TEdges[from:to], a.coefficients, a.heads)
		a.addScores(scores[(s-lo)*width:][:width], s)
	}
	a.net.blas.Sgemm(false, false, hi-lo, a.in, width, 1, scores, width, a.vectors, a.in, 1, a.dx[lo*a.in:], a.in)
	if a.residual.size > 0 {
		a.residual.scatter(lo, hi)
	}
	a.below.tail.backward(a.dx, lo, hi)
}
