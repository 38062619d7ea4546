package gnn

import "diskgnn/graph"

// looped is a block in which every destination has exactly one edge from itself, its
// last one; edges that were sampled from a node to itself are left out.
type looped struct {
	indptr, indices []uint32
	// Transposed, for the gradient of the sources: source s feeds the destinations
	// tindices[tindptr[s]:tindptr[s+1]], ascending, by the edges in tedges.
	tindptr, tindices, tedges []uint32
}

// build derives the edges of b. Room for blocks of the given sizes is made at once.
func (p *looped) build(b *graph.Block, transpose bool, most blockSizes) {
	edges := most.edges + most.dst
	p.indptr = resized(p.indptr, b.NumDst+1, most.dst+1)
	p.indices = resized(p.indices, len(b.Indices)+b.NumDst, edges)
	n := uint32(0)
	p.indptr[0] = 0
	for i := range b.NumDst {
		self := uint32(b.DstPos(i))
		for _, s := range b.Indices[b.Indptr[i]:b.Indptr[i+1]] {
			if s != self {
				p.indices[n] = s
				n++
			}
		}
		p.indices[n] = self
		n++
		p.indptr[i+1] = n
	}
	p.indices = p.indices[:n]
	if !transpose {
		return
	}
	p.tindptr = resized(p.tindptr, b.NumSrc+2, most.src+2)
	p.tindices = resized(p.tindices, len(p.indices), edges)
	p.tedges = resized(p.tedges, len(p.indices), edges)
	p.transpose()
	p.tindptr = p.tindptr[:b.NumSrc+1]
}

// transpose sorts the edges by source, counting, so that equal sources keep the
// order of their destinations.
func (p *looped) transpose() {
	ptr := p.tindptr
	clear(ptr)
	for _, s := range p.indices {
		ptr[s+2]++
	}
	for i := 2; i < len(ptr); i++ {
		ptr[i] += ptr[i-1]
	}
	for d := range len(p.indptr) - 1 {
		for e := p.indptr[d]; e < p.indptr[d+1]; e++ {
			at := &ptr[p.indices[e]+1]
			p.tindices[*at], p.tedges[*at] = uint32(d), e
			*at++
		}
	}
}

// blockSizes are the largest counts of a layer's blocks.
type blockSizes struct{ src, dst, edges int }

func (r *Preparer) most(l int) blockSizes {
	return blockSizes{r.sizes.Src[l], r.sizes.Dst[l], r.sizes.Edges[l]}
}

// loopedWords counts the words of build's lists at these sizes.
func loopedWords(transpose bool, most blockSizes) int {
	edges := most.edges + most.dst
	n := most.dst + 1 + edges
	if transpose {
		n += most.src + 2 + 2*edges
	}
	return n
}
