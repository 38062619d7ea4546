package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// number writes numberPlain. It compares a word with the eight places of a bucket at once, and has no branch that depends
// on whether the word is there, which is as good as random. A table is larger than the caches near a processor: each step
// asks for the bucket of a later word. last is the offset of the last bucket in bytes.
func number() {
	const ahead = 24
	begin(avx2, "number", "func(out, words, list, table *uint32, count, last int, n, base uint32, shift int) uint32", "numberPlain")
	out, words, list, table := pointer("out"), pointer("words"), pointer("list"), pointer("table")
	i, n, base, golden := GP64(), GP64(), GP32(), GP64()
	Load(Param("n"), n.As32())
	Load(Param("base"), base)
	Load(Param("shift"), reg.RCX)
	MOVQ(U64(0x9E3779B97F4A7C15), golden)
	bases, word, equal, numbers, live := broadcast(avx2, "base"), YMM(), YMM(), YMM(), YMM()
	memory := func(name string) Mem {
		p, err := Param(name).Resolve()
		if err != nil {
			panic(err)
		}
		return p.Addr
	}

	h, place, free, id := GP64(), GP64(), GP64(), GP64()
	find := func(at int) {
		MOVL(Mem{Base: words, Index: i, Scale: 4, Disp: 4 * at}, h.As32())
		IMULQ(golden, h)
		SHRQ(reg.CL, h)
		SHLQ(U8(6), h)
	}
	request := func(at int) {
		find(at)
		PREFETCHT0(Mem{Base: table, Index: h, Scale: 1})
	}
	// loop handles words, and requests the buckets of words further on; the last words have none.
	loop := func(label string, further int) {
		JMP(LabelRef(label + "Test"))
		Label(label)
		if further > 0 {
			request(further)
		}
		find(0)
		ADDQ(table, h)
		VPBROADCASTD(Mem{Base: words, Index: i, Scale: 4}, word)
		Label(label + "Bucket")
		VMOVDQU(Mem{Base: h, Disp: 32}, numbers)
		VPCMPEQD(Mem{Base: h}, word, equal)
		VPMAXUD(bases, numbers, live)
		VPCMPEQD(numbers, live, live)
		VPAND(live, equal, equal)
		VMOVMSKPS(live, free.As32())
		VMOVMSKPS(equal, place.As32())
		XORL(U32(255), free.As32())
		TESTL(place.As32(), place.As32())
		CMOVLEQ(free.As32(), place.As32())
		TESTL(place.As32(), place.As32())
		JEQ(LabelRef(label + "Full"))
		BSFL(place.As32(), place.As32())
		entry, number := Mem{Base: h, Index: place, Scale: 4}, free
		MOVL(entry.Offset(32), number.As32())
		SUBL(base, number.As32())
		CMPL(number.As32(), n.As32())
		CMOVLHI(n.As32(), number.As32()) // of an entry of another table the difference is large
		MOVL(Mem{Base: words, Index: i, Scale: 4}, id.As32())
		MOVL(id.As32(), entry)
		MOVL(id.As32(), Mem{Base: list, Index: n, Scale: 4})
		MOVL(number.As32(), Mem{Base: out, Index: i, Scale: 4})
		MOVL(base, id.As32())
		ADDL(number.As32(), id.As32())
		MOVL(id.As32(), entry.Offset(32))
		CMPL(number.As32(), n.As32())
		SBBL(I8(-1), n.As32()) // n+1, or n if number is below
		INCQ(i)
		Label(label + "Test")
		LEAQ(Mem{Base: i, Disp: further}, h)
		CMPQ(h, memory("count"))
		JLT(LabelRef(label))
	}
	full := func(label string) {
		Label(label + "Full")
		SUBQ(table, h)
		CMPQ(h, memory("last"))
		JNE(LabelRef(label + "Step"))
		MOVQ(I32(-64), h)
		Label(label + "Step")
		LEAQ(Mem{Base: table, Index: h, Scale: 1, Disp: 64}, h)
		JMP(LabelRef(label + "Bucket"))
	}

	XORQ(i, i)
	Label("first")
	request(0)
	INCQ(i)
	CMPQ(i, memory("count"))
	JEQ(LabelRef("begin"))
	CMPQ(i, U8(ahead))
	JLT(LabelRef("first"))
	Label("begin")
	XORQ(i, i)
	loop("word", ahead)
	loop("end", 0)
	Store(n.As32(), ReturnIndex(0))
	end()
	full("word")
	full("end")
}
