package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func add(s isa) {
	begin(s, "add", "func(dst, src *float32, n int)", "addPlain", "n, here and below, is a multiple of the vector's width.")
	dst, src := pointer("dst"), pointer("src")
	each(s, pointer("n"), 4, func(i reg.Register, o int) {
		v := s.vector()
		VMOVUPS(at(dst, i, o), v)
		VADDPS(at(src, i, o), v, v)
		VMOVUPS(v, at(dst, i, o))
	})
	end()
}

// activate returns relu(z + bias). The order of VMAXPS's operands keeps a NaN.
func activate(s isa, z, bias Mem, zero reg.VecVirtual) reg.VecVirtual {
	v := s.vector()
	VMOVUPS(z, v)
	VADDPS(bias, v, v)
	VMAXPS(v, zero, v)
	return v
}

func biasReLU(s isa) {
	begin(s, "biasReLU", "func(z, bias *float32, n int)", "biasReLUPlain without dropout")
	z, bias, zero := pointer("z"), pointer("bias"), zero(s)
	each(s, pointer("n"), 4, func(i reg.Register, o int) {
		VMOVUPS(activate(s, at(z, i, o), at(bias, i, o), zero), at(z, i, o))
	})
	end()
}

// Constants of the plain draw.
const (
	columnStep = 0x9e3779b9
	mixA       = 0x7feb352d
	mixB       = 0x846ca68b
)

func biasReLUDropout(s isa) {
	begin(s, "biasReLUDropout", "func(z, bias *float32, n int, low, high, threshold uint32, scale float32)",
		"biasReLUPlain with dropout", "The key comes in halves.")
	z, bias, zero := pointer("z"), pointer("bias"), zero(s)
	high, threshold, scale := broadcast(s, "high"), broadcast(s, "threshold"), broadcast(s, "scale")
	a, b := constant(s, mixA), constant(s, mixB)
	// column holds low + column·columnStep of every lane.
	column, step := s.vector(), constant(s, columnStep)
	table := lanesTable()
	VMOVUPS(table, column)
	VPMULLD(step, column, column)
	VPADDD(broadcast(s, "low"), column, column)
	stride := uint32(columnStep)
	step = constant(s, stride*uint32(s.lanes))
	each(s, pointer("n"), 1, func(i reg.Register, o int) {
		x, t := s.vector(), s.vector()
		fold := func(bits uint8, x reg.VecVirtual) {
			VPSRLD(U8(bits), x, t)
			s.xor(t, x, x)
		}
		VPSRLD(U8(16), column, t)
		s.xor(t, column, x)
		VPMULLD(a, x, x)
		fold(15, x)
		VPADDD(high, x, x)
		VPMULLD(b, x, x)
		fold(16, x)
		VPADDD(step, column, column)
		v := activate(s, at(z, i, o), at(bias, i, o), zero)
		VMULPS(scale, v, v)
		VMOVUPS(s.keep(v, s.notBelow(x, threshold)), at(z, i, o))
	})
	end()
}

func reluBackward(s isa) {
	begin(s, "reluBackward", "func(dz, y, sums *float32, n int, scale float32)", "reluBackwardPlain")
	dz, y, sums, zero, scale := pointer("dz"), pointer("y"), pointer("sums"), zero(s), broadcast(s, "scale")
	each(s, pointer("n"), 2, func(i reg.Register, o int) {
		active, v := s.vector(), s.vector()
		VMOVUPS(at(y, i, o), active)
		mask := s.positive(active, zero)
		VMULPS(at(dz, i, o), scale, v)
		v = s.keep(v, mask)
		VMOVUPS(v, at(dz, i, o))
		VADDPS(at(sums, i, o), v, v)
		VMOVUPS(v, at(sums, i, o))
	})
	end()
}

func adam(s isa) {
	begin(s, "adam", "func(w, dw, m, v *float32, n int, step *float32)", "adamPlain", "step points to AdamStep's fields.")
	w, dw, m, v, step := pointer("w"), pointer("dw"), pointer("m"), pointer("v"), pointer("step")
	var c [7]reg.VecVirtual // AdamStep's fields
	for i := range c {
		c[i] = s.vector()
		VBROADCASTSS(Mem{Base: step, Disp: 4 * i}, c[i])
	}
	beta1, beta2, alpha1, alpha2, rate, invRoot, epsilon := c[0], c[1], c[2], c[3], c[4], c[5], c[6]
	each(s, pointer("n"), 1, func(i reg.Register, o int) {
		grad, m1, v1, t := s.vector(), s.vector(), s.vector(), s.vector()
		VMOVUPS(at(dw, i, o), grad)
		VMULPS(at(m, i, o), beta1, m1)
		VMULPS(grad, alpha1, t)
		VADDPS(t, m1, m1)
		VMOVUPS(m1, at(m, i, o))
		VMULPS(at(v, i, o), beta2, v1)
		VMULPS(grad, alpha2, t)
		VMULPS(grad, t, t)
		VADDPS(t, v1, v1)
		VMOVUPS(v1, at(v, i, o))
		VSQRTPS(v1, v1)
		VMULPS(invRoot, v1, v1)
		VADDPS(epsilon, v1, v1)
		VMULPS(rate, m1, m1)
		VDIVPS(v1, m1, m1)
		VMOVUPS(at(w, i, o), t)
		VSUBPS(m1, t, t)
		VMOVUPS(t, at(w, i, o))
	})
	end()
}
