package kernels

import (
	"math"

	"diskgnn/device/cuda"
)

// LayerNorm normalises rows, in place. Tail then adds the shift, as a bias:
//
//	Normed[i] = (Z[i] + Bias − mean)·Inverse[i]        Z[i] = Scale·Normed[i]
//
// where Inverse is 1/√(variance + Epsilon), and mean and variance are of the row. A sum over columns is
// eight partial sums, one for the columns of each remainder by eight, which are added pairwise, one half to
// the other.
type LayerNorm struct {
	Z, Normed   cuda.Buffer // float32, rows next to each other
	Inverse     cuda.Buffer // float32, by row
	Bias, Scale cuda.Buffer // float32, by column
	Epsilon     float32
	Width       int
	Rows        Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a LayerNorm) Launch(s *cuda.Stream) error {
	l := begin(s, "layer norm")
	size := cuda.MatrixBytes(a.Rows.Most, a.Width, a.Width)
	l.Buffer("the rows", a.Z, size)
	l.Buffer("the normed rows", a.Normed, size)
	l.Buffer("the inverses", a.Inverse, 4*int64(a.Rows.Most))
	l.Buffer("the bias", a.Bias, 4*int64(a.Width))
	l.Buffer("the scale", a.Scale, 4*int64(a.Width))
	l.Word(uint64(math.Float32bits(a.Epsilon)))
	l.Int(a.Width)
	l.count(a.Rows)
	return l.eights(layerNorm, a.Rows.Most)
}

// eights launches a kernel with eight threads for each row.
func (l *launch) eights(k compiled, rows int) error {
	const y = blockThreads / 8
	return l.grid(k, 1, cuda.Dims{uint32((rows + y - 1) / y), 1}, cuda.Dims{8, y})
}

// LayerNormBackward takes gradients back through LayerNorm, in place.
type LayerNormBackward struct {
	G, Normed      cuda.Buffer // float32, rows next to each other
	Inverse, Scale cuda.Buffer // float32
	Width          int
	Rows           Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a LayerNormBackward) Launch(s *cuda.Stream) error {
	l := begin(s, "layer norm backward")
	size := cuda.MatrixBytes(a.Rows.Most, a.Width, a.Width)
	l.Buffer("the gradients", a.G, size)
	l.Buffer("the normed rows", a.Normed, size)
	l.Buffer("the inverses", a.Inverse, 4*int64(a.Rows.Most))
	l.Buffer("the scale", a.Scale, 4*int64(a.Width))
	l.Int(a.Width)
	l.count(a.Rows)
	return l.eights(layerNormBackward, a.Rows.Most)
}

// SumProducts stores in Out, for every column, the sum over rows of A·B, in the order of TailBackward's
// sums. It is the gradient of a norm's scale.
type SumProducts struct {
	Out   cuda.Buffer // float32
	A, B  cuda.Buffer // float32, rows next to each other
	Width int
	Sums  cuda.Buffer // float32, SumRows(Rows.Most) rows
	Rows  Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a SumProducts) Launch(s *cuda.Stream) error {
	l := begin(s, "sum of products")
	l.sums(a.Sums, a.A, a.B, cuda.MatrixBytes(a.Rows.Most, a.Width, a.Width), a.Width, a.Rows)
	return l.sum(sumProducts, a.Out, a.Sums, a.Width, a.Rows.Most)
}

// sums adds the arguments of a kernel that sums groups of rows of a, with the values in b.
func (l *launch) sums(sums, a, b cuda.Buffer, bBytes int64, width int, rows Count) {
	l.Buffer("the sums", sums, cuda.MatrixBytes(sumGroups(rows.Most), width, width))
	l.Buffer("the rows", a, cuda.MatrixBytes(rows.Most, width, width))
	l.Buffer("the values beside the rows", b, bBytes)
	l.Int(width)
	l.Int(SumGroup(rows.Most))
	l.count(rows)
}

func (l *launch) sum(k compiled, out, sums cuda.Buffer, width, rows int) error {
	if err := l.groups(k, rows, width, 1); err != nil {
		return err
	}
	return columnSums(l.Stream(), out, sums, width, sumGroups(rows))
}

