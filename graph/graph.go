// Package graph defines the in-memory shapes that every stage exchanges: a
// whole graph's topology in compressed sparse columns, and the blocks
// (message-flow graphs) of one sampled mini-batch.
//
// Nothing here does I/O or owns a format: dataset, presample/mbfile and
// pack/packfile decode into these types.
package graph

import (
	"fmt"
	"slices"
	"unsafe"

	"diskgnn/internal/fault"
)

// MaxNodes is the largest number of nodes that 32-bit node ids can name.
const MaxNodes = 1 << 32

// Unlabelled marks a node without a class: never trained on, never scored.
const Unlabelled = int32(-1)

// CSC is a directed graph in compressed sparse columns: the in-neighbours of
// node v are Indices[Indptr[v]:Indptr[v+1]]. The slices may alias a read-only
// mapping; holders must not write to them.
type CSC struct {
	Indptr  []int64  // length nodes+1, ascending from 0 to len(Indices)
	Indices []uint32 // source node of every edge, grouped by destination
}

// NumNodes returns the number of nodes.
func (g *CSC) NumNodes() int { return len(g.Indptr) - 1 }

// Degree returns the in-degree of v in the whole graph.
func (g *CSC) Degree(v uint32) int { return int(g.Indptr[int(v)+1] - g.Indptr[v]) }

// Neighbors returns the in-neighbours of v. It is for a graph in memory: it does not check the index
// pointers. The caller must not modify the result.
func (g *CSC) Neighbors(v uint32) []uint32 { return g.Indices[g.Indptr[v]:g.Indptr[int(v)+1]] }

// Row is Neighbors with a check of the index pointers of v: an entry that is out of range is an error
// of kind fault.ErrCorrupt. It is for mapped graphs, since their files may change after they were
// verified.
func (g *CSC) Row(v uint32) ([]uint32, error) {
	if int(v)+1 >= len(g.Indptr) {
		return nil, fault.New(fault.ErrCorrupt, "node %d is out of range: the graph has %d nodes", v, g.NumNodes())
	}
	lo, hi := g.Indptr[v], g.Indptr[int(v)+1]
	if lo < 0 || hi < lo || hi > int64(len(g.Indices)) {
		return nil, fault.New(fault.ErrCorrupt, "the in-neighbours of node %d are edges %d to %d, but the graph has %d edges", v, lo, hi, len(g.Indices))
	}
	return g.Indices[lo:hi], nil
}

// Sources is Row with a check that all in-neighbours are nodes of the graph, for callers that use them
// as indices.
func (g *CSC) Sources(v uint32) ([]uint32, error) {
	row, err := g.Row(v)
	if err != nil {
		return nil, err
	}
	if i, ok := below(row, g.NumNodes()); !ok {
		return nil, fault.New(fault.ErrCorrupt, "node %d has the in-neighbour %d, but the graph has %d nodes", v, row[i], g.NumNodes())
	}
	return row, nil
}

// Block is one bipartite layer of a mini-batch, in compressed rows from
// destination to source. Destination i aggregates the sources
// Indices[Indptr[i]:Indptr[i+1]], always in the order they were drawn: no
// later stage re-sorts a destination's edges, so sums are reproducible.
type Block struct {
	NumSrc, NumDst int
	// Indptr has an entry more than there are rows. A row is a destination; in a typed graph, a pair of a
	// destination and a relation into its type, in the order of Types.
	Indptr  []uint32
	Indices []uint32 // positions among the sources
	// Dst holds the position of every destination among the sources. Nil means
	// that the destinations are the first NumDst sources, as sampling leaves
	// them; packing renumbers the outermost block's sources and fills it in.
	Dst []uint32
	// Ends has, in a typed graph, the source after the last of each type: sources are in the order of their
	// types, and the destinations of a type are the first of its sources. Dst is set. Nil in other graphs, and
	// in the outermost block of a packed batch, where Batch.InputTypes stands for it.
	Ends []uint32
	// Bits has the arrays as they are stored, where they are not decoded: Indptr, Indices and Dst are then nil.
	Bits BlockBits
}

// BlockBits has the arrays of a block in bits, for a consumer that decodes them: see package batchcodec.
type BlockBits struct {
	Edges   int  // number of edges
	Counts  Bits // edges of every destination
	Indices Bits
	Dst     Bits // zero: the destinations are the first sources
}

// Bits are numbers of Width bits, from 1 to 32: number i has the bits i·Width to (i+1)·Width of Bytes, where bit b is
// bit b mod 8 of byte b/8.
type Bits struct {
	Bytes []byte
	Width int
}

