// Command sgemmgen writes the kernels of package sgemm for AVX2 and AVX-512 as Go
// assembly. Run it with "go generate" in the package above; its dependencies stay in
// this module.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set, with the parameters that differ between them.
type isa struct {
	name   string // suffix of the functions
	lanes  int    // float32s in a vector
	tiles  []int  // rows of the tiles that there are kernels for, the most first
	copies []int  // vectors of the rows that are copied
	vector func() reg.VecVirtual
	xor    func(a, b, c Op)
	masking
}

func (s isa) bytes() int { return 4 * s.lanes }

// vectors is the width of a tile in vectors.
const vectors = 2

func main() {
	ConstraintExpr("amd64,!noasm")
	for _, s := range []isa{avx2, avx512} {
		for _, rows := range s.tiles {
			tile(s, rows, vectors, false)
			tile(s, rows, vectors, true)
			tile(s, rows, 1, true)
		}
		for _, v := range s.copies {
			copyRows(s, v)
		}
	}
	transpose()
	Generate()
}

func pointer(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// address returns the address of a parameter.
func address(name string) Mem {
	m, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return m.Addr
}

// broadcast returns a vector of copies of a 32-bit parameter.
func broadcast(s isa, name string) reg.VecVirtual {
	v := s.vector()
	VBROADCASTSS(address(name), v)
	return v
}

func begin(name, signature string, doc ...string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(doc...)
}

func end() {
	VZEROUPPER()
	RET()
}

// strided addresses rows that are a stride apart, up to fourteen of them, without a
// register for each.
type strided struct {
	base, seventh       reg.GPVirtual
	stride, three, five reg.GPVirtual
	rows                int
}

func newStrided(base, stride reg.GPVirtual, rows int) strided {
	s := strided{base: base, stride: stride, rows: rows}
	if rows > 3 {
		s.three = GP64()
		LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, s.three)
	}
	if rows > 5 {
		s.five = GP64()
		LEAQ(Mem{Base: stride, Index: stride, Scale: 4}, s.five)
	}
	if rows > 7 {
		s.seventh = GP64()
		LEAQ(Mem{Base: base, Index: s.three, Scale: 2}, s.seventh)
		ADDQ(stride, s.seventh)
	}
	return s
}

// row returns the address of a row's element, counted in bytes from its first.
func (s strided) row(i, disp int) Mem {
	m := Mem{Base: s.base, Disp: disp}
	if i >= 7 {
		m.Base = s.seventh
		i -= 7
	}
	switch i {
	case 1, 2, 4:
		m.Index, m.Scale = s.stride, uint8(i)
	case 3, 6:
		m.Index, m.Scale = s.three, uint8(i/3)
	case 5:
		m.Index, m.Scale = s.five, 1
	}
	return m
}

// advance moves all rows by an operand of bytes.
func (s strided) advance(by Op) {
	ADDQ(by, s.base)
	if s.rows > 7 {
		ADDQ(by, s.seventh)
	}
}

