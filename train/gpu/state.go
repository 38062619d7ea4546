package gpu

import (
	"errors"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

// Params returns the descriptions of the parameters, in the order of a snapshot.
func (e *Engine) Params() []model.Param { return e.adam.layout.Params }

// Snapshot appends a copy of the weights to dst.
func (e *Engine) Snapshot(dst []float32) ([]float32, error) {
	n := len(dst)
	dst = slices.Grow(dst, e.adam.layout.Count())[:n+e.adam.layout.Count()]
	return dst, e.device.Attached(func() error {
		return errors.Join(e.main.CopyOut(binio.Bytes(dst[n:]), e.adam.weights), e.main.Synchronize())
	})
}

// Restore replaces the weights by a snapshot; Adam's moments and step stay unchanged.
func (e *Engine) Restore(weights []float32) error {
	if len(weights) != e.adam.layout.Count() {
		return fault.New(fault.ErrInput, "gpu: %d weights were given for %d parameters", len(weights), e.adam.layout.Count())
	}
	e.stale = true
	return e.device.Attached(func() error {
		return errors.Join(e.main.CopyIn(e.adam.weights, binio.Bytes(weights)), e.main.Synchronize())
	})
}

// State returns a copy of the state from which training resumes, in named parts.
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

// LoadState restores a state of an engine with equal parameters; steps from there give the same
// bits as without an interruption. A state that does not fit leaves the engine unchanged.
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
