package epoch

import (
	"fmt"
	"math"
	"time"

	"diskgnn/graph"
	"diskgnn/train/engine"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// settle waits for the outcomes of all batches so far.
func (t *Trainer) settle() error {
	if t.Engine == nil {
		return nil
	}
	return t.take(t.Engine.Finish())
}

// take adds a batch's outcome to the sums.
func (t *Trainer) take(o *engine.Outcome, err error) error {
	if o != nil && (math.IsNaN(o.Loss) || math.IsInf(o.Loss, 0)) {
		return t.diverged(fmt.Sprintf("the loss is %v", o.Loss))
	}
	if err != nil || o == nil {
		return err
	}
	t.gpu.take(&o.Times)
	t.scorer.Add(o.Logits, o.Labels, o.Targets)
	f := Found{Loss: o.Loss}
	for _, y := range o.Labels {
		if y != graph.Unlabelled {
			f.Seeds++
		}
	}
	t.outcome.Found = f
	t.Events.Tell(&t.outcome)
	if t.Alone() {
		t.sum(f)
	} else {
		t.found = append(t.found, f)
	}
	return nil
}

// TimesEvery is the interval between updates of the links' times while batches run; tests set it to
// update after every step.
var TimesEvery = time.Second

// sums returns the epoch's sums for the monitor.
func (t *Trainer) sums() rundir.Epoch {
	if now := time.Now(); now.Sub(t.looked) >= TimesEvery {
		t.tally(t.batches, 0)
		t.looked = now
	}
	e := t.soFar()
	e.Loss = t.meanLoss()
	return e
}

// readRate returns the rate of all reads since the last call.
func (t *Trainer) readRate() score.Score {
	before := t.counted
	t.counted = t.Stack.Stats()
	done := t.counted.Sub(before)
	if done.BytesRead == 0 || done.InFlight <= 0 {
		return score.Undefined
	}
	return score.Score(float64(done.BytesRead) / done.InFlight.Seconds())
}