// tile writes the kernel of a tile of rows rows and vectors vectors. The last vector may be masked:
// the parameter last is then its number of columns.
func tile(s isa, rows, vectors int, masked bool) {
	name := fmt.Sprintf("tile%dx%d", rows, vectors)
	doc := fmt.Sprintf("is the product of a tile of %d rows and %d columns.", rows, vectors*s.lanes)
	if masked {
		name += "Masked"
		doc = fmt.Sprintf("is the product of a tile of %d rows and the %d columns up to last of vector %d.", rows, vectors*s.lanes, vectors)
	}
	name += s.name
	begin(name, "func(k int, a *float32, next, step int, b *float32, stepB int, c *float32, nextC int, alpha, beta float32, last int)", name+" "+doc, "See kernel.")
	k := pointer("k")
	a, step := newStrided(pointer("a"), pointer("next"), rows), pointer("step")
	b, stepB := pointer("b"), pointer("stepB")
	var mask Op
	if masked {
		mask = s.first(pointer("last"))
	}
	acc := make([][]reg.VecVirtual, rows)
	for i := range acc {
		acc[i] = make([]reg.VecVirtual, vectors)
		for v := range acc[i] {
			acc[i][v] = s.vector()
			s.xor(acc[i][v], acc[i][v], acc[i][v])
		}
	}
	load := func(m Mem, v int, to reg.VecVirtual) {
		if masked && v == vectors-1 {
			s.load(m, mask, to)
		} else {
			VMOVUPS(m, to)
		}
	}

	Label("terms")
	row := make([]reg.VecVirtual, vectors)
	for v := range row {
		row[v] = s.vector()
		load(Mem{Base: b, Disp: v * s.bytes()}, v, row[v])
	}
	for i := range acc {
		x := s.vector()
		VBROADCASTSS(a.row(i, 0), x)
		for v := range row {
			VFMADD231PS(row[v], x, acc[i][v])
		}
	}
	a.advance(step)
	ADDQ(stepB, b)
	DECQ(k)
	JNZ(LabelRef("terms"))

	c, nextC := pointer("c"), pointer("nextC")
	alpha := broadcast(s, "alpha")
	sign := GP32()
	MOVL(address("beta"), sign)
	SHLL(U8(1), sign) // both zeros
	JZ(LabelRef("store"))
	beta := broadcast(s, "beta")
	for i := range acc {
		for v := range acc[i] {
			m, t := Mem{Base: c, Disp: v * s.bytes()}, s.vector()
			load(m, v, t)
			VMULPS(t, beta, t)
			VFMADD231PS(acc[i][v], alpha, t)
			s.put(t, m, mask, masked && v == vectors-1)
		}
		ADDQ(nextC, c)
	}
	end()

	Label("store")
	for i := range acc {
		for v := range acc[i] {
			VMULPS(acc[i][v], alpha, acc[i][v])
			s.put(acc[i][v], Mem{Base: c, Disp: v * s.bytes()}, mask, masked && v == vectors-1)
		}
		ADDQ(nextC, c)
	}
	end()
}

func (s isa) put(v reg.VecVirtual, m Mem, mask Op, masked bool) {
	if masked {
		s.store(v, mask, m)
	} else {
		VMOVUPS(v, m)
	}
}

// copyRows writes the function that copies rows of up to vectors vectors.
func copyRows(s isa, vectors int) {
	name := fmt.Sprintf("copyRows%d%s", vectors, s.name)
	begin(name, "func(dst, src *float32, next, rows, n int)",
		name+fmt.Sprintf(" copies rows of n floats to rows of %d, with zeros behind.", vectors*s.lanes))
	dst, src, next, rows := pointer("dst"), pointer("src"), pointer("next"), pointer("rows")
	masks := []Op{s.first(pointer("n"))}
	if vectors == 2 {
		rest := pointer("n")
		SUBQ(I32(s.lanes), rest)
		masks = append(masks, s.first(rest))
	}
	Label("rows")
	for v, mask := range masks {
		x := s.vector()
		s.load(Mem{Base: src, Disp: v * s.bytes()}, mask, x)
		VMOVUPS(x, Mem{Base: dst, Disp: v * s.bytes()})
	}
	ADDQ(next, src)
	ADDQ(I32(vectors*s.bytes()), dst)
	DECQ(rows)
	JNZ(LabelRef("rows"))
	end()
}

// transpose writes the function that transposes eight rows, for both instruction sets.
func transpose() {
	begin("transpose8", "func(dst *float32, nextDst int, src *float32, next, blocks int)",
		"transpose8 stores eight columns of blocks of eight rows each, from eight rows of src.")
	dst, nextDst := pointer("dst"), pointer("nextDst")
	src := newStrided(pointer("src"), pointer("next"), 8)
	blocks := pointer("blocks")
	Label("blocks")
	// Rows i and i+4 share a register, four columns of each.
	var half [2][4]reg.VecVirtual
	for h := range half {
		for i := range half[h] {
			v := YMM()
			VMOVUPS(src.row(i, 16*h), v.AsX())
			VINSERTF128(U8(1), src.row(i+4, 16*h), v, v)
			half[h][i] = v
		}
	}
	for h := range half {
		var t [4]reg.VecVirtual
		for i := range t {
			t[i] = YMM()
		}
		for i := range 2 {
			x, y := half[h][2*i], half[h][2*i+1]
			VUNPCKLPS(y, x, t[2*i])
			VUNPCKHPS(y, x, t[2*i+1])
		}
		for column := range 4 {
			v, both := YMM(), uint8(0x44)
			if column%2 == 1 {
				both = 0xee
			}
			VSHUFPS(U8(both), t[2+column/2], t[column/2], v)
			VMOVUPS(v, Mem{Base: dst})
			ADDQ(nextDst, dst)
		}
	}
	src.advance(U8(32))
	DECQ(blocks)
	JNZ(LabelRef("blocks"))
	end()
}
