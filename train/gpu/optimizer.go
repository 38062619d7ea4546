package gpu

import (
	"errors"
	"slices"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// optimizer is Adam over all parameters at once: they, their gradients and both moments
// lie one after the other on the device. Values that are not trained follow the weights.
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

// SetLR changes the learning rate of the steps to come.
func (e *Engine) SetLR(rate float64) error {
	if err := engine.CheckRate(rate); err != nil {
		return err
	}
	e.adam.rate = rate
	return nil
}

// Params describes the parameters, in the order in which a snapshot has them.
func (e *Engine) Params() []model.Param { return e.adam.layout.Params }

// initialise stores the initial weights and moments.
func (e *Engine) initialise() error {
	e.adam.rate, e.stale = e.opts.LR, true
	weights := make([]float32, e.adam.layout.Count())
	e.adam.layout.Init(weights, e.opts.Seed)
	return errors.Join(e.main.CopyIn(e.adam.weights, binio.Bytes(weights)), e.main.Fill(e.adam.moment1, 0), e.main.Fill(e.adam.moment2, 0), e.main.Synchronize())
}

// Snapshot appends a copy of the weights to dst.
func (e *Engine) Snapshot(dst []float32) ([]float32, error) {
	n := len(dst)
	dst = slices.Grow(dst, e.adam.layout.Count())[:n+e.adam.layout.Count()]
	return dst, e.device.Attached(func() error {
		return errors.Join(e.main.CopyOut(binio.Bytes(dst[n:]), e.adam.weights), e.main.Synchronize())
	})
}

// Restore replaces the weights by a snapshot, leaving Adam's moments and step as
// they are.
func (e *Engine) Restore(weights []float32) error {
	if len(weights) != e.adam.layout.Count() {
		return fault.New(fault.ErrInput, "gpu: %d weights for %d parameters", len(weights), e.adam.layout.Count())
	}
	e.stale = true
	return e.device.Attached(func() error {
		return errors.Join(e.main.CopyIn(e.adam.weights, binio.Bytes(weights)), e.main.Synchronize())
	})
}

func (o *optimizer) parts() map[string]cuda.Buffer {
	return map[string]cuda.Buffer{engine.WeightsPart: o.weights, engine.Moment1Part: o.moment1, engine.Moment2Part: o.moment2}
}

// State returns a copy of everything that training goes on from, in named parts.
func (e *Engine) State() (map[string][]byte, error) {
	if e.broken != nil {
		return nil, e.broken
	}
	s := engine.NewState(e.adam.step)
	return s, e.device.Attached(func() error {
		for name, from := range e.adam.parts() {
			s[name] = make([]byte, from.Bytes())
			if err := e.main.CopyOut(s[name], from); err != nil {
				return err
			}
		}
		return e.main.Synchronize()
	})
}

// LoadState puts back a state of an engine with equal parameters; steps from there give
// the same bits as if there had been no interruption. A state that does not fit leaves
// the engine as it is.
func (e *Engine) LoadState(s map[string][]byte) error {
	step, err := engine.CheckState(s, &e.adam.layout)
	if err != nil {
		return err
	}
	e.adam.step, e.stale = step, true
	return e.device.Attached(func() error {
		for name, to := range e.adam.parts() {
			if err := e.main.CopyIn(to, s[name]); err != nil {
				return err
			}
		}
		for i := range e.inputs {
			e.inputs[i].busy = false // those steps are none any more
		}
		e.broken = nil
		e.drop()
		return e.main.Synchronize()
	})
}
