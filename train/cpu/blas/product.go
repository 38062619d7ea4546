package blas

// Product is the shape of a product, in Sgemm's terms.
type Product struct {
	TransA, TransB bool
	M, N, K        int
	LDA, LDB, LDC  int
}

// Flops counts the product's operations.
func (p Product) Flops() float64 { return 2 * float64(p.M) * float64(p.N) * float64(p.K) }

// Watched returns a library that computes as l does and calls see with every product before it, on
// the multiplying goroutine.
func (l *Library) Watched(see func(Product)) *Library {
	w := *l
	w.sgemm = func(tA, tB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
		see(Product{tA, tB, m, n, k, lda, ldb, ldc})
		l.sgemm(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
	}
	return &w
}
