package prepare

import (
	"math/bits"

	"diskgnn/graph"
	"diskgnn/internal/binio"
)

// inputOrder numbers the input nodes of a batch by ascending id, independent of the order of their
// rows. An input projection multiplies every row, and sums over all of them for the gradient of its
// weights: its last bits depend on the order. A pack's order depends on its caches, this one on the
// batch alone.
type inputOrder struct {
	keys, spare []uint64 // an input node's id, above where its row lies
	batch       graph.Batch
}

// renumber returns b with its input nodes in the order of their ids, and stores the positions of
// their rows in order. New slices lie in o's memory.
func (o *inputOrder) renumber(b *graph.Batch, order []uint32) *graph.Batch {
	n := len(b.Input)
	o.keys, o.spare = o.keys[:n], o.spare[:n]
	largest := uint32(0)
	for i, id := range b.Input {
		o.keys[i] = uint64(id)<<32 | uint64(i)
		largest = max(largest, id)
	}
	o.sort(bits.Len32(largest))

	s, k := &o.batch, &b.Blocks[0]
	own := s.Blocks[0]
	copy(s.Blocks, b.Blocks)
	s.Input, s.Degree = s.Input[:n], s.Degree[:len(b.Degree)]
	to := binio.View[uint32](binio.Bytes(o.spare))[:n] // the new number of a node, by its old number
	for i, key := range o.keys {
		at := uint32(key)
		order[i], s.Input[i] = at, uint32(key>>32)
		if len(s.Degree) > 0 {
			s.Degree[i] = b.Degree[at]
		}
		to[at] = uint32(i)
	}
	first := &s.Blocks[0]
	first.Indices = own.Indices[:len(k.Indices)]
	for e, at := range k.Indices {
		first.Indices[e] = to[at]
	}
	first.Dst = own.Dst[:k.NumDst]
	for i := range first.Dst {
		first.Dst[i] = to[k.DstPos(i)]
	}
	s.Labels, s.Targets = b.Labels, b.Targets
	return s
}

// sort sorts the keys by ids of idBits bits, digit by digit, the least one first; equal ids stay in
// their order.
func (o *inputOrder) sort(idBits int) {
	const digit = 11 // bits; the counts of a digit fit the nearest cache
	for shift := 32; shift < 32+idBits; shift += digit {
		var at [1 << digit]uint32
		for _, k := range o.keys {
			at[k>>shift%(1<<digit)]++
		}
		sum := uint32(0)
		for i, n := range at {
			at[i], sum = sum, sum+n
		}
		for _, k := range o.keys {
			n := &at[k>>shift%(1<<digit)]
			o.spare[*n] = k
			*n++
		}
		o.keys, o.spare = o.spare, o.keys
	}
}
