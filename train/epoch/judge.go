package epoch

import (
	"context"
	"errors"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/train/ranks"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// epoch trains the rest of the epoch under way, validates, records both and begins the
// next.
func (t *Trainer) epoch(ctx context.Context) error {
	t.Events.Tell(&PhaseBegan{Training})
	if err := t.setRate(); err != nil {
		return err
	}
	if err := t.runBatches(); err != nil {
		return err
	}
	t.finish()
	if err := t.gatherShares(true); err != nil {
		return err
	}
	if !t.Root() {
		return t.follow()
	}
	if err := t.written(); err != nil { // in copies that this epoch's files take
		return err
	}
	t.checkpointLast()
	isBest, err := t.judge(ctx)
	if t.Group.Lost() == nil && fault.EndedBy(ctx, err) {
		t.leave()
		return errors.Join(ranks.Broadcast(t.Group, &judged{Stop: true}, ranks.MostTold), ranks.ErrStopped)
	}
	if err != nil {
		return err
	}
	t.now.ReadRate = t.readRate()
	before := t.exchanged
	t.exchanged = t.Group.Bytes()
	t.now.RankBytes = t.exchanged - before
	t.Result.Epochs = append(t.Result.Epochs, t.now)
	if err := t.Events.Publish(&Judged{&t.now, isBest, &t.table}); err != nil {
		return err
	}
	if err := ranks.Broadcast(t.Group, &judged{Epoch: t.now, BestEpoch: t.Result.BestEpoch, ValidAccuracy: t.Result.ValidAccuracy}, ranks.MostTold); err != nil {
		return err
	}
	t.begin(t.now.Epoch + 1)
	t.restart(t.batches)
	t.preload, t.fresh = 0, true
	if t.now.Epoch == t.schedule.Epochs && t.Dir.Extensible {
		t.fresh = false // the checkpoint was written before the last epoch was judged
	} else if t.checkpointDue(0, true) {
		if err := t.checkpoint(); err != nil {
			return err
		}
	}
	if t.Alone() {
		return ctx.Err()
	}
	return nil // ranks stop after a step
}

// judged is rank 0's message about an epoch.
type judged struct {
	Stop          bool         `json:"stop,omitempty"` // the run ends before it is judged
	Epoch         rundir.Epoch `json:"epoch"`
	BestEpoch     int          `json:"best_epoch"`
	ValidAccuracy score.Score  `json:"valid_accuracy"` // of the best epoch
}

// follow applies rank 0's message about the epoch, and begins the next.
func (t *Trainer) follow() error {
	var j judged
	if err := ranks.Broadcast(t.Group, &j, ranks.MostTold); err != nil {
		return err
	}
	if j.Stop {
		return ranks.ErrStopped
	}
	t.Result.Epochs = append(t.Result.Epochs, j.Epoch)
	t.Result.BestEpoch, t.Result.ValidAccuracy = j.BestEpoch, j.ValidAccuracy
	t.begin(t.now.Epoch + 1)
	t.restart(t.batches)
	t.preload = 0
	return nil
}

// judge scores the epoch, and keeps its weights if they are the best so far. The epoch's sums stay
// until the validation is over.
func (t *Trainer) judge(ctx context.Context) (isBest bool, err error) {
	if t.Engine == nil {
		return false, nil
	}
	validates := t.judges(t.now.Epoch)
	if t.eval != nil && validates {
		t.Events.Tell(&PhaseBegan{Validating})
		began := time.Now()
		if t.now.ValidAccuracy, t.now.ValidBytesRead, err = t.eval.validate(ctx, t.now.Epoch); err != nil {
			return false, err
		}
		t.now.ValidExact = t.eval.exact() && t.now.ValidAccuracy.Defined()
		t.now.ValidSeconds = time.Since(began).Seconds()
	}
	t.now.Loss = t.meanLoss()
	t.now.TrainAccuracy = t.scorer.Score()
	// Without scores, the latest is the best.
	r := t.Result
	if !validates || r.ValidAccuracy.Defined() && !(t.now.ValidAccuracy > r.ValidAccuracy) {
		return false, nil
	}
	r.BestEpoch, r.ValidAccuracy = t.now.Epoch, t.now.ValidAccuracy
	if t.best, err = t.Engine.Snapshot(t.best[:0]); err != nil {
		return true, err
	}
	return true, t.saveWeights(rundir.WeightsFile, t.now.Epoch)
}

// setRate gives the engine the rate of the epoch under way.
func (t *Trainer) setRate() error {
	if t.Engine == nil {
		return nil
	}
	rate := Rate(t.Recipe, t.Facts.Valid > 0, t.Result.Epochs)
	t.now.LR = score.Score(rate)
	return t.Engine.SetLR(rate)
}

// stalled reports whether Patience is used up: the epoch before this one was validated, and at
// least Patience epochs have passed since the best one, which checkpoints record.
func (t *Trainer) stalled() bool {
	patience, last := t.Recipe.Patience, t.now.Epoch-1
	return patience > 0 && last >= 0 && t.Recipe.Validates(last) && last-t.Result.BestEpoch >= patience
}
