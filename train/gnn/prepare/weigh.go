package prepare

import (
	"math"

	"diskgnn/graph"
	"diskgnn/train/gnn/model"
)

// weigh computes the weights of the sums over block l.
func (r *Preparer) weigh(q *Block, b *graph.Batch, l int) {
	k := &b.Blocks[l]
	switch {
	case r.model.Kind == model.GCN:
		q.Dst = resized(q.Dst, k.NumDst, r.sizes.Dst[l])
		q.Own = resized(q.Own, k.NumDst, r.sizes.Dst[l])
		q.Src = resized(q.Src, k.NumSrc, r.sizes.Src[l])
		if r.model.GCNNorm == model.BlockNorm {
			q.weighByBlock(k)
		} else {
			q.weighByGraph(b, l)
		}
	case r.model.Kind == model.SAGE && r.averages():
		q.Dst = resized(q.Dst, k.NumDst, r.sizes.Dst[l])
		q.average(k)
	}
}

func (r *Preparer) averages() bool {
	return r.model.Aggregator == "" || r.model.Aggregator == model.Mean
}

// average gives every destination the mean of its sampled neighbours.
func (p *Block) average(b *graph.Block) {
	for i := range p.Dst {
		p.Dst[i] = 0
		if n := b.Indptr[i+1] - b.Indptr[i]; n > 0 {
			p.Dst[i] = 1 / float32(n)
		}
	}
}

// weighByGraph weighs the edge from s to d by 1/√((deg s + 1)(deg d + 1)), by the
// degrees in the whole graph, and by the degree of d over its sampled edges; that of
// d to itself by 1/(deg d + 1).
func (p *Block) weighByGraph(b *graph.Batch, l int) {
	k := &b.Blocks[l]
	// Inner blocks' nodes are the first ones of the outermost block's destinations.
	degree := func(i int) float64 {
		if l > 0 {
			i = b.Blocks[0].DstPos(i)
		}
		return float64(b.Degree[i])
	}
	for s := range p.Src {
		p.Src[s] = float32(1 / math.Sqrt(degree(s)+1))
	}
	for i := range p.Dst {
		d, n := degree(k.DstPos(i)), float64(k.Indptr[i+1]-k.Indptr[i])
		p.Own[i] = float32(1 / (d + 1))
		p.Dst[i] = float32(d / (max(1, n) * math.Sqrt(d+1)))
	}
}

// weighByBlock weighs the edge from s to d by 1/√(out s · in d), by the degrees in the
// block with a self-loop at every destination.
func (p *Block) weighByBlock(b *graph.Block) {
	clear(p.Src)
	for _, s := range b.Indices {
		p.Src[s]++
	}
	for i := range b.NumDst {
		p.Src[b.DstPos(i)]++
	}
	for s, n := range p.Src {
		p.Src[s] = float32(1 / math.Sqrt(max(1, float64(n))))
	}
	for i := range p.Dst {
		p.Dst[i] = float32(1 / math.Sqrt(float64(b.Indptr[i+1]-b.Indptr[i])+1))
		p.Own[i] = float32(p.Dst[i] * p.Src[b.DstPos(i)])
	}
}
