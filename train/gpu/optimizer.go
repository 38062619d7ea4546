package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/kernel"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// optimizer is Adam over all parameters at once: parameters, gradients and both moments lie one
// after the other on the device. Untrained values follow the weights.
type optimizer struct {
	layout                           model.Layout
	weights, grads, moment1, moment2 cuda.Buffer
	step                             uint64 // steps enqueued
	rate                             float64
}

func (o *optimizer) lay(m *memory, network *model.Model) {
	o.layout = network.Layout()
	o.weights = m.floats(o.layout.Count())
	o.grads, o.moment1, o.moment2 = m.floats(o.layout.Trained), m.floats(o.layout.Trained), m.floats(o.layout.Trained)
}

// next returns the constants of the next step.
func (o *optimizer) next(opts *engine.Config) kernels.AdamStep {
	s := kernels.AdamStep{AdamStep: kernel.NewAdamStep(o.rate, o.step+1)}
	if opts.Optimizer == recipe.OptimizerAdamW {
		s.Shrink = float32(-o.rate * opts.WeightDecay)
	} else {
		s.Decay = float32(opts.WeightDecay)
	}
	return s
}

// update enqueues a step along the gradient.
func (o *optimizer) update(s *cuda.Stream, step cuda.Buffer) error {
	return kernels.Adam{Weights: o.weights, Grads: o.grads, Moment1: o.moment1, Moment2: o.moment2, Step: step, Parameters: o.layout.Trained}.Launch(s)
}

func (o *optimizer) parts() map[string]cuda.Buffer {
	return map[string]cuda.Buffer{engine.WeightsPart: o.weights, engine.Moment1Part: o.moment1, engine.Moment2Part: o.moment2}
}

// sum is an engine.Sum on the device, of the step under way.
type sum struct {
	gradients  cuda.Buffer // of the parameters that are trained
	statistics cuda.Buffer // of the batches, one after the other; room for the batches of a step
	constants  cuda.Buffer // of Adam's step
	each       int         // statistics of a batch
	labelled   int64       // seed nodes so far
	batches    int         // so far
	first      int         // of the step's batches, the engine's own
}

// lay takes the memory, where steps have sums.
func (s *sum) lay(m *memory, n *plan, o *engine.Config) {
	*s = sum{each: n.layout.Count() - n.layout.Trained}
	if o.Sums() {
		s.gradients, s.statistics, s.constants = m.floats(n.layout.Trained), m.floats(max(1, o.Accumulate)*s.each), m.bytes(kernels.AdamStepBytes)
	}
}

// of returns the buffer of a batch's statistics.
func (s *sum) of(batch int) cuda.Buffer {
	return part(s.statistics, batch*s.each, (batch+1)*s.each)
}
