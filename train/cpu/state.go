package cpu

import (
	"encoding/binary"
	"maps"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// stepPart names the number of steps done among the parts of a state.
const stepPart = "adam.step"

// State returns everything that training goes on from, in named parts whose content
// is the engine's business. The bytes may be its own memory: to keep what they hold,
// copy it before the next step.
func (e *Engine) State() (map[string][]byte, error) { return e.parts(), nil }

func (e *Engine) parts() map[string][]byte {
	s := e.arrays()
	s[stepPart] = binary.LittleEndian.AppendUint64(nil, e.opt.step)
	return s
}

// LoadState puts back a state of an engine with equal parameters; steps from there
// give the same bits as if there had been no interruption. After an error the engine
// is as before.
func (e *Engine) LoadState(s map[string][]byte) error {
	own := e.parts()
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if b, ok := s[name]; !ok || len(b) != len(own[name]) {
			return fault.New(fault.ErrInput, "cpu engine: a state with %d bytes of %s, %d are wanted", len(b), name, len(own[name]))
		}
	}
	if len(s) != len(own) {
		return fault.New(fault.ErrInput, "cpu engine: a state of %d parts, %d are wanted", len(s), len(own))
	}
	for name, b := range e.arrays() {
		copy(b, s[name])
	}
	e.opt.step = binary.LittleEndian.Uint64(s[stepPart])
	return nil
}

// arrays returns the memory of those parts that are arrays.
func (e *Engine) arrays() map[string][]byte {
	o := &e.opt
	return map[string][]byte{
		"weights":      binio.Bytes(o.weights),
		"adam.moment1": binio.Bytes(o.moment1),
		"adam.moment2": binio.Bytes(o.moment2),
	}
}
