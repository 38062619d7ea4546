package cpu

import (
	"diskgnn/graph"
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// relationAttention is R-GAT's convolution: attention over the edges of each row of the block, summed over the relations
// into a destination's type. It aggregates first, as attentionSums does, a relation after the other:
//
//	Σ over relations r and heads h  (Σ weight · x)·W_rh
//
// A row without edges adds nothing. Relations that take no part are left out.
//
// The kept scores are the scores before the leaky ReLU; the backward pass replaces them by their gradients. The forward
// pass does not depend on the numbering of sources.
type relationAttention struct {
	*layer
	weigher
	kinds   *kinds
	biased  *typedTail
	maps    []headMaps  // by relation
	vectors []float32   // by relation: W_h·asrc_h of every head, then W_h·adst_h, rows as wide as the input
	dSums   []float32   // by row of the block and head: gradient of the sums over neighbours, where the input has one
	groups  []rowGroups // by type
	scorers *scorers    // where the input has a gradient

	// Inputs of the batch under way, and the type of the destinations in the backward pass.
	x, dz    []float32
	block    *graph.Block
	prepared *prepare.Block
	kind     int
}

// rowGroups are the groups of a type's destinations in sums over them.
type rowGroups struct {
	rows     int // in a group
	elements int // of a group's sums: of every relation's weights, then of their vectors
}

func newRelationAttention(k *layer) conv {
	n := k.net
	t, l := k.tail.(*typedTail), k.index-n.first
	o := &relationAttention{layer: k, kinds: t.kinds, biased: t}
	o.weigher.make(n, n.model.Heads, n.sizes.Edges[l], o)
	o.setColumns(k.in, n.sizes.Edges[l])
	o.makeMaps()
	o.vectors = n.floats(len(o.maps) * o.vectorLen())
	sums := attendRows * o.heads * k.in
	switch {
	case n.training && k.below == nil:
		sums *= 2
	case n.training:
		o.dSums = n.floats(n.sizes.RowsOf(l) * o.heads * k.in)
		o.scorers = newScorers(o)
	}
	n.needScratch(divUp(sums, chunkRows))
	for _, into := range o.kinds.into {
		g := rowGroups{elements: into.n * (o.weightLen() + o.vectorLen())}
		if n.training && g.elements > 0 {
			g.rows = attentionGroup(k.rows, g.elements)
			n.partialFloats = max(n.partialFloats, divUp(k.rows, g.rows)*g.elements)
		}
		o.groups = append(o.groups, g)
	}
	return o
}

// makeMaps finds the parameters of every relation.
func (o *relationAttention) makeMaps() {
	part := func(all []float32, r, size int) []float32 {
		if all == nil {
			return nil
		}
		return all[r*size : (r+1)*size]
	}
	weights, dW := o.param(model.Neighbour)
	src, dSrc := o.param(model.AttentionSrc)
	dst, dDst := o.param(model.AttentionDst)
	for r := range o.net.model.Types.Relations {
		m := newHeadMaps(o.layer)
		size, columns := o.in*m.number*m.part, m.number*m.part
		m.weights, m.dW = part(weights, r, size), part(dW, r, size)
		m.src, m.dSrc = part(src, r, columns), part(dSrc, r, columns)
		m.dst, m.dDst = part(dst, r, columns), part(dDst, r, columns)
		o.maps = append(o.maps, m)
	}
}

// weightLen and vectorLen are the elements of a relation's weights and vectors.
func (o *relationAttention) weightLen() int { return o.in * o.heads * o.maps[0].part }
func (o *relationAttention) vectorLen() int { return 2 * o.heads * o.in }

// vectorsOf returns the vectors of a relation.
func (o *relationAttention) vectorsOf(relation int) []float32 {
	return o.vectors[relation*o.vectorLen():][:o.vectorLen()]
}

func (o *relationAttention) sourceScores(scores []float32, sources []uint32, relation int) {
	kernel.DotHeads(scores, o.x, o.in, sources, o.vectorsOf(relation), o.heads)
}

func (o *relationAttention) ownScores(own []float32, destination []uint32, relation int) {
	kernel.DotHeads(own, o.x, o.in, destination, o.vectorsOf(relation)[o.heads*o.in:], o.heads)
}

func (o *relationAttention) gather(row []float32, sources []uint32, w []float32, add bool) {
	kernel.GatherHeads(row, o.x, o.in, sources, w, o.heads, add)
}

func (o *relationAttention) begin(x []float32) {
	o.x = x
	o.block, o.prepared = o.layer.block()
}

// fan returns the edges of destination i, which has the type, by a relation.
func (o *relationAttention) fan(kind, i, relation int) fan {
	row := o.kinds.row(kind, i) + relation - o.kinds.into[kind].lo
	lo, hi := int(o.block.Indptr[row]), int(o.block.Indptr[row+1])
	return fan{sources: o.block.Indices[lo:hi], lo: lo * o.heads, hi: hi * o.heads, self: o.block.Dst[i : i+1], relation: relation}
}

// forward: see conv.
func (o *relationAttention) forward(x []float32) error {
	o.begin(x)
	o.biased.foldBiases()
	for r := range o.maps {
		o.maps[r].vectorsOf(o.vectorsOf(r), o.in, 1)
	}
	return o.net.each(o.block.NumDst, chunkRows, o)
}

// chunk is the forward pass over chunks of destinations.
func (o *relationAttention) chunk(worker, lo, hi int) {
	o.kinds.each(lo, hi, func(kind, lo, hi int) {
		for from := lo; from < hi && o.kinds.alive[kind]; from += attendRows {
			o.attendSome(worker, kind, from, min(from+attendRows, hi))
		}
	})
	o.tail.finish(lo, hi)
}

// attendSome makes the layer's sums of some destinations of a type.
func (o *relationAttention) attendSome(worker, kind, from, to int) {
	width, into, add := o.heads*o.in, o.kinds.into[kind], false
	sums := o.net.workerScratch(worker, attendRows, width)
	for r := into.lo; r < into.lo+into.n; r++ {
		if !o.kinds.takesPart[r] {
			continue
		}
		for i := from; i < to; i++ {
			o.attend(sums[(i-from)*width:][:width], worker, o.fan(kind, i, r))
		}
		o.maps[r].multiply(sums, to-from, o.data[from*o.width:], o.width, add)
		add = true
	}
}

// backward: see conv. The gradients of the parameters are sums over groups of destinations of a type.
func (o *relationAttention) backward(x, dz []float32) error {
	o.begin(x)
	o.dz = dz
	o.biased.unfoldBiases()
	_, grads := o.params(model.Neighbour, model.AttentionDst)
	clear(grads)
	for kind, g := range o.groups {
		rows := o.kinds.count(kind)
		if rows == 0 || g.elements == 0 {
			continue
		}
		if !o.kinds.alive[kind] {
			o.clearScores(kind)
			continue
		}
		o.kind = kind
		if err := o.net.each(divUp(rows, g.rows), 1, (*relationBackward)(o)); err != nil {
			return err
		}
		if err := o.net.each(g.elements, updateGrain, (*addRelationGroups)(o)); err != nil {
			return err
		}
		o.parameterGradients(kind)
	}
	if o.below == nil {
		return nil
	}
	o.scorers.begin()
	return o.net.each(o.block.NumSrc, chunkRows, (*relationSourceGradient)(o))
}

// clearScores clears the gradients of a type's scores.
func (o *relationAttention) clearScores(kind int) {
	first := o.kinds.first[kind]
	last := first + o.kinds.count(kind)*o.kinds.into[kind].n
	clear(o.scores[int(o.block.Indptr[first])*o.heads : int(o.block.Indptr[last])*o.heads])
}

// relationBackward is the backward pass over the destinations of a group. The group's sums are, for every relation, the part of
// the weights' gradient that comes through the sums over neighbours, and the gradient of the vectors.
type relationBackward relationAttention

func (b *relationBackward) chunk(worker, g, _ int) {
	o := (*relationAttention)(b)
	groups, begin := &o.groups[o.kind], o.kinds.begins[o.kind]
	partial := o.net.partial[g*groups.elements:][:groups.elements]
	clear(partial)
	lo := begin + g*groups.rows
	hi := min(lo+groups.rows, begin+o.kinds.count(o.kind))
	for from := lo; from < hi; from += attendRows {
		o.backSome(worker, partial, from, min(from+attendRows, hi))
	}
}

// backSome is the backward pass over some destinations. It adds their sums to partial.
func (o *relationAttention) backSome(worker int, partial []float32, from, to int) {
	width, into := o.heads*o.in, o.kinds.into[o.kind]
	dVectors := partial[into.n*o.weightLen():]
	sums, dSums, next := o.net.workerScratch(worker, attendRows, width), []float32(nil), width
	if o.dSums == nil {
		both := o.net.workerScratch(worker, 2*attendRows, width)
		sums, dSums = both[:len(both)/2], both[len(both)/2:]
	} else {
		next = into.n * width
	}
	for j := range into.n {
		r := into.lo + j
		if !o.kinds.takesPart[r] {
			for i := from; i < to; i++ {
				f := o.fan(o.kind, i, r)
				clear(o.scores[f.lo:f.hi])
			}
			continue
		}
		if o.dSums != nil {
			dSums = o.dSums[(o.kinds.row(o.kind, from)+j)*width:]
		}
		for i := from; i < to; i++ {
			o.sum(sums[(i-from)*width:][:width], worker, o.fan(o.kind, i, r))
		}
		o.maps[r].multiplyBackward(partial[j*o.weightLen():], sums, dSums, next, to-from, o.dz[from*o.width:], o.width)
		for i := from; i < to; i++ {
			f := o.fan(o.kind, i, r)
			if len(f.sources) > 0 {
				o.weighBackward(dVectors[j*o.vectorLen():][:o.vectorLen()], sums[(i-from)*width:][:width], dSums[(i-from)*next:][:width], o.x, worker, f)
			}
		}
	}
}

// addRelationGroups adds the groups' sums to the first one's, in order.
type addRelationGroups relationAttention

func (b *addRelationGroups) chunk(_, lo, hi int) {
	o := (*relationAttention)(b)
	g, partial := &o.groups[o.kind], o.net.partial
	for i := 1; i < divUp(o.kinds.count(o.kind), g.rows); i++ {
		kernel.Add(partial[lo:hi], partial[i*g.elements+lo:i*g.elements+hi])
	}
}

// parameterGradients propagates a type's sums to the parameters.
func (o *relationAttention) parameterGradients(kind int) {
	into, partial := o.kinds.into[kind], o.net.partial
	dVectors := partial[into.n*o.weightLen():]
	for j := range into.n {
		m := &o.maps[into.lo+j]
		copy(m.dW, partial[j*o.weightLen():])
		m.vectorGradients(dVectors[j*o.vectorLen():], o.in, 1)
	}
}

// relationSourceGradient computes the gradient of the input, over chunks of sources, as attendSources does.
type relationSourceGradient relationAttention

func (b *relationSourceGradient) chunk(worker, lo, hi int) {
	o := (*relationAttention)(b)
	from := 0
	for kind, end := range o.block.Ends {
		a, b := max(lo, from), min(hi, int(end))
		if from = int(end); a >= b {
			continue
		}
		if o.scorers.alive[kind] {
			o.backSources(worker, kind, a, b)
		}
	}
	o.below.tail.backward(o.dx, lo, hi)
}

// backSources computes the gradient of sources lo to hi, which have the type.
func (o *relationAttention) backSources(worker, kind, lo, hi int) {
	p, t := o.prepared, &o.scorers.types[kind]
	width := t.heads * o.heads
	scores := o.net.workerScratch(worker, hi-lo, width)
	clear(scores)
	for s := lo; s < hi; s++ {
		from, to := p.TIndptr[s], p.TIndptr[s+1]
		kernel.CombineHeads(o.dx[s*o.in:(s+1)*o.in], o.dSums, p.TIndices[from:to], p.TEdges[from:to], o.coefficients, o.heads)
		row := scores[(s-lo)*width:][:width]
		for e := from; e < to; e++ {
			at := int(p.TEdges[e]) * o.heads
			addRows(o.part(row, o.scorers.at[o.scorers.relations[p.TIndices[e]]]), o.scores[at:at+o.heads])
		}
		if k, ok := p.Destination(o.block, s); ok {
			o.addOwnScores(row, kind, k)
		}
	}
	o.net.blas.Sgemm(false, false, hi-lo, o.in, width, 1, scores, width, t.vectors, o.in, 1, o.dx[lo*o.in:], o.in)
}

// part returns the part of a row with the heads of a relation.
func (o *relationAttention) part(row []float32, at int) []float32 {
	return row[at*o.heads : (at+1)*o.heads]
}

// addOwnScores adds to row the gradients of the scores that depend on destination i.
func (o *relationAttention) addOwnScores(row []float32, kind, i int) {
	into, first := o.kinds.into[kind], o.kinds.row(kind, i)
	for j := range into.n {
		lo, hi := int(o.block.Indptr[first+j])*o.heads, int(o.block.Indptr[first+j+1])*o.heads
		addRows(o.part(row, o.scorers.types[kind].own+j), o.scores[lo:hi])
	}
}

// scorers have, for every source type, the vectors that its nodes' scores come from: of the relations from it, by which
// they are sources, and then of the relations to it, by which they are destinations.
type scorers struct {
	of        *relationAttention
	alive     []bool   // types with rows in the input
	at        []int    // by relation: its place among the vectors of its source type
	relations []uint32 // of each row of the block
	types     []scoringType
}

type scoringType struct {
	from    []int // relations
	own     int   // the place of the first relation to the type
	heads   int   // the number of places; each has vectors for all heads
	vectors []float32
}

func newScorers(o *relationAttention) *scorers {
	n, m := o.net, o.net.model
	s := &scorers{of: o, alive: m.Alive(o.index), at: make([]int, len(o.maps)), types: make([]scoringType, len(o.kinds.into))}
	s.relations = n.indices(n.sizes.RowsOf(o.index - n.first))
	for r, k := range m.Types.Relations {
		t := &s.types[k.Source]
		s.at[r] = len(t.from)
		t.from = append(t.from, r)
	}
	for kind := range s.types {
		t := &s.types[kind]
		t.own = len(t.from)
		t.heads = t.own + o.kinds.into[kind].n
		t.vectors = n.floats(t.heads * o.heads * o.in)
		n.needScratch(t.heads * o.heads)
	}
	return s
}

// begin copies the vectors, and finds the relations of the batch's rows.
func (s *scorers) begin() {
	o := s.of
	half := o.heads * o.in
	for kind := range s.types {
		t, into := &s.types[kind], o.kinds.into[kind]
		for i, r := range t.from {
			copy(t.vectors[i*half:], o.vectorsOf(r)[:half])
		}
		for j := range into.n {
			copy(t.vectors[(t.own+j)*half:], o.vectorsOf(into.lo + j)[half:])
		}
		row := o.kinds.first[kind]
		for range o.kinds.count(kind) {
			for j := range into.n {
				s.relations[row] = uint32(into.lo + j)
				row++
			}
		}
	}
}
