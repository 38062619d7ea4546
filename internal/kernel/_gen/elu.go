package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var tables = map[string]Mem{}

// lanesOf returns a constant of package kernel in every lane, in memory, since AVX2 has too few free
// registers for all constants.
func lanesOf(name string, bits uint32) Mem {
	m, ok := tables[name]
	if !ok {
		m = GLOBL(name, 8|16) // RODATA, NOPTR
		for i := range 16 {
			DATA(4*i, U32(bits))
		}
		tables[name] = m
	}
	return m
}

func float(name string, v float32) Mem { return lanesOf(name, math.Float32bits(v)) }

// exp replaces v, which is at most zero, by its exponential, step by step as the
// plain function does.
func exp(s isa, v reg.VecVirtual) {
	t, n, r := s.vector(), s.vector(), s.vector()
	VMOVUPS(float("expLowest", -86), t)
	VMAXPS(v, t, v) // this order of the operands keeps NaN
	VMULPS(float("expLog2E", math.Log2E), v, t)
	VADDPS(float("expRound", 3<<22), t, t)
	VSUBPS(float("expRound", 3<<22), t, n)
	VPADDD(lanesOf("expExponent", 127), t, t)
	VPSLLD(U8(23), t, t)
	VMULPS(float("expLn2High", 0.693359375), n, r)
	VSUBPS(r, v, v)
	VMULPS(float("expLn2Low", -2.12194440e-4), n, r)
	VSUBPS(r, v, v)
	VMOVUPS(float("expP0", 1.9875691500e-4), r)
	for _, p := range []struct {
		name string
		v    float32
	}{{"expP1", 1.3981999507e-3}, {"expP2", 8.3334519073e-3}, {"expP3", 4.1665795894e-2}, {"expP4", 1.6666665459e-1}, {"expP5", 5.0000001201e-1}} {
		VMULPS(v, r, r)
		VADDPS(float(p.name, p.v), r, r)
	}
	VMULPS(v, v, n)
	VMULPS(n, r, r)
	VADDPS(v, r, r)
	VADDPS(float("expOne", 1), r, r)
	VMULPS(t, r, v)
}

func expNegative(s isa) {
	begin(s, "exp", "func(x *float32, n int)", "expPlain", "n may be any number.")
	x, n := pointer("x"), pointer("n")
	JMP(LabelRef("test"))
	Label("whole")
	v := s.vector()
	VMOVUPS(Mem{Base: x}, v)
	exp(s, v)
	VMOVUPS(v, Mem{Base: x})
	ADDQ(I32(s.bytes()), x)
	SUBQ(U8(s.lanes), n)
	Label("test")
	CMPQ(n, U8(s.lanes))
	JGE(LabelRef("whole"))
	TESTQ(n, n)
	JZ(LabelRef("done"))
	mask := s.first(n, 1)[0]
	v = s.vector()
	s.load(Mem{Base: x}, mask, v)
	exp(s, v)
	s.store(v, mask, Mem{Base: x})
	Label("done")
	end()
}

func biasELU(s isa) {
	begin(s, "biasELU", "func(z, bias *float32, n int, low, high, threshold uint32, scale float32)", "biasELUPlain", "The key comes in halves.")
	z, bias, zero := pointer("z"), pointer("bias"), zero(s)
	threshold, scale := broadcast(s, "threshold"), broadcast(s, "scale")
	draws := newDrawer(s)
	each(s, pointer("n"), 1, func(i reg.Register, o int) {
		v, m := s.vector(), s.vector()
		VMOVUPS(at(z, i, o), v)
		VADDPS(at(bias, i, o), v, v)
		VMINPS(v, zero, m)
		exp(s, m)
		VSUBPS(float("expOne", 1), m, m)
		VMAXPS(v, zero, v)
		VADDPS(m, v, v)
		VMULPS(scale, v, v)
		VMOVUPS(s.keep(v, s.notBelow(draws.next(), threshold)), at(z, i, o))
	})
	end()
}

func eluBackward(s isa) {
	begin(s, "eluBackward", "func(dz, y, sums *float32, n int, low, high, threshold uint32, scale float32)",
		"eluBackwardPlain", "The key comes in halves.")
	dz, y, sums, zero := pointer("dz"), pointer("y"), pointer("sums"), zero(s)
	threshold, scale := broadcast(s, "threshold"), broadcast(s, "scale")
	draws := newDrawer(s)
	each(s, pointer("n"), 1, func(i reg.Register, o int) {
		t, v := s.vector(), s.vector()
		VMOVUPS(at(y, i, o), t)
		VMINPS(t, zero, t)
		VADDPS(scale, t, t)
		VMULPS(at(dz, i, o), t, v)
		v = s.keep(v, s.notBelow(draws.next(), threshold))
		VMOVUPS(v, at(dz, i, o))
		VADDPS(at(sums, i, o), v, v)
		VMOVUPS(v, at(sums, i, o))
	})
	end()
}
