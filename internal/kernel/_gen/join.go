package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// join writes rng.Join for n words, a multiple of eight. AVX2 has no product of 64-bit numbers.
func join() {
	begin(avx512, "join", "func(dst *uint64, words *uint32, n int, key uint64)", "joinPlain")
	wide := func(c uint64) reg.VecVirtual {
		g, v := GP64(), ZMM()
		MOVQ(U64(c), g)
		VPBROADCASTQ(g, v)
		return v
	}
	golden, first, second := wide(0x9E3779B97F4A7C15), wide(0xBF58476D1CE4E5B9), wide(0x94D049BB133111EB)
	dst, words, n, key := pointer("dst"), pointer("words"), pointer("n"), ZMM()
	VPBROADCASTQ(Load(Param("key"), GP64()), key)
	VPADDQ(golden, key, key)
	v, t := ZMM(), ZMM()
	fold := func(shift uint8) {
		VPSRLQ(U8(shift), v, t)
		VPXORQ(t, v, v)
	}
	mix := func() {
		fold(30)
		VPMULLQ(first, v, v)
		fold(27)
		VPMULLQ(second, v, v)
		fold(31)
	}
	i := GP64()
	XORQ(i, i)
	JMP(LabelRef("test"))
	Label("eight")
	VPMOVZXDQ(Mem{Base: words, Index: i, Scale: 4}, v)
	VPADDQ(golden, v, v)
	mix()
	VPADDQ(key, v, v)
	mix()
	VMOVDQU64(v, Mem{Base: dst, Index: i, Scale: 8})
	ADDQ(I8(8), i)
	Label("test")
	CMPQ(i, n)
	JLT(LabelRef("eight"))
	end()
}
