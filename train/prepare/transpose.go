package prepare

import "diskgnn/graph"

// transposed is where a block goes that is transposed: source s feeds the destinations
// indices[indptr[s]:indptr[s+1]], ascending, by the edges in edges, unless that is nil.
// indptr has room for one more.
type transposed struct{ indptr, indices, edges []uint32 }

// plain sorts edges by source, counting, so that equal sources keep the order of their
// destinations. It returns indptr.
func (t transposed) plain(indptr, indices []uint32) []uint32 {
	ptr := t.indptr
	clear(ptr)
	for _, s := range indices {
		ptr[s+2]++
	}
	sum := uint32(0)
	for i, n := range ptr {
		sum += n
		ptr[i] = sum
	}
	next, from := ptr[1:], uint32(0)
	for d, to := range indptr[1:] {
		for e := from; e < to; e++ {
			n := &next[indices[e]]
			at := *n
			*n = at + 1
			t.indices[at] = uint32(d)
			if t.edges != nil {
				t.edges[at] = e
			}
		}
		from = to
	}
	return ptr[:len(ptr)-1]
}

// transposeBlock transposes block l.
func (r *Preparer) transposeBlock(q *Block, b *graph.Block, l int) {
	q.TIndptr = q.TIndptr[:b.NumSrc+2]
	q.TIndices = q.TIndices[:len(b.Indices)]
	q.TIndptr = transposed{indptr: q.TIndptr, indices: q.TIndices}.plain(b.Indptr, b.Indices)
}

// loopBlock gives block l its loops and, where that is needed, transposes it.
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
