// Package train is the run: it trains a model on a store's mini-batches, epoch by
// epoch, validates, keeps the best weights and records what happened.
//
//	store ─► load graph ─► read features ─► assemble ─► compute ─► epoch's metrics
//	      └► evaluation batches ─────────────────────► validation and test scores
//
// Its directory is RUN (package rundir). A run that is resumed from its latest checkpoint
// ends with the bytes of one that was never interrupted, but for times in metrics.jsonl and
// what run.json and trace.json say of its processes.
//
// The weights follow from the store's content, the parameters in run.json and the BLAS
// recorded there: not from threads, slots, memory or caches. Stores of the same samples,
// and packs that were made with other caches, order a batch's input nodes otherwise. The weights are
// the same, but for last bits where the outermost layer multiplies before it aggregates
// and no input projection, which takes the nodes in an order of its own, precedes it.
// Evaluation takes them as they lie: with some BLAS a logit's last bits depend on that.
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
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// Run trains as the options say, and returns once the run's directory is complete. An
// error leaves a directory that says how far it got; when ctx ended, the error is of
// kind fault.ErrInterrupted.
func Run(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (rundir.Result, error) {
	if err := o.resolveGPUs(); err != nil {
		return rundir.Result{}, err
	}
	g := newGPUDevice(o.Job.LocalIndex)
	defer g.close()
	return run(ctx, fsys, o, rep, usual(g.openStack, g.newEngine))
}

// run attempts a run until no batch that is drawn while training is larger than what was
// made for it: an attempt that meets one leaves a checkpoint, and the next goes on from it.
//
// Of several ranks each runs so. What ends one of them early ends all.
func run(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter, parts parts) (r rundir.Result, err error) {
	p := &process{fs: fsys, report: rep, parts: parts}
	if p.monitor, err = o.listen(rep); err != nil {
		return r, err
	}
	defer p.monitor.Close()
	if p.group, err = parts.join(ctx, &o, rep); err != nil {
		if fault.EndedBy(ctx, err) {
			err = fault.New(fault.ErrInterrupted, "interrupted before all ranks were there; run the command again")
		}
		return r, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.group.Context(), func() { cancel(p.group.Lost()) })()
	defer func() {
		if err != nil && !errors.Is(err, errAgreed) {
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

// attempt begins a run, or goes on with it, to its end or to a batch that is too large.
func (p *process) attempt(ctx context.Context, o Options) (rundir.Result, error) {
	r := &runner{process: p, options: o}
	if done, err := r.recall(); err != nil || done != nil {
		return finished(done, err)
	}
	r.began = time.Now()
	watch := budget.StartWatch(ctx)
	defer watch.Stop()
	defer r.close()
	if err := r.prepare(ctx); err != nil {
		if lost, ok := asLost(p.group, err); ok {
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

// finished returns the result of a run that was finished before.
func finished(done *rundir.Result, err error) (rundir.Result, error) {
	if err != nil {
		return rundir.Result{}, err
	}
	done.State = rundir.ResultDone
	return *done, nil
}

// recall completes the options by those of the run that goes on, if there is one, and returns the
// result of one that is finished.
func (r *runner) recall() (done *rundir.Result, err error) {
	o := &r.options
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
	if was, done, err = shareEarlier(r.group, o, was); err != nil {
		return nil, err
	}
	if done != nil {
		o.sayDone(done, r.report)
		return done, nil
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

// sayDone says that a run is finished, and why it does not go on to more epochs if these are wanted.
func (o *Options) sayDone(r *rundir.Result, rep progress.Reporter) {
	if r.StoppedEarly && o.gave("epochs") && o.Epochs > len(r.Epochs) {
		rep.Logf("%s is finished: it stopped early after %d epochs, and would have with any more; a larger --patience takes a run of its own", o.Out, len(r.Epochs))
		return
	}
	rep.Logf("%s is finished: there is nothing to do", o.Out)
}

// finish ends the run's directory, and tells all ranks that it is whole.
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
	err := broadcast(r.group, &end, mostTold)
	r.result.BestEpoch, r.result.ValidAccuracy, r.result.TestAccuracy, r.result.StoppedEarly = end.BestEpoch, end.ValidAccuracy, end.TestAccuracy, end.StoppedEarly
	return err
}

// train fills the cache and runs the epochs.
func (r *runner) train(ctx context.Context) error {
	var recorder *pipeline.Recorder
	lane := pipeline.Lane(0)
	if r.dir != nil {
		spans := timelineSpans // which budget.Reserve has room for
		if r.options.Trace {
			spans = traceSpans
		}
		recorder = pipeline.NewRecorder(spans)
		lane = recorder.Lane("fill the cache")
		if r.options.Trace {
			r.dir.recorder = recorder
		}
	}
	trainers := make(map[*replica]*trainer)
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
	t := r.trainer
	began := time.Now()
	t.events.tell(&phaseBegan{phaseFilling})
	bytes, err := r.store.Fill(ctx, t.schedule.next(), r.report)
	if err != nil {
		return ofPack(err)
	}
	t.preload = time.Since(began).Seconds()
	r.result.PreloadBytes += bytes
	r.result.PreloadSeconds += t.preload
	t.events.tell(&filled{bytes, t.preload})
	if recorder != nil {
		recorder.Add(lane, 0, began)
	}
	if err := r.together(); err != nil {
		return err
	}
	if err := r.each(func(rep *replica) error { return r.epochs(ctx, trainers[rep]) }); err != nil || r.dir == nil {
		return err
	}
	return r.dir.writeTrace()
}

// newTrainer returns a replica's trainer, which stands where the run goes on.
func (r *runner) newTrainer(rep *replica, recorder *pipeline.Recorder) (*trainer, error) {
	f, o := r.facts, &r.options
	sch := newSchedule(o.Epochs, f.BatchesPerEpoch, f.Epochs, o.ShuffleBatches, o.Seed)
	t := &trainer{options: o, schedule: sch, store: r.store, replica: rep, dir: r.dir, result: &r.result,
		recorder: recorder, stack: r.stack, counted: r.stack.Stats(), rowBytes: int64(f.RowBytes),
		began: r.began, scorer: score.New(trainJudging(o.Metric, &r.facts)), validated: f.Valid > 0}
	sch.divide(o.Accumulate, rep.rank(), o.world())
	t.unscored = t.scorer.State()
	_, t.scorerState = score.Bytes(trainJudging(o.Metric, &r.facts))
	if rep == r.replicas[0] {
		r.trainer, t.events = t, r.subscribers()
	} else {
		t.result, t.recorder = &rundir.Result{Epochs: slices.Clone(r.result.Epochs), BestEpoch: r.result.BestEpoch, ValidAccuracy: r.result.ValidAccuracy}, nil
	}
	t.begin(0)
	if r.from == nil {
		if r.was != nil { // else probe has done so
			return t, r.beginWith(rep)
		}
		return t, nil
	}
	t.kept = &standing{r.from.at.Epoch, r.from.at.Batch}
	sch.begin(r.from.at.Epoch, r.from.at.Batch)
	return t, t.goOn(r.from)
}

// subscribers returns who takes the events of the process' first replica. What must be on the disk
// comes first.
func (r *runner) subscribers() stream {
	var s stream
	if r.recording != nil {
		s = append(s, r.recording)
	}
	if r.dir != nil {
		s = append(s, metricsFile{r.dir})
	}
	said := newTerminal(r.report, &r.options.Recipe)
	said.computes, said.validates = r.engine() != nil, r.decision.Memory.EvalSlots > 0
	s = append(s, said)
	if r.dir != nil {
		s = append(s, reportPage{r.dir})
	}
	if r.monitor != nil {
		s = append(s, monitoring{r.monitor})
	}
	return s
}

// epochs runs the trainer and, whatever comes of it, gives its slots back.
func (r *runner) epochs(ctx context.Context, t *trainer) error {
	defer t.close()
	if err := r.begin(ctx, t); err != nil {
		return err
	}
	return t.run(ctx)
}

// begin makes the trainer's pipelines.
func (r *runner) begin(ctx context.Context, t *trainer) error {
	slots, err := t.newSlots(r.decision.Memory.Slots, false)
	if err != nil {
		return err
	}
	l := r.found.Lineage()
	h := trace.Header{Source: r.found.Name(), Dataset: l.Dataset, Samples: l.Samples, BatchesPerEpoch: r.facts.BatchesPerEpoch, Slots: len(slots)}
	if err := r.recording.begin(h, slots, &r.facts); err != nil {
		freeAll(slots)
		return err
	}
	if err := t.start(ctx, slots); err != nil {
		return err
	}
	if r.decision.Memory.EvalSlots > 0 && t.root() {
		slots, err := t.newSlots(r.decision.Memory.EvalSlots, true)
		if err != nil {
			return err
		}
		f := r.facts
		t.eval = &evaluation{valid: f.Valid, tests: f.Test, rounds: r.options.Epochs - t.now.Epoch, replica: t.replica, scorer: score.New(evalJudging(r.options.Metric, &r.facts)), events: t.events, diverged: t.diverged}
		if r.planning {
			t.eval.valid, t.eval.tests, t.eval.rounds = min(f.Valid, plannedBatches), 0, 1
		}
		if err := t.eval.start(ctx, slots, t.recorder); err != nil {
			return err
		}
	}
	return nil
}
