package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The functions of attention: several heads read the same rows. Heads are computed in groups of four, and
// the remaining ones one by one.
const headBlock = 4

// dotLanes is the number of partial sums of a dot product, in every instruction set.
const dotLanes = 16

func dotHeads(s isa) {
	begin(s, "dotHeads", "func(dst, x *float32, d int, idx *uint32, n, last int, v *float32, heads int)",
		"dotHeadsPlain", "The index at position last is the furthest that may be read ahead.")
	k := newDotter(s)
	k.edges(k.rowBytes)
	end()
}

// dotParts has rows of x that are a stride apart, with columns for every head.
func dotParts(s isa) {
	begin(s, "dotParts", "func(dst, x *float32, d, stride int, idx *uint32, n, last int, v *float32, heads int)",
		"dotPartsPlain", "The index at position last is the furthest that may be read ahead.")
	k := newDotter(s)
	k.parts = true
	stride := GP64()
	Load(Param("stride"), stride)
	SHLQ(U8(2), stride)
	k.edges(stride)
	end()
}

func newDotter(s isa) *dotter {
	dst := pointer("dst")
	rowBytes, whole, tail := GP64(), GP64(), GP64()
	Load(Param("d"), rowBytes)
	MOVQ(rowBytes, tail)
	ANDQ(U8(dotLanes-1), tail)
	MOVQ(rowBytes, whole)
	SUBQ(tail, whole)
	SHLQ(U8(2), whole)
	SHLQ(U8(2), rowBytes)
	return &dotter{isa: s, masks: s.first(tail, dotLanes/s.lanes), dst: dst, rowBytes: rowBytes, whole: whole}
}

// edges loops over the rows of x that idx lists.
func (k *dotter) edges(stride reg.Register) {
	i := GP64()
	XORQ(i, i)
	JMP(LabelRef("edgesTest"))
	Label("edges")
	k.row, k.next = rowAhead(i, stride)
	v, left := pointer("v"), GP64()
	if k.parts {
		SUBQ(v, k.row)
		SUBQ(v, k.next)
		k.behind, k.far = k.row, k.next
	}
	Load(Param("heads"), left)
	JMP(LabelRef("foursTest"))
	Label("fours")
	k.dots("four", v, headBlock)
	SUBQ(U8(headBlock), left)
	Label("foursTest")
	CMPQ(left, U8(headBlock))
	JGE(LabelRef("fours"))
	JMP(LabelRef("onesTest"))
	Label("ones")
	k.dots("one", v, 1)
	DECQ(left)
	Label("onesTest")
	TESTQ(left, left)
	JNZ(LabelRef("ones"))
	INCQ(i)
	Label("edgesTest")
	n := pointer("n")
	CMPQ(i, n)
	JL(LabelRef("edges"))
}

// rowAhead returns pointers to the row of x of edge i, and to the row of a later edge, for prefetching.
func rowAhead(i, rowBytes reg.Register) (row, next reg.GPVirtual) {
	row, next = GP64(), GP64()
	idx, last, x := pointer("idx"), pointer("last"), pointer("x")
	LEAQ(Mem{Base: i, Disp: distance}, next)
	CMPQ(next, last)
	CMOVQGT(last, next)
	MOVL(Mem{Base: idx, Index: i, Scale: 4}, row.As32())
	MOVL(Mem{Base: idx, Index: next, Scale: 4}, next.As32())
	IMULQ(rowBytes, row)
	IMULQ(rowBytes, next)
	ADDQ(x, row)
	ADDQ(x, next)
	return row, next
}

type dotter struct {
	isa
	masks           []Op // of the last, partial group of columns
	dst             reg.Register
	rowBytes, whole reg.Register // of a vector; of its whole groups of columns
	row, next       reg.Register // of x, for all heads alike
	// With parts, the heads have columns of their own: these are the distances of x and of the row ahead
	// from v, the same for every head.
	parts       bool
	behind, far reg.Register
}

