package batchcodec

import (
	"encoding/binary"
	"math/bits"

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
	count, source, destWidth int
}

// widths returns the widths of an edge count and of a position of a block's sources.
func (f form) widths(k *graph.Block) (count, position int) {
	return f.width(mostEdges(k)), f.width(uint32(max(k.NumSrc-1, 0)))
}

// mostEdges returns the largest number of edges of a destination.
func mostEdges(k *graph.Block) uint32 {
	var most uint32
	for i := 0; i < k.NumDst; i++ {
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
		if k.Dst != nil {
			pos = position
		}
		dst = append(dst, byte(count), byte(position), byte(pos), 0)
	}
	return dst
}

// appendArrays appends the arrays of all layers, labels and targets.
func (f form) appendArrays(dst []byte, b *graph.Batch) []byte {
	for l := range b.Blocks {
		k := &b.Blocks[l]
		count, position := f.widths(k)
		dst = f.appendCounts(dst, k, count)
		dst = f.append(dst, k.Indices, position)
		if k.Dst != nil {
			dst = f.append(dst, k.Dst, position)
		}
	}
	dst = append(dst, binio.Bytes(b.Labels)...)
	return append(dst, b.Targets...)
}

// appendCounts appends the number of edges of every destination, in pieces that fit on the stack.
func (f form) appendCounts(dst []byte, k *graph.Block, width int) []byte {
	var piece [512]uint32
	for lo := 0; lo < k.NumDst; lo += len(piece) {
		counts := piece[:min(len(piece), k.NumDst-lo)]
		for i := range counts {
			counts[i] = k.Indptr[lo+i+1] - k.Indptr[lo+i]
		}
		dst = f.append(dst, counts, width)
	}
	return dst
}

// heads reads the heads of all layers, and checks that they fit together, with the input nodes and the labels.
func (f form) heads(d *binio.Decoder, layers []layerHead, inputs, labels int) {
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
		above = k.dst
	}
	if labels != above {
		d.Fail("it has %d labels, but %d seed nodes", labels, above)
	}
}

// arrays reads the arrays of all layers, or leaves them in bits, and reads labels and targets of row bytes each. It reuses
// b's memory.
func (f form) arrays(d *binio.Decoder, b *graph.Batch, layers []layerHead, labels, row int, leave bool) {
	b.Blocks = binio.Grow(b.Blocks, len(layers))
	for l := range b.Blocks {
		if leave {
			leaveBlock(d, &b.Blocks[l], &layers[l])
		} else {
			f.block(d, &b.Blocks[l], &layers[l])
		}
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
	if h.dst > 8*d.Rest() {
		d.Fail("%d destinations do not fit in the %d bytes left", h.dst, d.Rest())
		return
	}
	k.Indptr = binio.Grow(k.Indptr, h.dst+1)
	counts := f.read(d, k.Indptr[1:1], h.dst, h.count) // decoded in place: Indptr has the room
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
		d.Fail("the destinations have %d edges, but the block has %d", sum, h.edges)
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

// AppendBlocks appends the blocks, labels and targets of b, which must be valid.
func AppendBlocks(dst []byte, b *graph.Batch) []byte {
	for _, n := range []int{len(b.Blocks), len(b.Input), len(b.Labels), targetBytes(b)} {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	}
	return inBits.appendArrays(inBits.appendHeads(dst, b), b)
}

// MostBlocks returns the most bytes of AppendBlocks for a batch. nodes has the sources of each layer, input side first,
// and the seed nodes; edges has the edges of each layer. A destination has at most mostEdges edges; 0 means any
// number. A seed node has row bytes of targets. The outermost layer has destination positions.
func MostBlocks(nodes, edges []uint32, mostEdges, row int) int64 {
	n := int64(16+16*len(edges)) + int64(4+row)*int64(nodes[len(edges)])
	for l := range edges {
		position := bits.Len32(max(nodes[l], 2) - 1)
		count := bits.Len32(edges[l] | 1)
		if mostEdges > 0 {
			count = min(count, bits.Len32(uint32(mostEdges)))
		}
		n += int64(kernel.PackedBytes(int(nodes[l+1]), count) + kernel.PackedBytes(int(edges[l]), position))
		if l == 0 {
			n += int64(kernel.PackedBytes(int(nodes[1]), position))
		}
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
	if inBits.heads(d, head[:layers], inputs, labels); d.Err() == nil {
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
