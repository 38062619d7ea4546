package prepare

import (
	"diskgnn/graph"
	"diskgnn/internal/fault"
)

// Block is what was derived from one block.
type Block struct {
	// The weights of a destination's sum: over the sources s of its edges,
	//
	//	Dst[d] · Σ Src[s]·x[s]  +  Own[d]·x[d]
	//
	// where nil stands for ones, and for no own term.
	Dst, Src, Own []float32
	// The block transposed, where the backward pass needs it: source s feeds the
	// destinations TIndices[TIndptr[s]:TIndptr[s+1]], ascending.
	TIndptr, TIndices []uint32
	// Place holds, where the backward pass needs it and destinations are scattered
	// among the sources, which destination a source is, plus one.
	Place []uint32
	// The block with loops, transposed by itself, where a layer weighs edges itself.
	Looped Looped
}

// Destination returns which destination source i is, if it is one. Scattered ones
// must have been placed.
func (p *Block) Destination(b *graph.Block, i int) (int, bool) {
	if b.Dst == nil {
		return i, i < b.NumDst
	}
	k := int(p.Place[i])
	return k - 1, k > 0
}

// placeDestinations finds out which sources are destinations.
func (p *Block) placeDestinations(b *graph.Block) error {
	clear(p.Place)
	for i, s := range b.Dst {
		if p.Place[s] != 0 {
			return fault.New(fault.ErrInput, "prepare: destinations %d and %d lie at the same source", p.Place[s]-1, i)
		}
		p.Place[s] = uint32(i) + 1
	}
	return nil
}

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
