package recipe

import (
	"math"

	"diskgnn/internal/kernel"
	"diskgnn/train/model"
)

// Validate returns an error that names the first invalid flag. Call EnsureDefaults before.
func (r *Recipe) Validate() error {
	if err := always.validate(r); err != nil {
		return err
	}
	if err := kernel.CheckDropout(r.Dropout); err != nil {
		return usage("--dropout %v: %w", r.Dropout, err)
	}
	m := model.Model{Kind: model.Kind(r.Model), Aggregator: model.Aggregator(r.Aggregator), GCNNorm: model.GCNNorm(r.GCNNorm), Bases: r.Bases} // heads have a default
	if o, value := m.Foreign(); o != "" {
		return usage("--%s %v is for --model %s, not %s", o, value, o.Kinds(), m.Kind)
	}
	switch {
	case r.Hidden%r.Heads != 0 && m.Kind.Has(model.HeadsOption):
		return usage("--heads %d: --hidden %d is not a multiple of it", r.Heads, r.Hidden)
	case r.Aggregator == string(model.Max) && r.LayerOrder == string(model.Multiply):
		return usage("--layer-order multiply: --aggregator max must aggregate first")
	}
	if err := r.validateTyped(); err != nil {
		return err
	}
	if err := r.validateSampling(); err != nil {
		return err
	}
	return r.validateRate()
}

// validateTyped checks that a model for typed graphs has no option that these models lack.
func (r *Recipe) validateTyped() error {
	kind := model.Kind(r.Model)
	switch {
	case !kind.Typed():
		return nil
	case r.Norm != string(model.NoNorm):
		return usage("--norm %s: %s has no norm", r.Norm, kind)
	case r.Residual:
		return usage("--residual: %s has none", kind)
	case r.InputProjection:
		return usage("--input-projection: %s has none", kind)
	case r.LayerOrder != string(model.Auto):
		return usage("--layer-order %s: %s has one order of operations", r.LayerOrder, kind)
	}
	return nil
}

// validateRate checks the flags of the learning rate against each other.
func (r *Recipe) validateRate() error {
	switch {
	case r.Warmup < 0 || r.Warmup > r.Epochs:
		return usage("--warmup %d: give a number from 0 to --epochs, %d", r.Warmup, r.Epochs)
	case !(r.MinLR >= 0 && r.MinLR <= r.LR):
		return usage("--min-lr %v: give a rate from 0 to --lr, %v", r.MinLR, r.LR)
	case r.MinLR > 0 && r.Schedule == ScheduleConstant:
		return usage("--min-lr is for --schedule cosine and plateau, not %s", r.Schedule)
	}
	return nil
}

// validateSampling checks the flags about drawing while training, except for fanouts and sizes,
// which the source of batches checks.
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
