package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/dtype"
	"diskgnn/train/model"
)

// relationAttention is the convolution of a relational graph attention network: for a destination of a type, the sum over
// the relations into its type of attention over the neighbours by the relation, + b. It aggregates first, as attention
// does. Scores have columns for the heads of every relation:
//
//	scores of the sources       x·[W_r,h·asrc_r,h]                  a row for each source
//	scores of the destinations  x of the destination·[W_r,h·adst_r,h]   a row of the block has its relation's heads
type relationAttention struct {
	byType
	heads, part int // and the width of a head's result
	mean        bool

	weights, dWeights cuda.Buffer // a matrix of every relation, with a block of part columns for every head
	stacked, dStacked cuda.Buffer // the mean's: these blocks above one another
	stack, unstack    cuda.Buffer // uint32: where the rows of a relation's block lie in the other form
	vectors, dVectors cuda.Buffer // the attention vectors of every relation, the sources' first

	spread, dSpread   cuda.Buffer    // heads rows as wide as W: the attention vectors of a relation, spread; twice
	diagonal          cuda.Buffer    // uint32: where they lie in it, in units of part
	scorers, dScorers [2]cuda.Buffer // of sources, of destinations: rows of heads columns for every relation
	scores, dScores   cuda.Buffer    // by source
	owns, dOwns       cuda.Buffer    // by row of the block
	softmax, dEdges   cuda.Buffer    // by edge
	gathered, dGather cuda.Buffer    // by row of the block, a row for every head: the sums
	ownRows, dOwnRows cuda.Buffer    // the destinations' rows of x
}

func newRelationAttention(k *layer) conv {
	n, m := k.net, k.net.model
	a := &relationAttention{byType: newByType(k), heads: m.Heads, part: m.HeadWidth(k.index), mean: k.index == m.Layers()-1}
	a.weights, a.dWeights = k.param(model.Neighbour, model.Neighbour)
	a.vectors, a.dVectors = k.param(model.AttentionSrc, model.AttentionDst)
	src, edges, rows := n.asked.Src[k.index], n.asked.Edges[k.index], n.asked.RowsOf(k.index)
	size := k.in * a.columns()
	a.spread = n.floats(2 * a.heads * a.columns())
	for i := range a.scorers {
		a.scorers[i] = n.floats(k.in * a.scored())
	}
	a.scores, a.owns = n.floats(src*a.scored()), n.floats(rows*a.heads)
	a.softmax, a.gathered, a.ownRows = n.floats(edges*a.heads), n.floats(rows*a.heads*k.in), n.floats(k.rows()*k.in)
	if a.mean {
		a.stacked, a.stack = n.floats(len(a.takesPart)*size), n.floats(k.in*a.heads)
	}
	if !n.training {
		return a
	}
	if a.mean {
		a.dStacked, a.unstack = n.floats(len(a.takesPart)*size), n.floats(k.in*a.heads)
	}
	for i := range a.dScorers {
		a.dScorers[i] = n.floats(k.in * a.scored())
	}
	a.dSpread, a.diagonal = n.floats(a.heads*a.columns()), n.floats(a.heads)
	a.dScores, a.dOwns = n.floats(src*a.scored()), n.floats(rows*a.heads)
	a.dEdges, a.dGather = n.floats(edges*a.heads), n.floats(rows*a.heads*k.in)
	if k.below != nil {
		a.dOwnRows = n.floats(k.rows() * k.in)
	}
	return a
}

// columns returns the width of a relation's W.
func (a *relationAttention) columns() int { return a.heads * a.part }

// scored returns the columns of scores: the heads of all relations.
func (a *relationAttention) scored() int { return a.heads * len(a.takesPart) }

func (a *relationAttention) start() {
	h := a.heads
	a.byType.start()
	a.net.try(a.net.stream.Fill(a.spread, 0))
	a.net.number(a.diagonal, func(r int) int { return r*h + r })
	a.net.number(a.stack, func(r int) int { return r%a.in*h + r/a.in })
	a.net.number(a.unstack, func(r int) int { return r%h*a.in + r/h })
}

// weightsOf returns the matrix of relation r in a list of them.
func (a *relationAttention) weightsOf(list cuda.Buffer, r int) cuda.Buffer {
	size := a.in * a.columns()
	return part(list, r*size, (r+1)*size)
}

// weightsFrom returns the matrices of relation r and of all after it.
func (a *relationAttention) weightsFrom(list cuda.Buffer, r int) cuda.Buffer {
	return after(list, r*a.in*a.columns())
}

// spreadOf returns the spread attention vectors for sources (0) or destinations (1), of one relation at a time.
func (a *relationAttention) spreadOf(i int) cuda.Buffer {
	return after(a.spread, i*a.heads*a.columns())
}

// spreads stores the attention vectors of relation r in spreadOf(i).
func (a *relationAttention) spreads(r, i int) {
	at := (i*len(a.takesPart) + r) * a.columns()
	a.net.try(kernels.Gather{Out: a.spreadOf(i), Stride: a.columns() + a.part, Table: after(a.vectors, at), Type: dtype.Float32, Width: a.part,
		Rows: kernels.Rows(a.heads)}.Launch(a.net.stream))
}

