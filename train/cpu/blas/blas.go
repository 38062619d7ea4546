// Package blas multiplies single-precision matrices on one thread, with
// OpenBLAS where the machine has it, and by itself where it does not.
//
// OpenBLAS is found at run time with dlopen: no cgo, no build tag, and a program that starts
// without it. It is set to one thread, because the callers' workers, each with rows of its own, use
// two cores better than its own threads do, and because a product must not depend on the number of
// threads.
//
// Three kinds: OpenBLAS; kernels of the program's own, in package sgemm, for
// processors with AVX2; and gonum's, for all others and as the plain twin of both. Each
// gives the same bits for the same operands every time: for any GOMAXPROCS, any number of
// concurrent callers and any alignment of the slices. They differ from each other in
// rounding, so a run records which one it used.
package blas

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"diskgnn/internal/fault"
)

// Kinds of library that Open knows.
const (
	Auto     = "auto"     // the first of the others that is there
	OpenBLAS = "openblas" // OpenBLAS or an error
	Builtin  = "builtin"  // the kernels of package sgemm or an error
	Gonum    = "gonum"    // gonum's kernels, in Go and Go assembly
)

// Kinds returns the kinds that Open knows, "auto" first.
func Kinds() []string { return []string{Auto, OpenBLAS, Builtin, Gonum} }

// Library is an opened BLAS. It holds no state: any number of goroutines may
// multiply at once.
type Library struct {
	kind, name, reason string
	bytes              int64
	sgemm              func(tA, tB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int)
}

// Open returns the library of the given kind. It fails if there is no usable OpenBLAS for
// "openblas", or the processor lacks the instructions for "builtin"; "auto" then takes the next
// kind, and Reason has the cause if that makes products slow.
//
// OpenBLAS is loaded by the path or name in DISKGNN_OPENBLAS if that is set, and otherwise by the
// names that distributions use.
func Open(kind string) (*Library, error) { return choose(kind, openOpenBLAS, openBuiltin) }

func choose(kind string, openBLAS, builtin func() (*Library, error)) (*Library, error) {
	if kind == "" {
		kind = Auto
	}
	if !slices.Contains(Kinds(), kind) {
		return nil, fault.New(fault.ErrUsage, "blas: unknown kind %q (known: %s)", kind, strings.Join(Kinds(), ", "))
	}
	var failed error
	for _, k := range []struct {
		name string
		open func() (*Library, error)
	}{{OpenBLAS, openBLAS}, {Builtin, builtin}} {
		if kind != Auto && kind != k.name {
			continue
		}
		lib, err := k.open()
		if err == nil {
			return lib, nil
		}
		failed = cmp.Or(failed, err)
	}
	if kind == OpenBLAS || kind == Builtin {
		return nil, fault.New(fault.ErrUsage, "blas: %w", failed)
	}
	return gonumLibrary(failed), nil
}

// KindOf returns the kind of a library with the given Name, "" if there is none.
func KindOf(name string) string {
	kind, _, _ := strings.Cut(name, " ")
	if !slices.Contains(Kinds(), kind) {
		return ""
	}
	return kind
}

// Kind returns "openblas", "builtin" or "gonum".
func (l *Library) Kind() string { return l.kind }

// Name identifies the library and the properties that decide its rounding, such as "openblas 0.3.21
// (SkylakeX)", "builtin 1" or "gonum".
func (l *Library) Name() string { return l.name }

// Reason returns, in one sentence for the user, why "auto" took gonum, and the benefit of OpenBLAS.
// It is empty if no faster kind failed.
func (l *Library) Reason() string { return l.reason }

// Bytes returns the bytes that the library keeps for every goroutine that multiplies at the same
// time.
func (l *Library) Bytes() int64 { return l.bytes }

// Sgemm computes C = alpha·op(A)·op(B) + beta·C on the calling goroutine, where op(X) is X or, with
// tA or tB, its transpose. All matrices are row-major: op(A) is m×k, op(B) k×n, C m×n; lda, ldb and
// ldc are the distances, in elements, between the rows of A, B and C as they are stored. With beta
// = 0 the old content of C, NaN included, is ignored; with alpha = 0, A and B are too. It allocates
// nothing, and panics when a slice is too short for its shape.
func (l *Library) Sgemm(tA, tB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	if m == 0 || n == 0 {
		return
	}
	if k == 0 || alpha == 0 {
		scale(m, n, beta, c, ldc)
		return
	}
	if tA {
		check("A", k, m, lda, len(a))
	} else {
		check("A", m, k, lda, len(a))
	}
	if tB {
		check("B", n, k, ldb, len(b))
	} else {
		check("B", k, n, ldb, len(b))
	}
	check("C", m, n, ldc, len(c))
	l.sgemm(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
}

// check panics unless a matrix of the given rows and columns lies inside its slice: the library
// itself does not check.
func check(name string, rows, cols, ld, n int) {
	if rows < 0 || cols < 0 || ld < cols || n < (rows-1)*ld+cols {
		panic(fmt.Sprintf("blas: %s: %d×%d at leading dimension %d in %d elements", name, rows, cols, ld, n))
	}
}

func scale(m, n int, beta float32, c []float32, ldc int) {
	check("C", m, n, ldc, len(c))
	for i := range m {
		row := c[i*ldc : i*ldc+n]
		if beta == 0 {
			clear(row)
			continue
		}
		for j := range row {
			row[j] *= beta
		}
	}
}
