package engine

import (
	"diskgnn/device"
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
)

// Sum is what the batches of a step add up to, in their order: one float32 addition after the
// other, so that its bits do not depend on who computed which of them. It is not safe for
// concurrent use.
//
// What a batch adds, its contribution, has an element for each of the parameters, in their
// order: for those that are trained the gradient of the sum of its seed nodes' losses, then, in
// the places of the running statistics of batch norms, the batch's own. Gradients are summed;
// statistics are kept side by side, since running ones follow one batch after the other.
type Sum struct {
	Gradients  []float32 // of the parameters that are trained
	Statistics []float32 // of the batches so far, one after the other
	Labelled   int64     // seed nodes with a label, of all batches
	Batches    int       // so far
}

// NewSum returns the empty sum of at most so many batches, with all of its memory, from a.
func NewSum(a *device.Arena, l *model.Layout, batches int) *Sum {
	return &Sum{Gradients: device.Take[float32](a, l.Trained), Statistics: device.Take[float32](a, batches*(l.Count()-l.Trained))[:0]}
}

// Add adds the next batch's contribution, whose parts it copies.
func (s *Sum) Add(gradients, statistics []float32, labelled int) {
	if s.Batches == 0 {
		copy(s.Gradients, gradients)
	} else {
		kernel.Add(s.Gradients, gradients)
	}
	s.Statistics = append(s.Statistics, statistics...)
	s.Labelled += int64(labelled)
	s.Batches++
}

// Reset makes the sum empty.
func (s *Sum) Reset() { s.Statistics, s.Labelled, s.Batches = s.Statistics[:0], 0, 0 }

// Inverse returns what the gradients of a loss of so many terms are multiplied by: 1 over them, 0
// where there are none.
func Inverse(terms int64) float32 {
	if terms == 0 {
		return 0
	}
	return 1 / float32(terms)
}
