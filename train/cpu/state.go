package cpu

import (
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

// Param is a parameter and its current values.
type Param struct {
	model.Param
	// Data is the engine's own memory: valid as long as the engine, changed by every step. A weight
	// is row-major with a row per input and a column per output, the transpose of PyTorch's.
	Data []float32
}

// Values returns the parameters and their values, in the order of Params.
func (e *Engine) Values() []Param {
	params := make([]Param, len(e.plan.Params))
	for i := range params {
		lo, hi := e.plan.Offsets[i], e.plan.Offsets[i+1]
		params[i] = Param{e.plan.Params[i], e.opt.weights[lo:hi:hi]}
	}
	return params
}

// Snapshot appends a copy of the weights, in the order of Params, to dst.
func (e *Engine) Snapshot(dst []float32) ([]float32, error) {
	return append(dst, e.opt.weights...), nil
}

// Restore replaces the weights by a snapshot; Adam's moments and step stay unchanged.
func (e *Engine) Restore(weights []float32) error {
	if len(weights) != len(e.opt.weights) {
		return fault.New(fault.ErrInput, "cpu engine: %d weights were given for %d parameters", len(weights), len(e.opt.weights))
	}
	copy(e.opt.weights, weights)
	return nil
}

// State returns the state from which training resumes, in named parts that are opaque to the
// caller. The bytes may be the engine's memory: copy them before the next step to keep them.
func (e *Engine) State() (map[string][]byte, error) {
	s := engine.NewState(e.opt.step)
	s[engine.WeightsPart] = binio.Bytes(e.opt.weights)
	s[engine.Moment1Part], s[engine.Moment2Part] = binio.Bytes(e.opt.moment1), binio.Bytes(e.opt.moment2)
	return s, nil
}

// LoadState restores a state of an engine with equal parameters; steps from there give the same
// bits as without an interruption. After an error the engine is unchanged.
func (e *Engine) LoadState(s map[string][]byte) error {
	step, err := engine.CheckState(s, &e.plan.Layout)
	if err != nil {
		return err
	}
	copy(binio.Bytes(e.opt.weights), s[engine.WeightsPart])
	copy(binio.Bytes(e.opt.moment1), s[engine.Moment1Part])
	copy(binio.Bytes(e.opt.moment2), s[engine.Moment2Part])
	e.opt.step = step
	return nil
}
