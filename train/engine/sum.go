package engine

import (
	"diskgnn/device"
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
)

// Sum is the sum over the batches of a step, in their order: one float32 addition after the other,
// so that its bits do not depend on which rank computed a batch. It is not safe for concurrent use.
//
// A batch's contribution has an element for each element of the parameters, in their order: for
// trained parameters the gradient of the sum of its seed nodes' losses, then, in the places of the
// running statistics of batch norms, the batch's statistics. Gradients are summed; statistics are
// kept side by side, since running statistics are updated batch by batch.
type Sum struct {
	Gradients  []float32 // of the parameters that are trained
	Statistics []float32 // of the batches so far, one after the other
	Labelled   int64     // seed nodes with a label, of all batches
	Batches    int       // so far
}

// NewSum returns an empty Sum with room for the given number of batches. It takes all of its memory from a.
func NewSum(a *device.Arena, l *model.Layout, batches int) *Sum {
	return &Sum{Gradients: device.Take[float32](a, l.Trained), Statistics: device.Take[float32](a, batches*(l.Count()-l.Trained))[:0]}
}

// Add adds the next batch's contribution. It copies the slices.
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

// Inverse returns the factor of the gradients of a loss with this number of terms: 1/terms, 0 for
// none.
func Inverse(terms int64) float32 {
	if terms == 0 {
		return 0
	}
	return 1 / float32(terms)
}
