package epoch

import (
	"math"

	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// Rate returns the learning rate of the epoch after before. It depends only on the options, on
// validated (whether there are validation batches) and on the epochs in metrics.jsonl: a resumed
// run has the rates of an uninterrupted one, and all ranks have the same.
func Rate(o *recipe.Recipe, validated bool, before []rundir.Epoch) float64 {
	epoch := len(before)
	if epoch < o.Warmup {
		return o.LR * float64(epoch+1) / float64(o.Warmup)
	}
	switch o.Schedule {
	case recipe.ScheduleCosine:
		done := float64(epoch-o.Warmup) / float64(o.Epochs-o.Warmup)
		return o.MinLR + (o.LR-o.MinLR)*(1+math.Cos(math.Pi*done))/2
	case recipe.SchedulePlateau:
		return plateauRate(o, validated, before[o.Warmup:])
	}
	return o.LR
}

// plateauRate lowers the rate by PlateauFactor each time that more than PlateauPatience epochs were
// no better than the best before them, as PyTorch's ReduceLROnPlateau does with a threshold of 0.
// It counts the epochs that judges accepts, by score, or by loss if the first of them has no score.
// The first decides for the whole run, so that the rate never rises again.
func plateauRate(o *recipe.Recipe, validated bool, epochs []rundir.Epoch) float64 {
	merit := func(e *rundir.Epoch) float64 { return float64(e.ValidAccuracy) }
	rate, best, waited, first := o.LR, math.Inf(-1), 0, true
	for i := range epochs {
		e := &epochs[i]
		if !judges(o, validated, e.Epoch) {
			continue
		}
		if first && !e.ValidAccuracy.Defined() {
			merit = func(e *rundir.Epoch) float64 { return -float64(e.Loss) }
		}
		first = false
		if m := merit(e); m > best { // false for an undefined score
			best, waited = m, 0
			continue
		}
		if waited++; waited > o.PlateauPatience {
			rate, waited = max(rate*o.PlateauFactor, o.MinLR), 0
		}
	}
	return rate
}

// judges reports whether the end of an epoch judges the weights: of each validated epoch, or of
// every epoch if there are no validation batches.
func judges(o *recipe.Recipe, validated bool, epoch int) bool {
	return !validated || o.Validates(epoch)
}
