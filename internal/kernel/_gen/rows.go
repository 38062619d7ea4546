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

// drawer draws the random bits of a row's columns, a vector at a time.
type drawer struct {
	isa
	a, b, high reg.VecVirtual
	column     reg.VecVirtual // the key's low half + column·columnStep of every lane
	step       reg.VecVirtual
}

func newDrawer(s isa) *drawer {
	d := &drawer{isa: s, high: broadcast(s, "high"), a: constant(s, mixA), b: constant(s, mixB), column: s.vector()}
	step := constant(s, columnStep)
	table := lanesTable()
	VMOVUPS(table, d.column)
	VPMULLD(step, d.column, d.column)
	VPADDD(broadcast(s, "low"), d.column, d.column)
	stride := uint32(columnStep)
	d.step = constant(s, stride*uint32(s.lanes))
	return d
}

// next returns the next columns' bits.
func (d *drawer) next() reg.VecVirtual {
	x, t := d.vector(), d.vector()
	fold := func(bits uint8, x reg.VecVirtual) {
		VPSRLD(U8(bits), x, t)
		d.xor(t, x, x)
	}
	VPSRLD(U8(16), d.column, t)
	d.xor(t, d.column, x)
	VPMULLD(d.a, x, x)
	fold(15, x)
	VPADDD(d.high, x, x)
	VPMULLD(d.b, x, x)
	fold(16, x)
	VPADDD(d.step, d.column, d.column)
	return x
}

func biasReLUDropout(s isa) {
	begin(s, "biasReLUDropout", "func(z, bias *float32, n int, low, high, threshold uint32, scale float32)",
		"biasReLUPlain with dropout", "The key comes in halves.")
	z, bias, zero := pointer("z"), pointer("bias"), zero(s)
	threshold, scale := broadcast(s, "threshold"), broadcast(s, "scale")
	draws := newDrawer(s)
	each(s, pointer("n"), 1, func(i reg.Register, o int) {
		x := draws.next()
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
