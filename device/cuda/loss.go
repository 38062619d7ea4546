package cuda

import (
	"encoding/binary"
	"math"
)

// ScoreBytes is the size of what CrossEntropy sums up: the loss, a float64, and the
// number of seed nodes whose label has the largest logit, a uint64.
const ScoreBytes = 16

// Score reads what CrossEntropy summed up.
func Score(b []byte) (loss float64, right int) {
	return math.Float64frombits(binary.LittleEndian.Uint64(b)), int(binary.LittleEndian.Uint64(b[8:]))
}

// CrossEntropy is the softmax cross-entropy of the rows of Z, in nats, and its gradient:
//
//	G[i] = (softmax(Z[i]) − target) · Inverse
//	Score = Σ −target·log softmax(Z[i]), and how many were right
//
// The target is one at the label, but for Smoothing, which is spread over all classes.
// A row whose label is negative has neither loss nor gradient.
type CrossEntropy struct {
	G, Z      Buffer // float32, rows next to each other
	Classes   int
	Labels    Buffer // int32
	Inverse   Buffer // float32: 1 over the number of labelled rows
	Smoothing float64
	RowLoss   Buffer // float64, of every row
	Right     Buffer // uint32, of every row: 1 or 0
	Score     Buffer // of ScoreBytes
	Rows      Count
}

// CrossEntropy asks for what the type of that name says.
func (s *Stream) CrossEntropy(a *CrossEntropy) error {
	l := s.launch("cross-entropy")
	a.arguments(&l)
	l.buffer("the factor", a.Inverse, 4)
	l.word(math.Float64bits(a.Smoothing))
	l.count(a.Rows)
	return a.run(&l, crossEntropy)
}

// Binary is the binary cross-entropy of the logits' sigmoids, class by class:
//
//	G[i] = (sigmoid(Z[i]) − target) · Inverse
//	Score = Σ of the losses of all classes, and how many rows had all signs right
//
// A class's target is one bit. Smoothing is not for it.
type Binary struct {
	CrossEntropy        // Labels only tell which rows have targets
	Targets      Buffer // by row, ⌈Classes/8⌉ bytes, the lowest bit first
}

// Binary asks for what the type of that name says.
func (s *Stream) Binary(a *Binary) error {
	l := s.launch("binary cross-entropy")
	a.arguments(&l)
	l.buffer("the targets", a.Targets, int64(a.Rows.Most)*int64((a.Classes+7)/8))
	l.buffer("the factor", a.Inverse, 4)
	l.count(a.Rows)
	return a.run(&l, binaryCrossEntropy)
}

// arguments adds those that both losses begin with.
func (a *CrossEntropy) arguments(l *launch) {
	most := int64(a.Rows.Most)
	size := matrixBytes(a.Rows.Most, a.Classes, a.Classes)
	l.buffer("the gradients", a.G, size)
	l.buffer("the rows' losses", a.RowLoss, 8*most)
	l.buffer("the rows' rights", a.Right, 4*most)
	l.buffer("the logits", a.Z, size)
	l.int(a.Classes)
	l.buffer("the labels", a.Labels, 4*most)
}

// run launches a loss, a warp to a row, and what sums it up.
func (a *CrossEntropy) run(l *launch, k kernelID) error {
	const rows = blockThreads / 32
	if err := l.grid(k, 1, dims{uint32((a.Rows.Most + rows - 1) / rows), 1}, dims{32, rows}); err != nil {
		return err
	}
	sum := l.stream.launch("sum of losses")
	sum.buffer("the score", a.Score, ScoreBytes)
	sum.buffer("the rows' losses", a.RowLoss, 0)
	sum.buffer("the rows' rights", a.Right, 0)
	sum.count(a.Rows)
	return sum.grid(sumLosses, 1, dims{1, 1}, dims{256, 1})
}
