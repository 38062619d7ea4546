// Command kernelgen writes the AVX2 and AVX-512 twins of package kernel's plain
// functions as Go assembly. Run it with "go generate" in the package above; its
// dependencies stay in this module.
//
// No product is fused with a sum, so that every kind of kernel rounds like the
// plain one. Element-wise functions take a multiple of the vector's width: the
// package leaves the remaining elements to the plain functions. Gathers take any
// width.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set: the differences between AVX2 and AVX-512.
type isa struct {
	name    string // suffix of the functions
	lanes   int    // float32s in a vector
	vector  func() reg.VecVirtual
	xor     func(a, b, c Op)
	masking // selection of lanes
	packing // conversion to narrower lanes
}

func (s isa) bytes() int { return 4 * s.lanes }

func main() {
	ConstraintExpr("amd64,!noasm")
	for _, s := range []isa{avx2, avx512} {
		gather(s, plainSums)
		gather(s, weightedSums)
		gather(s, sumsOnto)
		add(s)
		biasReLU(s)
		biasReLUDropout(s)
		reluBackward(s)
		dotHeads(s)
		gatherHeads(s)
		combineHeads(s)
		dotParts(s)
		gatherParts(s)
		leakyScores(s)
		scoreGradients(s)
		expNegative(s)
		biasELU(s)
		eluBackward(s)
		adam(s)
		fromFloat16(s)
		fromBFloat16(s)
		dequantize(s)
		dequantize4(s)
		maxMagnitude(s)
		toFloat16(s)
		toBFloat16(s)
		quantize(s)
		quantize4(s)
		copyPast(s)
		widenUints(s)
	}
	join()
	number()
	unpack()
	fence()
	Generate()
}

// each loops over n elements, in strides of unroll vectors, and then over the remaining vectors one by
// one. body gets the byte offset within a stride and must address memory as pointer + index register +
// offset.
func each(s isa, n reg.Register, unroll int, body func(i reg.Register, offset int)) {
	i := GP64()
	XORQ(i, i)
	SHLQ(U8(2), n) // elements to bytes
	loop := func(label string, vectors int) {
		end := GP64()
		MOVQ(n, end)
		SUBQ(I32(vectors*s.bytes()), end)
		JMP(LabelRef(label + "Test"))
		Label(label)
		for v := range vectors {
			body(i, v*s.bytes())
		}
		ADDQ(I32(vectors*s.bytes()), i)
		Label(label + "Test")
		CMPQ(i, end)
		JLE(LabelRef(label))
	}
	if unroll > 1 {
		loop("stride", unroll)
	}
	loop("single", 1)
}

func at(base, index reg.Register, offset int) Mem {
	return Mem{Base: base, Index: index, Scale: 1, Disp: offset}
}

func pointer(name string) reg.Register { return Load(Param(name), GP64()) }

// broadcast returns a vector of copies of a 32-bit parameter.
func broadcast(s isa, name string) reg.VecVirtual {
	v := s.vector()
	m, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(m.Addr, v)
	return v
}

func zero(s isa) reg.VecVirtual {
	v := s.vector()
	s.xor(v, v, v)
	return v
}

func begin(s isa, name, signature string, doc ...string) {
	name += s.name
	TEXT(name, 0, signature)
	Pragma("noescape")
	Doc(append([]string{fmt.Sprintf("%s is the twin of %s for %s.", name, doc[0], s.name)}, doc[1:]...)...)
}

func end() {
	VZEROUPPER()
	RET()
}
