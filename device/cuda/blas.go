package cuda

import "fmt"

// Precision is how a product of float32 matrices is computed.
type Precision int

const (
	// Full multiplies and adds in float32.
	Full Precision = iota
	// TF32 rounds the factors to 10 bits of fraction.
	TF32
	// BF16 rounds the factors to bfloat16.
	BF16
)

func (p Precision) String() string {
	switch p {
	case Full:
		return "float32"
	case TF32:
		return "tf32"
	case BF16:
		return "bf16"
	}
	return fmt.Sprintf("Precision(%d)", int(p))
}

// BLASWorkspace is a size for a BLAS's workspace that suits all products, in bytes.
const BLASWorkspace = 32 << 20

// BLAS multiplies matrices on one stream, by cuBLAS, which is looked for when it is
// first needed: where DISKGNN_CUBLAS says, or where libraries are.
type BLAS struct {
	stream *Stream
	handle handle
	// Precision is how products are computed from now on.
	Precision Precision
	product   gemm // that is being enqueued
}

// NewBLAS opens cuBLAS. The workspace is its own for as long as it lives: so products
// can be captured, and take the same course each time.
func (s *Stream) NewBLAS(workspace Buffer) (*BLAS, error) {
	h, err := s.device.driver.newBLAS(s.handle, workspace.address, workspace.bytes)
	if err != nil {
		return nil, s.device.failed("open cuBLAS", err)
	}
	return &BLAS{stream: s, handle: h}, nil
}

// Version names the library.
func (b *BLAS) Version() string { return b.stream.device.driver.blasVersion(b.handle) }

// Free gives the library's memory back.
func (b *BLAS) Free() { _ = b.stream.device.driver.dropBLAS(b.handle) }

// Sgemm stores alpha·op(a)·op(b) + beta·c in c, row-major, where op transposes or does not: m×n =
// m×k · k×n. A leading dimension is the number of columns of the matrix as stored. With beta zero, c
// is not read.
func (b *BLAS) Sgemm(transA, transB bool, m, n, k int, alpha float32, x Buffer, ldx int, y Buffer, ldy int, beta float32, z Buffer, ldz int) error {
	return b.sgemm(Batch{}, transA, transB, m, n, k, alpha, x, ldx, y, ldy, beta, z, ldz)
}

// Batch is a number of products of one shape, and the strides in elements from the matrices of one
// product to those in the next.
type Batch struct {
	Count               int
	NextX, NextY, NextZ int
}

// SgemmBatch stores several products; see Sgemm. No two may write the same element.
func (b *BLAS) SgemmBatch(batch Batch, transA, transB bool, m, n, k int, alpha float32, x Buffer, ldx int, y Buffer, ldy int, beta float32, z Buffer, ldz int) error {
	if batch.Count < 1 {
		return b.stream.device.usable()
	}
	return b.sgemm(batch, transA, transB, m, n, k, alpha, x, ldx, y, ldy, beta, z, ldz)
}

func (b *BLAS) sgemm(batch Batch, transA, transB bool, m, n, k int, alpha float32, x Buffer, ldx int, y Buffer, ldy int, beta float32, z Buffer, ldz int) error {
	const what = "sgemm"
	if m == 0 || n == 0 {
		return b.stream.device.usable()
	}
	rows := func(trans bool, stored, other int) int {
		if trans {
			return other
		}
		return stored
	}
	for _, f := range []struct {
		name                  string
		buffer                Buffer
		rows, cols, gap, next int
	}{
		{"the first factor", x, rows(transA, m, k), rows(transA, k, m), ldx, batch.NextX},
		{"the second factor", y, rows(transB, k, n), rows(transB, n, k), ldy, batch.NextY},
		{"the product", z, m, n, ldz, batch.NextZ},
	} {
		if f.cols > f.gap {
			return fmt.Errorf("cuda: %s: %s with rows of %d elements and a stride of %d", what, f.name, f.cols, f.gap)
		}
		last := 4 * int64(f.next) * int64(max(0, batch.Count-1))
		if err := needs(what, f.name, f.buffer, last+MatrixBytes(f.rows, f.cols, f.gap)); err != nil {
			return err
		}
	}
	if err := b.stream.device.usable(); err != nil {
		return err
	}
	// To cuBLAS, which is column-major, these are the transposes: zᵀ = op(y)ᵀ·op(x)ᵀ.
	b.product = gemm{transA: transB, transB: transA, m: n, n: m, k: k, alpha: alpha, beta: beta,
		a: y.address, lda: ldy, b: x.address, ldb: ldx, c: z.address, ldc: ldz, precision: b.Precision,
		count: batch.Count, nextA: batch.NextY, nextB: batch.NextX, nextC: batch.NextZ}
	return b.stream.asked(what, b.stream.device.driver.sgemm(b.handle, &b.product))
}

// MatrixBytes returns the bytes from the first to the last element of a float32 matrix.
func MatrixBytes(rows, cols, stride int) int64 {
	if rows <= 0 || cols <= 0 {
		return 0
	}
	return 4 * (int64(rows-1)*int64(stride) + int64(cols))
}
