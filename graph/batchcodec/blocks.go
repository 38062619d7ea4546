package batchcodec

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/kernel"
)

// form is a form of the numbers in blocks: each array has one width, in bytes or in bits.
type form int

const (
	inBytes form = iota
	inBits
)

// width returns the width of an array with the given largest number: at least 1.
func (f form) width(most uint32) int {
	if f == inBits {
		return bits.Len32(most | 1)
	}
	return binio.Width(most)
}

// widest returns the largest width, and the unit of widths.
func (f form) widest() (width int, unit string) {
	if f == inBits {
		return kernel.MaxPacked, "bits"
	}
	return 4, "bytes"
}

func (f form) append(dst []byte, values []uint32, width int) []byte {
	if f == inBits {
		return kernel.AppendPacked(dst, values, width)
	}
	return binio.AppendUints(dst, values, width)
}

// read reads n values into the memory of dst.
func (f form) read(d *binio.Decoder, dst []uint32, n, width int) []uint32 {
	if f == inBytes {
		return d.Uints(dst, n, width)
	}
	raw := d.Raw(kernel.PackedBytes(n, width))
	if d.Err() != nil {
		return dst[:0]
	}
	dst = binio.Grow(dst, n)
	kernel.Unpack(dst, raw, width)
	return dst
}

// layerHead is the head of one layer: counts, and widths of an edge count, of a source position and of a destination
// position.
type layerHead struct {
	src, dst, edges          int
	rows                     int // dst, or the number of rows of a typed block
	count, source, destWidth int
}

// widths returns the widths of an edge count and of a position of a block's sources.
func (f form) widths(k *graph.Block) (count, position int) {
	return f.width(mostEdges(k)), f.width(uint32(max(k.NumSrc-1, 0)))
}

// mostEdges returns the largest number of edges of a row.
func mostEdges(k *graph.Block) uint32 {
	var most uint32
	for i := range k.NumRows() {
		most = max(most, k.Indptr[i+1]-k.Indptr[i])
	}
	return most
}

// appendHeads appends the heads of all layers.
func (f form) appendHeads(dst []byte, b *graph.Batch) []byte {
	for l := range b.Blocks {
		k := &b.Blocks[l]
		for _, n := range []int{k.NumSrc, k.NumDst, len(k.Indices)} {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
		}
		count, position := f.widths(k)
		pos := 0
		if k.Dst != nil && !f.derives(b, l) {
			pos = position
		}
		dst = append(dst, byte(count), byte(position), byte(pos), 0)
	}
	if b.Types != nil {
		for l := f.firstEnds(); l < len(b.Blocks); l++ {
			dst = append(dst, binio.Bytes(b.Blocks[l].Ends)...)
		}
	}
	return dst
}

// firstEnds returns the first layer of a typed batch with ends of types. In a pack the input nodes are in another order.
func (f form) firstEnds() int {
	if f == inBits {
		return 1
	}
	return 0
}

// derives reports whether the destination positions of layer l follow from the ends of types.
func (f form) derives(b *graph.Batch, l int) bool { return b.Types != nil && l >= f.firstEnds() }

// appendArrays appends the arrays of all layers, labels and targets.
func (f form) appendArrays(dst []byte, b *graph.Batch) []byte {
	for l := range b.Blocks {
		k := &b.Blocks[l]
		count, position := f.widths(k)
		dst = f.appendCounts(dst, k, count)
		dst = f.append(dst, k.Indices, position)
		if k.Dst != nil && !f.derives(b, l) {
			dst = f.append(dst, k.Dst, position)
		}
	}
	if f == inBits && b.Types != nil {
		dst = f.append(dst, b.InputTypes, typeBits(b.Types))
	}
	dst = append(dst, binio.Bytes(b.Labels)...)
	return append(dst, b.Targets...)
}

// typeBits returns the bits of the type of an input node.
func typeBits(t *graph.Types) int { return inBits.width(uint32(len(t.Nodes) - 1)) }

// appendCounts appends the number of edges of every row, in pieces that fit on the stack.
func (f form) appendCounts(dst []byte, k *graph.Block, width int) []byte {
	var piece [512]uint32
	for lo := 0; lo < k.NumRows(); lo += len(piece) {
		counts := piece[:min(len(piece), k.NumRows()-lo)]
		for i := range counts {
			counts[i] = k.Indptr[lo+i+1] - k.Indptr[lo+i]
		}
		dst = f.append(dst, counts, width)
	}
	return dst
}

