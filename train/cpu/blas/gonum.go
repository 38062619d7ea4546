package blas

import (
	"fmt"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// Tiles are so small that gonum computes each on the calling goroutine (from four
// blocks of 64×64 upward it would start its own), and that the part of B in use
// stays in the innermost cache.
const (
	tileM = 64
	tileN = 128
	tileK = 64
)

// gonum's dot product, which it uses for A·Bᵀ, sums in an order that depends on
// the address of its operands. Transposing B's tile first turns that product into
// another one, with sums along k.
type transposed [tileK * tileN]float32

var transposedPool = sync.Pool{New: func() any { return new(transposed) }}

// gonumLibrary returns gonum's products, taken for lack of OpenBLAS if that failed.
func gonumLibrary(failed error) *Library {
	l := &Library{kind: Gonum, name: Gonum, sgemm: gonumSgemm}
	if failed != nil {
		l.reason = fmt.Sprintf("%v: computing in Go. OpenBLAS makes a training step about ten times faster; "+
			"on Debian and Ubuntu: apt install libopenblas0", failed)
	}
	return l
}

func gonumSgemm(tA, tB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	transA := blas.NoTrans
	if tA {
		transA = blas.Trans
	}
	var scratch *transposed
	if tB {
		scratch = transposedPool.Get().(*transposed)
		defer transposedPool.Put(scratch)
	}
	for j := 0; j < n; j += tileN {
		nj := min(tileN, n-j)
		for l := 0; l < k; l += tileK {
			kl := min(tileK, k-l)
			bt, ldbt := []float32(nil), ldb
			if tB {
				bt, ldbt = scratch[:], nj
				scratch.fill(b[j*ldb+l:], ldb, kl, nj)
			} else {
				bt = b[l*ldb+j:]
			}
			beta := beta
			if l > 0 {
				beta = 1
			}
			for i := 0; i < m; i += tileM {
				at := i*lda + l
				if tA {
					at = l*lda + i
				}
				gonum.Implementation{}.Sgemm(transA, blas.NoTrans, min(tileM, m-i), nj, kl, alpha, a[at:], lda, bt, ldbt, beta, c[i*ldc+j:], ldc)
			}
		}
	}
}

// fill stores the transpose of the n×k tile at the start of b as k rows of n.
func (t *transposed) fill(b []float32, ldb, k, n int) {
	for j := range n {
		row := b[j*ldb : j*ldb+k]
		for l, v := range row {
			t[l*n+j] = v
		}
	}
}
