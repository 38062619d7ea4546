package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	// Columns are summed in blocks of eight vectors in registers, over all neighbours.
	block = 8

	// While one row is added, the row this many edges further is fetched.
	distance = 6

	cacheLine = 64
)

// sums are the functions that gather writes.
type sums int

const (
	plainSums    sums = iota // gatherSum
	weightedSums             // gatherWeighted
	sumsOnto                 // addRows
)

// gather writes one of the functions that sum rows.
func gather(s isa, kind sums) {
	const ahead = "The index at position last is the furthest that may be read ahead."
	switch kind {
	case weightedSums:
		begin(s, "gatherWeighted", "func(dst, x *float32, d int, idx *uint32, n, last int, w *float32, scale float32, add bool)",
			"gatherSumPlain with weights", ahead)
	case plainSums:
		begin(s, "gatherSum", "func(dst, x *float32, d int, idx *uint32, n, last int, scale float32, add bool)",
			"gatherSumPlain without weights", ahead)
	default:
		begin(s, "addRows", "func(dst, x *float32, d int, idx *uint32, n, last int)", "addRowsPlain", ahead)
	}
	g := &gatherer{isa: s, onto: kind == sumsOnto, dst: pointer("dst"), x: pointer("x"), idx: pointer("idx"), n: pointer("n"), last: pointer("last")}
	if kind == weightedSums {
		g.w = pointer("w")
	}
	g.left = GP64()
	Load(Param("d"), g.left)
	g.rowBytes = GP64()
	MOVQ(g.left, g.rowBytes)
	SHLQ(U8(2), g.rowBytes)

	width := block * s.lanes
	Label("blocks")
	CMPQ(g.left, I32(width))
	JL(LabelRef("rest"))
	g.columns("block", nil, block)
	ADDQ(I32(4*width), g.dst)
	ADDQ(I32(4*width), g.x)
	SUBQ(I32(width), g.left)
	JMP(LabelRef("blocks"))

	// Less than a block is left. More than half a block is summed as four whole vectors and four masked
	// ones, less as four masked ones.
	Label("rest")
	TESTQ(g.left, g.left)
	JZ(LabelRef("done"))
	half := width / 2
	CMPQ(g.left, I32(half))
	JLE(LabelRef("small"))
	SUBQ(I32(half), g.left)
	g.columns("large", s.first(g.left, block/2), block)
	JMP(LabelRef("done"))
	Label("small")
	g.columns("small", s.first(g.left, block/2), block/2)
	Label("done")
	end()
}

type gatherer struct {
	isa
	onto                    bool // the sums begin with dst
	dst, x, idx, n, last, w reg.Register
	left                    reg.GPVirtual // columns to go
	rowBytes                reg.GPVirtual
}

// columns sums count vectors of columns. The last vectors are masked, each by one of the masks.
func (g *gatherer) columns(name string, masks []Op, count int) {
	whole := count - len(masks)
	acc := make([]reg.VecVirtual, count)
	for v := range acc {
		if !g.onto {
			acc[v] = zero(g.isa)
			continue
		}
		acc[v] = g.vector()
		if m := (Mem{Base: g.dst, Disp: v * g.bytes()}); v < whole {
			VMOVUPS(m, acc[v])
		} else {
			g.load(m, masks[v-whole], acc[v])
		}
	}
	i, ahead := GP64(), GP64()
	XORQ(i, i)
	MOVQ(U32(distance), ahead)
	JMP(LabelRef(name + "Test"))
	Label(name + "Loop")
	row, next := GP64(), GP64()
	MOVL(Mem{Base: g.idx, Index: i, Scale: 4}, row.As32())
	CMPQ(ahead, g.last)
	CMOVQGT(g.last, ahead)
	MOVL(Mem{Base: g.idx, Index: ahead, Scale: 4}, next.As32())
	var weight reg.VecVirtual
	if g.w != nil {
		weight = g.vector()
		VBROADCASTSS(Mem{Base: g.w, Index: row, Scale: 4}, weight)
	}
	IMULQ(g.rowBytes, row)
	IMULQ(g.rowBytes, next)
	for line := 0; line < count*g.bytes(); line += cacheLine {
		PREFETCHT0(at(g.x, next, line))
	}
	for v := range acc {
		m := at(g.x, row, v*g.bytes())
		switch {
		case v < whole && weight == nil:
			VADDPS(m, acc[v], acc[v])
			continue
		case v < whole:
			t := g.vector()
			VMULPS(m, weight, t)
			VADDPS(t, acc[v], acc[v])
			continue
		}
		t := g.vector()
		g.load(m, masks[v-whole], t)
		if weight != nil {
			VMULPS(t, weight, t)
		}
		VADDPS(t, acc[v], acc[v])
	}
	INCQ(i)
	INCQ(ahead)
	Label(name + "Test")
	CMPQ(i, g.n)
	JL(LabelRef(name + "Loop"))

	if !g.onto {
		g.finish(name, acc, masks)
	}
	Label(name + "Store")
	for v := range acc {
		m := Mem{Base: g.dst, Disp: v * g.bytes()}
		if v < whole {
			VMOVUPS(acc[v], m)
		} else {
			g.store(acc[v], masks[v-whole], m)
		}
	}
}

// finish scales the sums, and adds dst to them if the function is to add.
func (g *gatherer) finish(name string, acc []reg.VecVirtual, masks []Op) {
	whole := len(acc) - len(masks)
	scale := broadcast(g.isa, "scale")
	for v := range acc {
		VMULPS(scale, acc[v], acc[v])
	}
	add := Load(Param("add"), GP8())
	TESTB(add, add)
	JZ(LabelRef(name + "Store"))
	for v := range acc {
		m := Mem{Base: g.dst, Disp: v * g.bytes()}
		if v < whole {
			VADDPS(m, acc[v], acc[v])
			continue
		}
		t := g.vector()
		g.load(m, masks[v-whole], t)
		VADDPS(t, acc[v], acc[v])
	}
}
