package train

import (
	"math"
	"slices"

	"diskgnn/featurestore"
	"diskgnn/internal/fault"
)

// Schedules of the learning rate, as --schedule names them.
const (
	ScheduleConstant = "constant"
	ScheduleCosine   = "cosine"  // from LR down to MinLR, by half a cosine over the epochs
	SchedulePlateau  = "plateau" // lower whenever scores do not become better
)

// rate returns the learning rate of the epoch that follows those before. It is a
// function of the options and of what metrics.jsonl holds, and of nothing else: so a
// run that is resumed trains at the rates of one that never was interrupted.
func (o *Options) rate(before []Epoch) float64 {
	epoch := len(before)
	if epoch < o.Warmup {
		return o.LR * float64(epoch+1) / float64(o.Warmup)
	}
	switch o.Schedule {
	case ScheduleCosine:
		done := float64(epoch-o.Warmup) / float64(o.Epochs-o.Warmup)
		return o.MinLR + (o.LR-o.MinLR)*(1+math.Cos(math.Pi*done))/2
	case SchedulePlateau:
		return o.plateauRate(before[o.Warmup:])
	}
	return o.LR
}

// plateauRate lowers the rate by PlateauFactor each time that more than
// PlateauPatience epochs were no better than the best before them, as PyTorch's
// ReduceLROnPlateau does with a threshold of 0. The epochs that are validated are
// judged by their score, or all by the loss where none has one.
func (o *Options) plateauRate(epochs []Epoch) float64 {
	merit := func(e *Epoch) float64 { return -float64(e.Loss) }
	scored := slices.ContainsFunc(epochs, func(e Epoch) bool { return e.ValidAccuracy.Defined() })
	if scored {
		merit = func(e *Epoch) float64 { return float64(e.ValidAccuracy) }
	}
	rate, best, waited := o.LR, math.Inf(-1), 0
	for i := range epochs {
		if scored && !o.validates(epochs[i].Epoch) {
			continue
		}
		if m := merit(&epochs[i]); m > best { // never of what is undefined
			best, waited = m, 0
			continue
		}
		if waited++; waited > o.PlateauPatience {
			rate, waited = max(rate*o.PlateauFactor, o.MinLR), 0
		}
	}
	return rate
}

// rateVaries tells whether epochs may have different rates.
func (o *Options) rateVaries() bool { return o.Schedule != ScheduleConstant || o.Warmup > 0 }

// validateRate names the flag about the learning rate's schedule, or early stopping,
// that makes no sense.
func (o *Options) validateRate() error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	switch {
	case o.Warmup < 0 || o.Warmup > o.Epochs:
		return usage("--warmup %d: give a number from 0 to that of --epochs, %d", o.Warmup, o.Epochs)
	case !(o.MinLR >= 0 && o.MinLR <= o.LR):
		return usage("--min-lr %v: give a rate from 0 to that of --lr, %v", o.MinLR, o.LR)
	case o.MinLR > 0 && o.Schedule == ScheduleConstant:
		return usage("--min-lr is for --schedule cosine and plateau, not %s", o.Schedule)
	case !(o.PlateauFactor > 0 && o.PlateauFactor < 1):
		return usage("--plateau-factor %v: give a factor above 0 and below 1", o.PlateauFactor)
	case o.PlateauPatience < 0:
		return usage("--plateau-patience %d: give a number from 0 up", o.PlateauPatience)
	case o.Patience < 0:
		return usage("--patience %d: give a number from 0 up", o.Patience)
	case o.ValidateEvery < 1:
		return usage("--validate-every %d: give a number of epochs from 1 up", o.ValidateEvery)
	}
	for _, flag := range []string{"plateau-factor", "plateau-patience"} {
		if o.gave(flag) && o.Schedule != SchedulePlateau {
			return usage("--%s is for --schedule plateau, not %s", flag, o.Schedule)
		}
	}
	return nil
}

// checkPatience refuses to wait for scores that never come.
func (o *Options) checkPatience(f featurestore.Facts) error {
	switch {
	case o.Patience > 0 && o.Engine == EngineNone:
		return fault.New(fault.ErrUsage, "--patience %d: with --engine none there are no scores to wait for", o.Patience)
	case o.Patience > 0 && f.Valid == 0:
		return fault.New(fault.ErrUsage, "--patience %d: %s has no validation batches, and so no scores to wait for", o.Patience, o.source())
	}
	return nil
}

// setRate gives the engine the rate of the epoch under way.
func (t *trainer) setRate() error {
	if t.engine == nil {
		return nil
	}
	rate := t.options.rate(t.result.Epochs)
	t.now.LR = Score(rate)
	return t.engine.SetLR(rate)
}

// stalled tells whether Patience is at its end: the epoch before this one was validated,
// and so many have passed since the best one. A checkpoint knows which that is.
func (t *trainer) stalled() bool {
	patience, last := t.options.Patience, t.now.Epoch-1
	return patience > 0 && last >= 0 && t.options.validates(last) && last-t.result.BestEpoch >= patience
}

// validates tells whether an epoch is one that is validated.
func (o *Options) validates(epoch int) bool {
	return (epoch+1)%max(1, o.ValidateEvery) == 0 || epoch == o.Epochs-1
}
