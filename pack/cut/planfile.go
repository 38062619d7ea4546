package cut

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
)

// CodecAuto stands, in the parameters of a request, for a codec that is chosen by measuring.
const CodecAuto = "auto"

// Save writes the plan as JSON.
func (p *Plan) Save(fsys vfs.FS, name string) error {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return vfs.ReplaceFile(fsys, name, append(b, '\n'))
}

// maxPlan bounds the bytes of a plan: one takes a few thousand.
const maxPlan = 1 << 20

// ReadPlan reads what Save wrote.
func ReadPlan(fsys vfs.FS, name string) (*Plan, error) {
	b, err := vfs.ReadSmall(fsys, name, maxPlan)
	if err != nil {
		return nil, fmt.Errorf("--plan-file: %w", err)
	}
	var p Plan
	err = json.Unmarshal(b, &p)
	if err == nil && p.Samples == "" {
		err = errors.New("it names no samples")
	}
	if err != nil {
		return nil, fault.New(fault.ErrInput, "--plan-file %s: not a plan that pack --plan wrote: %v", name, err)
	}
	return &p, nil
}

// Adopt takes the choices of the plan that was read from a file into params. The plan must
// be of the samples with the given fingerprint and of the same other parameters.
func (p *Plan) Adopt(name, samples string, params *packfile.Params) error {
	if p.Samples != samples {
		return fault.New(fault.ErrLineage, "%s plans the packing of samples %.12s, these are %.12s", name, p.Samples, samples)
	}
	if params.Codec == CodecAuto {
		params.Codec = p.Params.Codec
	}
	return same(name, p.Params, *params)
}

// same refuses a plan of other options, and names the first.
func same(file string, planned, wanted packfile.Params) error {
	a, b := reflect.ValueOf(planned), reflect.ValueOf(wanted)
	for i := range a.NumField() {
		if x, y := a.Field(i).Interface(), b.Field(i).Interface(); fmt.Sprint(x) != fmt.Sprint(y) {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			return fault.New(fault.ErrUsage, "%s was planned with %s %v, asked for %v: plan again, or give the same options", file, name, x, y)
		}
	}
	return nil
}