// permute copies the rows of a head's weights of relation r between the layouts of W and of the stacked blocks.
func (a *relationAttention) permute(to, from cuda.Buffer, r int, index cuda.Buffer) {
	a.net.try(kernels.Gather{Out: a.weightsOf(to, r), Stride: a.part, Table: a.weightsOf(from, r), Type: dtype.Float32, Width: a.part, Index: index,
		Rows: kernels.Rows(a.in * a.heads)}.Launch(a.net.stream))
}

func (a *relationAttention) forward(x cuda.Buffer) {
	n, b, h := a.net, a.block(), a.heads
	parts, rows := a.parts()
	a.foldBias(parts)
	a.gather(a.ownRows, a.in, x)
	a.score(x, parts)
	if rows > 0 {
		weigh := a.relationSoftmax(rows)
		n.try(weigh.Launch(n.stream))
		n.try(kernels.AggregateHeads{Out: a.gathered, X: x, Width: a.in, Heads: h, Weights: a.softmax,
			Indptr: b.indptr, Indices: b.indices, Edges: b.edges, Rows: kernels.Rows(rows)}.Launch(n.stream))
	}
	for r := range a.takesPart {
		if a.mean {
			a.permute(a.stacked, a.weights, r, a.stack)
		}
	}
	for _, p := range parts {
		if !a.alive[p.kind] {
			n.try(n.stream.Fill(a.rowsOf(a.data, p), 0))
			continue
		}
		a.multiply(p)
		a.addBias(p)
	}
}

// score computes the scoring vectors, and the scores.
func (a *relationAttention) score(x cuda.Buffer, parts []typePart) {
	n, h, columns, scored := a.net, a.heads, a.columns(), a.scored()
	for r := range a.takesPart {
		for i := range a.scorers {
			a.spreads(r, i)
			n.product(false, true, a.in, h, columns, 1, a.weightsOf(a.weights, r), columns, a.spreadOf(i), columns, 0, after(a.scorers[i], r*h), scored)
		}
	}
	n.product(false, false, n.in.sources[a.index], scored, a.in, 1, x, a.in, a.scorers[0], scored, 0, a.scores, scored)
	for _, p := range parts {
		if p.per > 0 {
			n.product(false, false, p.n, p.per*h, a.in, 1, after(a.ownRows, p.lo*a.in), a.in, after(a.scorers[1], p.first*h), scored, 0, after(a.owns, p.row*h), p.per*h)
		}
	}
}

func (a *relationAttention) relationSoftmax(rows int) kernels.RelationSoftmax {
	b := a.block()
	return kernels.RelationSoftmax{Weights: a.softmax, Scores: a.scores, Columns: a.scored(), Base: b.base, Own: a.owns, Heads: a.heads, Slope: model.LeakySlope,
		Indptr: b.indptr, Indices: b.indices, Edges: b.edges, Rows: kernels.Rows(rows)}
}

// factor is the weight of a head in the mean.
func (a *relationAttention) factor() float32 { return 1 / float32(a.heads) }

// sumsOf returns the sums of a type's rows in a matrix like gathered: a destination has per·heads rows of in elements.
func (a *relationAttention) sumsOf(list cuda.Buffer, p typePart) (sums cuda.Buffer, stride int) {
	return after(list, p.row*a.heads*a.in), p.per * a.heads * a.in
}

// multiply makes the layer's sums of a type's destinations. The mean of the heads is one product.
func (a *relationAttention) multiply(p typePart) {
	n, h, z := a.net, a.heads, a.rowsOf(a.data, p)
	sums, stride := a.sumsOf(a.gathered, p)
	if a.mean {
		n.product(false, false, p.n, a.part, stride, a.factor(), sums, stride, a.weightsFrom(a.stacked, p.first), a.part, 0, z, a.width)
		return
	}
	for r := range p.per {
		n.try(n.blas.SgemmBatch(cuda.Batch{Count: h, NextX: a.in, NextY: a.part, NextZ: a.part}, false, false, p.n, a.part, a.in,
			1, after(sums, r*h*a.in), stride, a.weightsOf(a.weights, p.first+r), a.columns(), min(float32(r), 1), z, a.width))
	}
}

