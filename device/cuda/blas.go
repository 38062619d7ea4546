package cuda

import "fmt"

// Precision is the arithmetic of a product of float32 matrices.
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

// BLASWorkspace is the size in bytes of a workspace that is large enough for all products.
const BLASWorkspace = 32 << 20

// BLASWorkspace returns the size in bytes of a workspace that is large enough for all products on this
// device.
func (d *Device) BLASWorkspace() int64 { return d.driver.blasWorkspace() }

// BLAS multiplies matrices on one stream with cuBLAS. The library is loaded at the first use: the file in
// the environment variable DISKGNN_CUBLAS, or the first one found in the usual folders.
type BLAS struct {
	stream *Stream
	handle handle
	// Precision applies to all later products.
	Precision Precision
	product   gemm // that is being enqueued
}

// NewBLAS opens cuBLAS for the stream. The workspace belongs to the BLAS until Free. With a fixed
// workspace, products can be captured in a graph and are reproducible.
func (s *Stream) NewBLAS(workspace Buffer) (*BLAS, error) {
	h, err := s.device.driver.newBLAS(s.handle, workspace.Address(), workspace.Bytes())
	if err != nil {
		return nil, s.device.failed("open cuBLAS", err)
	}
	return &BLAS{stream: s, handle: h}, nil
}

// Version returns the library's version and file, as text.
func (b *BLAS) Version() string { return b.stream.device.driver.blasVersion(b.handle) }

// Free closes the handle and frees the library's memory. No product may be under way.
func (b *BLAS) Free() { _ = b.stream.device.driver.dropBLAS(b.handle) }

// Sgemm enqueues the product z = alpha·op(x)·op(y) + beta·z of row-major float32 matrices, where op(x) is
// m×k, op(y) is k×n and z is m×n. op transposes x if transA is set, and y if transB is set. ldx, ldy and
// ldz are the strides, in elements, between the rows of x, y and z as stored. If beta is 0, z is not read.
// A buffer that is too small is an error.
func (b *BLAS) Sgemm(transA, transB bool, m, n, k int, alpha float32, x Buffer, ldx int, y Buffer, ldy int, beta float32, z Buffer, ldz int) error {
	return b.sgemm(Batch{}, transA, transB, m, n, k, alpha, x, ldx, y, ldy, beta, z, ldz)
}

// Batch is a number of products of one shape. NextX, NextY and NextZ are the strides, in elements, from a
// matrix of one product to the same matrix of the next.
type Batch struct {
	Count               int
	NextX, NextY, NextZ int
}

// SgemmBatch enqueues several products; see Sgemm. The buffers hold the matrices of all products. No two
// products may write the same element.
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
	// cuBLAS is column-major: it sees the transposes, zᵀ = op(y)ᵀ·op(x)ᵀ.
	b.product = gemm{transA: transB, transB: transA, m: n, n: m, k: k, alpha: alpha, beta: beta,
		a: y.Address(), lda: ldy, b: x.Address(), ldb: ldx, c: z.Address(), ldc: ldz, precision: b.Precision,
		count: batch.Count, nextA: batch.NextY, nextB: batch.NextX, nextC: batch.NextZ}
	return b.stream.asked(what, b.stream.device.driver.sgemm(b.handle, &b.product))
}

// MatrixBytes returns the number of bytes from the first to the last element of a float32 matrix with the
// given rows and columns; stride is the distance between rows in elements. It returns 0 for an empty
// matrix.
func MatrixBytes(rows, cols, stride int) int64 {
	if rows <= 0 || cols <= 0 {
		return 0
	}
	return 4 * (int64(rows-1)*int64(stride) + int64(cols))
}
