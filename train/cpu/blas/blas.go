// Package blas multiplies single-precision matrices on one thread, with
// OpenBLAS where the machine has it and in Go where it does not.
//
// OpenBLAS is found at run time with dlopen: no cgo, no build tag, and a program
// that starts without it. It is set to one thread, because the callers'
// workers, each with rows of its own, use two cores better than its own threads
// do and because a product must not depend on how many of them there are.
//
// Both kinds give the same bits for the same operands every time: for any
// GOMAXPROCS, any number of concurrent callers and any alignment of the slices.
// The two differ from each other in rounding, so a run records which one it used.
package blas

import (
	"fmt"

	"diskgnn/internal/fault"
)

// Kinds of library that Open knows.
const (
	Auto     = "auto"     // OpenBLAS, or gonum when there is none
	OpenBLAS = "openblas" // OpenBLAS or an error
	Gonum    = "gonum"    // gonum's kernels, in Go and Go assembly
)

// Library is an opened BLAS. It holds no state: any number of goroutines may
// multiply at once.
type Library struct {
	kind, name, reason string
	sgemm              func(tA, tB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int)
}

// Open returns the library of the given kind. Only "openblas" fails, when there
// is no usable OpenBLAS; "auto" then returns gonum, and Reason says why.
//
// The library is looked for under the path or name in DISKGNN_OPENBLAS if that is
// set, and nowhere else then; otherwise under the names that distributions give it.
func Open(kind string) (*Library, error) {
	switch kind {
	case Gonum:
		return gonumLibrary(""), nil
	case Auto, OpenBLAS, "":
	default:
		return nil, fault.New(fault.ErrUsage, "blas: unknown kind %q (known: auto, openblas, gonum)", kind)
	}
	lib, err := openOpenBLAS()
	switch {
	case err == nil:
		return lib, nil
	case kind == OpenBLAS:
		return nil, fault.New(fault.ErrUsage, "blas: %w", err)
	}
	return gonumLibrary(fmt.Sprintf("%v: computing in Go. OpenBLAS makes a training step about ten times faster; "+
		"on Debian and Ubuntu: apt install libopenblas0", err)), nil
}

// Kind returns "openblas" or "gonum".
func (l *Library) Kind() string { return l.kind }

// Name identifies the library and what decides its rounding, such as
// "openblas 0.3.21 (SkylakeX)" or "gonum".
func (l *Library) Name() string { return l.name }

// Reason says, in one sentence for the user, why "auto" did not take OpenBLAS and
// what installing it would give. It is empty when nothing was given up.
func (l *Library) Reason() string { return l.reason }

// Sgemm computes C = alpha·op(A)·op(B) + beta·C on the calling goroutine, where
// op(X) is X or, with tA or tB, its transpose. All matrices are row-major: op(A)
// is m×k, op(B) k×n, C m×n; lda, ldb and ldc are the distances, in elements,
// between the rows of A, B and C as they are stored. With beta = 0 what C held
// before, NaN included, does not matter. It allocates nothing, and panics when a
// slice is too short for its shape.
func (l *Library) Sgemm(tA, tB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
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

// check panics unless a matrix of the given rows and columns lies inside its
// slice: the library behind does not look.
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
