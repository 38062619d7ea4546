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
	// halves returns copies of a float16, widened. h is an XMM register or memory.
	halves func(h Op) reg.VecVirtual
	// nibbles returns a function that takes a scale and returns a third one. The third loads signed numbers of 4 bits, one
	// for each lane, and multiplies them by the scale.
	nibbles func() func(scale reg.VecVirtual) func(m Mem, v reg.VecVirtual)
	// bytes32 puts the 32 lanes of vectors, signed numbers of at most 8 bits, into a YMM register, in their order.
	bytes32 func() func(v []reg.VecVirtual) reg.VecVirtual
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
	halves: func(h Op) reg.VecVirtual {
		x, v := XMM(), YMM()
		VPBROADCASTW(h, x)
		VCVTPH2PS(x, v)
		return v
	},
	nibbles: func() func(scale reg.VecVirtual) func(m Mem, v reg.VecVirtual) {
		// Lane i shifts its number to the highest bits, by 28 - 4·i bits.
		shifts, t := copies(YMM(), 28), YMM()
		VMOVDQU(lanesTable(), t)
		VPSLLD(U8(2), t, t)
		VPSUBD(t, shifts, shifts)
		return func(scale reg.VecVirtual) func(m Mem, v reg.VecVirtual) {
			return func(m Mem, v reg.VecVirtual) {
				VPBROADCASTD(m, v)
				VPSLLVD(shifts, v, v)
				VPSRAD(U8(28), v, v)
				VCVTDQ2PS(v, v)
				VMULPS(scale, v, v)
			}
		}
	},
	bytes32: func() func(v []reg.VecVirtual) reg.VecVirtual {
		// Packing leaves the lower halves of all vectors in front: the order is 0 4 1 5 2 6 3 7.
		order, t := copies(YMM(), 1), YMM()
		VMOVDQU(lanesTable(), t)
		VPAND(t, order, order)
		VPSLLD(U8(2), order, order)
		VPSRLD(U8(1), t, t)
		VPADDD(t, order, order)
		return func(v []reg.VecVirtual) reg.VecVirtual {
			VPACKSSDW(v[1], v[0], v[0])
			VPACKSSDW(v[3], v[2], v[2])
			VPACKSSWB(v[2], v[0], v[0])
			VPERMD(v[0], order, v[0])
			return v[0]
		}
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
	halves: func(h Op) reg.VecVirtual {
		y, v := YMM(), ZMM()
		VPBROADCASTW(h, y)
		VCVTPH2PS(y, v)
		return v
	},
	nibbles: func() func(scale reg.VecVirtual) func(m Mem, v reg.VecVirtual) {
		// The first eight lanes take the first four bytes, the others the next four. Lane i shifts its number to the lowest bits,
		// by 4·(i mod 8) bits, and looks its value up in a table, which ignores the bits above.
		lane, shifts, half, numbers := ZMM(), copies(ZMM(), 7), ZMM(), ZMM()
		VMOVDQU32(lanesTable(), lane)
		VPANDD(lane, shifts, shifts)
		VPSLLD(U8(2), shifts, shifts)
		VPSRLD(U8(3), lane, half)
		VPSLLD(U8(28), lane, numbers)
		VPSRAD(U8(28), numbers, numbers)
		VCVTDQ2PS(numbers, numbers)
		return func(scale reg.VecVirtual) func(m Mem, v reg.VecVirtual) {
			products := ZMM()
			VMULPS(scale, numbers, products)
			return func(m Mem, v reg.VecVirtual) {
				VPBROADCASTQ(m, v)
				VPERMD(v, half, v)
				VPSRLVD(shifts, v, v)
				VPERMPS(products, v, v)
			}
		}
	},
	bytes32: func() func(v []reg.VecVirtual) reg.VecVirtual {
		return func(v []reg.VecVirtual) reg.VecVirtual {
			low, high, all := XMM(), XMM(), YMM()
			VPMOVDB(v[0], low)
			VPMOVDB(v[1], high)
			VINSERTI128(U8(1), high, low.AsY(), all)
			return all
		}
	},
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
