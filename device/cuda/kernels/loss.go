package kernels

import (
	"diskgnn/device/cuda"
	"encoding/binary"
	"math"
)

// ScoreBytes is the size of CrossEntropy's Score in bytes: the loss, a float64, and the number of seed
// nodes that are classified right (the largest logit is at the label), a uint64.
const ScoreBytes = 16

// Score decodes the content of the buffer CrossEntropy.Score, copied to the host: the sum of the losses of
// the rows, and the number of rows that are right.
func Score(b []byte) (loss float64, right int) {
	return math.Float64frombits(binary.LittleEndian.Uint64(b)), int(binary.LittleEndian.Uint64(b[8:]))
}

// CrossEntropy is the softmax cross-entropy of the rows of Z, in nats, and its gradient:
//
//	G[i] = (softmax(Z[i]) − target) · Inverse
//	Score = Σ −target·log softmax(Z[i]), and how many were right
//
// The target is 1 − Smoothing at the label, plus Smoothing divided evenly among all classes. A row with a
// negative label has neither loss nor gradient.
type CrossEntropy struct {
	G, Z      cuda.Buffer // float32, rows next to each other
	Classes   int
	Labels    cuda.Buffer // int32
	Inverse   cuda.Buffer // float32: 1 over the number of labelled rows
	Smoothing float64
	RowLoss   cuda.Buffer // float64, of every row
	Right     cuda.Buffer // uint32, of every row: 1 or 0
	Score     cuda.Buffer // ScoreBytes bytes
	Rows      Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a CrossEntropy) Launch(s *cuda.Stream) error {
	l := begin(s, "cross-entropy")
	a.arguments(&l)
	l.Buffer("the factor", a.Inverse, 4)
	l.Word(math.Float64bits(a.Smoothing))
	l.count(a.Rows)
	return a.run(&l, crossEntropy)
}

// Binary is the binary cross-entropy of the logits' sigmoids, class by class:
//
//	G[i] = (sigmoid(Z[i]) − target) · Inverse
//	Score = Σ of the losses of all classes, and how many rows had all signs right
//
// A class's target is one bit. Smoothing is not used.
type Binary struct {
	CrossEntropy             // Labels: negative for rows without targets
	Targets      cuda.Buffer // by row, ⌈Classes/8⌉ bytes, the lowest bit first
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a Binary) Launch(s *cuda.Stream) error {
	l := begin(s, "binary cross-entropy")
	a.arguments(&l)
	l.Buffer("the targets", a.Targets, int64(a.Rows.Most)*int64((a.Classes+7)/8))
	l.Buffer("the factor", a.Inverse, 4)
	l.count(a.Rows)
	return a.run(&l, binaryCrossEntropy)
}

// arguments adds the first arguments of both losses.
func (a *CrossEntropy) arguments(l *launch) {
	most := int64(a.Rows.Most)
	size := cuda.MatrixBytes(a.Rows.Most, a.Classes, a.Classes)
	l.Buffer("the gradients", a.G, size)
	l.Buffer("the rows' losses", a.RowLoss, 8*most)
	l.Buffer("the rows' rights", a.Right, 4*most)
	l.Buffer("the logits", a.Z, size)
	l.Int(a.Classes)
	l.Buffer("the labels", a.Labels, 4*most)
}

// run launches a loss with a warp for each row, and the kernel that sums the losses.
func (a *CrossEntropy) run(l *launch, k compiled) error {
	const rows = blockThreads / 32
	if err := l.grid(k, 1, cuda.Dims{uint32((a.Rows.Most + rows - 1) / rows), 1}, cuda.Dims{32, rows}); err != nil {
		return err
	}
	sum := begin(l.Stream(), "sum of losses")
	sum.Buffer("the score", a.Score, ScoreBytes)
	sum.Buffer("the rows' losses", a.RowLoss, 0)
	sum.Buffer("the rows' rights", a.Right, 0)
	sum.count(a.Rows)
	return sum.grid(sumLosses, 1, cuda.Dims{1, 1}, cuda.Dims{256, 1})
}
