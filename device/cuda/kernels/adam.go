package kernels

import (
	"diskgnn/internal/kernel"

	"diskgnn/device/cuda"
)

// AdamStep holds the constants of one step of Adam, in the layout of device memory.
type AdamStep struct {
	kernel.AdamStep
	Shrink float32 // factor of the weights that is added to the weights: decoupled decay, negative
	Decay  float32 // factor of the weights that is added to the gradients
}

// AdamStepBytes is the size of an AdamStep in bytes, in device memory.
const AdamStepBytes = 9 * 4

// Put stores the step in dst in its form in device memory, AdamStepBytes long.
func (s *AdamStep) Put(dst []float32) {
	*(*[AdamStepBytes / 4]float32)(dst) = [...]float32{s.Beta1, s.Beta2, s.Alpha1, s.Alpha2, s.Rate, s.InvRoot, s.Epsilon, s.Shrink, s.Decay}
}

// Adam updates all weights by their gradients in one launch, as kernel.Adam does.
type Adam struct {
	Weights, Grads   cuda.Buffer // float32
	Moment1, Moment2 cuda.Buffer // float32
	Step             cuda.Buffer // AdamStep
	Parameters       int
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a Adam) Launch(s *cuda.Stream) error {
	bytes := 4 * int64(a.Parameters)
	l := begin(s, "adam")
	l.Buffer("the weights", a.Weights, bytes)
	l.Buffer("the gradients", a.Grads, bytes)
	l.Buffer("the first moments", a.Moment1, bytes)
	l.Buffer("the second moments", a.Moment2, bytes)
	l.Buffer("the step", a.Step, AdamStepBytes)
	l.Int(a.Parameters)
	u := unit([]int{a.Parameters}, a.Weights, a.Grads, a.Moment1, a.Moment2)
	threads := (a.Parameters + u - 1) / u
	return l.line(adam, u, int64(threads))
}
