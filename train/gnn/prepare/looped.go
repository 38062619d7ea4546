package prepare

import "diskgnn/graph"

// Looped is a block in which every destination has exactly one edge from itself, its
// last one; edges that were sampled from a node to itself are left out.
type Looped struct {
	Indptr, Indices []uint32
	// Transposed, for the gradient of the sources: source s feeds the destinations
	// TIndices[TIndptr[s]:TIndptr[s+1]], ascending, by the edges in TEdges.
	TIndptr, TIndices, TEdges []uint32
}

// build derives the edges of b. Room for blocks of the given sizes is made at once.
func (p *Looped) build(b *graph.Block, transpose bool, most blockSizes) {
	edges := most.edges + most.dst
	p.Indptr = resized(p.Indptr, b.NumDst+1, most.dst+1)
	p.Indices = resized(p.Indices, len(b.Indices)+b.NumDst, edges)
	n := uint32(0)
	p.Indptr[0] = 0
	for i := range b.NumDst {
		self := uint32(b.DstPos(i))
		for _, s := range b.Indices[b.Indptr[i]:b.Indptr[i+1]] {
			if s != self {
				p.Indices[n] = s
				n++
			}
		}
		p.Indices[n] = self
		n++
		p.Indptr[i+1] = n
	}
	p.Indices = p.Indices[:n]
	if !transpose {
		return
	}
	p.TIndptr = resized(p.TIndptr, b.NumSrc+2, most.src+2)
	p.TIndices = resized(p.TIndices, len(p.Indices), edges)
	p.TEdges = resized(p.TEdges, len(p.Indices), edges)
	p.transpose()
	p.TIndptr = p.TIndptr[:b.NumSrc+1]
}

// transpose sorts the edges by source, counting, so that equal sources keep the
// order of their destinations.
func (p *Looped) transpose() {
	ptr := p.TIndptr
	clear(ptr)
	for _, s := range p.Indices {
		ptr[s+2]++
	}
	for i := 2; i < len(ptr); i++ {
		ptr[i] += ptr[i-1]
	}
	for d := range len(p.Indptr) - 1 {
		for e := p.Indptr[d]; e < p.Indptr[d+1]; e++ {
			at := &ptr[p.Indices[e]+1]
			p.TIndices[*at], p.TEdges[*at] = uint32(d), e
			*at++
		}
	}
}

// blockSizes are the largest counts of a layer's blocks.
type blockSizes struct{ src, dst, edges int }

func (r *Preparer) most(l int) blockSizes {
	return blockSizes{r.sizes.Src[l], r.sizes.Dst[l], r.sizes.Edges[l]}
}
