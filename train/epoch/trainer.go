// Package epoch trains one replica, epoch by epoch: it runs the batches of a schedule through a
// pipeline, takes steps with the other ranks, validates, keeps the best weights and writes
// checkpoints. It publishes its progress as typed events.
//
//	store ─► load graph ─► read features ─► assemble ─► compute ─► step ─► sums of the epoch
//	      └► evaluation batches, or Exact ───────────► validation and test scores
//
// A trainer that resumes from a checkpoint ends with the bits of an uninterrupted one, except for
// times.
package epoch

import (
	"context"
	"errors"
	"time"

	"diskgnn/featurestore/onthefly"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/pipeline"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// New returns a replica's trainer, at the checkpoint in c if there is one.
func New(c Config, rep *Replica) (*Trainer, error) {
	t := &Trainer{Config: c, Replica: rep, schedule: newSchedule(c.Schedule), counted: c.Stack.Stats(), scorer: score.New(TrainJudging(c.Recipe.Metric, c.Facts)), copies: map[string][]byte{}}
	t.unscored = t.scorer.State()
	_, t.scorerState = score.Bytes(TrainJudging(c.Recipe.Metric, c.Facts))
	t.begin(0)
	from := c.From
	if t.From = nil; from == nil { // its memory is needed
		return t, nil
	}
	t.schedule.begin(from.At.Epoch, from.At.Batch)
	t.kept = t.standing(from.At.Epoch, from.At.Batch)
	return t, t.goOn(from)
}

// Fill fills the store's cache for the first batch, and returns the bytes that it read.
func (t *Trainer) Fill(ctx context.Context, rep progress.Reporter) (bytes int64, err error) {
	t.Events.Tell(&PhaseBegan{Filling})
	began := time.Now()
	if bytes, err = t.Store.Fill(ctx, t.schedule.next(), rep); err != nil {
		return bytes, OfPack(err)
	}
	t.preload = time.Since(began).Seconds()
	t.Result.PreloadBytes += bytes
	t.Result.PreloadSeconds += t.preload
	t.Events.Tell(&Filled{bytes, t.preload})
	return bytes, nil
}

// Slots are the numbers of slots of a trainer's pipelines.
type Slots struct {
	Train, Eval int
	// Few limits scoring to this number of validation batches, once, and no test batches; 0: all of
	// both, at the recipe's epochs.
	Few int
	// Watch is called with the slots of training before any batch is loaded, unless it is nil.
	Watch func([]*Slot) error
}

// Start makes the trainer's pipelines. Close gives their slots back, also after an error.
func (t *Trainer) Start(ctx context.Context, s Slots) error {
	slots, err := t.newSlots(s.Train, false, nil)
	if err != nil {
		return err
	}
	if s.Watch != nil {
		if err := s.Watch(slots); err != nil {
			freeAll(slots)
			return err
		}
	}
	if err := t.start(ctx, slots); err != nil {
		return err
	}
	switch {
	case !t.Root():
		return nil
	case t.Exact != nil:
		t.eval = &wholeGraph{by: t.Exact, replica: t.Replica}
		return nil
	case s.Eval == 0:
		return nil
	}
	if slots, err = t.newSlots(s.Eval, true, nil); err != nil {
		return err
	}
	v := &evaluation{valid: t.Facts.Valid, tests: t.Facts.Test, rounds: t.schedule.Epochs - t.now.Epoch, replica: t.Replica,
		scorer: score.New(EvalJudging(t.Recipe.Metric, t.Facts)), events: t.Events, diverged: t.diverged}
	if s.Few > 0 {
		v.valid, v.tests, v.rounds = min(v.valid, s.Few), 0, 1
	}
	t.eval = v
	return v.start(ctx, slots, t.Recorder)
}

// start makes the training pipeline over slots, which it takes over.
func (t *Trainer) start(ctx context.Context, slots []*Slot) error {
	name := LinkCompute
	switch {
	case t.Engine == nil:
		name = linkConsume
	case t.Device != nil:
		name, t.gpu = LinkLaunch, newGPUTimes(t.Recorder)
	}
	links := append(loadingLinks(t.schedule.ref, len(slots)), pipeline.Link[*Slot]{Name: name, Do: t.step})
	p, err := pipeline.Start(t.whole(ctx), pipeline.Config[*Slot]{
		Links: links, Slots: slots, Items: t.schedule.items(), Label: t.schedule.label,
		Abort: drain, Free: free, Recorder: t.Recorder, Name: trainName,
	})
	if err != nil {
		freeAll(slots)
		return err
	}
	t.batches = p
	t.Events.Tell(opened(trainName, p, t.Group, t.Stack))
	t.restart(p)
	t.inherit(&t.now)
	t.taken.Sums = t.sums
	return nil
}

// whole returns the context of the training pipeline. If a step has several batches, all are
// computed before the run ends, so that it ends between two steps: the pipeline's context then
// outlives the run's.
func (t *Trainer) whole(ctx context.Context) context.Context {
	if t.schedule.Accumulate == 1 {
		return ctx
	}
	t.ended = ctx.Err
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ended := context.AfterFunc(t.Group.Context(), func() { cancel(t.Group.Lost()) })
	t.release = func() { ended(); cancel(nil) }
	return ctx
}

// Run trains the rest of the epochs, or until it stops early, and scores the best weights on the
// test batches. If it is interrupted, or a batch exceeds its memory, it leaves a checkpoint of the
// last finished step.
func (t *Trainer) Run(ctx context.Context) error {
	t.Events.Tell(&Started{Name: "train", Items: t.schedule.items(), Whole: true, Sums: t.sums, Done: t.done})
	defer t.Events.Tell(&Ended{})
	t.saved = time.Now()
	err := t.train(ctx)
	_, outgrown := errors.AsType[*onthefly.Outgrown](err)
	// Ranks stop after an agreed step, with a checkpoint; elsewhere rank 0 can write one only if it
	// has all ranks' sums.
	known := t.Alone() || t.Root() && t.shared == t.done
	if err != nil && !t.open && known && (outgrown || fault.EndedBy(ctx, err)) {
		t.leave()
	}
	return errors.Join(err, t.written())
}

func (t *Trainer) train(ctx context.Context) error {
	for t.now.Epoch < t.schedule.Epochs && !t.stalled() {
		if err := t.epoch(ctx); err != nil {
			return err
		}
	}
	if t.Engine == nil || !t.Root() {
		return nil
	}
	if t.Result.StoppedEarly = t.now.Epoch < t.schedule.Epochs; t.Result.StoppedEarly {
		t.note("stopped early: no epoch was better than epoch %d in the %d after it", t.Result.BestEpoch, t.Recipe.Patience)
	}
	if err := t.written(); err != nil {
		return err
	}
	if err := t.saveWeights(rundir.FinalFile, t.now.Epoch-1); err != nil {
		return err
	}
	if t.eval == nil {
		return nil
	}
	return t.test(ctx)
}

// test scores the best weights on the test nodes. It leaves the engine unchanged.
func (t *Trainer) test(ctx context.Context) error {
	t.Events.Tell(&PhaseBegan{Testing})
	last, err := t.Engine.Snapshot(nil)
	if err != nil {
		return err
	}
	if err := t.Engine.Restore(t.best); err != nil {
		return err
	}
	t.Result.TestAccuracy, err = t.eval.test(ctx)
	return errors.Join(err, t.Engine.Restore(last))
}

// Close stops loading and gives the slots back.
func (t *Trainer) Close() {
	if t.batches != nil {
		t.batches.Close()
		t.Events.Tell(&Closed{trainName})
	}
	if t.eval != nil {
		t.eval.close()
	}
	if t.release != nil {
		t.release()
	}
}
