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
	q.TIndptr = resized(q.TIndptr, b.NumSrc+2, r.sizes.Src[l]+2)
	q.TIndices = resized(q.TIndices, len(b.Indices), r.edges(l))
	q.TIndptr = transposed{indptr: q.TIndptr, indices: q.TIndices}.plain(b.Indptr, b.Indices)
}

// loopBlock gives block l its loops and, where that is needed, transposes it.
func (r *Preparer) loopBlock(p *Prepared, b *graph.Block, l int) {
	q, most := &p.Blocks[l].Looped, r.edges(l)
	q.Indptr = resized(q.Indptr, b.NumDst+1, r.sizes.Dst[l]+1)
	q.Indices = resized(q.Indices, len(b.Indices)+b.NumDst, most)
	var o *sorter
	if r.transpose[l] && sorts(b.NumSrc, b.NumDst, len(q.Indices)) {
		o = r.sorter(p, len(q.Indices))
		q.Indices = q.Indices[:o.build(q, b)]
	} else {
		q.Indices = q.Indices[:q.build(b)]
	}
	if !r.transpose[l] {
		return
	}
	q.TIndptr = resized(q.TIndptr, b.NumSrc+2, r.sizes.Src[l]+2)
	q.TIndices = resized(q.TIndices, len(q.Indices), most)
	q.TEdges = resized(q.TEdges, len(q.Indices), most)
	t := transposed{q.TIndptr, q.TIndices, q.TEdges}
	if o != nil {
		q.TIndptr = o.transpose(t)
	} else {
		q.TIndptr = t.plain(q.Indptr, q.Indices)
	}
}
