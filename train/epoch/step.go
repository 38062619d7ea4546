package epoch

import (
	"context"
	"time"

	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/train/collective"
	"diskgnn/train/engine"
	"diskgnn/train/ranks"
)

// runBatches trains on the rest of the epoch's batches.
func (t *Trainer) runBatches() error {
	t.running = time.Now()
	t.Events.Tell(&BatchesRan{t.running})
	t.Group.Steps(true)
	defer t.Group.Steps(false)
	ahead := t.loadsAhead()
	if ahead && t.eval != nil && t.judges(t.now.Epoch) {
		t.eval.expect(t.now.Epoch)
	}
	err := t.batches.Run(t.schedule.own() - t.schedule.before(t.done))
	for err == nil && t.done < t.schedule.PerEpoch { // a step of the others alone
		err = t.endStep(t.schedule.after(t.done))
	}
	ran := time.Now()
	if err == nil && ahead {
		t.batches.Expect(t.schedule.own()) // the next epoch loads while this one is validated
	}
	if err == nil {
		err = t.settle()
	}
	t.tally(t.batches, time.Since(ran))
	t.gpu.idle(t.table, t.table.Seconds)
	t.running = time.Time{}
	if err == nil && t.Recorder != nil {
		if l := timeline(t.Recorder.Latest(TimelineSpans), t.schedule.position); l != nil {
			t.Dir.File.Timeline = l
		}
	}
	return err
}

// loadsAhead reports whether the first batches of a validation, and of the epoch after it, load while the
// batches before them are computed. A validation changes the page cache of a mapped store, from which
// training batches read: there all batches load in turn, so that the bytes that an epoch reads repeat.
func (t *Trainer) loadsAhead() bool {
	_, mapped := t.Store.(featurestore.Mapped)
	return !mapped
}

// step is the last link of the training pipeline: it computes a batch and, after the last batch of
// a step, takes the step. A batch that fails or is abandoned does not change the sums.
func (t *Trainer) step(ctx context.Context, sl *Slot, item int) error {
	began := time.Now()
	epoch, batch := t.schedule.position(item)
	if t.Engine != nil {
		if err := t.take(t.Engine.Backward(ctx, sl.work, sl.Slot, engine.Place{Epoch: epoch, Batch: batch})); err != nil {
			return err
		}
	}
	t.open = true
	c := sl.Counts()
	t.read(c, len(sl.Batch().Input), int64(t.Facts.RowBytes))
	if t.Engine != nil {
		if err := t.Reduction.Add(t.Engine, labelled(sl.Batch())); err != nil {
			return err
		}
	}
	done := t.schedule.after(batch)
	last := t.schedule.last(batch)
	var signals collective.Signals
	if last {
		var err error
		if signals, err = t.takeStep(done); err != nil {
			return err
		}
	}
	if t.Serial {
		if err := t.settle(); err != nil {
			return err
		}
	}
	t.computed = Computed{sl, time.Since(began), c.BytesRead}
	if err := t.Events.Publish(&t.computed); err != nil || !last {
		return err
	}
	return t.stepped(done, signals)
}

// labelled counts the seed nodes of a batch that have a label.
func labelled(b *graph.Batch) int {
	n := 0
	for _, y := range b.Labels {
		if y != graph.Unlabelled {
			n++
		}
	}
	return n
}

// endStep takes a step in which the replica has no batch.
func (t *Trainer) endStep(done int) error {
	signals, err := t.takeStep(done)
	if err != nil {
		return err
	}
	return t.stepped(done, signals)
}

// takeStep takes the step that ends with done batches of the epoch, with the batches of all ranks,
// and returns the union of their signals.
func (t *Trainer) takeStep(done int) (collective.Signals, error) {
	var ask collective.Signals
	if t.ended != nil && t.ended() != nil {
		ask |= collective.Stop
	}
	if t.Root() && t.checkpointDue(done, false) {
		ask |= collective.Save
	}
	return t.Reduction.Step(t.Engine, ask)
}

// stepped counts the step, writes a checkpoint if one is due, and ends the run if it is to end
// here.
func (t *Trainer) stepped(done int, signals collective.Signals) error {
	t.done, t.open, t.fresh = done, false, true
	t.taken.Done = done
	t.Events.Tell(&t.taken)
	if t.Dir != nil && t.Dir.Failed() {
		return t.Dir.Wait()
	}
	if signals == 0 {
		return nil
	}
	t.Group.Steps(false)
	defer t.Group.Steps(true)
	if err := t.gatherShares(false); err != nil {
		return err
	}
	stop := signals&collective.Stop != 0
	switch {
	case t.Root() && stop:
		t.leave()
	case t.Root():
		if err := t.written(); err != nil {
			return err
		}
		return t.checkpoint()
	}
	if stop {
		return ranks.ErrStopped
	}
	return nil
}
