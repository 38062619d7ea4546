package graph

import (
	"strings"
	"testing"
)

// TestBlockInBits: of a block in bits the lengths are checked, by hand: three destinations, five sources and four edges.
func TestBlockInBits(t *testing.T) {
	block := func(change func(k *Block)) *Block {
		k := &Block{NumSrc: 5, NumDst: 3, Bits: BlockBits{Edges: 4, Counts: Bits{make([]byte, 1), 2}, Indices: Bits{make([]byte, 2), 3}, Dst: Bits{make([]byte, 2), 3}}}
		change(k)
		return k
	}
	for _, c := range []struct {
		change func(k *Block)
		wrong  string // part of the error; "": none
	}{
		{func(*Block) {}, ""},
		{func(k *Block) { k.Bits.Dst = Bits{} }, ""},
		{func(k *Block) { k.Bits.Counts.Width = 3 }, "edge counts"},
		{func(k *Block) { k.Bits.Indices.Bytes = make([]byte, 3) }, "source positions"},
		{func(k *Block) { k.Bits.Indices.Width = 33 }, "source positions"},
		{func(k *Block) { k.Bits.Dst.Bytes = nil }, "destination positions"},
		{func(k *Block) { k.Bits.Dst, k.NumSrc = Bits{}, 2 }, "3 destinations are more than the 2 sources"},
		{func(k *Block) { k.Bits.Edges = 1 << 40 }, "source positions"},
		{func(k *Block) { k.Bits.Counts.Bytes, k.Bits.Counts.Width = make([]byte, 12), 32 }, ""},
		{func(k *Block) { k.Bits.Counts.Bytes, k.Bits.Counts.Width = make([]byte, 13), 33 }, "edge counts"},
		{func(k *Block) { k.NumSrc = 0 }, "no sources"},
		{func(k *Block) {
			k.NumSrc, k.Bits = 0, BlockBits{Counts: Bits{make([]byte, 1), 2}, Indices: Bits{nil, 1}, Dst: Bits{make([]byte, 1), 1}}
		}, "no sources"},
		{func(k *Block) {
			k.NumSrc, k.NumDst, k.Bits = 0, 0, BlockBits{Edges: 4, Counts: Bits{nil, 2}, Indices: Bits{make([]byte, 1), 1}}
		}, "no sources"},
		{func(k *Block) {
			k.NumSrc, k.NumDst, k.Bits = 0, 0, BlockBits{Counts: Bits{nil, 1}, Indices: Bits{nil, 1}}
		}, ""},
		{func(k *Block) { k.Indices = make([]uint32, 4) }, "also decoded"},
	} {
		k := block(c.change)
		if err := k.Validate(); (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v, want %q", k, err, c.wrong)
		}
	}
	for _, c := range []struct {
		b                 Block
		inBits, scattered bool
	}{
		{Block{}, false, false},
		{Block{Dst: []uint32{}}, false, true},
		{Block{Bits: BlockBits{Counts: Bits{Width: 1}}}, true, false},
		{Block{Bits: BlockBits{Counts: Bits{Width: 1}, Dst: Bits{Width: 1}}}, true, true},
	} {
		if c.b.InBits() != c.inBits || c.b.Scattered() != c.scattered {
			t.Errorf("%+v: in bits %t, scattered %t", c.b, c.b.InBits(), c.b.Scattered())
		}
	}
	k := block(func(*Block) {})
	b := &Batch{Blocks: []Block{*k}, Input: make([]uint32, 5), Labels: make([]int32, 3)}
	var s Sizes
	s.Cover(b)
	if err := b.Validate(); err != nil || !k.InBits() || !k.Scattered() || b.NumEdges() != 4 || s.Edges[0] != 4 {
		t.Errorf("%v: %d edges, at most %v", err, b.NumEdges(), s)
	}
	decoded, left := s.NewBatch(0), s.NewBatchInBits(0)
	if cap(decoded.Blocks[0].Indices) != 4 || left.Blocks[0].Indices != nil || cap(left.Input) != 5 || s.Bytes(0)-s.BytesInBits(0) != 4*(4+4+3) {
		t.Errorf("%d and %d bytes", s.Bytes(0), s.BytesInBits(0))
	}
}
