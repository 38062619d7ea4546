package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Bits of a float32 without its sign.
const magnitude = 0x7fffffff

// constant returns a vector of copies of a 32-bit number.
func constant(s isa, c uint32) reg.VecVirtual { return copies(s.vector(), c) }

// copies fills v with copies of a 32-bit number.
func copies(v reg.VecVirtual, c uint32) reg.VecVirtual {
	g, x := GP32(), XMM()
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
	g := GP32()
	VMOVD(l.lanes(), g)
	Store(g, ReturnIndex(0))
}

// lanes returns four copies of the greatest magnitude of all lanes.
func (l largest) lanes() reg.VecVirtual {
	x := l.s.fold(l.max)
	t := XMM()
	for _, swap := range []uint8{0b01_00_11_10, 0b10_11_00_01} {
		VPSHUFD(U8(swap), x, t)
		VPMAXUD(t, x, x)
	}
	return x
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

// dequantize4 writes functions that convert groups of 32 numbers. The last group may have fewer.
func dequantize4(s isa) {
	for _, suffix := range []string{"", past} {
		doc, store := []string{"dtype.DequantizeInt4"}, func(v reg.VecVirtual, m Mem) { VMOVUPS(v, m) }
		if suffix == past {
			doc, store = append(doc, "It stores past the caches, to an aligned dst: see fence."), func(v reg.VecVirtual, m Mem) { VMOVNTPS(v, m) }
		}
		begin(s, "int4ToFloat32"+suffix, "func(dst *float32, codes, scales *byte, n int)", doc...)
		dst, codes, scales, n := pointer("dst"), pointer("codes"), pointer("scales"), pointer("n")
		scaled := s.nibbles()
		vectors := func(one func(m Mem, v reg.VecVirtual), count int) {
			for k := range count {
				v := s.vector()
				one(Mem{Base: codes, Disp: k * s.lanes / 2}, v)
				store(v, Mem{Base: dst, Disp: k * s.bytes()})
			}
			ADDQ(I32(count*s.lanes/2), codes)
			ADDQ(I32(count*s.bytes()), dst)
			SUBQ(I32(count*s.lanes), n)
		}
		JMP(LabelRef("groupsTest"))
		Label("groups")
		vectors(scaled(s.halves(Mem{Base: scales})), group/s.lanes)
		ADDQ(I8(2), scales)
		Label("groupsTest")
		CMPQ(n, I8(group))
		JGE(LabelRef("groups"))
		TESTQ(n, n)
		JEQ(LabelRef("done"))
		last := scaled(s.halves(Mem{Base: scales}))
		Label("single")
		vectors(last, 1)
		JNE(LabelRef("single"))
		Label("done")
		end()
	}
}

// group is dtype.Int4Group.
const group = 32

// quantize4 writes the function that converts whole groups.
func quantize4(s isa) {
	begin(s, "quantizeInt4", "func(codes, scales *byte, src *float32, groups int) uint32", "dtype.QuantizeInt4", "It returns the bits of the greatest magnitude.")
	codes, scales, src, n := pointer("codes"), pointer("scales"), pointer("src"), pointer("groups")
	l, none := newLargest(s), zero(s)
	seven, high, low := constant(s, 0x40E00000), constant(s, 7), zero(s)
	VPSUBD(high, low, low)
	ordered, half, weights := s.bytes32(), copies(YMM(), 0x0F0F0F0F), copies(YMM(), 0x10011001)
	JMP(LabelRef("test"))
	Label("groups")
	own := largest{s, l.mask, zero(s)}
	v := make([]reg.VecVirtual, group/s.lanes)
	for k := range v {
		v[k] = s.vector()
		VMOVUPS(Mem{Base: src, Disp: k * s.bytes()}, v[k])
		own.take(v[k])
	}
	VPMAXUD(own.max, l.max, l.max)
	x := own.lanes()
	VDIVPS(seven.AsX(), x, x)
	VCVTPS2PH(U8(0), x, x) // to the nearest, ties to even
	VPEXTRW(U8(0), x, Mem{Base: scales})
	scale := s.halves(x)
	some := s.positive(scale, none)
	for k := range v {
		VDIVPS(scale, v[k], v[k])
		VCVTPS2DQ(v[k], v[k]) // likewise
		VPMINSD(high, v[k], v[k])
		VPMAXSD(low, v[k], v[k])
		s.keep(v[k], some)
	}
	y := ordered(v)
	VPAND(half, y, y)
	VPMADDUBSW(weights, y, y) // of two numbers, the first + 16 × the second
	VPACKUSWB(y, y, y)
	VPERMQ(U8(evenQuarters), y, y)
	VMOVDQU(y.AsX(), Mem{Base: codes})
	ADDQ(I8(group/2), codes)
	ADDQ(I8(2), scales)
	ADDQ(I32(4*group), src)
	DECQ(n)
	Label("test")
	TESTQ(n, n)
	JNE(LabelRef("groups"))
	l.result()
	end()
}

// copyPast writes the function that copies n float32s past the caches.
func copyPast(s isa) {
	begin(s, "copyPast", "func(dst *float32, src *byte, n int)", "copy", "It stores past the caches, to an aligned dst: see fence.")
	dst, src := pointer("dst"), pointer("src")
	each(s, pointer("n"), 4, func(i reg.Register, o int) {
		v := s.vector()
		VMOVUPS(at(src, i, o), v)
		VMOVNTPS(v, at(dst, i, o))
	})
	end()
}

// widenUints writes the function that copies n uint32s to int64s.
func widenUints(s isa) {
	begin(s, "widenUints", "func(dst *int64, src *uint32, n int)", "widenUintsPlain")
	dst, src := pointer("dst"), pointer("src")
	each(s, pointer("n"), 1, func(i reg.Register, o int) {
		for half := range 2 {
			v := s.vector()
			VPMOVZXDQ(at(src, i, o+half*s.bytes()/2), v)
			VMOVUPS(v, Mem{Base: dst, Index: i, Scale: 2, Disp: 2*o + half*s.bytes()})
		}
	})
	end()
}

// fence writes the function that orders stores past the caches.
func fence() {
	TEXT("fence", 0, "func()")
	Doc("fence orders stores past the caches before later stores.")
	SFENCE()
	RET()
}