// dots multiplies the row with the vectors of some heads, stores the products and
// moves v and dst on.
func (k *dotter) dots(name string, v reg.Register, heads int) {
	parts := dotLanes / k.lanes
	acc := make([][]reg.VecVirtual, heads)
	ptr := make([]reg.GPVirtual, heads)
	for h := range heads {
		for range parts {
			acc[h] = append(acc[h], zero(k.isa))
		}
		ptr[h] = GP64()
		MOVQ(v, ptr[h])
		ADDQ(k.rowBytes, v)
	}
	c := GP64()
	XORQ(c, c)
	JMP(LabelRef(name + "Test"))
	Label(name + "Columns")
	k.group(ptr, acc, c, nil)
	ADDQ(U8(4*dotLanes), c)
	Label(name + "Test")
	CMPQ(c, k.whole)
	JL(LabelRef(name + "Columns"))
	CMPQ(c, k.rowBytes)
	JGE(LabelRef(name + "Sum"))
	k.group(ptr, acc, c, k.masks)
	Label(name + "Sum")
	k.reduce(acc)
}

// group adds the products of dotLanes columns, from byte c on, to the partial sums of every head. With
// masks it adds the products of the selected columns.
func (k *dotter) group(ptr []reg.GPVirtual, acc [][]reg.VecVirtual, c reg.Register, masks []Op) {
	own := GP64() // the column as x has it from a head's vector on
	if k.parts {
		MOVQ(c, own)
		ADDQ(k.far, own)
		for _, v := range ptr {
			PREFETCHT0(at(v, own, 0))
		}
		SUBQ(k.far, own)
		ADDQ(k.behind, own)
	} else {
		PREFETCHT0(at(k.next, c, 0))
	}
	load := func(m Mem, p int) reg.VecVirtual {
		v := k.vector()
		if masks == nil {
			VMOVUPS(m, v)
		} else {
			k.load(m, masks[p], v)
		}
		return v
	}
	for p := range acc[0] {
		var x reg.VecVirtual
		if !k.parts {
			x = load(at(k.row, c, p*k.bytes()), p)
		}
		for h, v := range ptr {
			if k.parts {
				x = load(at(v, own, p*k.bytes()), p)
			}
			t := k.vector()
			if masks == nil {
				VMULPS(at(v, c, p*k.bytes()), x, t)
			} else {
				k.load(at(v, c, p*k.bytes()), masks[p], t)
				VMULPS(t, x, t)
			}
			VADDPS(t, acc[h][p], acc[h][p])
		}
	}
}

// reduce adds up every head's partial sums, stores the sums and moves dst on.
func (k *dotter) reduce(acc [][]reg.VecVirtual) {
	heads, parts := len(acc), dotLanes/k.lanes
	quads := make([]reg.VecVirtual, heads) // four partial sums each
	for h := range heads {
		low, high := YMM(), YMM()
		if parts == 1 {
			VEXTRACTF64X4(U8(1), acc[h][0], high)
			low = acc[h][0].AsY().(reg.VecVirtual)
		} else {
			low, high = acc[h][0], acc[h][1]
		}
		VADDPS(high, low, low)
		q := XMM()
		VEXTRACTF128(U8(1), low, q)
		VADDPS(low.AsX(), q, q)
		quads[h] = q
	}
	if heads == 1 {
		t, q := XMM(), quads[0]
		VMOVHLPS(q, q, t)
		VADDPS(t, q, q)
		VMOVSHDUP(q, t)
		VADDSS(t, q, q)
		VMOVSS(q, Mem{Base: k.dst})
	} else {
		// Of a, b, c and d: a0 b0 a1 b1 + a2 b2 a3 b3, the same of c and d, and
		// then their halves.
		pair := func(a, b reg.VecVirtual) reg.VecVirtual {
			l, h := XMM(), XMM()
			VUNPCKLPS(b, a, l)
			VUNPCKHPS(b, a, h)
			VADDPS(h, l, l)
			return l
		}
		ab, cd, t := pair(quads[0], quads[1]), pair(quads[2], quads[3]), XMM()
		VMOVLHPS(cd, ab, t)
		VMOVHLPS(ab, cd, cd)
		VADDPS(cd, t, t)
		VMOVUPS(t, Mem{Base: k.dst})
	}
	ADDQ(U8(4*heads), k.dst)
}

