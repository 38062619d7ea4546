// Package train is the run: it trains a model on a store's mini-batches, epoch by epoch, validates,
// keeps the best weights and records its progress.
//
//	store ─► load graph ─► read features ─► assemble ─► compute ─► epoch's metrics
//	      └► evaluation batches ─────────────────────► validation and test scores
//
// Its directory is RUN (package rundir). A run that is resumed from its latest checkpoint ends with
// the bytes of an uninterrupted run, except for times in metrics.jsonl and the facts about
// processes in run.json and trace.json.
//
// The weights depend on the store's content and on the parameters and the BLAS in run.json. They do
// not depend on threads, slots, memory or caches. Stores of the same samples, and packs with other
// caches, order a batch's input nodes differently. The last bits of the weights then differ if the
// outermost layer multiplies before it aggregates and no input projection precedes it: a projection
// sorts the nodes. Evaluation uses the nodes in the store's order: with some BLAS the last bits of
// a logit depend on it.
package train

import (
	"context"
	"errors"
	"slices"
	"time"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pipeline"
	"diskgnn/simulate/trace"
	"diskgnn/train/epoch"
	"diskgnn/train/ranks"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// Run trains with the options, and returns once the run's directory is complete. After an error the
// directory tells how far the run got. If ctx ended, the error is of kind fault.ErrInterrupted.
func Run(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (rundir.Result, error) {
	if err := o.resolveGPUs(); err != nil {
		return rundir.Result{}, err
	}
	g := newGPUDevice(o.Job.LocalIndex)
	defer g.close()
	return run(ctx, fsys, o, rep, usual(g.openStack, g.newEngine))
}

// run attempts a run until every batch that is drawn while training fits its memory: an attempt
// that draws a larger batch leaves a checkpoint, and the next resumes from it.
//
// Each of several ranks does so. If one ends early, all do.
func run(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter, parts parts) (r rundir.Result, err error) {
	p := &process{fs: fsys, report: rep, parts: parts}
	if p.monitor, err = o.listen(rep); err != nil {
		return r, err
	}
	defer p.monitor.Close()
	if p.group, err = parts.join(ctx, &o.Membership, rep); err != nil {
		if fault.EndedBy(ctx, err) {
			err = fault.New(fault.ErrInterrupted, "interrupted before all ranks had joined; run the command again")
		}
		return r, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.group.Context(), func() { cancel(p.group.Lost()) })()
	defer func() {
		if err != nil && !errors.Is(err, ranks.ErrAgreed) {
			p.group.Fail(err)
		}
		p.group.Close()
	}()
	defer p.drawing.close()
	if p.recording, err = newRecording(fsys, o.Record, o.Out); err != nil {
		return r, err
	}
	err = p.attempts(func() (err error) {
		r, err = p.attempt(ctx, o)
		o.Resume, o.Force = true, false
		return err
	})
	return r, p.recording.end(err)
}

// attempt begins or resumes a run, until its end or until a batch is too large.
func (p *process) attempt(ctx context.Context, o Options) (rundir.Result, error) {
	r := &runner{process: p, out: o.Out, root: o.root()}
	if done, err := r.recall(&o); err != nil || done != nil {
		return finished(done, err)
	}
	r.source = o.source()
	r.began = time.Now()
	watch := budget.StartWatch(ctx)
	defer watch.Stop()
	defer r.close()
	if err := r.prepare(ctx, &o); err != nil {
		if lost, ok := ranks.AsLost(p.group, err); ok {
			return rundir.Result{}, r.lostRank(lost)
		}
		return rundir.Result{}, r.unprepared(ctx, err)
	}
	p.drawing.found(&r.result)
	err := r.train(ctx)
	if err == nil {
		r.result.PeakAnonBytes, r.result.PeakRSSBytes = watch.Stop()
		r.result.Seconds = time.Since(r.began).Seconds()
		err = r.finish()
	}
	if err == nil {
		return r.result, nil
	}
	err = r.ended(ctx, err)
	if r.dir == nil {
		return rundir.Result{}, err
	}
	return rundir.Result{}, r.dir.abandon(err)
}

// finished returns the result of a run that had already finished.
func finished(done *rundir.Result, err error) (rundir.Result, error) {
	if err != nil {
		return rundir.Result{}, err
	}
	done.State = rundir.ResultDone
	return *done, nil
}

// recall completes the options by the options of the resumed run, if there is one, and returns its
// result if it is finished.
func (r *runner) recall(o *Options) (done *rundir.Result, err error) {
	o.EnsureDefaults()
	if r.unsummed, err = o.hashWeights(r.fs); err != nil {
		return nil, err
	}
	was, err := o.earlier(r.fs)
	if err != nil {
		return nil, err
	}
	if was != nil && o.done(was) {
		settle(r.fs, was, o.Out)
	}
	if r.group.World() > 1 {
		e := ranks.Earlier{Resume: o.Resume, Was: was}
		if was != nil && o.done(was) {
			e.Done = was.Result
		}
		if err := e.Share(r.group); err != nil {
			return nil, err
		}
		if e.Done != nil {
			o.sayDone(e.Done, r.report)
			return e.Done, nil
		}
		o.Resume, was = e.Resume, e.Was
	}
	if was != nil {
		given := o.gave("memory")
		if err := o.recall(was); err != nil {
			return nil, err
		}
		if of := budget.Beyond(o.Memory); of != "" && !given {
			r.report.Logf("memory: %s was begun with --memory %s, which is more than %s here: the kernel may end the process first", o.Out, budget.FormatBytes(o.Memory), of)
		}
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if r.was = was; was != nil && o.done(was) {
		o.sayDone(was.Result, r.report)
		return was.Result, nil
	}
	return nil, nil
}

// sayDone reports that a run is finished, and the reason if it cannot be extended to the wanted
// epochs.
func (o *Options) sayDone(r *rundir.Result, rep progress.Reporter) {
	if r.StoppedEarly && o.gave("epochs") && o.Epochs > len(r.Epochs) {
		rep.Logf("%s is finished: it stopped early after %d epochs, whatever --epochs; training with a larger --patience needs a new run", o.Out, len(r.Epochs))
		return
	}
	rep.Logf("%s is finished: there is nothing to do", o.Out)
}

// finish completes the run's directory, and sends the result to all ranks.
func (r *runner) finish() error {
	if r.dir != nil {
		if err := r.dir.finish(&r.result); err != nil {
			return err
		}
	}
	end := struct {
		BestEpoch     int         `json:"best_epoch"`
		ValidAccuracy score.Score `json:"valid_accuracy"`
		TestAccuracy  score.Score `json:"test_accuracy"`
		StoppedEarly  bool        `json:"stopped_early"`
	}{r.result.BestEpoch, r.result.ValidAccuracy, r.result.TestAccuracy, r.result.StoppedEarly}
	err := ranks.Broadcast(r.group, &end, ranks.MostTold)
	r.result.BestEpoch, r.result.ValidAccuracy, r.result.TestAccuracy, r.result.StoppedEarly = end.BestEpoch, end.ValidAccuracy, end.TestAccuracy, end.StoppedEarly
	return err
}

// train fills the cache and runs the epochs.
func (r *runner) train(ctx context.Context) error {
	var recorder *pipeline.Recorder
	lane := pipeline.Lane(0)
	if r.dir != nil {
		spans := epoch.TimelineSpans // which budget.Reserve has room for
		if r.decision.Options.Trace {
			spans = traceSpans
		}
		recorder = pipeline.NewRecorder(spans)
		lane = recorder.Lane("fill the cache")
		if r.decision.Options.Trace {
			r.dir.recorder = recorder
		}
	}
	trainers := make(map[*epoch.Replica]*epoch.Trainer)
	for _, rep := range r.replicas {
		var err error
		if trainers[rep], err = r.newTrainer(rep, recorder); err != nil {
			return err
		}
	}
	r.from = nil // its memory is needed
	if err := r.dir.renew(); err != nil {
		return err
	}
	began := time.Now()
	if _, err := r.trainer.Fill(ctx, r.report); err != nil {
		return err
	}
	if recorder != nil {
		recorder.Add(lane, 0, began)
	}
	if err := ranks.Together(r.group); err != nil {
		return err
	}
	err := r.each(func(rep *epoch.Replica) error {
		t := trainers[rep]
		defer t.Close()
		if err := t.Start(ctx, r.slots()); err != nil {
			return err
		}
		return t.Run(ctx)
	})
	if err != nil || r.dir == nil {
		return err
	}
	return r.dir.writeTrace()
}

// newTrainer returns a replica's trainer at the checkpoint that the run resumes from.
func (r *runner) newTrainer(rep *epoch.Replica, recorder *pipeline.Recorder) (t *epoch.Trainer, err error) {
	o := &r.decision.Options
	c := epoch.Config{Recipe: &o.Recipe, Schedule: r.decision.Schedule(rep.Group.Rank()), Facts: &r.facts, Store: r.store, Stack: r.stack, Serial: o.Slots == 1,
		CheckpointEvery: o.CheckpointEvery, Keep: o.Keep, Result: &r.result, Began: r.began, From: r.from}
	if r.dir != nil {
		c.Dir = r.dir.Dir
	}
	if rep == r.replicas[0] {
		c.Recorder, c.Events = recorder, r.subscribers()
		if r.exact != nil {
			c.Exact = r.exact
		}
	} else {
		c.Events = r.watches(rep)
		c.Result = &rundir.Result{Epochs: slices.Clone(r.result.Epochs), BestEpoch: r.result.BestEpoch, ValidAccuracy: r.result.ValidAccuracy}
	}
	if t, err = epoch.New(c, rep); rep == r.replicas[0] {
		r.trainer = t
	}
	if err == nil && r.from == nil && r.was != nil { // else probe has done so
		err = beginWith(r.fs, o, rep)
	}
	return t, err
}

// slots returns a trainer's options of slots. Slots are watched if the run records reads.
func (r *runner) slots() epoch.Slots {
	s := epoch.Slots{Train: r.decision.Memory.Slots, Eval: r.decision.Memory.EvalSlots}
	if r.recording != nil {
		s.Watch = func(slots []*epoch.Slot) error {
			l := r.found.Lineage()
			h := trace.Header{Source: r.found.Name(), Dataset: l.Dataset, Samples: l.Samples, BatchesPerEpoch: r.facts.BatchesPerEpoch, Slots: len(slots)}
			return r.recording.begin(h, slots, &r.facts)
		}
	}
	return s
}
