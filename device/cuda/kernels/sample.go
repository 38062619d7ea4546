package kernels

import (
	"fmt"
	"math"
	"math/bits"

	"diskgnn/device/cuda"
)

// Frontier has the nodes of a batch that is being sampled, in the order of their discovery, and a hash
// table of their numbers. The buffers belong to the batch, except Graph, which may be in pinned host
// memory.
type Frontier struct {
	// Graph has three uint32 for every node: the low and the high half of the place of its list of
	// in-neighbours, and their number. With the bit SampleNear, the place is an index into SampleHop.Near,
	// otherwise into SampleHop.Far.
	Graph cuda.Buffer

	Nodes  cuda.Buffer // uint32: the node of every number in the batch
	Degree cuda.Buffer // uint32: the number of the node's in-neighbours in the graph
	Start  cuda.Buffer // uint64: the place of the node's list
	Most   int         // length of Nodes, Degree and Start
	Table  cuda.Buffer // SampleTableBytes; every byte is 0xFF when the batch begins
	Wrong  cuda.Buffer // uint32: bits SampleNoRoom and SampleTwice; 0 when the batch begins
}

// SampleRecord is the size of a node's record in Frontier.Graph, in bytes. SampleNear is the bit of a list's
// place that says that the list is in SampleHop.Near.
const (
	SampleRecord = 12
	SampleNear   = 1 << 63
)

// Bits of Frontier.Wrong: faults of a batch.
const (
	SampleNoRoom = 1 // the batch has more nodes or edges than there is room for
	SampleTwice  = 2 // a seed node is listed twice
)

// SampleTile is the number of rows of a tile: a block takes one tile, and each tile has a sum.
const SampleTile = 1024

// SampleAll is the fanout that takes all neighbours.
const SampleAll = math.MaxUint32

// SampleMost is the limit of the destinations and edges of a hop together. It follows from the largest
// table.
const SampleMost = 1 << 30

// SampleTableBytes returns the size in bytes of a batch's hash table, for at most the given number of
// destinations and edges in all hops together. If all of them were different nodes, at most four fifths of
// the table would be full.
func SampleTableBytes(most int) int64 { return 8 << bits.Len64(uint64(max(most+most/4, 511))) }

// SampleSumBytes returns the size in bytes of SampleHop.Sums, for a hop with at most the given number of
// destinations or edges.
func SampleSumBytes(most int) int64 { return 8 * int64(sampleTiles(most)) }

func sampleTiles(rows int) int { return (rows + SampleTile - 1) / SampleTile }

// frontier adds the arguments that are common to the kernels.
func (l *launch) frontier(f *Frontier) {
	l.Buffer("the graph", f.Graph, SampleRecord)
	l.Buffer("the nodes", f.Nodes, 4*int64(f.Most))
	l.Buffer("the degrees", f.Degree, 4*int64(f.Most))
	l.Buffer("the first edges", f.Start, 8*int64(f.Most))
	l.table(f)
	l.Int(f.bits())
	l.Buffer("the fault word", f.Wrong, 4)
}

// table adds a pointer to the table. Its size is a power of two.
func (l *launch) table(f *Frontier) {
	if n := f.Table.Bytes(); n != 8<<f.bits() || f.bits() > 31 {
		l.Fail("a table of %d bytes: the size must be a power of two from 8 bytes to 16 GiB", n)
	}
	l.Buffer("the table", f.Table, 16)
}

// bits returns the logarithm of the table's entries.
func (f *Frontier) bits() int { return max(0, bits.Len64(uint64(f.Table.Bytes()))-4) }

// tiled launches a kernel with a block for each tile of rows.
func (l *launch) tiled(k compiled, rows int) error {
	return l.grid(k, 1, cuda.Dims{uint32(sampleTiles(rows)), 1}, cuda.Dims{SampleTile, 1})
}

// SampleSeeds numbers the seed nodes of a batch, the first Seeds entries of Nodes, and stores their number
// in Count, a uint32.
type SampleSeeds struct {
	Frontier
	Seeds int // number of seed nodes, at least one
	Count cuda.Buffer
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a SampleSeeds) Launch(s *cuda.Stream) error {
	l := begin(s, "number the seed nodes")
	if a.Seeds < 1 || a.Seeds > a.Most {
		l.Fail("%d seed nodes, but room for %d", a.Seeds, a.Most)
	}
	if int64(a.Seeds) > a.Table.Bytes()/8 {
		l.Fail("a table of %d bytes is too small for %d nodes", a.Table.Bytes(), a.Seeds)
	}
	l.frontier(&a.Frontier)
	l.Buffer("the number of seed nodes", a.Count, 4)
	l.count(Rows(a.Seeds))
	return l.tiled(sampleSeeds, a.Seeds)
}

