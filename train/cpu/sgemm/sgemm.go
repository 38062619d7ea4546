// Package sgemm multiplies single-precision matrices in Go assembly, on the calling
// goroutine, for AVX2 with FMA and for AVX-512.
//
// An element of C is
//
//	c = alpha·Σ op(A)[i][l]·op(B)[l][j] + beta·c
//
// where the terms of the sum are cut, by their number alone, into parts of at most maxTerms, all of
// one length but the last. A part is summed one term after the other, every product fused with its
// sum; then alpha times the part is added to beta·c, fused again, and the next parts likewise. So
// an element's bits depend only on its row of op(A), its column of op(B), c, alpha and beta: both
// kinds of instructions give the same, and so do products of other heights and widths, other
// strides and any division among callers.
//
// A product is cut, after Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication,
// ACM TOMS 34, 2008), into tiles of C that registers hold. A panel of B, of maxTerms rows and
// maxColumns columns, is copied so that a tile's part of it is contiguous, and stays in the
// second-level cache while the rows of op(A) pass through the first-level cache, one tile's rows at
// a time. The broadcast of an element costs the same anywhere, so rows of A are used in place,
// unless their stride makes them compete for cache lines.
//
// The assembly is generated: see _gen.
package sgemm

//go:generate go run -C _gen . -out ../sgemm_amd64.s -stubs ../sgemm_amd64.go -pkg sgemm

const (
	// maxTerms bounds the terms that are summed in registers. It decides the bits.
	maxTerms = 256

	// maxColumns bounds the columns of B's panel.
	maxColumns = 512

	// directTiles tiles of rows of C or fewer are computed from B in place: a panel would cost more
	// than it saves.
	directTiles = 2

	maxLanes = 16 // of a vector
)

// Multiply computes C = alpha·op(A)·op(B) + beta·C as blas.Library.Sgemm specifies it: row-major,
// op(A) m×k, op(B) k×n, none of m, n and k zero, rows lda, ldb and ldc elements apart. The caller
// must check that the matrices lie inside their slices, and that Kind is not empty.
//
// Any number of goroutines may multiply at once. Each needs SpaceBytes of memory for it,
// which is kept for the next call.
func Multiply(tA, tB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	s := takeSpace()
	p := product{instructions: inUse, tA: tA, tB: tB, m: m, alpha: alpha, a: a, lda: lda, b: b, ldb: ldb, c: c, ldc: ldc}
	terms := even(k, maxTerms, 1)
	columns := even(n, maxColumns, p.width())
	for l := 0; l < k; l += terms {
		for j := 0; j < n; j += columns {
			p.panel(s, l, min(terms, k-l), j, min(columns, n-j), beta)
		}
		beta = 1
	}
	giveSpace(s)
}

// even returns the length, a multiple of unit, of the parts of n elements, at most most
// each, so that they are about equal.
func even(n, most, unit int) int {
	parts := (n + most - 1) / most
	length := (n + parts - 1) / parts
	return (length + unit - 1) / unit * unit
}

type product struct {
	*instructions
	tA, tB        bool
	m             int
	alpha         float32
	a, b, c       []float32
	lda, ldb, ldc int

	copied, end int // the rows of op(A) that rowsOfA has copied, from one to before another
}

// panel adds the product of terms columns of op(A), from l on, and a panel of op(B), from
// column j on.
func (p *product) panel(s *space, l, terms, j, columns int, beta float32) {
	b, stepB, nextB := p.panelOfB(s, l, terms, j, columns)
	p.end = 0
	width := p.width()
	for i := 0; i < p.m; {
		t := p.tallest(p.m - i)
		a, next, step := p.rowsOfA(s, i, t.rows, l, terms, columns)
		for v := 0; v < columns; v += width {
			t.run(p.lanes, terms, a, next, step, &b[v/width*nextB], stepB, &p.c[i*p.ldc+j+v], p.ldc, p.alpha, beta, columns-v)
		}
		i += t.rows
	}
}

// panelOfB returns the panel, the distances of its rows and of its tiles, in floats.
func (p *product) panelOfB(s *space, l, terms, j, columns int) (b []float32, step, next int) {
	width := p.width()
	if !p.tB && p.m <= directTiles*p.tiles[0].rows {
		return p.b[l*p.ldb+j:], p.ldb, width
	}
	next = terms * width
	for v := 0; v < columns; v += width {
		dst, n := s.b[v/width*next:], min(width, columns-v)
		if p.tB {
			transpose(dst, width, p.b[(j+v)*p.ldb+l:], p.ldb, n, terms)
		} else {
			p.copyB(&dst[0], &p.b[l*p.ldb+j+v], 4*p.ldb, terms, n)
		}
	}
	return s.b[:], width, next
}

// rowsOfA returns the elements of some rows of op(A), and the distances of rows and of a row's
// elements, in floats.
func (p *product) rowsOfA(s *space, i, rows, l, terms, columns int) (a *float32, next, step int) {
	switch {
	case p.tA && columns <= p.width():
		return &p.a[l*p.lda+i], 1, p.lda
	case p.tA:
		if i >= p.end {
			p.copied, p.end = i, min(i+p.together, p.m)
			p.copyA(&s.a[0], &p.a[l*p.lda+i], 4*p.lda, terms, p.end-i)
		}
		return &s.a[i-p.copied], 1, maxLanes
	case columns <= p.width() || p.lda%conflict != 0:
		return &p.a[i*p.lda+l], p.lda, 1
	}
	const stride = maxTerms + maxLanes
	for r := range rows {
		copy(s.a[r*stride:], p.a[(i+r)*p.lda+l:][:terms])
	}
	return &s.a[0], stride, 1
}

// conflict is a distance, in floats, of rows that compete for few places of a first-level
// cache.
const conflict = 1024

// transpose stores the transpose of n rows of src as k rows of width floats. The floats of a row
// beyond n stay unchanged.
func transpose(dst []float32, width int, src []float32, ld, n, k int) {
	const block = 8
	if n < block || k < block {
		for l := range k {
			for j := range n {
				dst[l*width+j] = src[j*ld+l]
			}
		}
		return
	}
	for j := 0; j < n; j += block {
		j := min(j, n-block) // the last block may overlap the one before
		transpose8(&dst[j], 4*width, &src[j*ld], 4*ld, k/block)
		if k%block > 0 {
			l := k - block
			transpose8(&dst[l*width+j], 4*width, &src[j*ld+l], 4*ld, 1)
		}
	}
}