// heads reads the heads of all layers, and checks that they fit together, with the input nodes and the labels. The types
// of b are given; heads reads the ends of types.
func (f form) heads(d *binio.Decoder, b *graph.Batch, layers []layerHead, inputs, labels int) {
	widest, unit := f.widest()
	above := inputs // number of sources that layer l must have
	for l := range layers {
		k := &layers[l]
		k.src, k.dst, k.edges = int(d.U32()), int(d.U32()), int(d.U32())
		k.count, k.source, k.destWidth = int(d.U8()), int(d.U8()), int(d.U8())
		d.Raw(1)
		if k.count < 1 || k.count > widest || k.source < 1 || k.source > widest || k.destWidth > widest {
			d.Fail("layer %d: counts, sources and destinations of %d, %d and %d %s are impossible", l, k.count, k.source, k.destWidth, unit)
		}
		if k.src != above {
			d.Fail("layer %d has %d sources instead of %d", l, k.src, above)
		}
		above, k.rows = k.dst, k.dst
	}
	if labels != above {
		d.Fail("it has %d labels, but %d seed nodes", labels, above)
	}
	if b.Types != nil && d.Err() == nil {
		f.ends(d, b, layers)
	}
}

// ends reads the ends of types, and counts the rows of all layers.
func (f form) ends(d *binio.Decoder, b *graph.Batch, layers []layerHead) {
	kinds := len(b.Types.Nodes)
	b.Blocks = binio.Grow(b.Blocks, len(layers))
	for l := range layers {
		k := &b.Blocks[l]
		if k.NumDst = layers[l].dst; l < f.firstEnds() {
			k.Ends = nil
			continue
		}
		k.Ends = d.Uints(k.Ends, kinds, 4)
		if d.Err() == nil && (!slices.IsSorted(k.Ends) || int(k.Ends[kinds-1]) != layers[l].src) {
			d.Fail("layer %d: the ends of types %v do not divide %d sources", l, k.Ends, layers[l].src)
		}
	}
	for l := range layers {
		if d.Err() == nil {
			layers[l].rows = b.Types.CountRows(b.DstEnds(l))
		}
	}
}

// arrays reads the arrays of all layers, or leaves them in bits, and reads labels and targets of row bytes each. It reuses
// b's memory.
func (f form) arrays(d *binio.Decoder, b *graph.Batch, layers []layerHead, labels, row int, leave bool) {
	b.Blocks = binio.Grow(b.Blocks, len(layers))
	for l := range b.Blocks {
		k := &b.Blocks[l]
		switch {
		case leave && b.Types != nil:
			d.Fail("blocks of typed graphs are not left in bits")
		case leave:
			leaveBlock(d, k, &layers[l])
		default:
			places := k.Dst
			if f.block(d, k, &layers[l]); f.derives(b, l) && d.Err() == nil {
				k.Dst = b.Types.PlaceDestinations(places, b.DstEnds(l), k.Ends, l == 0)
			}
		}
	}
	if f == inBits && b.Types != nil {
		b.InputTypes = f.read(d, b.InputTypes, layers[0].src, typeBits(b.Types))
	} else {
		b.InputTypes = nil
	}
	raw := d.Raw(4 * labels)
	targets := d.Raw(row * labels)
	if d.Err() != nil {
		return
	}
	b.Labels = binio.Grow(b.Labels, labels)
	copy(binio.Bytes(b.Labels), raw)
	b.Targets = append(b.Targets[:0], targets...)
}

func (f form) block(d *binio.Decoder, k *graph.Block, h *layerHead) {
	k.NumSrc, k.NumDst, k.Bits = h.src, h.dst, graph.BlockBits{}
	// Each row has a bit at least, and each destination is a seed node or was found by an edge.
	if n := max(h.dst, h.rows); n > 8*d.Rest() {
		d.Fail("%d destinations or rows do not fit in the %d bytes left", n, d.Rest())
		return
	}
	k.Indptr = binio.Grow(k.Indptr, h.rows+1)
	counts := f.read(d, k.Indptr[1:1], h.rows, h.count) // decoded in place: Indptr has the room
	if d.Err() != nil {
		return
	}
	k.Indptr[0] = 0
	var sum uint64
	for i, c := range counts {
		sum += uint64(c)
		k.Indptr[i+1] = uint32(sum)
	}
	if sum != uint64(h.edges) {
		d.Fail("the rows have %d edges, but the block has %d", sum, h.edges)
		return
	}
	k.Indices = f.read(d, k.Indices, h.edges, h.source)
	if h.destWidth == 0 {
		k.Dst = nil
		return
	}
	k.Dst = f.read(d, k.Dst, h.dst, h.destWidth)
}

// leaveBlock leaves the arrays of a block in bits.
func leaveBlock(d *binio.Decoder, k *graph.Block, h *layerHead) {
	raw := func(n, width int) graph.Bits {
		return graph.Bits{Bytes: d.Raw(kernel.PackedBytes(n, width)), Width: width}
	}
	*k = graph.Block{NumSrc: h.src, NumDst: h.dst, Bits: graph.BlockBits{Edges: h.edges, Counts: raw(h.dst, h.count), Indices: raw(h.edges, h.source)}}
	if h.destWidth > 0 {
		k.Bits.Dst = raw(h.dst, h.destWidth)
	}
}

