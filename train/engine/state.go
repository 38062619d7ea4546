package engine

import (
	"encoding/binary"

	"diskgnn/internal/fault"
	"diskgnn/train/model"
)

// Names of the parts of every engine's state: the elements of all parameters, and Adam's moments
// for the trained ones.
const (
	WeightsPart = "weights"
	Moment1Part = "adam.moment1"
	Moment2Part = "adam.moment2"
	StepPart    = "adam.step" // steps done
)

// NewState returns a state with the number of steps done.
func NewState(step uint64) map[string][]byte {
	return map[string][]byte{StepPart: binary.LittleEndian.AppendUint64(nil, step)}
}

// CheckState returns the steps of a state, and refuses a state of another layout.
func CheckState(s map[string][]byte, l *model.Layout) (step uint64, err error) {
	parts := []struct {
		name  string
		bytes int
	}{{WeightsPart, 4 * l.Count()}, {Moment1Part, 4 * l.Trained}, {Moment2Part, 4 * l.Trained}, {StepPart, 8}}
	for _, p := range parts {
		if b, ok := s[p.name]; !ok || len(b) != p.bytes {
			return 0, fault.New(fault.ErrInput, "engine: the state has %d bytes of %s instead of %d", len(b), p.name, p.bytes)
		}
	}
	if len(s) != len(parts) {
		return 0, fault.New(fault.ErrInput, "engine: the state has %d parts instead of %d", len(s), len(parts))
	}
	return binary.LittleEndian.Uint64(s[StepPart]), nil
}