// SampleHop draws the in-neighbours of all nodes that a batch has so far, and numbers the new nodes: the
// result is one block. Edges, their order and the numbers of the nodes are the same as the host's sampler
// gives for the same key.
//
// Counts are in device memory. If a hop would exceed Edges.Most or Sources.Most, SampleNoRoom is set, the
// counts of its edges or nodes become 0, and nothing is written beyond the room.
type SampleHop struct {
	Frontier
	Far, Near cuda.Buffer // lists of in-neighbours: uint32 for every edge; Far may be in pinned host memory
	Fanout    uint32      // limit of the in-neighbours that a destination draws
	Key       uint64      // random key of (seed, epoch, batch, hop)

	Destinations Count // the nodes before the hop; At is read
	Edges        Count // of the block; At is written
	Sources      Count // the nodes after the hop; At is written

	Indptr  cuda.Buffer // of the block: uint32 for every destination, and one more
	Indices cuda.Buffer // of the block: uint32 for every edge
	Sums    cuda.Buffer // scratch: SampleSumBytes of the destinations, and of the edges
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a SampleHop) Launch(s *cuda.Stream) error {
	if n := int64(a.Destinations.Most) + int64(a.Edges.Most); 8*n > a.Table.Bytes() {
		return fmt.Errorf("kernels: sample: a table of %d bytes is too small for %d nodes", a.Table.Bytes(), n)
	}
	if a.Sources.Most > a.Most {
		return fmt.Errorf("kernels: sample: %d nodes, but room for %d", a.Sources.Most, a.Most)
	}
	if err := a.draw(s); err != nil {
		return err
	}
	return a.number(s)
}

// draw draws the edges, and stores in Indices the place of each edge's source in the table.
func (a *SampleHop) draw(s *cuda.Stream) error {
	l := begin(s, "count a hop's edges")
	l.Buffer("the sums", a.Sums, SampleSumBytes(a.Destinations.Most))
	l.Buffer("the degrees", a.Degree, 4*int64(a.Destinations.Most))
	l.Int(int(a.Fanout))
	l.count(a.Destinations)
	if err := l.tiled(sampleTakes, a.Destinations.Most); err != nil {
		return err
	}
	if err := a.offsets(s, a.Destinations, cuda.Buffer{}, a.Edges); err != nil {
		return err
	}
	l = begin(s, "a hop's index pointers")
	l.Buffer("the index pointers", a.Indptr, 4*int64(a.Destinations.Most+1))
	l.Buffer("the sums", a.Sums, 0)
	l.Buffer("the degrees", a.Degree, 0)
	l.Int(int(a.Fanout))
	l.count(a.Destinations)
	if err := l.tiled(sampleIndptr, a.Destinations.Most); err != nil {
		return err
	}
	l = begin(s, "draw a hop")
	l.frontier(&a.Frontier)
	l.Buffer("the indices", a.Indices, 4*int64(a.Edges.Most))
	l.Buffer("the index pointers", a.Indptr, 0)
	l.Buffer("the lists in the host's memory", a.Far, 0)
	l.Buffer("the lists in the device's memory", a.Near, 0)
	l.Word(a.Key)
	l.Buffer("the number of edges", a.Edges.At, 4)
	l.count(a.Destinations)
	return l.rows(sampleDraw, a.Destinations.Most, 32, 1)
}

// number numbers the new nodes, and replaces the places in Indices by the numbers of the sources.
func (a *SampleHop) number(s *cuda.Stream) error {
	l := begin(s, "count a hop's new nodes")
	l.Buffer("the sums", a.Sums, SampleSumBytes(a.Edges.Most))
	l.table(&a.Frontier)
	l.Buffer("the indices", a.Indices, 0)
	l.Buffer("the number of destinations", a.Destinations.At, 4)
	l.count(a.Edges)
	if err := l.tiled(sampleFirsts, a.Edges.Most); err != nil {
		return err
	}
	if err := a.offsets(s, a.Edges, a.Destinations.At, a.Sources); err != nil {
		return err
	}
	l = begin(s, "number a hop's new nodes")
	l.frontier(&a.Frontier)
	l.Buffer("the indices", a.Indices, 0)
	l.Buffer("the sums", a.Sums, 0)
	l.Buffer("the number of destinations", a.Destinations.At, 4)
	l.Buffer("the number of sources", a.Sources.At, 4)
	l.count(a.Edges)
	if err := l.tiled(sampleNumber, a.Edges.Most); err != nil {
		return err
	}
	l = begin(s, "a hop's sources")
	l.Buffer("the indices", a.Indices, 0)
	l.table(&a.Frontier)
	l.count(a.Edges)
	return l.tiled(sampleSources, a.Edges.Most)
}

// offsets replaces the sum of each tile by the sum of the tiles before it, and stores base plus the sum of
// all tiles in total. Above total.Most it is a fault.
func (a *SampleHop) offsets(s *cuda.Stream, rows Count, base cuda.Buffer, total Count) error {
	l := begin(s, "sum up a hop")
	l.Buffer("the sums", a.Sums, 0)
	l.Buffer("the total", total.At, 4)
	l.Optional("the base", base, 4)
	l.Int(total.Most)
	l.Buffer("the fault word", a.Wrong, 4)
	l.count(rows)
	return l.tiled(sampleOffsets, 1)
}