func gatherHeads(s isa) {
	begin(s, "gatherHeads", "func(dst, x *float32, d int, idx *uint32, n, last int, w *float32, heads int, add bool)",
		"gatherHeadsPlain", "The index at position last is the furthest that may be read ahead.")
	rowBytes := GP64()
	Load(Param("d"), rowBytes)
	SHLQ(U8(2), rowBytes)
	dst, w, left := pointer("dst"), pointer("w"), GP64()
	Load(Param("heads"), left)
	run := func(name string, heads int) {
		c := GP64() // columns done, in bytes
		XORQ(c, c)
		vectors := 16 / headBlock
		if s.lanes == 8 {
			vectors = 8 / headBlock
		}
		limit := GP64()
		MOVQ(rowBytes, limit)
		SUBQ(I32(vectors*s.bytes()), limit)
		JMP(LabelRef(name + "BlockTest"))
		Label(name + "Block")
		headTile(s, name+"Whole", dst, w, rowBytes, c, heads, vectors, nil)
		ADDQ(I32(vectors*s.bytes()), c)
		Label(name + "BlockTest")
		CMPQ(c, limit)
		JLE(LabelRef(name + "Block"))
		JMP(LabelRef(name + "RestTest"))
		Label(name + "Rest")
		columns := GP64()
		MOVQ(rowBytes, columns)
		SUBQ(c, columns)
		SHRQ(U8(2), columns)
		headTile(s, name+"Part", dst, w, rowBytes, c, heads, 1, s.first(columns, 1))
		ADDQ(I32(s.bytes()), c)
		Label(name + "RestTest")
		CMPQ(c, rowBytes)
		JL(LabelRef(name + "Rest"))
		ADDQ(U8(4*heads), w)
		for range heads {
			ADDQ(rowBytes, dst)
		}
		SUBQ(U8(heads), left)
	}
	JMP(LabelRef("foursTest"))
	Label("fours")
	run("four", headBlock)
	Label("foursTest")
	CMPQ(left, U8(headBlock))
	JGE(LabelRef("fours"))
	JMP(LabelRef("onesTest"))
	Label("ones")
	run("one", 1)
	Label("onesTest")
	TESTQ(left, left)
	JNZ(LabelRef("ones"))
	end()
}

// headTile sums the rows of all edges, for some heads and for vectors of columns from byte c of a row on.
// The masks, one for each vector, select columns.
func headTile(s isa, name string, dst, w, rowBytes, c reg.Register, heads, vectors int, masks []Op) {
	acc := make([][]reg.VecVirtual, heads)
	for h := range acc {
		for range vectors {
			acc[h] = append(acc[h], zero(s))
		}
	}
	i, weights := GP64(), GP64()
	XORQ(i, i)
	MOVQ(w, weights)
	JMP(LabelRef(name + "Test"))
	Label(name + "Edges")
	row, next := rowAhead(i, rowBytes)
	for line := 0; line < vectors*s.bytes(); line += cacheLine {
		PREFETCHT0(at(next, c, line))
	}
	x := make([]reg.VecVirtual, vectors)
	for v := range x {
		x[v] = s.vector()
		if m := at(row, c, v*s.bytes()); masks == nil {
			VMOVUPS(m, x[v])
		} else {
			s.load(m, masks[v], x[v])
		}
	}
	for h := range heads {
		weight := s.vector()
		VBROADCASTSS(Mem{Base: weights, Disp: 4 * h}, weight)
		for v := range x {
			t := s.vector()
			VMULPS(x[v], weight, t)
			VADDPS(t, acc[h][v], acc[h][v])
		}
	}
	stride := GP64()
	Load(Param("heads"), stride)
	LEAQ(Mem{Base: weights, Index: stride, Scale: 4}, weights)
	INCQ(i)
	Label(name + "Test")
	n := pointer("n")
	CMPQ(i, n)
	JL(LabelRef(name + "Edges"))
	storeHeads(s, name, dst, rowBytes, c, acc, masks)
}

// storeHeads writes sums to the rows of heads, or adds them.
func storeHeads(s isa, name string, dst, rowBytes, c reg.Register, acc [][]reg.VecVirtual, masks []Op) {
	add := Load(Param("add"), GP8())
	each := func(f func(m Mem, v int, sum reg.VecVirtual)) {
		out := GP64()
		MOVQ(dst, out)
		for h := range acc {
			for v, sum := range acc[h] {
				f(at(out, c, v*s.bytes()), v, sum)
			}
			ADDQ(rowBytes, out)
		}
	}
	TESTB(add, add)
	JZ(LabelRef(name + "Store"))
	each(func(m Mem, v int, sum reg.VecVirtual) {
		if masks == nil {
			VADDPS(m, sum, sum)
			return
		}
		t := s.vector()
		s.load(m, masks[v], t)
		VADDPS(t, sum, sum)
	})
	Label(name + "Store")
	each(func(m Mem, v int, sum reg.VecVirtual) {
		if masks == nil {
			VMOVUPS(sum, m)
		} else {
			s.store(sum, masks[v], m)
		}
	})
}

