package prepare

import (
	"math/bits"

	"diskgnn/graph"
	"diskgnn/internal/fault"
)

// Block is the data derived from one block of a batch.
type Block struct {
	// The weights of a destination's sum: over the sources s of its edges,
	//
	//	Dst[d] · Σ Src[s]·x[s]  +  Own[d]·x[d]
	//
	// where nil means ones for Dst and Src, and no own term for Own. In a typed graph, Dst and the
	// transposed block have the block's rows in the place of destinations.
	Dst, Src, Own []float32
	// The block transposed, if the backward pass needs it: source s feeds the destinations
	// TIndices[TIndptr[s]:TIndptr[s+1]], ascending. If a layer weighs edges itself, by the edges in
	// TEdges.
	TIndptr, TIndices, TEdges []uint32
	// Place maps a source to its number as a destination, plus one; 0 for other sources. It is set
	// if the backward pass needs it and destinations are scattered among the sources.
	Place []uint32
	// Ends has, in a typed graph, the destination after the last of each node type.
	Ends []uint32
	// The block with loops, transposed separately, if a layer weighs edges itself.
	Looped Looped
}

// Destination returns the number of source i as a destination, and whether it is one. If
// destinations are scattered, Place must be set.
func (p *Block) Destination(b *graph.Block, i int) (int, bool) {
	if b.Dst == nil {
		return i, i < b.NumDst
	}
	k := int(p.Place[i])
	return k - 1, k > 0
}

// placeDestinations sets Place.
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

// Looped is a block in which every destination has exactly one edge from itself, its last one;
// sampled edges from a node to itself are left out.
type Looped struct {
	Indptr, Indices []uint32
	// Transposed, for the gradient of the sources: source s feeds the destinations
	// TIndices[TIndptr[s]:TIndptr[s+1]], ascending, by the edges in TEdges.
	TIndptr, TIndices, TEdges []uint32
}

// build makes the looped block of b, in memory that has room, and returns the number of edges.
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

// transposed is the memory of a transposed block: source s feeds the destinations
// indices[indptr[s]:indptr[s+1]], ascending, by the edges in edges, unless that is nil. indptr has
// room for one more element.
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

// sorter transposes a looped block as transposed.plain does, for many sources. Their counters, and
// the two destinations of an edge, lie so far apart that almost every access misses the caches. So
// the sorter first collects edges in buckets of neighbouring sources, while the block is built, and
// sorts each bucket within a near cache.
type sorter struct {
	shift   int                  // a source's bits within its bucket
	from    [buckets]uint32      // where buckets begin in records
	to      [buckets]uint32      // where they end so far
	next    [mostInBucket]uint32 // of a bucket's sources: where the next edge goes
	records []uint64
}

const (
	// The number of buckets is small enough for memory to be written at its full rate.
	bucketBits = 5
	buckets    = 1 << bucketBits

	// A record is an edge: its source in the bucket, its destination, its number.
	sourceBits   = 16
	mostInBucket = 1 << sourceBits
	sourceAt     = 64 - sourceBits
	numberBits   = sourceAt / 2
	mostNumbered = 1 << numberBits

	fewSources = 1 << 17 // for which plain is as fast
)

// sorts reports whether looped blocks of these sizes use a sorter.
func sorts(src, dst, edges int) bool {
	return src > fewSources && src <= buckets*mostInBucket && dst <= mostNumbered && edges <= mostNumbered
}

// build is Looped.build, and also records the edges in their buckets.
func (o *sorter) build(q *Looped, b *graph.Block) (edges uint32) {
	o.divide(b)
	records, shift, mask := o.records, o.shift&31, uint32(1)<<(o.shift&31)-1
	out, ends := q.Indices, q.Indptr[1:]
	from, e := uint32(0), uint32(0)
	q.Indptr[0] = 0
	for d, end := range b.Indptr[1:] {
		self, of := uint32(b.DstPos(d)), uint64(d)<<numberBits
		for _, s := range b.Indices[from:end] {
			if s == self {
				continue
			}
			n := &o.to[s>>shift%buckets]
			at := *n
			*n = at + 1
			records[at] = uint64(s&mask)<<sourceAt | of | uint64(e)
			out[e] = s
			e++
		}
		n := &o.to[self>>shift%buckets]
		at := *n
		*n = at + 1
		records[at] = uint64(self&mask)<<sourceAt | of | uint64(e)
		out[e] = self
		e++
		ends[d] = e
		from = end
	}
	return e
}

// divide makes room in buckets for every edge of a block, and for a loop at every
// destination.
func (o *sorter) divide(b *graph.Block) {
	o.shift = max(0, bits.Len(uint(b.NumSrc-1))-bucketBits)
	shift := o.shift & 31
	var counts [buckets]uint32
	for _, s := range b.Indices {
		counts[s>>shift%buckets]++
	}
	for i := range b.NumDst {
		counts[uint32(b.DstPos(i))>>shift%buckets]++
	}
	sum := uint32(0)
	for i, n := range counts {
		o.from[i], o.to[i] = sum, sum
		sum += n
	}
}

// transpose transposes the recorded edges, and returns indptr.
func (o *sorter) transpose(t transposed) []uint32 {
	ptr := t.indptr[:len(t.indptr)-1]
	src, width, sum := len(ptr)-1, 1<<o.shift, uint32(0)
	for i := 0; i*width < src; i++ {
		sum = o.bucket(t, ptr[i*width:min((i+1)*width, src)], o.records[o.from[i]:o.to[i]], sum)
	}
	ptr[src] = sum
	return ptr
}

// bucket transposes a bucket after before edges of earlier buckets, and returns the number of edges
// including it.
func (o *sorter) bucket(t transposed, ptr []uint32, records []uint64, before uint32) uint32 {
	next, sum := &o.next, before
	clear(next[:len(ptr)])
	for _, r := range records {
		next[r>>sourceAt]++
	}
	for i := range ptr {
		n := next[i]
		ptr[i], next[i] = sum, sum
		sum += n
	}
	destinations, edges := t.indices, t.edges[:len(t.indices)]
	// Sequential writes first: they bring the memory into the cache sooner than scattered ones.
	clear(destinations[before:sum])
	clear(edges[before:sum])
	for _, r := range records {
		n := &next[r>>sourceAt]
		at := *n
		*n = at + 1
		destinations[at], edges[at] = uint32(r>>numberBits%mostNumbered), uint32(r%mostNumbered)
	}
	return sum
}
