package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gatherParts adds rows to dst in memory, an edge at a time: a row is read from its
// first column to its last, and dst stays in the first-level cache.
func gatherParts(s isa) {
	begin(s, "gatherParts", "func(dst, x *float32, d, stride int, idx *uint32, n, last int, w *float32, heads int)",
		"gatherPartsPlain, which adds to dst", "The index at position last is the furthest that may be read ahead.")
	unroll := 32 / s.lanes
	partBytes, whole, tail, stride := GP64(), GP64(), GP64(), GP64()
	Load(Param("d"), partBytes)
	MOVQ(partBytes, tail)
	ANDQ(U8(s.lanes-1), tail)
	MOVQ(partBytes, whole)
	SUBQ(tail, whole)
	SHLQ(U8(2), whole)
	SHLQ(U8(2), partBytes)
	masks := s.first(tail, 1)
	Load(Param("stride"), stride)
	SHLQ(U8(2), stride)
	i, w := GP64(), pointer("w")
	XORQ(i, i)
	JMP(LabelRef("edgesTest"))
	Label("edges")
	row, next := rowAhead(i, stride)
	dst, left, c, limit := pointer("dst"), GP64(), GP64(), GP64()
	Load(Param("heads"), left)
	MOVQ(whole, limit)
	SUBQ(I32(unroll*s.bytes()), limit)
	Label("heads")
	weight := s.vector()
	VBROADCASTSS(Mem{Base: w}, weight)
	XORQ(c, c)
	loop := func(name string, vectors int, end reg.Register, jump func(Op)) {
		JMP(LabelRef(name + "Test"))
		Label(name)
		for v := range vectors {
			if v*s.bytes()%cacheLine == 0 {
				PREFETCHT0(at(next, c, v*s.bytes()))
			}
			t := s.vector()
			VMULPS(at(row, c, v*s.bytes()), weight, t)
			VADDPS(at(dst, c, v*s.bytes()), t, t)
			VMOVUPS(t, at(dst, c, v*s.bytes()))
		}
		ADDQ(I32(vectors*s.bytes()), c)
		Label(name + "Test")
		CMPQ(c, end)
		jump(LabelRef(name))
	}
	loop("strides", unroll, limit, func(to Op) { JLE(to) })
	loop("vectors", 1, whole, func(to Op) { JL(to) })
	CMPQ(c, partBytes)
	JGE(LabelRef("nextHead"))
	PREFETCHT0(at(next, c, 0))
	t, sum := s.vector(), s.vector()
	s.load(at(row, c, 0), masks[0], t)
	VMULPS(t, weight, t)
	s.load(at(dst, c, 0), masks[0], sum)
	VADDPS(t, sum, sum)
	s.store(sum, masks[0], at(dst, c, 0))
	Label("nextHead")
	for _, p := range []reg.Register{row, next, dst} {
		ADDQ(partBytes, p)
	}
	ADDQ(U8(4), w)
	DECQ(left)
	JNZ(LabelRef("heads"))
	INCQ(i)
	Label("edgesTest")
	n := pointer("n")
	CMPQ(i, n)
	JL(LabelRef("edges"))
	end()
}
