package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// unpack writes unpackPlain for groups of eight values of at most 25 bits. Values of w bits make groups of w bytes. The
// first four values are in the 16 bytes from the group's beginning, the other four in the 16 bytes from byte half
// on. places moves the four bytes of each value to its lane, and shifts removes the bits in front.
func unpack() {
	begin(avx2, "unpack", "func(dst *uint32, src *byte, groups, width, half int, mask uint32, places *byte, shifts *uint32)", "unpackPlain")
	dst, src, n := pointer("dst"), pointer("src"), pointer("groups")
	width, half := pointer("width"), pointer("half")
	mask, places, shifts := broadcast(avx2, "mask"), YMM(), YMM()
	VMOVDQU(Mem{Base: pointer("places")}, places)
	VMOVDQU(Mem{Base: pointer("shifts")}, shifts)
	JMP(LabelRef("test"))
	Label("eight")
	low, v := XMM(), YMM()
	VMOVDQU(Mem{Base: src}, low)
	VINSERTI128(U8(1), Mem{Base: src, Index: half, Scale: 1}, low.AsY(), v)
	VPSHUFB(places, v, v)
	VPSRLVD(shifts, v, v)
	VPAND(mask, v, v)
	VMOVDQU(v, Mem{Base: dst})
	ADDQ(width, src)
	ADDQ(I8(32), dst)
	DECQ(n)
	Label("test")
	TESTQ(n, n)
	JNE(LabelRef("eight"))
	end()
}