// holds checks that there are n numbers.
func (b Bits) holds(what string, n int) error {
	if b.Width < 1 || b.Width > 32 || len(b.Bytes) != (n*b.Width+7)/8 {
		return fmt.Errorf("block: %d bytes of %s, for %d of %d bits", len(b.Bytes), what, n, b.Width)
	}
	return nil
}

// InBits reports whether the block is not decoded.
func (b *Block) InBits() bool { return b.Bits.Counts.Width > 0 }

// NumEdges returns the number of edges.
func (b *Block) NumEdges() int {
	if b.InBits() {
		return b.Bits.Edges
	}
	return len(b.Indices)
}

// Scattered reports whether the block has positions of its destinations.
func (b *Block) Scattered() bool { return b.Dst != nil || b.Bits.Dst.Width > 0 }

// DstPos returns the position of destination i among the sources.
func (b *Block) DstPos(i int) int {
	if b.Dst == nil {
		return i
	}
	return int(b.Dst[i])
}

// Validate checks the lengths, the order of Indptr, and that every index is in range, so that other
// code can use the block without checks of its own. Of a block in bits it checks the lengths, and that positions have sources:
// its values are unchecked until they are decoded.
func (b *Block) Validate() error { return b.validate(false) }

// validate is Validate. A block of a typed batch may have any number of rows: see validateTypes.
func (b *Block) validate(typed bool) error {
	if b.InBits() {
		return b.validateBits()
	}
	if n := len(b.Indptr); n != b.NumDst+1 && !typed || n == 0 || b.Indptr[0] != 0 || int(b.Indptr[n-1]) != len(b.Indices) {
		return fmt.Errorf("block: indptr does not describe %d destinations and %d edges", b.NumDst, len(b.Indices))
	}
	from := uint32(0)
	for i, to := range b.Indptr[1:] {
		if from > to {
			return fmt.Errorf("block: indptr descends at destination %d", i)
		}
		from = to
	}
	if e, ok := below(b.Indices, b.NumSrc); !ok {
		return fmt.Errorf("block: edge %d has the source %d, but there are %d sources", e, b.Indices[e], b.NumSrc)
	}
	if b.Dst == nil {
		if b.NumDst > b.NumSrc {
			return fmt.Errorf("block: %d destinations are more than the %d sources", b.NumDst, b.NumSrc)
		}
		return nil
	}
	if len(b.Dst) != b.NumDst {
		return fmt.Errorf("block: %d destination positions for %d destinations", len(b.Dst), b.NumDst)
	}
	if i, ok := below(b.Dst, b.NumSrc); !ok {
		return fmt.Errorf("block: destination %d is at source %d, but there are %d sources", i, b.Dst[i], b.NumSrc)
	}
	return nil
}

func (b *Block) validateBits() error {
	k := &b.Bits
	switch {
	case len(b.Indptr)+len(b.Indices)+len(b.Dst) > 0:
		return fmt.Errorf("block: it is in bits, and also decoded")
	case b.NumSrc == 0 && b.NumDst+k.Edges > 0: // without a source, no position could take the place of a wrong one
		return fmt.Errorf("block: it has %d destinations and %d edges, but no sources", b.NumDst, k.Edges)
	case k.Dst.Width == 0 && b.NumDst > b.NumSrc:
		return fmt.Errorf("block: %d destinations are more than the %d sources", b.NumDst, b.NumSrc)
	case k.Dst.Width != 0:
		if err := k.Dst.holds("destination positions", b.NumDst); err != nil {
			return err
		}
	}
	if err := k.Counts.holds("edge counts", b.NumDst); err != nil {
		return err
	}
	return k.Indices.holds("source positions", k.Edges)
}

// below reports whether all positions are below n, and else the index of the first other one.
func below(positions []uint32, n int) (int, bool) {
	const stride = 8
	i, last := 0, int64(n)-1
	for ; i+stride <= len(positions); i += stride {
		p := positions[i : i+stride : i+stride]
		// The or is negative if one of the differences is: one branch for all.
		if (last-int64(p[0]))|(last-int64(p[1]))|(last-int64(p[2]))|(last-int64(p[3]))|
			(last-int64(p[4]))|(last-int64(p[5]))|(last-int64(p[6]))|(last-int64(p[7])) < 0 {
			break
		}
	}
	for ; i < len(positions); i++ {
		if int64(positions[i]) > last {
			return i, false
		}
	}
	return 0, true
}

