package plain

import (
	"math"
	"slices"

	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/rng"
)

// Frontier is the nodes of a batch that is being drawn; see kernels.Frontier.
type Frontier struct {
	Graph         []uint64
	Nodes, Degree []uint32
	Start         []uint64
	Table         []uint64 // a power of two of them
	Bits          int
	Wrong         []uint32
}

// emptyEntry is an entry of the table without a node.
const emptyEntry = math.MaxUint64

// enter returns where the table has a node, and whether it had it before. The node's number
// is then value, or less if it was.
func (f *Frontier) enter(node, value uint32) (at uint32, found bool) {
	mask := uint32(1)<<f.Bits - 1
	entry := uint64(node)<<32 | uint64(value)
	for at = (node * 0x9E3779B1) >> (32 - f.Bits); ; at = (at + 1) & mask {
		switch was := f.Table[at]; {
		case was == emptyEntry:
			f.Table[at] = entry
			return at, false
		case uint32(was>>32) == node:
			f.Table[at] = min(was, entry)
			return at, true
		}
	}
}

// locate finds the edges of the node of number i.
func (f *Frontier) locate(i int) {
	v := int(f.Nodes[i])
	n := f.Graph[v+1] - f.Graph[v]
	f.Start[i], f.Degree[i] = f.Graph[v], uint32(n)
	if n > math.MaxUint32 {
		f.Wrong[0] |= kernels.SampleNoRoom
	}
}

// SampleSeeds numbers the given number of seed nodes.
func SampleSeeds(f *Frontier, seeds int) {
	for i := range seeds {
		if _, found := f.enter(f.Nodes[i], uint32(i)); found {
			f.Wrong[0] |= kernels.SampleTwice
		}
		f.locate(i)
	}
}

// sampleTileSums stores the sums of the values of rows, tile by tile, for the tiles of most rows.
func sampleTileSums(sums []uint64, rows, most int, value func(i int) uint64) {
	clear(sums[:(most+kernels.SampleTile-1)/kernels.SampleTile])
	for i := range rows {
		sums[i/kernels.SampleTile] += value(i)
	}
}

// SampleTakes makes sums the edges that destinations draw, tile by tile.
func SampleTakes(sums []uint64, degree []uint32, fanout uint32, rows, most int) {
	sampleTileSums(sums, rows, most, func(i int) uint64 { return uint64(min(degree[i], fanout)) })
}

// SampleOffsets replaces the sums of rows' tiles by the sums before each tile, and returns the base
// and their sum, or 0 if that is more than the limit.
func SampleOffsets(sums []uint64, rows int, base uint32, limit int, wrong []uint32) uint32 {
	before := uint64(0)
	for t := range (rows + kernels.SampleTile - 1) / kernels.SampleTile {
		sums[t], before = before, before+sums[t]
	}
	if before += uint64(base); before > uint64(limit) {
		wrong[0] |= kernels.SampleNoRoom
		return 0
	}
	return uint32(before)
}

// SampleIndptr makes the index pointers of a hop.
func SampleIndptr(indptr []uint32, sums []uint64, degree []uint32, fanout uint32, rows int) {
	indptr[0] = 0
	var before uint64
	for i := range rows {
		if i%kernels.SampleTile == 0 {
			before = sums[i/kernels.SampleTile]
		}
		before += uint64(min(degree[i], fanout))
		indptr[i+1] = uint32(before)
	}
}

// SampleDraw draws the given number of edges of a hop, and sets places to the places of their
// sources in the table. It draws the edges of a destination by Floyd's method.
func SampleDraw(f *Frontier, places, indptr, neighbors []uint32, key uint64, edges uint32, rows int) {
	var drawn []uint32 // positions
	for i := range rows {
		from, to, n := indptr[i], indptr[i+1], f.Degree[i]
		if to > edges {
			continue
		}
		drawn = drawn[:0]
		src := rng.New(rng.Join(key, uint64(f.Nodes[i])))
		for j := n - (to - from); j < n; j++ {
			p := j
			if to-from < n {
				if t := src.Uint32n(j + 1); !slices.Contains(drawn, t) {
					p = t
				}
				drawn = append(drawn, p)
			}
			e := to - (n - j)
			places[e], _ = f.enter(neighbors[f.Start[i]+uint64(p)], uint32(rows)+e)
		}
	}
}

// first reports whether edge e is the first of a node that is new.
func first(table []uint64, places []uint32, e int, known uint32) bool {
	return uint32(table[places[e]]) == known+uint32(e)
}

// SampleFirsts makes sums the first edges of new nodes, tile by tile.
func SampleFirsts(sums, table []uint64, places []uint32, known uint32, rows, most int) {
	sampleTileSums(sums, rows, most, func(e int) uint64 {
		if first(table, places, e, known) {
			return 1
		}
		return 0
	})
}

// SampleNumber numbers the new nodes of a hop, up to the node count found.
func SampleNumber(f *Frontier, places []uint32, sums []uint64, known, found uint32, rows int) {
	var number uint64
	for e := range rows {
		if e%kernels.SampleTile == 0 {
			number = uint64(known) + sums[e/kernels.SampleTile]
		}
		if !first(f.Table, places, e, known) {
			continue
		}
		if number < uint64(found) {
			at := places[e]
			node := uint32(f.Table[at] >> 32)
			f.Nodes[number] = node
			f.Table[at] = uint64(node)<<32 | number
			f.locate(int(number))
		}
		number++
	}
}

// SampleSources makes places in the table the numbers that are there.
func SampleSources(indices []uint32, table []uint64, rows int) {
	for e := range rows {
		indices[e] = uint32(table[indices[e]])
	}
}
