package plain

import (
	"math"
	"slices"

	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/rng"
)

// Frontier has the nodes of a batch that is being sampled, in the order of their discovery, and a hash
// table of their numbers. The fields are the fields of kernels.Frontier; Bits is the logarithm of the
// table's entries.
type Frontier struct {
	Graph         []uint32
	Nodes, Degree []uint32
	Start         []uint64
	Table         []uint64 // the length is a power of two
	Bits          int
	Wrong         []uint32
}

// emptyEntry is an entry of the table without a node.
const emptyEntry = math.MaxUint64

// enter enters a node into the table with the number value. It returns the node's place in the table and
// whether it was there before: the smaller number is kept.
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

// locate finds the list of the node of number i.
func (f *Frontier) locate(i int) {
	record := f.Graph[3*int(f.Nodes[i]):]
	f.Start[i], f.Degree[i] = uint64(record[0])|uint64(record[1])<<32, record[2]
}

// SampleSeeds enters the first seeds nodes of f.Nodes into the table, with the numbers 0, 1 and so on. A
// node listed twice sets kernels.SampleTwice.
func SampleSeeds(f *Frontier, seeds int) {
	for i := range seeds {
		if _, found := f.enter(f.Nodes[i], uint32(i)); found {
			f.Wrong[0] |= kernels.SampleTwice
		}
		f.locate(i)
	}
}

// sampleTileSums stores the sum of the values of each tile of rows. Tiles up to most rows that have no rows
// get 0.
func sampleTileSums(sums []uint64, rows, most int, value func(i int) uint64) {
	clear(sums[:(most+kernels.SampleTile-1)/kernels.SampleTile])
	for i := range rows {
		sums[i/kernels.SampleTile] += value(i)
	}
}

// SampleTakes stores in sums, for each tile of destinations, the number of edges that they draw.
func SampleTakes(sums []uint64, degree []uint32, fanout uint32, rows, most int) {
	sampleTileSums(sums, rows, most, func(i int) uint64 { return uint64(min(degree[i], fanout)) })
}

// SampleOffsets replaces the sum of each tile by the sum of all tiles before it. It returns base plus the
// sum of all tiles. If that is above the limit, it returns 0 and sets kernels.SampleNoRoom.
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

// SampleIndptr stores the index pointers of a hop: for each of rows destinations the number of edges before
// it, and the number of all edges. sums are of SampleOffsets.
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

// SampleDraw draws the edges of a hop for rows destinations, by Floyd's method, from lists in far and near, and
// stores in places the place of each edge's source in the table. Destinations with edges beyond the number edges are left out.
// key is the key of (seed, epoch, batch, hop).
func SampleDraw(f *Frontier, places, indptr, far, near []uint32, key uint64, edges uint32, rows int) {
	var drawn []uint32 // positions
	for i := range rows {
		from, to, n := indptr[i], indptr[i+1], f.Degree[i]
		if to > edges {
			continue
		}
		list := far
		if f.Start[i]&kernels.SampleNear != 0 {
			list = near
		}
		list = list[f.Start[i]&^kernels.SampleNear:]
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
			places[e], _ = f.enter(list[p], uint32(rows)+e)
		}
	}
}

// first reports whether edge e is the first edge to a new node.
func first(table []uint64, places []uint32, e int, known uint32) bool {
	return uint32(table[places[e]]) == known+uint32(e)
}

// SampleFirsts stores in sums, for each tile of edges, the number of first edges to new nodes.
func SampleFirsts(sums, table []uint64, places []uint32, known uint32, rows, most int) {
	sampleTileSums(sums, rows, most, func(e int) uint64 {
		if first(table, places, e, known) {
			return 1
		}
		return 0
	})
}

// SampleNumber numbers the new nodes of a hop from known on, in the order of their first edges, up to found
// nodes in all.
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

// SampleSources replaces each place in the table by the node's number.
func SampleSources(indices []uint32, table []uint64, rows int) {
	for e := range rows {
		indices[e] = uint32(table[indices[e]])
	}
}
