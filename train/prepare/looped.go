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

// build makes them of b, in memory that has room, and returns how many edges there are.
func (p *Looped) build(b *graph.Block) (edges uint32) {
	out, ends := p.Indices, p.Indptr[1:]
	from, n := uint32(0), uint32(0)
	p.Indptr[0] = 0
	for i, end := range b.Indptr[1:] {
		self := uint32(b.DstPos(i))
		for _, s := range b.Indices[from:end] {
			out[n] = s
			if s != self {
				n++
			}
		}
		out[n] = self
		n++
		ends[i] = n
		from = end
	}
	return n
}
