package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Bits of a float32 without its sign.
const magnitude = 0x7fffffff

// constant returns a vector of copies of a 32-bit number.
func constant(s isa, c uint32) reg.VecVirtual {
	g, x, v := GP32(), XMM(), s.vector()
	MOVL(U32(c), g)
	VMOVD(g, x)
	VPBROADCASTD(x, v)
	return v
}

// shrink loops over n float32s of src. body gets a vector of them and the address of its results, width
// bytes for every float32.
func shrink(s isa, width int, body func(v reg.VecVirtual, dst Mem)) {
	dst, src := pointer("dst"), pointer("src")
	j := GP64()
	XORQ(j, j)
	each(s, pointer("n"), 1, func(i reg.Register, o int) {
		v := s.vector()
		VMOVUPS(at(src, i, o), v)
		body(v, at(dst, j, 0))
		ADDQ(I32(width*s.lanes), j)
	})
}

// widening writes two functions that load n numbers of src, of width bytes each, convert them to vectors, and store these. The one
// with the suffix Past stores past the caches: memory that is written whole and read much later is then not read before it is
// written.
func widening(s isa, name, parameters, twin string, width int, convert func() func(m Mem, v reg.VecVirtual)) {
	for _, suffix := range []string{"", past} {
		doc, store := []string{twin}, func(v reg.VecVirtual, m Mem) { VMOVUPS(v, m) }
		if suffix == past {
			doc, store = append(doc, "It stores past the caches, to an aligned dst: see fence."), func(v reg.VecVirtual, m Mem) { VMOVNTPS(v, m) }
		}
		begin(s, name+suffix, "func(dst *float32, src *byte, n int"+parameters+")", doc...)
		one := convert()
		dst, src := pointer("dst"), pointer("src")
		j := GP64()
		XORQ(j, j)
		each(s, pointer("n"), 1, func(i reg.Register, o int) {
			v := s.vector()
			one(at(src, j, 0), v)
			store(v, at(dst, i, o))
			ADDQ(I32(width*s.lanes), j)
		})
		end()
	}
}

const past = "Past"

// largest keeps the greatest magnitude of its vectors, as bits. The bits have the order of the magnitudes,
// with infinity above all numbers and NaN above infinity.
type largest struct {
	s         isa
	mask, max reg.VecVirtual
}

func newLargest(s isa) largest { return largest{s, constant(s, magnitude), zero(s)} }

func (l largest) take(v reg.VecVirtual) {
	m := l.s.vector()
	l.s.and(v, l.mask, m)
	VPMAXUD(m, l.max, l.max)
}

// result stores the greatest magnitude of all lanes as the function's result.
func (l largest) result() {
	x := l.s.fold(l.max)
	t := XMM()
	for _, swap := range []uint8{0b01_00_11_10, 0b10_11_00_01} {
		VPSHUFD(U8(swap), x, t)
		VPMAXUD(t, x, x)
	}
	g := GP32()
	VMOVD(x, g)
	Store(g, ReturnIndex(0))
}

func maxMagnitude(s isa) {
	begin(s, "maxMagnitude", "func(src *float32, n int) uint32", "maxMagnitudePlain")
	src, l := pointer("src"), newLargest(s)
	each(s, pointer("n"), 4, func(i reg.Register, o int) {
		v := s.vector()
		VMOVUPS(at(src, i, o), v)
		l.take(v)
	})
	l.result()
	end()
}

func toFloat16(s isa) {
	begin(s, "float32ToFloat16", "func(dst *byte, src *float32, n int) uint32", "float32ToFloat16Plain", "It returns the bits of the greatest magnitude.")
	l := newLargest(s)
	shrink(s, 2, func(v reg.VecVirtual, dst Mem) {
		l.take(v)
		VCVTPS2PH(U8(0), v, dst) // to the nearest, ties to even
	})
	l.result()
	end()
}

func toBFloat16(s isa) {
	begin(s, "float32ToBFloat16", "func(dst *byte, src *float32, n int) uint32", "float32ToBFloat16Plain", "It returns the bits of the greatest magnitude.")
	l, one, below, quiet := newLargest(s), constant(s, 1), constant(s, 0x7fff), constant(s, 0x40)
	shrink(s, 2, func(v reg.VecVirtual, dst Mem) {
		l.take(v)
		nan, sum := s.vector(), s.vector()
		VPSRLD(U8(16), v, nan)
		s.and(nan, one, sum)
		VPADDD(below, sum, sum)
		VPADDD(v, sum, sum)
		VPSRLD(U8(16), sum, sum)
		s.or(nan, quiet, nan)
		s.store2(s.pickNaN(v, nan, sum), dst)
	})
	l.result()
	end()
}

func quantize(s isa) {
	begin(s, "quantizeInt8", "func(dst *byte, src *float32, n int, scale float32)", "dtype.QuantizeInt8", "The scale is not zero.")
	scale, high := broadcast(s, "scale"), constant(s, 127)
	low := zero(s)
	VPSUBD(high, low, low)
	shrink(s, 1, func(v reg.VecVirtual, dst Mem) {
		VDIVPS(scale, v, v)
		VCVTPS2DQ(v, v) // to the nearest, ties to even, as Go sets the processor
		VPMINSD(high, v, v)
		VPMAXSD(low, v, v)
		s.store1(v, dst)
	})
	end()
}

func fromFloat16(s isa) {
	widening(s, "float16ToFloat32", "", "float16ToFloat32Plain", 2, func() func(m Mem, v reg.VecVirtual) {
		return func(m Mem, v reg.VecVirtual) { VCVTPH2PS(m, v) }
	})
}

func fromBFloat16(s isa) {
	widening(s, "bfloat16ToFloat32", "", "bfloat16ToFloat32Plain", 2, func() func(m Mem, v reg.VecVirtual) {
		return func(m Mem, v reg.VecVirtual) {
			VPMOVZXWD(m, v)
			VPSLLD(U8(16), v, v)
		}
	})
}

func dequantize(s isa) {
	widening(s, "int8ToFloat32", ", scale float32", "dtype.DequantizeInt8", 1, func() func(m Mem, v reg.VecVirtual) {
		scale := broadcast(s, "scale")
		return func(m Mem, v reg.VecVirtual) {
			VPMOVSXBD(m, v)
			VCVTDQ2PS(v, v)
			VMULPS(scale, v, v)
		}
	})
}

// fence writes the function that orders stores past the caches.
func fence() {
	TEXT("fence", 0, "func()")
	Doc("fence orders stores past the caches before later stores.")
	SFENCE()
	RET()
}
