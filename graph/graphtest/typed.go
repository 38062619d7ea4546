package graphtest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"diskgnn/graph"
)

// Types returns random types: up to four with up to three relations into each, one at least into the first, which has
// features. Each has the given number of nodes.
func Types(rng *rand.Rand, nodes int64) *graph.Types {
	t := new(graph.Types)
	kinds := rng.IntN(4) + 1
	featured := rng.IntN(kinds) + 1
	for i := range kinds {
		t.Nodes = append(t.Nodes, graph.NodeType{Name: fmt.Sprintf("type%d", i), Count: nodes, Features: i < featured})
		for r := range rng.IntN(4) + max(0, 1-i) {
			t.Relations = append(t.Relations, graph.Relation{Source: rng.IntN(kinds), Name: fmt.Sprintf("relation%d", r), Destination: i})
		}
	}
	if err := t.Check(); err != nil {
		panic(err)
	}
	return t
}

// Typed returns a random valid batch of a typed graph in the form of samples, with seed nodes of the first type.
// Types have 1000 nodes at least.
func (s Shape) Typed(rng *rand.Rand, types *graph.Types) *graph.Batch {
	b := &graph.Batch{Blocks: make([]graph.Block, s.Layers), Types: types}
	counts := make([]int, len(types.Nodes)) // of the destinations, by type
	counts[0] = s.Seeds
	for l := s.Layers - 1; l >= 0; l-- {
		k := &b.Blocks[l]
		dstEnds := ends(counts)
		k.NumDst, k.Indptr = sum(counts), []uint32{0}
		sources := slices.Clone(counts)
		for i := range sources {
			sources[i] += rng.IntN(s.Fresh + 1)
			if l == 0 && !types.Nodes[i].Features {
				sources[i] = min(sources[i], 1)
			}
		}
		k.Ends, k.NumSrc = ends(sources), sum(sources)
		for kind, n := range counts {
			first, relations := types.Into(kind)
			for row := range n * relations {
				from := types.Relations[first+row%relations].Source
				for range rng.IntN(s.MaxDegree + 1) {
					if sources[from] > 0 {
						k.Indices = append(k.Indices, k.Ends[from]-uint32(rng.IntN(sources[from]))-1)
					}
				}
				k.Indptr = append(k.Indptr, uint32(len(k.Indices)))
			}
		}
		k.Dst = types.PlaceDestinations(nil, dstEnds, k.Ends, l == 0)
		counts = sources
	}
	for kind, n := range counts {
		lo, _ := types.Range(kind)
		for _, v := range rng.Perm(int(types.Nodes[kind].Count))[:n] {
			b.Input = append(b.Input, types.FeatureRow(uint32(lo)+uint32(v)))
		}
	}
	for range s.Seeds {
		b.Labels = append(b.Labels, int32(rng.IntN(s.Classes)))
	}
	if s.Scatter {
		Renumber(b, rng.Perm(len(b.Input)))
	}
	return b
}

func ends(counts []int) []uint32 {
	var e []uint32
	for i := range counts {
		e = append(e, uint32(sum(counts[:i+1])))
	}
	return e
}

func sum(counts []int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}
