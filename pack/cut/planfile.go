package cut

import (
	"encoding/json"
	"errors"
	"fmt"

	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
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
// be of the samples with the given fingerprint and of the same other parameters, whose words are
// those of their user.
func (p *Plan) Adopt(name, samples string, params *packfile.Params, words stage.Words) error {
	if p.Samples != samples {
		return fault.New(fault.ErrLineage, "%s plans the packing of samples %.12s, these are %.12s", name, p.Samples, samples)
	}
	if params.Codec == CodecAuto {
		params.Codec = p.Params.Codec
	}
	planned, wanted := stage.Spec{Params: p.Params}, stage.Spec{Params: *params, Words: words}
	if diff := wanted.Changes(planned); diff != "" {
		return fault.New(fault.ErrUsage, "%s was planned with other options: %s; plan again, or give the same", name, diff)
	}
	return nil
}
