// Package batchcodec is the bytes of one mini-batch's graph: a form of whole bytes, for samples and packs of versions 2
// to 5, and parts in bits, for later packs. The container supplies version, length and checksum.
//
// All numbers are little-endian; arrays follow each other without padding.
//
// # A batch in whole bytes
//
//	u32  layers L
//	u32  input nodes n (= sources of layer 0)
//	u32  labels
//	u8   width of a degree (1–4 bytes)
//	u24  bytes of a seed node's classes as bits; 0: nodes have one class
//	L ×  u32 sources   u32 destinations   u32 edges
//	     u8  width of an edge count      (1–4)
//	     u8  width of a source position  (1–4)
//	     u8  width of a destination position (1–4; 0: destinations are a prefix)
//	     u8  zero
//	u32[n]      input nodes: node ids in samples, ranks in an older pack
//	uN[n]       degrees in the whole graph
//	L ×  uN[destinations]  edges of every destination
//	     uN[edges]         source positions, grouped by destination
//	     uN[destinations]  destination positions, unless a prefix
//	i32[labels] classes of the seed nodes
//	u8[labels × bytes] their classes as bits (graph.Batch.Targets)
//
// Widths are whole bytes, the least that hold the largest value: a loader
// decodes them at memory speed, and a batch's graph stays a small part of its
// features.
//
// # A typed batch
//
// Both forms have rows in place of destinations where they have edge counts. After the heads of the layers follow the
// ends of types:
//
//	M ×  u32[types]  the source after the last of each type (graph.Block.Ends)
//
// for all layers, or in bits for all but the outermost. In these layers the destination positions follow from the ends
// (graph.Types.PlaceDestinations), and are not stored. In bits, the type of each input node follows the arrays of all
// layers, packed in the bits of types−1 (at least 1). A typed batch has no degrees. The container knows the types.
//
// # A list
//
// Values of w bits are packed: value i has the bits i·w to (i+1)·w of its array, where bit b is bit b mod 8 of byte b/8.
// The last byte is filled with zeros (kernel.AppendPacked).
//
// A list is an array of 32-bit values in blocks of 128. Each block has its own width, the bits of its largest value.
// The container knows the number n of values. An empty list has no bytes.
//
//	u8      the values in the blocks:
//	        0  values − base
//	        1  values − the value before (the first: − base)
//	        2  the value before − values (the first: base − values)
//	        3  values − the value before of the same class (the first: − the beginning of the class)
//	u32     base; of classes: their number K, from 1 to 256
//	        of classes: u32[K] where each begins, ascending
//	        of classes: the class of each value, packed in the bits of K−1
//	u8[b]   bits of each block's values, from 0 to 32
//	b ×     the block, packed
//
// Sums are modulo 2³².
//
// Classes are for ranks. The nodes of equal hotness are a class. Their ranks are consecutive and ascend with the node
// ids. A pack orders the rows of a band by node id, so the ranks of each class ascend there, and their differences
// are small: about log₂(nodes of the class ÷ nodes of the class in the batch) bits.
//
// # Blocks in bits
//
// The arrays of a layer are packed, each in the bits of its largest number: source positions are in random order, so a
// smaller part of them has no smaller maximum. The container stores input nodes and degrees, as lists.
//
//	u32  layers L
//	u32  input nodes n (= sources of layer 0)
//	u32  labels
//	u32  bytes of a seed node's classes as bits; 0: nodes have one class
//	L ×  u32 sources   u32 destinations   u32 edges
//	     u8  bits of an edge count            (1–32)
//	     u8  bits of a source position        (1–32)
//	     u8  bits of a destination position   (1–32; 0: destinations are a prefix)
//	     u8  zero
//	L ×  edges of every destination
//	     source positions, grouped by destination
//	     destination positions, unless a prefix
//	i32[labels] classes of the seed nodes
//	u8[labels × bytes] their classes as bits (graph.Batch.Targets)
package batchcodec

import (
	"encoding/binary"
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/binio"
)

const (
	headBytes  = 16
	layerBytes = 16
	// MaxLayers is the largest number of layers that a decoder accepts.
	MaxLayers = 64
	// maxTargetBytes is the most that the head can say.
	maxTargetBytes = 1<<24 - 1
)

// Append appends the byte form of b to dst. b must be valid and have at most 2²⁷ − 8 classes; with more,
// Append panics.
func Append(dst []byte, b *graph.Batch) []byte {
	degree := binio.Width(maxOf(b.Degree))
	row := targetBytes(b)
	if row > maxTargetBytes {
		panic("batchcodec: too many classes")
	}
	dst = slices.Grow(dst, size(b, degree))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(b.Blocks)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(b.Input)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(b.Labels)))
	dst = append(dst, byte(degree), byte(row), byte(row>>8), byte(row>>16))
	dst = inBytes.appendHeads(dst, b)
	dst = append(dst, binio.Bytes(b.Input)...)
	dst = binio.AppendUints(dst, b.Degree, degree)
	return inBytes.appendArrays(dst, b)
}

