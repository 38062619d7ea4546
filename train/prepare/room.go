package prepare

import (
	"diskgnn/device"
	"diskgnn/graph"
)

// Lengths are the numbers of elements of a Block's slices for the largest batch. An element has four bytes.
type Lengths struct {
	Dst, Src, Own, Ends                                    int
	TIndptr, TIndices, TEdges, Place                       int
	Indptr, Indices, LoopTIndptr, LoopTIndices, LoopTEdges int // of Looped
	Order                                                  int // of the Prepared, for block 0
}

// Lengths returns the lengths that Prepare needs for block l. Prepare uses the slices of a Prepared
// if they suffice, and otherwise allocates.
func (r *Preparer) Lengths(l int) Lengths {
	var n Lengths
	src, dst, edges := r.sizes.Src[l], r.sizes.Dst[l], r.edges(l)
	if r.weighing.dst {
		n.Dst = r.rows(l)
	}
	if r.types != nil {
		n.Ends = len(r.types.Nodes)
	}
	if r.weighing.own {
		n.Own = dst
	}
	if r.weighing.src {
		n.Src = src
	}
	switch {
	case r.weighing.loops:
		n.Indptr, n.Indices = dst+1, edges
		if r.transpose[l] {
			n.LoopTIndptr, n.LoopTIndices, n.LoopTEdges = src+2, edges, edges
		}
	case r.transpose[l]:
		n.TIndptr, n.TIndices = src+2, edges
		if r.weighing.edges {
			n.TEdges = edges
		}
	}
	if r.place[l] {
		n.Place = src
	}
	if l == 0 && r.sortsInput {
		n.Order = src
	}
	return n
}

// Bytes returns the memory of a Prepared for batches of the maximum sizes, in bytes.
func (r *Preparer) Bytes() int64 {
	dry, p := new(device.Arena), new(Prepared)
	r.takeBlocks(dry, p)
	r.takeSorting(dry, p)
	return dry.Used()
}

// SortingBytes returns the part of Bytes that Lengths does not list: the buffers for sorting edges
// and input nodes.
func (r *Preparer) SortingBytes() int64 {
	dry := new(device.Arena)
	r.takeSorting(dry, new(Prepared))
	return dry.Used()
}

// room grows p's memory to hold any batch that r prepares.
func (r *Preparer) room(p *Prepared) {
	a := device.NewArena()
	r.takeBlocks(a, p)
	r.takeSorting(a, p)
}

// takeBlocks takes the memory of the blocks' derived data.
func (r *Preparer) takeBlocks(a *device.Arena, p *Prepared) {
	if len(p.Blocks) != len(r.transpose) {
		p.Blocks = make([]Block, len(r.transpose))
	}
	for l := range p.Blocks {
		n, q := r.Lengths(l), &p.Blocks[l]
		take(a, &q.Dst, n.Dst)
		take(a, &q.Src, n.Src)
		take(a, &q.Own, n.Own)
		take(a, &q.TIndptr, n.TIndptr)
		take(a, &q.TIndices, n.TIndices)
		take(a, &q.TEdges, n.TEdges)
		take(a, &q.Place, n.Place)
		take(a, &q.Ends, n.Ends)
		k := &q.Looped
		take(a, &k.Indptr, n.Indptr)
		take(a, &k.Indices, n.Indices)
		take(a, &k.TIndptr, n.LoopTIndptr)
		take(a, &k.TIndices, n.LoopTIndices)
		take(a, &k.TEdges, n.LoopTEdges)
		take(a, &p.Order, n.Order)
	}
}

// takeSorting takes the buffers for sorting edges and input nodes.
func (r *Preparer) takeSorting(a *device.Arena, p *Prepared) {
	if n := r.sorted(); n > 0 {
		take(a, &p.sorter, 1)
		take(a, &p.records, n)
	}
	if !r.sortsInput {
		return
	}
	o := &p.input
	take(a, &o.keys, r.sizes.Src[0])
	take(a, &o.spare, r.sizes.Src[0])
	if len(o.batch.Blocks) != len(r.transpose) {
		o.batch.Blocks = make([]graph.Block, len(r.transpose))
	}
	b, k := &o.batch, &o.batch.Blocks[0]
	take(a, &b.Input, r.sizes.Src[0])
	take(a, &b.Degree, r.sizes.Src[0])
	take(a, &k.Indices, r.sizes.Edges[0])
	take(a, &k.Dst, r.sizes.Dst[0])
}

// take gives s room for n elements, if it has less.
func take[T any](a *device.Arena, s *[]T, n int) {
	if cap(*s) < n {
		*s = device.Take[T](a, n)
	}
}

// sorted returns the most edges that a sorter may be used for.
func (r *Preparer) sorted() int {
	most := 0
	for l, wanted := range r.transpose {
		if r.weighing.loops && wanted && r.sizes.Src[l] > fewSources {
			most = max(most, min(r.edges(l), mostNumbered))
		}
	}
	return most
}
