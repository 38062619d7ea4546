package gnn

import (
	"math"
	"math/rand/v2"

	"diskgnn/graph"
	"diskgnn/train/gnn/model"
)

// reference is the model written out in float64, a node at a time.
type reference struct {
	m       *model.Model
	params  [][]float64 // in the order of model.Params
	factors [][]float64 // per hidden layer, the factor of every unit: 0 dropped, 1/(1−p) kept; nil for ones
}

func newReference(e *Engine) *reference {
	r := &reference{m: e.plan.model}
	for _, p := range e.Params() {
		w := make([]float64, len(p.Data))
		for i, v := range p.Data {
			w[i] = float64(v)
		}
		r.params = append(r.params, w)
	}
	return r
}

func (r *reference) logits(b *graph.Batch, x []float64) []float64 {
	for l := range b.Blocks {
		blk, in, out := &b.Blocks[l], r.m.In(l), r.m.Out(l)
		neigh, self, bias := r.params[3*l], r.params[3*l+1], r.params[3*l+2]
		z := make([]float64, blk.NumDst*out)
		for i := range blk.NumDst {
			mean := make([]float64, in)
			edges := blk.Indices[blk.Indptr[i]:blk.Indptr[i+1]]
			for _, s := range edges {
				for k := range mean {
					mean[k] += x[int(s)*in+k] / float64(len(edges))
				}
			}
			own := x[blk.DstPos(i)*in:][:in]
			for c := range out {
				v := bias[c]
				for k := range in {
					v += mean[k]*neigh[k*out+c] + own[k]*self[k*out+c]
				}
				if l < len(b.Blocks)-1 {
					v = max(v, 0)
					if r.factors != nil {
						v *= r.factors[l][i*out+c]
					}
				}
				z[i*out+c] = v
			}
		}
		x = z
	}
	return x
}

func (r *reference) loss(b *graph.Batch, x []float64) float64 {
	z, classes := r.logits(b, x), r.m.Classes()
	loss, labelled := 0.0, 0
	for i, y := range b.Labels {
		if y == graph.Unlabelled {
			continue
		}
		labelled++
		sum := 0.0
		for c := range classes {
			sum += math.Exp(z[i*classes+c])
		}
		loss += math.Log(sum) - z[i*classes+int(y)]
	}
	return loss / float64(max(1, labelled))
}

// shape describes random batches.
type shape struct {
	seeds, classes int
	layers         int
	maxDegree      int     // neighbours per destination, 0 included
	fresh          int     // sources that are no destinations, per layer
	unlabelled     float64 // share
	scatter        bool    // outermost destinations at random positions
}

func (s shape) batch(rng *rand.Rand) *graph.Batch {
	b := &graph.Batch{Blocks: make([]graph.Block, s.layers)}
	n := s.seeds
	for l := s.layers - 1; l >= 0; l-- {
		k := &b.Blocks[l]
		k.NumDst, k.NumSrc, k.Indptr = n, n+s.fresh, []uint32{0}
		for range n {
			for range rng.IntN(s.maxDegree + 1) {
				k.Indices = append(k.Indices, uint32(rng.IntN(k.NumSrc)))
			}
			k.Indptr = append(k.Indptr, uint32(len(k.Indices)))
		}
		n = k.NumSrc
	}
	b.Input, b.Degree = make([]uint32, n), make([]uint32, n)
	for range s.seeds {
		y := int32(rng.IntN(s.classes))
		if rng.Float64() < s.unlabelled {
			y = graph.Unlabelled
		}
		b.Labels = append(b.Labels, y)
	}
	if s.scatter {
		k := &b.Blocks[0]
		k.Dst = make([]uint32, k.NumDst)
		for i := range k.Dst {
			k.Dst[i] = uint32(i)
		}
		renumber(b, rng.Perm(k.NumSrc))
	}
	return b
}

// renumber moves the outermost block's source s to position to[s].
func renumber(b *graph.Batch, to []int) {
	k := &b.Blocks[0]
	indices := make([]uint32, len(k.Indices))
	for e, s := range k.Indices {
		indices[e] = uint32(to[s])
	}
	dst := make([]uint32, k.NumDst)
	for i := range dst {
		dst[i] = uint32(to[k.DstPos(i)])
	}
	k.Indices, k.Dst = indices, dst
}

// features returns random rows for a batch, and NaN beyond them.
func features(b *graph.Batch, dim int, rng *rand.Rand) []float32 {
	n := b.Blocks[0].NumSrc * dim
	x := make([]float32, n+3*dim)
	for i := range x {
		if x[i] = float32(math.NaN()); i < n {
			x[i] = float32(rng.NormFloat64())
		}
	}
	return x
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// roomy returns sizes that cover the batches with rows to spare.
func roomy(batches ...*graph.Batch) graph.Sizes {
	var s graph.Sizes
	for _, b := range batches {
		s.Cover(b)
	}
	for l := range s.Src {
		s.Src[l] += 5
		s.Dst[l] += 5
		s.Edges[l] += 5
	}
	return s
}