// multiplyBack computes the gradients of W and of the sums of a type's rows.
func (a *relationAttention) multiplyBack(p typePart, dz cuda.Buffer) {
	n, h, g := a.net, a.heads, a.rowsOf(dz, p)
	sums, stride := a.sumsOf(a.gathered, p)
	dSums, _ := a.sumsOf(a.dGather, p)
	if a.mean {
		n.product(true, false, stride, a.part, p.n, a.factor(), sums, stride, g, a.width, 0, a.weightsFrom(a.dStacked, p.first), a.part)
		n.product(false, true, p.n, stride, a.part, a.factor(), g, a.width, a.weightsFrom(a.stacked, p.first), a.part, 0, dSums, stride)
		for r := p.first; r < p.first+p.per; r++ {
			a.permute(a.dWeights, a.dStacked, r, a.unstack)
		}
		return
	}
	for r := range p.per {
		for i := range h {
			n.product(true, false, a.in, a.part, p.n, 1, after(sums, (r*h+i)*a.in), stride, after(g, i*a.part), a.width, 0,
				after(a.weightsOf(a.dWeights, p.first+r), i*a.part), a.columns())
		}
		n.try(n.blas.SgemmBatch(cuda.Batch{Count: h, NextX: a.part, NextY: a.part, NextZ: a.in}, false, true, p.n, a.in, a.part,
			1, g, a.width, a.weightsOf(a.weights, p.first+r), a.columns(), 0, after(dSums, r*h*a.in), stride))
	}
}

func (a *relationAttention) backward(x, dz cuda.Buffer) (through bool) {
	n, b, h := a.net, a.block(), a.heads
	parts, rows := a.parts()
	n.try(n.stream.Fill(a.all, 0))
	for _, p := range parts {
		if !a.alive[p.kind] {
			sums, stride := a.sumsOf(a.dGather, p)
			n.try(n.stream.Fill(part(sums, 0, p.n*stride), 0))
			continue
		}
		a.multiplyBack(p, dz)
		a.biasGradient(p, dz)
	}
	if rows > 0 {
		n.try(kernels.EdgeDots{Out: a.dEdges, X: x, Y: a.dGather, Width: a.in, Heads: h,
			Indptr: b.indptr, Indices: b.indices, Edges: b.edges, Rows: kernels.Rows(rows)}.Launch(n.stream))
		n.try(kernels.RelationSoftmaxBackward{RelationSoftmax: a.relationSoftmax(rows), Grads: a.dEdges, OwnGrads: a.dOwns}.Launch(n.stream))
	}
	n.try(kernels.SumRelationEdges{Out: a.dScores, Columns: a.scored(), Values: a.dEdges, Heads: h, Indptr: b.tindptr, Edges: b.tedges,
		Owners: b.tindices, Base: b.base, Rows: kernels.Rows(n.in.sources[a.index])}.Launch(n.stream))
	a.scorersGradient(x, parts)
	if a.dx != (cuda.Buffer{}) {
		a.inputGradient(parts)
	}
	return false
}

// scorersGradient propagates the gradients of the scores to W and the attention vectors.
func (a *relationAttention) scorersGradient(x cuda.Buffer, parts []typePart) {
	n, h, columns, scored := a.net, a.heads, a.columns(), a.scored()
	n.product(true, false, a.in, scored, n.in.sources[a.index], 1, x, a.in, a.dScores, scored, 0, a.dScorers[0], scored)
	n.try(n.stream.Fill(a.dScorers[1], 0))
	for _, p := range parts {
		if p.per > 0 {
			n.product(true, false, a.in, p.per*h, p.n, 1, after(a.ownRows, p.lo*a.in), a.in, after(a.dOwns, p.row*h), p.per*h, 0, after(a.dScorers[1], p.first*h), scored)
		}
	}
	for r := range a.takesPart {
		w, dW := a.weightsOf(a.weights, r), a.weightsOf(a.dWeights, r)
		for i := range a.scorers {
			d := after(a.dScorers[i], r*h)
			a.spreads(r, i)
			n.product(false, false, a.in, columns, h, 1, d, scored, a.spreadOf(i), columns, 1, dW, columns)
			n.product(true, false, h, columns, a.in, 1, d, scored, w, columns, 0, a.dSpread, columns)
			n.try(kernels.Gather{Out: after(a.dVectors, (i*len(a.takesPart)+r)*columns), Stride: a.part, Table: a.dSpread, Type: dtype.Float32, Width: a.part,
				Index: a.diagonal, Rows: kernels.Rows(h)}.Launch(n.stream))
		}
	}
}

// inputGradient computes the gradient of the input.
func (a *relationAttention) inputGradient(parts []typePart) {
	n, b, h, scored := a.net, a.block(), a.heads, a.scored()
	n.try(kernels.CombineHeads{Out: a.dx, Y: a.dGather, Width: a.in, Heads: h, Weights: a.softmax,
		Indptr: b.tindptr, Indices: b.tindices, Edges: b.tedges, Entries: b.edges, Rows: b.src}.Launch(n.stream))
	n.product(false, true, n.in.sources[a.index], a.in, scored, 1, a.dScores, scored, a.scorers[0], scored, 1, a.dx, a.in)
	for _, p := range parts {
		d := part(a.dOwnRows, p.lo*a.in, (p.lo+p.n)*a.in)
		if p.per == 0 {
			n.try(n.stream.Fill(d, 0))
			continue
		}
		n.product(false, true, p.n, a.in, p.per*h, 1, after(a.dOwns, p.row*h), p.per*h, after(a.scorers[1], p.first*h), scored, 0, d, a.in)
	}
	a.addOwn(a.dOwnRows, a.in)
}
