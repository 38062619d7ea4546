package recipe

import (
	"math"
	"strconv"
)

// Values of DryEpochs that are no number.
const (
	DryAuto = "auto"
	DryAll  = "all"
)

// Dry returns how many epochs are drawn before training: infinitely many for all. A recipe
// that Validate accepts has some.
func (r *Recipe) Dry() float64 {
	switch {
	case r.DryEpochs == DryAll || r.DryEpochs == DryAuto && r.InputProjection:
		return math.Inf(1)
	case r.DryEpochs == DryAuto:
		return 1
	}
	n, err := strconv.ParseFloat(r.DryEpochs, 64)
	if err != nil {
		return math.NaN()
	}
	return n
}

// validateSampling names the flag about drawing while training that makes no sense, but for
// what whoever draws knows better: fanouts and sizes.
func (r *Recipe) validateSampling() error {
	if r.Live() {
		if n := r.Dry(); !(n > 0) || math.IsInf(n, 0) && r.DryEpochs != DryAll && r.DryEpochs != DryAuto {
			return usage("--dry-epochs %s: give a number of epochs above 0, all or auto", r.DryEpochs)
		}
		return nil
	}
	for _, o := range Drawing {
		if !r.field(o.Name).IsZero() {
			return usage("--%s is for batches that are drawn while training, by --fanout", o.Name)
		}
	}
	return nil
}
