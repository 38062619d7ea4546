// Package graphtest makes random mini-batches for tests.
package graphtest

import (
	"math"
	"math/rand/v2"
	"slices"

	"diskgnn/graph"
)

// Shape has the properties of random batches.
type Shape struct {
	Seeds, Classes int
	Layers         int
	MaxDegree      int     // neighbours per destination, 0 included
	Fresh          int     // number of sources that are not destinations, in each layer
	Unlabelled     float64 // share of the seed nodes without a label
	Scatter        bool    // outermost destinations at random positions
}

// Batch returns a random valid batch with the properties of the shape.
func (s Shape) Batch(rng *rand.Rand) *graph.Batch {
	b := &graph.Batch{Blocks: make([]graph.Block, s.Layers)}
	n := s.Seeds
	for l := s.Layers - 1; l >= 0; l-- {
		k := &b.Blocks[l]
		k.NumDst, k.NumSrc, k.Indptr = n, n+s.Fresh, []uint32{0}
		for range n {
			for range rng.IntN(s.MaxDegree + 1) {
				k.Indices = append(k.Indices, uint32(rng.IntN(k.NumSrc)))
			}
			k.Indptr = append(k.Indptr, uint32(len(k.Indices)))
		}
		n = k.NumSrc
	}
	for i := range n {
		b.Input, b.Degree = append(b.Input, uint32(1000+i)), append(b.Degree, uint32(s.MaxDegree+rng.IntN(9)))
	}
	for range s.Seeds {
		y := int32(rng.IntN(s.Classes))
		if rng.Float64() < s.Unlabelled {
			y = graph.Unlabelled
		}
		b.Labels = append(b.Labels, y)
	}
	if s.Scatter {
		k := &b.Blocks[0]
		k.Dst = make([]uint32, k.NumDst)
		for i := range k.Dst {
			k.Dst[i] = uint32(i)
		}
		Renumber(b, rng.Perm(k.NumSrc))
	}
	return b
}

// Renumber moves the outermost block's source s to position to[s]. A sampled batch of a typed graph takes the form of a
// packed one.
func Renumber(b *graph.Batch, to []int) {
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
	b.Input, b.Degree = moved(b.Input, to), moved(b.Degree, to)
	if b.Types == nil {
		return
	}
	if k.Ends != nil {
		b.InputTypes = nil
		for kind, end := range k.Ends {
			b.InputTypes = append(b.InputTypes, slices.Repeat([]uint32{uint32(kind)}, int(end)-len(b.InputTypes))...)
		}
		k.Ends = nil
	}
	b.InputTypes = moved(b.InputTypes, to)
}

// moved returns s, which may be empty, with element i at to[i].
func moved(s []uint32, to []int) []uint32 {
	m := make([]uint32, len(s))
	for i := range s {
		m[to[i]] = s[i]
	}
	return m
}

// Shuffled returns a copy of a batch with its input nodes in another order, and their rows of x in that
// order.
func Shuffled(b *graph.Batch, x []float32, dim int, rng *rand.Rand) (*graph.Batch, []float32) {
	perm := rng.Perm(b.Blocks[0].NumSrc)
	moved, y := *b, slices.Clone(x)
	moved.Blocks = slices.Clone(b.Blocks)
	Renumber(&moved, perm)
	for s, to := range perm {
		copy(y[to*dim:(to+1)*dim], x[s*dim:])
	}
	return &moved, y
}

// Features returns random rows for a batch, and NaN beyond them.
func Features(b *graph.Batch, dim int, rng *rand.Rand) []float32 {
	n := b.Blocks[0].NumSrc * dim
	x := make([]float32, n+3*dim)
	for i := range x {
		if x[i] = float32(math.NaN()); i < n {
			x[i] = float32(rng.NormFloat64())
		}
	}
	return x
}

// Roomy returns sizes that cover the batches with rows to spare.
func Roomy(batches ...*graph.Batch) graph.Sizes {
	var s graph.Sizes
	for _, b := range batches {
		s.Cover(b)
	}
	for l := range s.Src {
		s.Src[l] += 5
		s.Dst[l] += 5
		s.Edges[l] += 5
	}
	for l := range s.Rows {
		s.Rows[l] += 5
	}
	return s
}
