// Package samplertest defines sampling in the plainest way, for tests to compare with.
package samplertest

import (
	"errors"
	"fmt"
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
)

// Sample draws a batch uniformly, one neighbour at a time. Labels are left out.
func Sample(g *graph.CSC, seeds []uint32, fanout []int, key uint64) *graph.Batch {
	return sample(g, seeds, fanout, func(hop int, v uint32, n, k int) []int {
		return Draw(n, k, rng.Join(rng.Join(key, uint64(hop)), uint64(v)))
	})
}

// sample draws a batch with maps, without reuse. choose returns which k of the n in-neighbours
// of v are drawn.
func sample(g *graph.CSC, seeds []uint32, fanout []int, choose func(hop int, v uint32, n, k int) []int) *graph.Batch {
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
		for _, v := range nodes[:k.NumDst] {
			list := g.Neighbors(v)
			for _, at := range choose(hop, v, len(list), fanout[l]) {
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

// Draw draws k of n positions by Floyd's method, with a map.
func Draw(n, k int, key uint64) []int {
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

// Check checks the contract of a sampled batch: its seed nodes come first, no node is listed twice, and
// its edges are the graph's, in the number that the fanout demands.
func Check(g *graph.CSC, b *graph.Batch, seeds []uint32, fanout []int) error {
	if err := b.Validate(); err != nil {
		return err
	}
	if !slices.Equal(b.Input[:len(seeds)], seeds) {
		return errors.New("the seed nodes are no prefix of the input nodes")
	}
	sorted := slices.Sorted(slices.Values(b.Input))
	if len(slices.Compact(sorted)) != len(b.Input) {
		return errors.New("an input node is listed twice")
	}
	for i, v := range b.Input {
		if int(b.Degree[i]) != g.Degree(v) {
			return fmt.Errorf("node %d: degree %d", v, b.Degree[i])
		}
	}
	for l := range b.Blocks {
		k := &b.Blocks[l]
		found := uint32(k.NumDst)
		for i := range k.NumDst {
			v := b.Input[i]
			drawn := k.Indices[k.Indptr[i]:k.Indptr[i+1]]
			want := g.Degree(v)
			if fanout[l] != mbfile.AllNeighbours {
				want = min(want, fanout[l])
			}
			if len(drawn) != want {
				return fmt.Errorf("layer %d, node %d: %d neighbours instead of %d", l, v, len(drawn), want)
			}
			// Every edge is one of the graph's, parallel ones no oftener than there.
			left := map[uint32]int{}
			for _, u := range g.Neighbors(v) {
				left[u]++
			}
			for _, src := range drawn {
				if left[b.Input[src]]--; left[b.Input[src]] < 0 {
					return fmt.Errorf("layer %d: edge from %d to %d drawn too often", l, b.Input[src], v)
				}
				if src > found {
					return fmt.Errorf("layer %d: source %d before source %d", l, src, found)
				}
				if src == found {
					found++
				}
			}
		}
		if int(found) != k.NumSrc {
			return fmt.Errorf("layer %d: %d sources, %d of them reached", l, k.NumSrc, found)
		}
	}
	return nil
}

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
