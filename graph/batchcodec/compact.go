package batchcodec

import (
	"encoding/binary"
	"math/bits"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/kernel"
)

// AppendBlocks appends the blocks, labels and targets of b, which must be valid.
func AppendBlocks(dst []byte, b *graph.Batch) []byte {
	row := 0
	if len(b.Targets) > 0 {
		row = len(b.Targets) / len(b.Labels)
	}
	for _, n := range []int{len(b.Blocks), len(b.Input), len(b.Labels), row} {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	}
	for l := range b.Blocks {
		k := &b.Blocks[l]
		for _, n := range []int{k.NumSrc, k.NumDst, len(k.Indices)} {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
		}
		count, position := blockBits(k)
		pos := 0
		if k.Dst != nil {
			pos = position
		}
		dst = append(dst, byte(count), byte(position), byte(pos), 0)
	}
	for l := range b.Blocks {
		k := &b.Blocks[l]
		count, position := blockBits(k)
		dst = appendCountBits(dst, k, count)
		dst = kernel.AppendPacked(dst, k.Indices, position)
		if k.Dst != nil {
			dst = kernel.AppendPacked(dst, k.Dst, position)
		}
	}
	dst = append(dst, binio.Bytes(b.Labels)...)
	return append(dst, b.Targets...)
}

// blockBits returns the bits of an edge count and of a position of a block's sources.
func blockBits(k *graph.Block) (count, position int) {
	return bits.Len32(mostEdges(k) | 1), bits.Len32(uint32(max(k.NumSrc-1, 1)))
}

// appendCountBits appends the number of edges of every destination, in pieces that fit on the stack.
func appendCountBits(dst []byte, k *graph.Block, width int) []byte {
	var piece [512]uint32
	for lo := 0; lo < k.NumDst; lo += len(piece) {
		counts := piece[:min(len(piece), k.NumDst-lo)]
		for i := range counts {
			counts[i] = k.Indptr[lo+i+1] - k.Indptr[lo+i]
		}
		dst = kernel.AppendPacked(dst, counts, width)
	}
	return dst
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
func Blocks(d *binio.Decoder, b *graph.Batch) (inputs int) {
	layers, inputs, labels, row := int(d.U32()), int(d.U32()), int(d.U32()), int(d.U32())
	if layers < 1 || layers > MaxLayers {
		d.Fail("it has %d layers instead of 1 to %d", layers, MaxLayers)
		return 0
	}
	var head [MaxLayers]layerHead
	above := inputs // number of sources that layer l must have
	for l := range layers {
		k := &head[l]
		k.src, k.dst, k.edges = int(d.U32()), int(d.U32()), int(d.U32())
		k.count, k.source, k.destWidth = int(d.U8()), int(d.U8()), int(d.U8())
		d.Raw(1)
		if k.count < 1 || k.count > kernel.MaxPacked || k.source < 1 || k.source > kernel.MaxPacked || k.destWidth > kernel.MaxPacked {
			d.Fail("layer %d: counts, sources and destinations of %d, %d and %d bits are impossible", l, k.count, k.source, k.destWidth)
		}
		if k.src != above {
			d.Fail("layer %d has %d sources instead of %d", l, k.src, above)
		}
		above = k.dst
	}
	if labels != above {
		d.Fail("it has %d labels, but %d seed nodes", labels, above)
	}
	if d.Err() != nil {
		return 0
	}
	b.Blocks = binio.Grow(b.Blocks, layers)
	for l := range b.Blocks {
		blockOfBits(d, &b.Blocks[l], &head[l])
	}
	raw := d.Raw(4 * labels)
	targets := d.Raw(row * labels)
	if d.Err() != nil {
		return 0
	}
	b.Labels = binio.Grow(b.Labels, labels)
	copy(binio.Bytes(b.Labels), raw)
	b.Targets = append(b.Targets[:0], targets...)
	return inputs
}

// packed reads n values of the given bits into the memory of dst.
func packed(d *binio.Decoder, dst []uint32, n, width int) []uint32 {
	raw := d.Raw(kernel.PackedBytes(n, width))
	if d.Err() != nil {
		return dst[:0]
	}
	dst = binio.Grow(dst, n)
	kernel.Unpack(dst, raw, width)
	return dst
}

func blockOfBits(d *binio.Decoder, k *graph.Block, h *layerHead) {
	k.NumSrc, k.NumDst = h.src, h.dst
	if h.dst > 8*d.Rest() {
		d.Fail("%d destinations do not fit in the %d bytes left", h.dst, d.Rest())
		return
	}
	k.Indptr = binio.Grow(k.Indptr, h.dst+1)
	counts := packed(d, k.Indptr[1:1], h.dst, h.count) // decoded in place: Indptr has the room
	if d.Err() != nil {
		return
	}
	sumCounts(d, k, counts, h.edges)
	k.Indices = packed(d, k.Indices, h.edges, h.source)
	if h.destWidth == 0 {
		k.Dst = nil
		return
	}
	k.Dst = packed(d, k.Dst, h.dst, h.destWidth)
}