// size returns the bytes of the byte form of b, with the given bytes of a degree.
func size(b *graph.Batch, degree int) int {
	types := 0
	if b.Types != nil {
		types = len(b.Types.Nodes)
	}
	n := int(HeadSize(len(b.Blocks), types)) + 4*len(b.Input) + degree*len(b.Degree) + 4*len(b.Labels) + len(b.Targets)
	for l := range b.Blocks {
		k := &b.Blocks[l]
		count, position := inBytes.widths(k)
		n += count*k.NumRows() + position*len(k.Indices)
		if !inBytes.derives(b, l) {
			n += position * len(k.Dst)
		}
	}
	return n
}

func maxOf(s []uint32) uint32 {
	if len(s) == 0 {
		return 0
	}
	return slices.Max(s)
}

// head describes the arrays of a byte form before they follow.
type head struct {
	layers         int
	inputs, labels int
	degrees        int // number of degrees
	degree, row    int // bytes of a degree, and of a seed node's classes as bits
	layer          [MaxLayers]layerHead
}

// decode reads the head, and checks that the rest of d has exactly the arrays that it announces, and
// that they fit together. Memory that is allocated by the head is then at most a few times the length
// of d.
func (h *head) decode(d *binio.Decoder, b *graph.Batch) error {
	h.layers, h.inputs, h.labels = int(d.U32()), int(d.U32()), int(d.U32())
	h.degree = int(d.U8())
	h.row = int(d.U8()) | int(d.U8())<<8 | int(d.U8())<<16
	if h.layers < 1 || h.layers > MaxLayers {
		d.Fail("it has %d layers instead of 1 to %d", h.layers, MaxLayers)
		return d.Err()
	}
	if h.degree < 1 || h.degree > 4 {
		d.Fail("its degrees have %d bytes instead of 1 to 4", h.degree)
	}
	h.degrees = h.inputs
	if b.Types != nil {
		h.degrees = 0
	}
	need := 4*int64(h.inputs) + int64(h.degrees)*int64(h.degree) + int64(h.labels)*int64(4+h.row)
	inBytes.heads(d, b, h.layer[:h.layers], h.inputs, h.labels)
	for l := range h.layers {
		k := &h.layer[l]
		need += int64(k.rows)*int64(k.count) + int64(k.dst)*int64(k.destWidth) + int64(k.edges)*int64(k.source)
	}
	if int64(d.Rest()) != need {
		d.Fail("%d bytes follow the head instead of %d", d.Rest(), need)
	}
	return d.Err()
}

// Decode fills b from src, reusing b's memory. The caller sets Types and SeedType of b before. Whatever the bytes, b is either
// valid or an error of kind fault.ErrCorrupt is returned. It allocates at most four
// times the bytes of src, and nothing where b has room.
func Decode(src []byte, b *graph.Batch) error {
	d := binio.NewDecoder(src)
	var h head
	if err := h.decode(d, b); err != nil {
		return err
	}
	b.Input = d.Uints(b.Input, h.inputs, 4)
	b.Degree = d.Uints(b.Degree, h.degrees, h.degree)
	inBytes.arrays(d, b, h.layer[:h.layers], h.labels, h.row, false)
	if d.Err() != nil {
		return d.Err()
	}
	if err := b.Validate(); err != nil {
		d.Fail("%v", err)
	}
	return d.Err()
}

// Inputs returns the input nodes of a byte form without decoding the rest. The result aliases src,
// which must be aligned to four bytes. types is the number of types of a typed batch, else 0.
func Inputs(src []byte, types int) ([]uint32, error) {
	d := binio.NewDecoder(src)
	layers, inputs := int(d.U32()), d.Count(4)
	if layers > MaxLayers {
		d.Fail("it has %d layers, more than %d", layers, MaxLayers)
	}
	d.Raw(int(HeadSize(min(layers, MaxLayers), types)) - 8)
	raw := d.Raw(4 * inputs)
	if d.Err() != nil {
		return nil, d.Err()
	}
	return binio.View[uint32](raw), nil
}

// HeadSize returns the number of bytes of a byte form before its first array. types is the number of types of a typed
// batch, else 0.
func HeadSize(layers, types int) int64 { return headBytes + int64(layers)*int64(layerBytes+4*types) }
