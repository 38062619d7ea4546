package prepare

import (
	"math"
	"sync"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/train/model"
)

// weighing is a way to weigh the edges of blocks: the fields of a Block, and the function that sets
// them.
type weighing struct {
	dst, src, own bool // weights that the Block has
	loops         bool // it is Looped
	edges         bool // its transposed block has TEdges
	// weigh computes the weights of block l of a batch, after the blocks before; nil for no weights.
	weigh func(blocks []Block, b *graph.Batch, l int)
}

// weighings has a row for every model.Weighing.
var weighings = map[model.Weighing]weighing{
	model.Unweighed:     {},
	model.Attended:      {loops: true},
	model.AttendedByRow: {edges: true},
	model.Averaged: {dst: true, weigh: func(blocks []Block, b *graph.Batch, l int) {
		blocks[l].average(&b.Blocks[l])
	}},
	model.ByGraph: {dst: true, src: true, own: true, weigh: func(blocks []Block, b *graph.Batch, l int) {
		if t := weightsByDegree(); l == 0 {
			blocks[0].weighByGraph(b, t)
		} else {
			blocks[l].weighInner(b, l, &blocks[l-1], t)
		}
	}},
	model.ByBlock: {dst: true, src: true, own: true, weigh: func(blocks []Block, b *graph.Batch, l int) {
		blocks[l].weighByBlock(&b.Blocks[l], weightsByDegree())
	}},
}

// compute computes the weights of the sums over block l.
func (w *weighing) compute(blocks []Block, b *graph.Batch, l int) {
	k, q := &b.Blocks[l], &blocks[l]
	if w.dst {
		q.Dst = q.Dst[:k.NumRows()]
	}
	if w.own {
		q.Own = q.Own[:k.NumDst]
	}
	if w.src {
		q.Src = q.Src[:k.NumSrc]
	}
	if w.weigh != nil {
		w.weigh(blocks, b, l)
	}
}

// average gives every row the mean of its sampled neighbours.
func (p *Block) average(b *graph.Block) {
	dst, from := p.Dst, uint32(0)
	for i, to := range b.Indptr[1:] {
		n := to - from
		from = to
		if n < uint32(len(means)) {
			dst[i] = means[n]
		} else {
			dst[i] = 1 / float32(n)
		}
	}
}

// means are the weights of few neighbours.
var means = func() (m [64]float32) {
	for n := 1; n < len(m); n++ {
		m[n] = 1 / float32(n)
	}
	return m
}()

// degreeTable has functions of small degrees, since computing them takes longer than a lookup.
type degreeTable struct {
	roots        [1 << 12]float64 // √(d + 1)
	inverseRoots [1 << 12]float32
	inverses     [1 << 12]float32 // 1/(d + 1)
}

var weightsByDegree = sync.OnceValue(func() *degreeTable {
	t := new(degreeTable)
	for d := range t.roots {
		t.roots[d], t.inverseRoots[d], t.inverses[d] = root(uint32(d)), inverseRoot(uint32(d)), inverse(uint32(d))
	}
	return t
})

func root(d uint32) float64        { return math.Sqrt(float64(d) + 1) }
func inverseRoot(d uint32) float32 { return float32(1 / root(d)) }
func inverse(d uint32) float32     { return float32(1 / (float64(d) + 1)) }

func (t *degreeTable) root(d uint32) float64 {
	if int(d) < len(t.roots) {
		return t.roots[d]
	}
	return root(d)
}

func (t *degreeTable) inverseRoot(d uint32) float32 {
	if int(d) < len(t.inverseRoots) {
		return t.inverseRoots[d]
	}
	return inverseRoot(d)
}

func (t *degreeTable) inverse(d uint32) float32 {
	if int(d) < len(t.inverses) {
		return t.inverses[d]
	}
	return inverse(d)
}

// weighByGraph weighs the outermost block's edge from s to d by 1/√((deg s + 1)(deg d + 1)),
// by the degrees in the whole graph, and by the degree of d over its sampled edges; the edge of d
// to itself by 1/(deg d + 1).
func (p *Block) weighByGraph(b *graph.Batch, t *degreeTable) {
	src := p.Src
	for s, d := range b.Degree[:len(src)] {
		src[s] = t.inverseRoot(d)
	}
	p.weighDestinations(b, &b.Blocks[0], t)
}

// weighInner does it for an inner block. Its nodes are the first destinations of the block before.
func (p *Block) weighInner(b *graph.Batch, l int, before *Block, t *degreeTable) {
	for s := range p.Src {
		p.Src[s] = before.Src[b.Blocks[l-1].DstPos(s)]
	}
	p.weighDestinations(b, &b.Blocks[l], t)
}

// weighDestinations does it for the destinations of k, the first of the outermost block's.
func (p *Block) weighDestinations(b *graph.Batch, k *graph.Block, t *degreeTable) {
	outermost, from := &b.Blocks[0], uint32(0)
	sums, own := p.Dst, p.Own[:len(p.Dst)]
	for i, to := range k.Indptr[1:] {
		d := b.Degree[outermost.DstPos(i)]
		sums[i] = float32(float64(d) / (float64(max(1, to-from)) * t.root(d)))
		own[i] = t.inverse(d)
		from = to
	}
}

// weighByBlock weighs the edge from s to d by 1/√(out s · in d), with the degrees in the block and
// a self-loop at every destination.
func (p *Block) weighByBlock(b *graph.Block, t *degreeTable) {
	out := p.countSources(b)
	src := p.Src[:len(out)]
	for s, n := range out {
		src[s] = t.inverseRoot(n)
	}
	from := uint32(0)
	for i, to := range b.Indptr[1:] {
		p.Dst[i] = t.inverseRoot(to - from)
		p.Own[i] = p.Dst[i] * src[b.DstPos(i)]
		from = to
	}
}

// countSources counts the edges of every source in the block, without one self-loop for sources
// that have edges or are destinations. The counts lie in the memory of Src.
func (p *Block) countSources(b *graph.Block) []uint32 {
	out := binio.View[uint32](binio.Bytes(p.Src))
	clear(out)
	for _, s := range b.Indices {
		out[s]++
	}
	for i := range b.NumDst {
		out[b.DstPos(i)]++
	}
	for s, n := range out {
		out[s] = max(1, n) - 1
	}
	return out
}
