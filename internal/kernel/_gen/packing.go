package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// packing converts vectors to narrower lanes.
type packing struct {
	and, or func(a, b, c Op)
	// fold reduces v to four lanes with the unsigned maximum of all lanes.
	fold func(v reg.VecVirtual) reg.VecVirtual
	// pickNaN returns nan where v is NaN, and number in the other lanes.
	pickNaN func(v, nan, number reg.VecVirtual) reg.VecVirtual
	// store2 stores the lanes, unsigned numbers of at most 16 bits, as two bytes each.
	store2 func(v reg.VecVirtual, dst Mem)
	// store1 stores the lanes, signed numbers of at most 8 bits, as one byte each.
	store1 func(v reg.VecVirtual, dst Mem)
}

var packing2 = packing{
	and: VPAND, or: VPOR,
	fold: fold256,
	pickNaN: func(v, nan, number reg.VecVirtual) reg.VecVirtual {
		m := YMM()
		VCMPPS(U8(unordered), v, v, m)
		VBLENDVPS(m, nan, number, number)
		return number
	},
	store2: func(v reg.VecVirtual, dst Mem) {
		VPACKUSDW(v, v, v)
		VPERMQ(U8(evenQuarters), v, v)
		VMOVDQU(v.AsX(), dst)
	},
	store1: func(v reg.VecVirtual, dst Mem) {
		VPACKSSDW(v, v, v)
		VPERMQ(U8(evenQuarters), v, v)
		x := v.AsX()
		VPACKSSWB(x, x, x)
		VMOVQ(x, dst)
	},
}

var packing512 = packing{
	and: func(a, b, c Op) { VPANDD(a, b, c) },
	or:  func(a, b, c Op) { VPORD(a, b, c) },
	fold: func(v reg.VecVirtual) reg.VecVirtual {
		y := YMM()
		VEXTRACTI64X4(U8(1), v, y)
		VPMAXUD(v.AsY(), y, y)
		return fold256(y)
	},
	pickNaN: func(v, nan, number reg.VecVirtual) reg.VecVirtual {
		k := K()
		VCMPPS(U8(unordered), v, v, k)
		VMOVDQA32(nan, k, number)
		return number
	},
	store2: func(v reg.VecVirtual, dst Mem) { VPMOVDW(v, dst) },
	store1: func(v reg.VecVirtual, dst Mem) { VPMOVDB(v, dst) },
}

// evenQuarters is VPERMQ's choice of quarters 0 and 2: AVX2 packs halves apart.
const evenQuarters = 0b00_00_10_00

// unordered is the predicate of VCMPPS that holds for NaN.
const unordered = 3

func fold256(v reg.VecVirtual) reg.VecVirtual {
	x := XMM()
	VEXTRACTI128(U8(1), v, x)
	VPMAXUD(v.AsX(), x, x)
	return x
}
