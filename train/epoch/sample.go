package epoch

import (
	"context"
	"errors"
	"time"

	"diskgnn/pipeline"
	"diskgnn/train/ranks"
	"diskgnn/train/rundir"
)

// Sample trains on one batch that is not counted and then on n batches, or fewer at the end of the
// run. It returns the number of counted batches, their sums and the times of links.
func (t *Trainer) Sample(ctx context.Context, n int) (measured int, sums rundir.Epoch, table pipeline.Table, err error) {
	n = min(n, max(1, t.schedule.items()-1))
	warmUp := min(1, t.schedule.items()-n)
	t.Events.Tell(&Started{Name: "train on a few batches", Items: warmUp + n, Sums: t.sums})
	defer t.Events.Tell(&Ended{})
	if err := t.setRate(); err != nil {
		return 0, sums, table, err
	}
	if err := t.runSome(0, warmUp); err != nil {
		return 0, sums, table, unstopped(ctx, err)
	}
	t.begin(0)
	t.restart(t.batches)
	if err := t.runSome(warmUp, n); err != nil {
		return 0, sums, table, unstopped(ctx, err)
	}
	return n, t.now, t.table, ctx.Err() // whole steps go on without it
}

// unstopped returns the error of the context where a run stopped after a whole step.
func unstopped(ctx context.Context, err error) error {
	if errors.Is(err, ranks.ErrStopped) {
		return ctx.Err()
	}
	return err
}

// SampleValidation scores the validation batches given to Start. It returns their number and the
// seconds.
func (t *Trainer) SampleValidation(ctx context.Context) (batches int, seconds float64, err error) {
	v, ok := t.eval.(*evaluation)
	if !ok || v.valid == 0 {
		return 0, 0, nil
	}
	began := time.Now()
	_, _, err = v.validate(ctx, t.now.Epoch)
	return v.valid, time.Since(began).Seconds(), err
}

// runSome trains on n items, the first of which is item after, by parts of epochs: items under way at
// the same time must have different batches.
func (t *Trainer) runSome(after, n int) error {
	for end := after + n; after < end; {
		k := min(end-after, t.schedule.left(after))
		if err := t.batches.Run(k); err != nil {
			return err
		}
		after += k
	}
	ran := time.Now()
	err := t.settle()
	t.tally(t.batches, time.Since(ran))
	return err
}