// BatchStatistics computes the statistics of the columns of Z for batch norm: Mean; Inverse, 1/√(variance +
// Epsilon); and Variance, unbiased. Z includes the bias, which Tail has added.
//
// Rows of Z beyond the count become zero.
type BatchStatistics struct {
	Z                       cuda.Buffer // float32, rows next to each other
	Mean, Inverse, Variance cuda.Buffer // float32
	Epsilon                 float32
	Width                   int
	Sums                    cuda.Buffer // float32, SumRows(Rows.Most) rows
	Rows                    Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a BatchStatistics) Launch(s *cuda.Stream) error {
	sums := TailBackward{G: a.Z, Width: a.Width, Sums: a.Sums, DBias: a.Mean, Activation: Identity, Rows: a.Rows}
	if err := sums.Launch(s); err != nil {
		return err
	}
	l := begin(s, "column means")
	l.Buffer("the means", a.Mean, 4*int64(a.Width))
	l.Int(a.Width)
	l.count(a.Rows)
	if err := l.line(columnMeans, 1, int64(a.Width)); err != nil {
		return err
	}
	l = begin(s, "sum of squares")
	l.sums(a.Sums, a.Z, a.Mean, 4*int64(a.Width), a.Width, a.Rows)
	if err := l.sum(sumSquares, a.Variance, a.Sums, a.Width, a.Rows.Most); err != nil {
		return err
	}
	l = begin(s, "column variances")
	l.Buffer("the variances", a.Variance, 4*int64(a.Width))
	l.Buffer("the inverses", a.Inverse, 4*int64(a.Width))
	l.Word(uint64(math.Float32bits(a.Epsilon)))
	l.Int(a.Width)
	l.count(a.Rows)
	return l.line(columnVariances, 1, int64(a.Width))
}

// Standardize normalises columns, in place. Tail then adds the shift, as a bias:
//
//	Normed[i] = (Z[i] − Mean)·Inverse        Z[i] = Scale·Normed[i]
type Standardize struct {
	Z                    cuda.Buffer // float32, rows next to each other
	Normed               cuda.Buffer // the same; may be none
	Mean, Inverse, Scale cuda.Buffer // float32, by column
	Width                int
	Rows                 Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a Standardize) Launch(s *cuda.Stream) error {
	l := begin(s, "standardize")
	size := cuda.MatrixBytes(a.Rows.Most, a.Width, a.Width)
	l.Buffer("the rows", a.Z, size)
	l.Optional("the normed rows", a.Normed, size)
	l.Buffer("the means", a.Mean, 4*int64(a.Width))
	l.Buffer("the inverses", a.Inverse, 4*int64(a.Width))
	l.Buffer("the scale", a.Scale, 4*int64(a.Width))
	l.Int(a.Width)
	l.count(a.Rows)
	return l.rows(standardize, a.Rows.Most, a.Width, unit([]int{a.Width}, a.Z, a.Normed))
}

// StandardizeBackward takes gradients back through Standardize and the statistics, in place. DShift
// is the sums of the columns of G, DScale the sums of the columns of G·Normed.
type StandardizeBackward struct {
	G, Normed      cuda.Buffer // float32, rows next to each other
	Inverse, Scale cuda.Buffer // float32, by column
	DShift, DScale cuda.Buffer // the same
	Width          int
	Rows           Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a StandardizeBackward) Launch(s *cuda.Stream) error {
	l := begin(s, "standardize backward")
	size := cuda.MatrixBytes(a.Rows.Most, a.Width, a.Width)
	l.Buffer("the gradients", a.G, size)
	l.Buffer("the normed rows", a.Normed, size)
	l.Buffer("the inverses", a.Inverse, 4*int64(a.Width))
	l.Buffer("the scale", a.Scale, 4*int64(a.Width))
	l.Buffer("the shift's gradient", a.DShift, 4*int64(a.Width))
	l.Buffer("the scale's gradient", a.DScale, 4*int64(a.Width))
	l.Int(a.Width)
	l.count(a.Rows)
	return l.rows(standardizeBackward, a.Rows.Most, a.Width, unit([]int{a.Width}, a.G, a.Normed))
}
