package cuda

import "math"

// LayerNorm normalises rows, in place; Tail goes on with the shift for a bias:
//
//	Normed[i] = (Z[i] + Bias − mean)·Inverse[i]        Z[i] = Scale·Normed[i]
//
// where Inverse is 1/√(variance + Epsilon), and mean and variance are the row's. Sums
// are eight, one for the columns of each remainder by eight, added by halves.
type LayerNorm struct {
	Z, Normed   Buffer // float32, rows next to each other
	Inverse     Buffer // float32, by row
	Bias, Scale Buffer // float32, by column
	Epsilon     float32
	Width       int
	Rows        Count
}

// LayerNorm asks for what the type of that name says.
func (s *Stream) LayerNorm(a *LayerNorm) error {
	l := s.launch("layer norm")
	size := matrixBytes(a.Rows.Most, a.Width, a.Width)
	l.buffer("the rows", a.Z, size)
	l.buffer("the normed rows", a.Normed, size)
	l.buffer("the inverses", a.Inverse, 4*int64(a.Rows.Most))
	l.buffer("the bias", a.Bias, 4*int64(a.Width))
	l.buffer("the scale", a.Scale, 4*int64(a.Width))
	l.word(uint64(math.Float32bits(a.Epsilon)))
	l.int(a.Width)
	l.count(a.Rows)
	return l.eights(layerNorm, a.Rows.Most)
}

// eights launches a kernel of which eight threads take a row.
func (l *launch) eights(k kernelID, rows int) error {
	const y = blockThreads / 8
	return l.grid(k, 1, dims{uint32((rows + y - 1) / y), 1}, dims{8, y})
}

// LayerNormBackward takes gradients back through LayerNorm, in place.
type LayerNormBackward struct {
	G, Normed      Buffer // float32, rows next to each other
	Inverse, Scale Buffer // float32
	Width          int
	Rows           Count
}

// LayerNormBackward asks for what the type of that name says.
func (s *Stream) LayerNormBackward(a *LayerNormBackward) error {
	l := s.launch("layer norm backward")
	size := matrixBytes(a.Rows.Most, a.Width, a.Width)
	l.buffer("the gradients", a.G, size)
	l.buffer("the normed rows", a.Normed, size)
	l.buffer("the inverses", a.Inverse, 4*int64(a.Rows.Most))
	l.buffer("the scale", a.Scale, 4*int64(a.Width))
	l.int(a.Width)
	l.count(a.Rows)
	return l.eights(layerNormBackward, a.Rows.Most)
}

// SumProducts sums the products of two matrices' elements, column by column, in the
// order of TailBackward's sums: the gradient of a norm's scale.
type SumProducts struct {
	Out   Buffer // float32
	A, B  Buffer // float32, rows next to each other
	Width int
	Sums  Buffer // float32, SumRows(Rows.Most) rows
	Rows  Count
}

// SumProducts asks for what the type of that name says.
func (s *Stream) SumProducts(a *SumProducts) error {
	l := s.launch("sum of products")
	l.sums(a.Sums, a.A, a.B, matrixBytes(a.Rows.Most, a.Width, a.Width), a.Width, a.Rows)
	return l.sum(sumProducts, a.Out, a.Sums, a.Width, a.Rows.Most)
}

// sums adds the arguments of a kernel that sums groups of rows of a, with what lies
// in b.
func (l *launch) sums(sums, a, b Buffer, bBytes int64, width int, rows Count) {
	l.buffer("the sums", sums, matrixBytes(sumGroups(rows.Most), width, width))
	l.buffer("the rows", a, matrixBytes(rows.Most, width, width))
	l.buffer("what is beside the rows", b, bBytes)
	l.int(width)
	l.int(SumGroup(rows.Most))
	l.count(rows)
}

// sum launches such a kernel, and sums the groups.
func (l *launch) sum(k kernelID, out, sums Buffer, width, rows int) error {
	if err := l.groups(k, rows, width, 1); err != nil {
		return err
	}
	return l.stream.sumColumns(out, sums, width, sumGroups(rows))
}

