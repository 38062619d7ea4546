package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// masking is how an instruction set selects the first lanes of a vector: AVX2 by a vector
// of ones and zeros, AVX-512 by a mask register. Lanes that are not selected are neither
// read from memory nor written to it.
type masking struct {
	// first returns a mask of the first n lanes: all of them from their number on, none
	// below one. It may change n.
	first func(n reg.GPVirtual) Op
	// load reads the selected lanes; the others become zero.
	load func(m Mem, mask Op, v reg.VecVirtual)
	// store writes the selected lanes.
	store func(v reg.VecVirtual, mask Op, m Mem)
}

// Sixteen registers hold the sums of 6×2 vectors, a row of B, a mask and an element of A.
var avx2 = isa{
	name: "AVX2", lanes: 8, tiles: []int{6, 4, 2, 1},
	vector: YMM,
	xor:    func(a, b, c Op) { VXORPS(a, b, c) },
	masking: masking{
		first: func(n reg.GPVirtual) Op {
			limit, mask := YMM(), YMM()
			VMOVD(n.As32(), limit.AsX())
			VPBROADCASTD(limit.AsX(), limit)
			VPCMPGTD(lanesTable(), limit, mask)
			return mask
		},
		load:  func(m Mem, mask Op, v reg.VecVirtual) { VMASKMOVPS(m, mask, v) },
		store: func(v reg.VecVirtual, mask Op, m Mem) { VMASKMOVPS(v, mask, m) },
	},
}

// Thirty-two registers hold the sums of 14×2 vectors, a row of B and two elements of A.
var avx512 = isa{
	name: "AVX512", lanes: 16, tiles: []int{14, 8, 4, 2, 1},
	vector: ZMM,
	xor:    func(a, b, c Op) { VPXORD(a, b, c) },
	masking: masking{
		first: func(n reg.GPVirtual) Op {
			all, none, k := GP64(), GP64(), K()
			XORQ(none, none)
			TESTQ(n, n)
			CMOVQLT(none, n)
			MOVQ(I64(-1), all)
			BZHIQ(n, all, all) // n ones; all of them from 64 on
			KMOVW(all.As32(), k)
			return k
		},
		load:  func(m Mem, mask Op, v reg.VecVirtual) { VMOVUPS_Z(m, mask, v) },
		store: func(v reg.VecVirtual, mask Op, m Mem) { VMOVUPS(v, mask, m) },
	},
}

var table *Mem

// lanesTable holds 0, 1, 2 … 7.
func lanesTable() Mem {
	if table == nil {
		m := GLOBL("lanes", 8|16) // RODATA, NOPTR
		for i := range 8 {
			DATA(4*i, U32(i))
		}
		table = &m
	}
	return *table
}
