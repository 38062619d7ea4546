package gnn

import (
	"math"

	"diskgnn/graph"
	"diskgnn/train/gnn/model"
)

// weigh computes the weights of the sums over block l.
func (r *Preparer) weigh(q *prepared, b *graph.Batch, l int) {
	k := &b.Blocks[l]
	switch {
	case r.model.Kind == model.GCN:
		q.dst = resized(q.dst, k.NumDst, r.sizes.Dst[l])
		q.own = resized(q.own, k.NumDst, r.sizes.Dst[l])
		q.src = resized(q.src, k.NumSrc, r.sizes.Src[l])
		if r.model.GCNNorm == model.BlockNorm {
			q.weighByBlock(k)
		} else {
			q.weighByGraph(b, l)
		}
	case r.model.Kind == model.SAGE && r.averages():
		q.dst = resized(q.dst, k.NumDst, r.sizes.Dst[l])
		q.average(k)
	}
}

func (r *Preparer) averages() bool {
	return r.model.Aggregator == "" || r.model.Aggregator == model.Mean
}

// weightFloats counts what weigh makes at the maximum sizes.
func (r *Preparer) weightFloats(l int) int {
	switch {
	case r.model.Kind == model.GCN:
		return 2*r.sizes.Dst[l] + r.sizes.Src[l]
	case r.model.Kind == model.SAGE && r.averages():
		return r.sizes.Dst[l]
	}
	return 0
}

// average gives every destination the mean of its sampled neighbours.
func (p *prepared) average(b *graph.Block) {
	for i := range p.dst {
		p.dst[i] = 0
		if n := b.Indptr[i+1] - b.Indptr[i]; n > 0 {
			p.dst[i] = 1 / float32(n)
		}
	}
}

// weighByGraph weighs the edge from s to d by 1/√((deg s + 1)(deg d + 1)), by the
// degrees in the whole graph, and by the degree of d over its sampled edges; that of
// d to itself by 1/(deg d + 1).
func (p *prepared) weighByGraph(b *graph.Batch, l int) {
	k := &b.Blocks[l]
	// Inner blocks' nodes are the first ones of the outermost block's destinations.
	degree := func(i int) float64 {
		if l > 0 {
			i = b.Blocks[0].DstPos(i)
		}
		return float64(b.Degree[i])
	}
	for s := range p.src {
		p.src[s] = float32(1 / math.Sqrt(degree(s)+1))
	}
	for i := range p.dst {
		d, n := degree(k.DstPos(i)), float64(k.Indptr[i+1]-k.Indptr[i])
		p.own[i] = float32(1 / (d + 1))
		p.dst[i] = float32(d / (max(1, n) * math.Sqrt(d+1)))
	}
}

// weighByBlock weighs the edge from s to d by 1/√(out s · in d), by the degrees in the
// block with a self-loop at every destination.
func (p *prepared) weighByBlock(b *graph.Block) {
	clear(p.src)
	for _, s := range b.Indices {
		p.src[s]++
	}
	for i := range b.NumDst {
		p.src[b.DstPos(i)]++
	}
	for s, n := range p.src {
		p.src[s] = float32(1 / math.Sqrt(max(1, float64(n))))
	}
	for i := range p.dst {
		p.dst[i] = float32(1 / math.Sqrt(float64(b.Indptr[i+1]-b.Indptr[i])+1))
		p.own[i] = float32(p.dst[i] * p.src[b.DstPos(i)])
	}
}