// Batch is one sampled mini-batch: a chain of blocks, input side first. The destinations of block l
// are the sources of block l+1; the destinations of the last block are the seed nodes.
type Batch struct {
	Blocks []Block
	// Types are the types of a typed graph, or nil; SeedType is the type of all seed nodes.
	Types    *Types
	SeedType int
	// Input has the nodes that are the sources of the outermost block: node ids in a sampled batch (of a typed
	// graph, rows of features: see Types), ranks (rows of the hot order) in a packed one.
	Input []uint32
	// InputTypes has the type of every input node of a packed batch of a typed graph. Nil in other batches.
	InputTypes []uint32
	// Degree has the in-degree of every input node in the whole graph. The degrees of inner blocks'
	// nodes follow from it, by the positions of the destinations. It is empty if it was not read, and in typed
	// graphs.
	Degree []uint32
	// Labels has the class of every seed node, or Unlabelled. In a multi-label graph it has 0 instead
	// of a class, and Targets has the classes.
	Labels []int32
	// Targets has the classes of every seed node of a multi-label graph as bits, a row of TargetBytes
	// bytes for each: class c is bit c mod 8 of byte c/8. It is empty for other graphs.
	Targets []byte
}

// TargetBytes returns the length in bytes of a row of bits, one for each class.
func TargetBytes(classes int) int { return (classes + 7) / 8 }

// HasClass reports whether a row of bits has a class.
func HasClass(row []byte, class int) bool { return row[class/8]>>(class%8)&1 == 1 }

// AddClass sets the bit of a class.
func AddClass(row []byte, class int) { row[class/8] |= 1 << (class % 8) }

// NumSeeds returns the number of seed nodes.
func (b *Batch) NumSeeds() int {
	if len(b.Blocks) == 0 {
		return 0
	}
	return b.Blocks[len(b.Blocks)-1].NumDst
}

// NumEdges returns the number of sampled edges over all blocks.
func (b *Batch) NumEdges() int {
	n := 0
	for i := range b.Blocks {
		n += b.Blocks[i].NumEdges()
	}
	return n
}

// Validate checks every block, and that the blocks, Input, Degree, Labels and Targets fit together.
func (b *Batch) Validate() error {
	if len(b.Blocks) == 0 {
		return fmt.Errorf("batch: it has no blocks")
	}
	for l := range b.Blocks {
		if err := b.Blocks[l].validate(b.Types != nil); err != nil {
			return fmt.Errorf("layer %d: %w", l, err)
		}
		if l > 0 && b.Blocks[l].NumSrc != b.Blocks[l-1].NumDst {
			return fmt.Errorf("batch: layer %d has %d sources, but layer %d has %d destinations", l, b.Blocks[l].NumSrc, l-1, b.Blocks[l-1].NumDst)
		}
	}
	if n := b.Blocks[0].NumSrc; len(b.Input) != n || len(b.Degree) != n && len(b.Degree) > 0 {
		return fmt.Errorf("batch: %d input nodes and %d degrees for %d sources", len(b.Input), len(b.Degree), n)
	}
	if len(b.Labels) != b.NumSeeds() {
		return fmt.Errorf("batch: %d labels for %d seed nodes", len(b.Labels), b.NumSeeds())
	}
	if n := len(b.Targets); n > 0 && (len(b.Labels) == 0 || n%len(b.Labels) != 0) {
		return fmt.Errorf("batch: %d bytes of classes for %d seed nodes", n, len(b.Labels))
	}
	return b.validateTypes()
}

// Sizes are the largest counts of a set of batches, by layer, input side first. Buffers of these sizes
// have room for each of the batches.
type Sizes struct {
	Src   []int `json:"src"`   // most sources of each block
	Dst   []int `json:"dst"`   // most destinations of each block
	Edges []int `json:"edges"` // most edges of each block
	// Rows has, for typed graphs, the most rows of each block. Nil stands for Dst.
	Rows []int `json:"rows,omitempty"`
}

// RowsOf returns the most rows of block l.
func (s *Sizes) RowsOf(l int) int {
	if s.Rows == nil {
		return s.Dst[l]
	}
	return s.Rows[l]
}

// Inputs returns the largest number of input nodes, or 0 for Sizes without layers.
func (s *Sizes) Inputs() int {
	if len(s.Src) == 0 {
		return 0
	}
	return s.Src[0]
}

// NewBatch returns an empty batch with room for every batch within the sizes. targetBytes is the
// length of a row of Batch.Targets.
func (s *Sizes) NewBatch(targetBytes int) Batch {
	b := s.NewBatchInBits(targetBytes)
	if len(b.Blocks) == 0 {
		return b
	}
	for l := range b.Blocks {
		b.Blocks[l] = Block{Indptr: make([]uint32, 0, s.RowsOf(l)+1), Indices: make([]uint32, 0, s.Edges[l])}
		if s.scattered(l) {
			b.Blocks[l].Dst = make([]uint32, 0, s.Dst[l])
		}
	}
	return b
}

