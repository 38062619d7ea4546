package presample

import (
	"diskgnn/graph"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
)

// referenceSample is what sampling means, written for reading: maps, no reuse,
// one neighbour at a time.
func referenceSample(g *graph.CSC, seeds []uint32, fanout []int, key uint64) *graph.Batch {
	b := &graph.Batch{Blocks: make([]graph.Block, len(fanout))}
	number := map[uint32]uint32{}
	var nodes []uint32
	of := func(v uint32) uint32 {
		if _, ok := number[v]; !ok {
			number[v] = uint32(len(nodes))
			nodes = append(nodes, v)
		}
		return number[v]
	}
	for _, v := range seeds {
		of(v)
	}
	for hop := range fanout {
		l := len(fanout) - 1 - hop
		k := graph.Block{NumDst: len(nodes), Indptr: []uint32{0}, Indices: []uint32{}}
		hopKey := rng.Join(key, uint64(hop))
		for _, v := range nodes[:k.NumDst] {
			list := g.Neighbors(v)
			for _, at := range referenceDraw(len(list), fanout[l], rng.Join(hopKey, uint64(v))) {
				k.Indices = append(k.Indices, of(list[at]))
			}
			k.Indptr = append(k.Indptr, uint32(len(k.Indices)))
		}
		k.NumSrc = len(nodes)
		b.Blocks[l] = k
	}
	b.Input = nodes
	for _, v := range nodes {
		b.Degree = append(b.Degree, uint32(g.Degree(v)))
	}
	return b
}

// referenceDraw is Floyd's method with a map.
func referenceDraw(n, k int, key uint64) []int {
	var at []int
	if k == mbfile.AllNeighbours || n <= k {
		for i := range n {
			at = append(at, i)
		}
		return at
	}
	src := rng.New(key)
	taken := map[int]bool{}
	for j := n - k; j < n; j++ {
		t := int(src.Uint32n(uint32(j + 1)))
		if taken[t] {
			t = j
		}
		taken[t] = true
		at = append(at, t)
	}
	return at
}
