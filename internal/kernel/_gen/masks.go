package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// masking selects some lanes of a vector: in AVX2 by vectors of ones and zeros, in AVX-512 by mask
// registers. Lanes that are not selected are neither read from memory nor written to it.
type masking struct {
	// first returns count masks that together select the first n lanes of count vectors; n is at least 1.
	// It changes the register n.
	first func(n reg.Register, count int) []Op
	// load reads the selected lanes; the others become zero.
	load func(m Mem, mask Op, v reg.VecVirtual)
	// store writes the selected lanes.
	store func(v reg.VecVirtual, mask Op, m Mem)
	// positive returns the mask of v's lanes above zero.
	positive func(v, zero reg.VecVirtual) Op
	// notBelow returns the mask of v's lanes that are not below the lanes of limit, as unsigned numbers.
	notBelow func(v, limit reg.VecVirtual) Op
	// keep returns the selected lanes of v, zero in the others.
	keep func(v reg.VecVirtual, mask Op) reg.VecVirtual
	// choose returns the selected lanes of v, and the lanes of other elsewhere.
	choose func(v, other reg.VecVirtual, mask Op) reg.VecVirtual
}

var avx2 = isa{
	name: "AVX2", lanes: 8,
	vector:  YMM,
	xor:     VPXOR,
	packing: packing2,
	masking: masking{
		first: func(n reg.Register, count int) []Op {
			limit, x := YMM(), XMM()
			VMOVD(n.(reg.GPVirtual).As32(), x)
			VPBROADCASTD(x, limit)
			masks := make([]Op, count)
			for i := range masks {
				m := YMM()
				VPCMPGTD(lanesTable().Offset(32*i), limit, m)
				masks[i] = m
			}
			return masks
		},
		load:  func(m Mem, mask Op, v reg.VecVirtual) { VMASKMOVPS(m, mask, v) },
		store: func(v reg.VecVirtual, mask Op, m Mem) { VMASKMOVPS(v, mask, m) },
		positive: func(v, zero reg.VecVirtual) Op {
			m := YMM()
			VCMPPS(U8(greaterThan), zero, v, m)
			return m
		},
		notBelow: func(v, limit reg.VecVirtual) Op {
			m := YMM()
			VPMAXUD(v, limit, m)
			VPCMPEQD(v, m, m)
			return m
		},
		keep: func(v reg.VecVirtual, mask Op) reg.VecVirtual {
			VANDPS(v, mask, v)
			return v
		},
		choose: func(v, other reg.VecVirtual, mask Op) reg.VecVirtual {
			VBLENDVPS(mask, v, other, v)
			return v
		},
	},
}

var avx512 = isa{
	name: "AVX512", lanes: 16,
	vector:  ZMM,
	xor:     func(a, b, c Op) { VPXORD(a, b, c) },
	packing: packing512,
	masking: masking{
		first: func(n reg.Register, count int) []Op {
			ones, all := GP64(), GP64()
			MOVQ(I64(-1), all)
			BZHIQ(n, all, ones) // n ones; all of them when n is 64
			masks := make([]Op, count)
			for i := range masks {
				k := K()
				KMOVW(ones.As32(), k)
				masks[i] = k
				SHRQ(U8(16), ones)
			}
			return masks
		},
		load:  func(m Mem, mask Op, v reg.VecVirtual) { VMOVUPS_Z(m, mask, v) },
		store: func(v reg.VecVirtual, mask Op, m Mem) { VMOVUPS(v, mask, m) },
		positive: func(v, zero reg.VecVirtual) Op {
			k := K()
			VCMPPS(U8(greaterThan), zero, v, k)
			return k
		},
		notBelow: func(v, limit reg.VecVirtual) Op {
			k := K()
			VPCMPUD(U8(notLess), limit, v, k)
			return k
		},
		keep: func(v reg.VecVirtual, mask Op) reg.VecVirtual {
			VMOVAPS_Z(v, mask, v)
			return v
		},
		choose: func(v, other reg.VecVirtual, mask Op) reg.VecVirtual {
			VBLENDMPS(v, other, mask, v)
			return v
		},
	},
}

// Predicates of VCMPPS (ordered, quiet) and VPCMPUD.
const (
	greaterThan = 0x1e
	notLess     = 5
)

var table *Mem

// lanesTable holds 0, 1, 2 … 31.
func lanesTable() Mem {
	if table == nil {
		m := GLOBL("lanes", 8|16) // RODATA, NOPTR
		for i := range 32 {
			DATA(4*i, U32(i))
		}
		table = &m
	}
	return *table
}
