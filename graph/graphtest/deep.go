package graphtest

import (
	"math/rand/v2"

	"diskgnn/graph"
)

// Deep returns a batch as large as the batches of 1024 seeds and fanouts 10, 15 and 20, packed:
// every source past the destinations is used at least once, other edges favour some, and
// the outermost block's sources are in an order of their own.
func Deep() *graph.Batch {
	rng := rand.New(rand.NewPCG(1, 2))
	b := new(graph.Batch)
	for _, s := range []struct{ dst, src, edges, fanout int }{{110_000, 450_000, 678_000, 10}, {12_000, 110_000, 124_000, 15}, {1024, 12_000, 13_500, 20}} {
		k := graph.Block{NumSrc: s.src, NumDst: s.dst, Indptr: make([]uint32, s.dst+1), Indices: make([]uint32, s.edges)}
		for _, place := range rng.Perm(s.dst * s.fanout)[:s.edges] { // no destination above the fanout
			k.Indptr[place/s.fanout+1]++
		}
		for i := range s.dst {
			k.Indptr[i+1] += k.Indptr[i]
		}
		// New sources are numbered as they are met.
		next, left := s.dst, s.src-s.dst
		for e := range k.Indices {
			if rng.IntN(s.edges-e) < left {
				k.Indices[e] = uint32(next)
				next, left = next+1, left-1
			} else {
				u := rng.Float64()
				k.Indices[e] = uint32(u * u * float64(next))
			}
		}
		b.Blocks = append(b.Blocks, k)
	}
	for i := range b.Blocks[0].NumSrc {
		b.Input, b.Degree = append(b.Input, uint32(i)), append(b.Degree, uint32(3/(rng.Float64()+1e-4)))
	}
	for range b.NumSeeds() {
		b.Labels = append(b.Labels, int32(rng.IntN(172)))
	}
	Renumber(b, rng.Perm(b.Blocks[0].NumSrc))
	return b
}
