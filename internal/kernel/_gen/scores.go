package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// headColumns loops over n rows of heads, with a vector of heads at a time:
// before and after surround a loop in which body gets the byte offset of a row's heads.
func headColumns(s isa, before func(c reg.Register, mask Op), body func(c reg.Register, mask Op), after func(c reg.Register, mask Op)) {
	rowBytes, c := GP64(), GP64()
	Load(Param("heads"), rowBytes)
	SHLQ(U8(2), rowBytes)
	XORQ(c, c)
	JMP(LabelRef("columnsTest"))
	Label("columns")
	left, most := GP64(), GP64()
	MOVQ(rowBytes, left)
	SUBQ(c, left)
	SHRQ(U8(2), left)
	MOVQ(U64(uint64(s.lanes)), most)
	CMPQ(left, most)
	CMOVQGT(most, left)
	mask := s.first(left, 1)[0]
	before(c, mask)
	i, n := GP64(), pointer("n")
	MOVQ(c, i)
	JMP(LabelRef("rowsTest"))
	Label("rows")
	body(i, mask)
	ADDQ(rowBytes, i)
	DECQ(n)
	Label("rowsTest")
	TESTQ(n, n)
	JNZ(LabelRef("rows"))
	after(c, mask)
	ADDQ(U8(s.bytes()), c)
	Label("columnsTest")
	CMPQ(c, rowBytes)
	JL(LabelRef("columns"))
}

func (s isa) masked(m Mem, mask Op) reg.VecVirtual {
	v := s.vector()
	s.load(m, mask, v)
	return v
}

func leakyScores(s isa) {
	begin(s, "leakyScores", "func(w, scores *float32, n int, own, top *float32, heads int, slope float32)", "leakyScoresPlain", "n counts rows.")
	w, scores, own, top, slope := pointer("w"), pointer("scores"), pointer("own"), pointer("top"), broadcast(s, "slope")
	o, t := s.vector(), s.vector()
	headColumns(s, func(c reg.Register, mask Op) {
		s.load(at(own, c, 0), mask, o)
		s.load(at(top, c, 0), mask, t)
	}, func(i reg.Register, mask Op) {
		v, low := s.masked(at(scores, i, 0), mask), s.vector()
		VADDPS(o, v, v)
		s.store(v, mask, at(scores, i, 0))
		VMULPS(slope, v, low)
		VMAXPS(low, v, v) // the slope is below one
		s.store(v, mask, at(w, i, 0))
		VMAXPS(t, v, t) // t where v is NaN
	}, func(c reg.Register, mask Op) { s.store(t, mask, at(top, c, 0)) })
	end()
}

func scoreGradients(s isa) {
	begin(s, "scoreGradients", "func(scores, w, d *float32, n int, total, own *float32, heads int, slope float32)", "scoreGradientsPlain", "n counts rows.")
	scores, w, d, total, own := pointer("scores"), pointer("w"), pointer("d"), pointer("total"), pointer("own")
	slope, zero := broadcast(s, "slope"), zero(s)
	o, t := s.vector(), s.vector()
	headColumns(s, func(c reg.Register, mask Op) {
		s.load(at(total, c, 0), mask, t)
		s.load(at(own, c, 0), mask, o)
	}, func(i reg.Register, mask Op) {
		g, low := s.masked(at(d, i, 0), mask), s.vector()
		VSUBPS(t, g, g)
		VMULPS(s.masked(at(w, i, 0), mask), g, g)
		VMULPS(slope, g, low)
		g = s.choose(g, low, s.positive(s.masked(at(scores, i, 0), mask), zero))
		s.store(g, mask, at(scores, i, 0))
		VADDPS(g, o, o)
	}, func(c reg.Register, mask Op) { s.store(o, mask, at(own, c, 0)) })
	end()
}