// BatchStatistics finds what batch norm takes of the columns of Z: Mean; Inverse,
// 1/√(variance + Epsilon); and Variance, unbiased. The bias has been added: Tail does.
//
// Rows of Z beyond the count become zero.
type BatchStatistics struct {
	Z                       Buffer // float32, rows next to each other
	Mean, Inverse, Variance Buffer // float32
	Epsilon                 float32
	Width                   int
	Sums                    Buffer // float32, SumRows(Rows.Most) rows
	Rows                    Count
}

// BatchStatistics asks for what the type of that name says.
func (s *Stream) BatchStatistics(a *BatchStatistics) error {
	sums := TailBackward{G: a.Z, Width: a.Width, Sums: a.Sums, DBias: a.Mean, Activation: Identity, Rows: a.Rows}
	if err := s.TailBackward(&sums); err != nil {
		return err
	}
	columns := dims{uint32((a.Width + blockThreads - 1) / blockThreads), 1}
	l := s.launch("column means")
	l.buffer("the means", a.Mean, 4*int64(a.Width))
	l.int(a.Width)
	l.count(a.Rows)
	if err := l.grid(columnMeans, 1, columns, dims{blockThreads, 1}); err != nil {
		return err
	}
	l = s.launch("sum of squares")
	l.sums(a.Sums, a.Z, a.Mean, 4*int64(a.Width), a.Width, a.Rows)
	if err := l.sum(sumSquares, a.Variance, a.Sums, a.Width, a.Rows.Most); err != nil {
		return err
	}
	l = s.launch("column variances")
	l.buffer("the variances", a.Variance, 4*int64(a.Width))
	l.buffer("the inverses", a.Inverse, 4*int64(a.Width))
	l.word(uint64(math.Float32bits(a.Epsilon)))
	l.int(a.Width)
	l.count(a.Rows)
	return l.grid(columnVariances, 1, columns, dims{blockThreads, 1})
}

// Standardize normalises columns, in place; Tail goes on with the shift for a bias:
//
//	Normed[i] = (Z[i] − Mean)·Inverse        Z[i] = Scale·Normed[i]
type Standardize struct {
	Z                    Buffer // float32, rows next to each other
	Normed               Buffer // the same; may be none
	Mean, Inverse, Scale Buffer // float32, by column
	Width                int
	Rows                 Count
}

// Standardize asks for what the type of that name says.
func (s *Stream) Standardize(a *Standardize) error {
	l := s.launch("standardize")
	size := matrixBytes(a.Rows.Most, a.Width, a.Width)
	l.buffer("the rows", a.Z, size)
	l.optional("the normed rows", a.Normed, size)
	l.buffer("the means", a.Mean, 4*int64(a.Width))
	l.buffer("the inverses", a.Inverse, 4*int64(a.Width))
	l.buffer("the scale", a.Scale, 4*int64(a.Width))
	l.int(a.Width)
	l.count(a.Rows)
	return l.rows(standardize, a.Rows.Most, a.Width, unit([]int{a.Width}, a.Z, a.Normed))
}

// StandardizeBackward takes gradients back through Standardize and the statistics, in
// place. DShift are the sums of the columns of G, DScale those of G·Normed.
type StandardizeBackward struct {
	G, Normed      Buffer // float32, rows next to each other
	Inverse, Scale Buffer // float32, by column
	DShift, DScale Buffer // the same
	Width          int
	Rows           Count
}

// StandardizeBackward asks for what the type of that name says.
func (s *Stream) StandardizeBackward(a *StandardizeBackward) error {
	l := s.launch("standardize backward")
	size := matrixBytes(a.Rows.Most, a.Width, a.Width)
	l.buffer("the gradients", a.G, size)
	l.buffer("the normed rows", a.Normed, size)
	l.buffer("the inverses", a.Inverse, 4*int64(a.Width))
	l.buffer("the scale", a.Scale, 4*int64(a.Width))
	l.buffer("the shift's gradient", a.DShift, 4*int64(a.Width))
	l.buffer("the scale's gradient", a.DScale, 4*int64(a.Width))
	l.int(a.Width)
	l.count(a.Rows)
	return l.rows(standardizeBackward, a.Rows.Most, a.Width, unit([]int{a.Width}, a.G, a.Normed))
}
