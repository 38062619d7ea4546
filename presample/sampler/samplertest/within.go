package samplertest

import (
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/rng"
)

// Within draws a batch uniformly among the neighbours that are in the buffer.
func Within(g *graph.CSC, seeds []uint32, fanout []int, key uint64, in func(v uint32) bool) *graph.Batch {
	return sample(g, seeds, fanout, func(hop int, v uint32, n, k int) []int {
		var held []int // positions
		for at, u := range g.Neighbors(v) {
			if in(u) {
				held = append(held, at)
			}
		}
		drawn := Draw(len(held), k, rng.Join(rng.Join(key, uint64(hop)), uint64(v)))
		for i, at := range drawn {
			drawn[i] = held[at]
		}
		if len(held) < n {
			slices.Sort(drawn)
		}
		return drawn
	})
}
