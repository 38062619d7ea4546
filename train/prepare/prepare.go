// Package prepare derives the inputs of a step from a mini-batch's structure, for every engine: the
// weights of sums, transposed blocks, self-loops.
package prepare

import (
	"diskgnn/graph"
	"diskgnn/internal/fault"
)

// Prepare checks b and derives the inputs of a step into p, reusing p's buffers. The kernels index
// without bounds checks. So a batch with inconsistent lengths, with counts above the engine's
// sizes, or with an invalid label is an error of kind fault.ErrInput.
func (r *Preparer) Prepare(p *Prepared, b *graph.Batch) error {
	p.batch = nil
	if err := r.check(b, false); err != nil {
		return err
	}
	r.room(p)
	if r.sortsInput {
		p.Order = p.Order[:len(b.Input)]
		b = p.input.renumber(b, p.Order)
	} else {
		p.Order = nil
	}
	for l := range b.Blocks {
		if r.types != nil {
			p.Blocks[l].endTypes(b, l)
		}
		r.weighing.compute(p.Blocks, b, l)
		switch k := &b.Blocks[l]; {
		case r.weighing.loops:
			r.loopBlock(p, k, l)
		case r.transpose[l]:
			p.Blocks[l].transpose(k, r.weighing.edges)
		}
	}
	for l := range b.Blocks {
		k, q := &b.Blocks[l], &p.Blocks[l]
		if !r.place[l] || k.Dst == nil {
			continue
		}
		q.Place = q.Place[:k.NumSrc]
		if err := q.placeDestinations(k); err != nil {
			return err
		}
	}
	p.take(r, b)
	return nil
}

// Accept is Prepare for a batch with blocks in bits: it makes the checks that need no numbers of the blocks, and derives nothing. The engine
// decodes the blocks, checks them and derives the rest.
func (r *Preparer) Accept(p *Prepared, b *graph.Batch) error {
	p.batch = nil
	if err := r.check(b, true); err != nil {
		return err
	}
	p.take(r, b)
	return nil
}

// take makes b the batch that r has prepared.
func (p *Prepared) take(r *Preparer, b *graph.Batch) {
	p.Labelled = 0
	for _, y := range b.Labels {
		if y != graph.Unlabelled {
			p.Labelled++
		}
	}
	p.batch, p.by = b, r
}

// check checks a batch with blocks that are in bits or are not.
func (r *Preparer) check(b *graph.Batch, inBits bool) error {
	if err := b.Validate(); err != nil {
		return fault.New(fault.ErrInput, "prepare: %w", err)
	}
	if len(b.Blocks) != len(r.transpose) {
		return fault.New(fault.ErrInput, "prepare: a batch has %d blocks, but the model has %d layers", len(b.Blocks), len(r.transpose))
	}
	if err := r.checkTypes(b); err != nil {
		return err
	}
	for l := range b.Blocks {
		k := &b.Blocks[l]
		if k.InBits() != inBits {
			return fault.New(fault.ErrInput, "prepare: layer %d is decoded: %t, which does not suit the engine", l, inBits)
		}
		if k.NumSrc > r.sizes.Src[l] || k.NumDst > r.sizes.Dst[l] || k.NumEdges() > r.sizes.Edges[l] {
			return fault.New(fault.ErrInput, "prepare: layer %d has %d sources, %d destinations, %d edges; buffers were made for %d, %d, %d",
				l, k.NumSrc, k.NumDst, k.NumEdges(), r.sizes.Src[l], r.sizes.Dst[l], r.sizes.Edges[l])
		}
		if r.types != nil && k.NumRows() > r.sizes.RowsOf(l) {
			return fault.New(fault.ErrInput, "prepare: layer %d has %d rows; buffers were made for %d", l, k.NumRows(), r.sizes.RowsOf(l))
		}
		if l > 0 && k.Scattered() && r.types == nil {
			return fault.New(fault.ErrInput, "prepare: layer %d: the destinations of an inner block must be its first sources", l)
		}
	}
	if n := len(b.Targets); n > 0 && r.classes > 0 && n != len(b.Labels)*graph.TargetBytes(r.classes) {
		return fault.New(fault.ErrInput, "prepare: %d bytes of targets do not fit %d seed nodes and %d classes", n, len(b.Labels), r.classes)
	}
	for i, y := range b.Labels {
		if y != graph.Unlabelled && (y < 0 || int(y) >= r.classes) && r.classes > 0 {
			return fault.New(fault.ErrInput, "prepare: seed node %d has the label %d, but there are %d classes", i, y, r.classes)
		}
	}
	return nil
}

// transpose transposes the block, with edges also their numbers.
func (p *Block) transpose(b *graph.Block, edges bool) {
	p.TIndptr = p.TIndptr[:b.NumSrc+2]
	p.TIndices = p.TIndices[:len(b.Indices)]
	t := transposed{indptr: p.TIndptr, indices: p.TIndices}
	if edges {
		p.TEdges = p.TEdges[:len(b.Indices)]
		t.edges = p.TEdges
	}
	p.TIndptr = t.plain(b.Indptr, b.Indices)
}

// loopBlock adds loops to block l and, if needed, transposes it.
func (r *Preparer) loopBlock(p *Prepared, b *graph.Block, l int) {
	q := &p.Blocks[l].Looped
	q.Indptr = q.Indptr[:b.NumDst+1]
	q.Indices = q.Indices[:len(b.Indices)+b.NumDst]
	var o *sorter
	if r.transpose[l] && sorts(b.NumSrc, b.NumDst, len(q.Indices)) {
		o = &p.sorter[0]
		o.records = p.records[:len(q.Indices)]
		q.Indices = q.Indices[:o.build(q, b)]
	} else {
		q.Indices = q.Indices[:q.build(b)]
	}
	if !r.transpose[l] {
		return
	}
	q.TIndptr = q.TIndptr[:b.NumSrc+2]
	q.TIndices = q.TIndices[:len(q.Indices)]
	q.TEdges = q.TEdges[:len(q.Indices)]
	t := transposed{q.TIndptr, q.TIndices, q.TEdges}
	if o != nil {
		q.TIndptr = o.transpose(t)
	} else {
		q.TIndptr = t.plain(q.Indptr, q.Indices)
	}
}