func combineHeads(s isa) {
	begin(s, "combineHeads", "func(dst, y *float32, d int, idx, edges *uint32, n int, w *float32, heads int)", "combineHeadsPlain")
	rowBytes, c, limit := GP64(), GP64(), GP64()
	Load(Param("d"), rowBytes)
	SHLQ(U8(2), rowBytes)
	XORQ(c, c)
	MOVQ(rowBytes, limit)
	SUBQ(I32(block*s.bytes()), limit)
	JMP(LabelRef("blockTest"))
	Label("block")
	combineTile(s, "whole", rowBytes, c, block, nil)
	ADDQ(I32(block*s.bytes()), c)
	Label("blockTest")
	CMPQ(c, limit)
	JLE(LabelRef("block"))
	JMP(LabelRef("restTest"))
	Label("rest")
	columns := GP64()
	MOVQ(rowBytes, columns)
	SUBQ(c, columns)
	SHRQ(U8(2), columns)
	combineTile(s, "part", rowBytes, c, 1, s.first(columns, 1))
	ADDQ(I32(s.bytes()), c)
	Label("restTest")
	CMPQ(c, rowBytes)
	JL(LabelRef("rest"))
	end()
}

// combineTile sums vectors of columns from byte c on over all edges and heads.
func combineTile(s isa, name string, rowBytes, c reg.Register, vectors int, masks []Op) {
	acc := make([]reg.VecVirtual, vectors)
	for v := range acc {
		acc[v] = zero(s)
	}
	i := GP64()
	XORQ(i, i)
	JMP(LabelRef(name + "EdgesTest"))
	Label(name + "Edges")
	row, next, weights, left := GP64(), GP64(), GP64(), GP64()
	heads, n, idx, edges, y := pointer("heads"), pointer("n"), pointer("idx"), pointer("edges"), pointer("y")
	MOVL(Mem{Base: edges, Index: i, Scale: 4}, weights.As32())
	IMULQ(heads, weights)
	w := pointer("w")
	LEAQ(Mem{Base: w, Index: weights, Scale: 4}, weights)
	MOVL(Mem{Base: idx, Index: i, Scale: 4}, row.As32())
	INCQ(i)
	LEAQ(Mem{Base: n, Disp: -1}, next)
	CMPQ(i, next)
	CMOVQLT(i, next)
	MOVL(Mem{Base: idx, Index: next, Scale: 4}, next.As32())
	for _, p := range []reg.GPVirtual{row, next} {
		IMULQ(heads, p)
		IMULQ(rowBytes, p)
		ADDQ(y, p)
	}
	MOVQ(heads, left)
	Label(name + "Heads")
	for line := 0; line < vectors*s.bytes(); line += cacheLine {
		PREFETCHT0(at(next, c, line))
	}
	weight := s.vector()
	VBROADCASTSS(Mem{Base: weights}, weight)
	for v := range acc {
		t := s.vector()
		if m := at(row, c, v*s.bytes()); masks == nil {
			VMULPS(m, weight, t)
		} else {
			s.load(m, masks[v], t)
			VMULPS(t, weight, t)
		}
		VADDPS(t, acc[v], acc[v])
	}
	ADDQ(rowBytes, row)
	ADDQ(rowBytes, next)
	ADDQ(U8(4), weights)
	DECQ(left)
	JNZ(LabelRef(name + "Heads"))
	Label(name + "EdgesTest")
	count := pointer("n")
	CMPQ(i, count)
	JL(LabelRef(name + "Edges"))
	dst := pointer("dst")
	for v := range acc {
		if m := at(dst, c, v*s.bytes()); masks == nil {
			VMOVUPS(acc[v], m)
		} else {
			s.store(acc[v], masks[v], m)
		}
	}
}
