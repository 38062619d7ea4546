package train

import (
	"math"
	"slices"

	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// rate returns the learning rate of the epoch that follows those before. It is a
// function of the options and of what metrics.jsonl holds, and of nothing else: so a
// run that is resumed trains at the rates of one that never was interrupted.
func rate(o *recipe.Recipe, before []rundir.Epoch) float64 {
	epoch := len(before)
	if epoch < o.Warmup {
		return o.LR * float64(epoch+1) / float64(o.Warmup)
	}
	switch o.Schedule {
	case recipe.ScheduleCosine:
		done := float64(epoch-o.Warmup) / float64(o.Epochs-o.Warmup)
		return o.MinLR + (o.LR-o.MinLR)*(1+math.Cos(math.Pi*done))/2
	case recipe.SchedulePlateau:
		return plateauRate(o, before[o.Warmup:])
	}
	return o.LR
}

// plateauRate lowers the rate by PlateauFactor each time that more than
// PlateauPatience epochs were no better than the best before them, as PyTorch's
// ReduceLROnPlateau does with a threshold of 0. The epochs that are validated are
// judged by their score, or all by the loss where none has one.
func plateauRate(o *recipe.Recipe, epochs []rundir.Epoch) float64 {
	merit := func(e *rundir.Epoch) float64 { return -float64(e.Loss) }
	scored := slices.ContainsFunc(epochs, func(e rundir.Epoch) bool { return e.ValidAccuracy.Defined() })
	if scored {
		merit = func(e *rundir.Epoch) float64 { return float64(e.ValidAccuracy) }
	}
	rate, best, waited := o.LR, math.Inf(-1), 0
	for i := range epochs {
		if scored && !o.Validates(epochs[i].Epoch) {
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

// setRate gives the engine the rate of the epoch under way.
func (t *trainer) setRate() error {
	if t.engine == nil {
		return nil
	}
	rate := rate(&t.options.Recipe, t.result.Epochs)
	t.now.LR = score.Score(rate)
	return t.engine.SetLR(rate)
}

// stalled tells whether Patience is at its end: the epoch before this one was validated,
// and so many have passed since the best one. A checkpoint knows which that is.
func (t *trainer) stalled() bool {
	patience, last := t.options.Patience, t.now.Epoch-1
	return patience > 0 && last >= 0 && t.options.Validates(last) && last-t.result.BestEpoch >= patience
}