// scattered reports whether block l may have positions of its destinations. In the inner blocks of untyped graphs
// these are the first sources.
func (s *Sizes) scattered(l int) bool { return l == 0 || s.Rows != nil }

// NewBatchInBits is NewBatch without room for the arrays of blocks.
func (s *Sizes) NewBatchInBits(targetBytes int) Batch {
	layers := len(s.Src)
	if layers == 0 {
		return Batch{}
	}
	seeds := s.Dst[layers-1]
	b := Batch{Blocks: make([]Block, layers), Input: make([]uint32, 0, s.Src[0]),
		Labels: make([]int32, 0, seeds), Targets: make([]byte, 0, seeds*targetBytes)}
	if more := make([]uint32, 0, s.Src[0]); s.Rows == nil {
		b.Degree = more
	} else {
		b.InputTypes = more
	}
	return b
}

// Bytes returns the memory in bytes of a batch of NewBatch.
func (s *Sizes) Bytes(targetBytes int) int64 {
	n := s.BytesInBits(targetBytes)
	for l := range s.Src {
		n += 4 * (int64(s.RowsOf(l)) + 1 + int64(s.Edges[l]))
		if s.scattered(l) {
			n += 4 * int64(s.Dst[l])
		}
	}
	return n
}

// BytesInBits returns the memory in bytes of a batch of NewBatchInBits.
func (s *Sizes) BytesInBits(targetBytes int) int64 {
	layers := len(s.Src)
	if layers == 0 {
		return 0
	}
	return 8*int64(s.Src[0]) + int64(4+targetBytes)*int64(s.Dst[layers-1]) + int64(layers)*int64(unsafe.Sizeof(Block{}))
}

// Cover raises s to the sizes of b where those are larger.
func (s *Sizes) Cover(b *Batch) {
	if s.Src == nil {
		n := len(b.Blocks)
		s.Src, s.Dst, s.Edges = make([]int, n), make([]int, n), make([]int, n)
		if b.Types != nil {
			s.Rows = make([]int, n)
		}
	}
	for l := range s.Rows {
		s.Rows[l] = max(s.Rows[l], b.Blocks[l].NumRows())
	}
	for l := range b.Blocks {
		k := &b.Blocks[l]
		s.Src[l] = max(s.Src[l], k.NumSrc)
		s.Dst[l] = max(s.Dst[l], k.NumDst)
		s.Edges[l] = max(s.Edges[l], k.NumEdges())
	}
}

// Merge raises s to o where that is larger. A zero s takes o's layers; else both must have the same
// number of layers, and Rows both or neither.
func (s *Sizes) Merge(o Sizes) {
	if s.Src == nil {
		*s = Sizes{Src: slices.Clone(o.Src), Dst: slices.Clone(o.Dst), Edges: slices.Clone(o.Edges), Rows: slices.Clone(o.Rows)}
		return
	}
	for l := range o.Rows {
		s.Rows[l] = max(s.Rows[l], o.Rows[l])
	}
	for l := range o.Src {
		s.Src[l], s.Dst[l], s.Edges[l] = max(s.Src[l], o.Src[l]), max(s.Dst[l], o.Dst[l]), max(s.Edges[l], o.Edges[l])
	}
}

// DrawnRows calls f for every row of every block of a typed batch, with its number of edges. It returns the first error of
// f. The batch must be valid.
func (b *Batch) DrawnRows(f func(layer, row int, edges uint32) error) error {
	for l := range b.Blocks {
		k := &b.Blocks[l]
		for row := range k.NumRows() {
			if err := f(l, row, k.Indptr[row+1]-k.Indptr[row]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Drawn calls f for every destination of every block, with its number of edges in the block and its
// in-degree in the whole graph. It returns the first error of f. The batch must be valid.
func (b *Batch) Drawn(f func(layer, dst int, edges, degree uint32) error) error {
	degrees := b.Degree // of the block's sources
	for l := range b.Blocks {
		k := &b.Blocks[l]
		of := make([]uint32, k.NumDst)
		for i := range of {
			of[i] = degrees[k.DstPos(i)]
			if err := f(l, i, k.Indptr[i+1]-k.Indptr[i], of[i]); err != nil {
				return err
			}
		}
		degrees = of // destinations are the next block's sources
	}
	return nil
}