// targetBytes returns the bytes of a seed node's classes as bits.
func targetBytes(b *graph.Batch) int {
	if len(b.Targets) == 0 {
		return 0
	}
	return len(b.Targets) / len(b.Labels)
}

// AppendBlocks appends the blocks, types, labels and targets of b, which must be valid.
func AppendBlocks(dst []byte, b *graph.Batch) []byte {
	for _, n := range []int{len(b.Blocks), len(b.Input), len(b.Labels), targetBytes(b)} {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	}
	return inBits.appendArrays(inBits.appendHeads(dst, b), b)
}

// Counts are the counts of a batch that bound the bytes of its forms. The slices have an element for each layer, input
// side first.
type Counts struct {
	Nodes []uint32 // sources; and, as one more element, the seed nodes
	Edges []uint32
	Rows  []uint32 // of a typed batch; nil: the destinations of each layer
	Types int      // number of types of a typed batch; else 0
	Row   int      // bytes of targets of a seed node
}

func (c *Counts) rows(l int) int {
	if c.Rows == nil {
		return int(c.Nodes[l+1])
	}
	return int(c.Rows[l])
}

// MostBlocks returns the most bytes of AppendBlocks. A row has at most mostEdges edges; 0 means any number. The
// outermost layer has destination positions.
func (c *Counts) MostBlocks(mostEdges int) int64 {
	n := int64(16+16*len(c.Edges)) + int64(4+c.Row)*int64(c.Nodes[len(c.Edges)])
	for l := range c.Edges {
		position := bits.Len32(max(c.Nodes[l], 2) - 1)
		count := bits.Len32(c.Edges[l] | 1)
		if mostEdges > 0 {
			count = min(count, bits.Len32(uint32(mostEdges)))
		}
		n += int64(kernel.PackedBytes(c.rows(l), count) + kernel.PackedBytes(int(c.Edges[l]), position))
		if l == 0 {
			n += int64(kernel.PackedBytes(int(c.Nodes[1]), position))
		}
	}
	if c.Types > 0 {
		n += int64(4*c.Types*(len(c.Edges)-1)) + int64(kernel.PackedBytes(int(c.Nodes[0]), inBits.width(uint32(c.Types-1))))
	}
	return n
}

// LeastBytes returns the least bytes of Append without the degrees: each number of edges takes one byte, and no
// destination position any.
func (c *Counts) LeastBytes() int64 {
	layers := len(c.Edges)
	n := HeadSize(layers, c.Types) + 4*int64(c.Nodes[0]) + int64(4+c.Row)*int64(c.Nodes[layers])
	for l := range c.Edges {
		n += int64(c.rows(l)) + int64(c.Edges[l])*int64(binio.Width(max(c.Nodes[l], 1)-1))
	}
	return n
}

// Blocks fills the blocks, labels and targets of b from the result of AppendBlocks, reusing b's memory, and
// returns the number of input nodes. The caller sets Input and Degree and then calls Validate. For any bytes, the
// lengths of the arrays agree with the counts, or d has an error of kind fault.ErrCorrupt. Blocks allocates at most
// 32 bytes for each byte of d.
func Blocks(d *binio.Decoder, b *graph.Batch) (inputs int) { return blocks(d, b, false) }

// BlocksInBits is Blocks, but leaves the arrays of blocks in bits, in the memory of d. Whoever decodes them checks
// their values.
func BlocksInBits(d *binio.Decoder, b *graph.Batch) (inputs int) { return blocks(d, b, true) }

func blocks(d *binio.Decoder, b *graph.Batch, leave bool) (inputs int) {
	layers, inputs, labels, row := int(d.U32()), int(d.U32()), int(d.U32()), int(d.U32())
	if layers < 1 || layers > MaxLayers {
		d.Fail("it has %d layers instead of 1 to %d", layers, MaxLayers)
		return 0
	}
	var head [MaxLayers]layerHead
	if inBits.heads(d, b, head[:layers], inputs, labels); d.Err() == nil {
		inBits.arrays(d, b, head[:layers], labels, row, leave)
	}
	if d.Err() != nil {
		return 0
	}
	return inputs
}

// ToBits returns b, which must be valid, with its blocks in bits.
func ToBits(b *graph.Batch) *graph.Batch {
	c := &graph.Batch{Input: b.Input, Degree: b.Degree}
	BlocksInBits(binio.NewDecoder(AppendBlocks(nil, b)), c) // which does not fail
	return c
}
