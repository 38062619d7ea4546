package recipe

import (
	"cmp"
	"strings"

	"diskgnn/internal/fault"
)

// Validation is how nodes are scored while training, as --validate names it. "" is Sampled, so that runs have the hash
// that they had before there was a choice.
type Validation string

// The values of Validation.
const (
	Sampled Validation = "sampled" // on the neighbours that were sampled for them
	Exact   Validation = "exact"   // from all of their neighbours
)

// Validations returns the values of --validate.
func Validations() []string { return []string{string(Sampled), string(Exact)} }

// ParseValidation returns the value that --validate names.
func ParseValidation(name string) (Validation, error) {
	switch v := Validation(name); v {
	case Sampled:
		return "", nil
	case Exact:
		return v, nil
	}
	return "", fault.New(fault.ErrUsage, "%q is not one of %s", name, strings.Join(Validations(), ", "))
}

func (v Validation) String() string { return cmp.Or(string(v), string(Sampled)) }
