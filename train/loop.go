package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"diskgnn/featurestore"
	"diskgnn/featurestore/live"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/pipeline"
	"diskgnn/train/collective"
	"diskgnn/train/cpu"
	"diskgnn/train/engine"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// trainer drives the epochs. All of it belongs to one goroutine.
type trainer struct {
	options  *Options
	schedule *schedule
	rowBytes int64 // of a row as the store holds it
	store    featurestore.Store
	*replica // of the run's, the first and only
	dir      *runDir
	result   *rundir.Result
	events   stream
	recorder *pipeline.Recorder // nil but of the first replica of the process with the run's directory
	began    time.Time          // when the run would have begun, had it never been interrupted
	stack    iostack.Stack      // whose reads are counted
	counted  iostack.Stats      // those of earlier epochs

	looked time.Time // when the times of links were last looked at for who watches

	eval        *evaluation // nil without validation and test batches, or engine
	validated   bool        // there are validation batches, on whichever rank
	scorer      score.Scorer
	scorerState int64 // its most bytes

	now       rundir.Epoch   // the epoch under way
	done      int            // how many of its batches are trained on, in whole steps
	open      bool           // a step is under way: some of its batches are computed
	release   func()         // of the pipeline's context; nil: it is the run's
	exchanged int64          // bytes between ranks in earlier epochs
	shared    int            // batches of the epoch that rank 0's sums are of
	found     []found        // of this rank's batches since
	unscored  []byte         // the state of a scorer that nothing was added to
	ended     func() error   // why to stop after a step that has several batches; nil: the pipeline stops by itself
	loss      float64        // summed over their labelled seed nodes
	seeds     int            // number of those
	table     pipeline.Table // where their time went
	gpu       *gpuTimes      // nil without a GPU
	running   time.Time      // since when batches run; zero while none do
	preload   float64        // seconds of filling the cache that no epoch has yet

	// Events of every step, which are used again.
	computed computed
	outcome  outcome
	taken    stepTaken

	best []float32 // weights of the best epoch

	saved time.Time // when the latest checkpoint was written, or training began
	fresh bool      // something was done since
	kept  *standing // where the run stood at the latest checkpoint; nil: there is none
}

// start makes the training pipeline over slots, which it takes over.
func (t *trainer) start(ctx context.Context, slots []*slot) error {
	name := linkCompute
	switch {
	case t.engine == nil:
		name = linkConsume
	case t.device != nil:
		name, t.gpu = linkLaunch, newGPUTimes(t.recorder)
	}
	links := append(loadingLinks(t.schedule.ref, len(slots)), pipeline.Link[*slot]{Name: name, Do: t.step})
	p, err := pipeline.Start(t.whole(ctx), pipeline.Config[*slot]{
		Links: links, Slots: slots, Items: t.schedule.items(), Label: t.schedule.label,
		Abort: drain, Free: free, Recorder: t.recorder, Name: "train",
	})
	if err != nil {
		freeAll(slots)
		return err
	}
	t.batches = p
	t.table = t.gpu.add(p.Table())
	t.takeTimes(&t.now)
	t.taken.sums = t.sums
	return nil
}

// run trains what is left of the epochs, or until it stops early, and judges the best
// one's weights on the test batches. Interrupted, or ended by a batch that outgrew what was
// made for it, it leaves a checkpoint of the last step that was finished.
func (t *trainer) run(ctx context.Context) error {
	t.events.tell(&started{name: "train", items: t.schedule.items(), whole: true, sums: t.sums, done: t.done})
	defer t.events.tell(&ended{})
	t.saved = time.Now()
	err := t.train(ctx)
	_, outgrown := errors.AsType[*live.Outgrown](err)
	// Ranks stop after a step that they agree on, with a checkpoint; elsewhere rank 0 can write one
	// if it knows what all have summed up.
	known := t.alone() || t.root() && t.shared == t.done
	if err != nil && !t.open && known && (outgrown || fault.EndedBy(ctx, err)) {
		t.leave()
	}
	return err
}

func (t *trainer) train(ctx context.Context) error {
	for t.now.Epoch < t.schedule.epochs && !t.stalled() {
		if err := t.epoch(ctx); err != nil {
			return err
		}
	}
	if t.engine == nil || !t.root() {
		return nil
	}
	if t.result.StoppedEarly = t.now.Epoch < t.schedule.epochs; t.result.StoppedEarly {
		t.note("stopped early: no epoch was better than epoch %d in the %d after it", t.result.BestEpoch, t.options.Patience)
	}
	if err := t.saveWeights(rundir.FinalFile, t.now.Epoch-1); err != nil {
		return err
	}
	if t.eval == nil {
		return nil
	}
	return t.test()
}

// test judges the best weights. Afterwards the engine is as it was.
func (t *trainer) test() error {
	t.events.tell(&phaseBegan{phaseTesting})
	last, err := t.engine.Snapshot(nil)
	if err != nil {
		return err
	}
	if err := t.engine.Restore(t.best); err != nil {
		return err
	}
	t.result.TestAccuracy, err = t.eval.test()
	return errors.Join(err, t.engine.Restore(last))
}

// begin makes an epoch the one under way.
func (t *trainer) begin(epoch int) {
	t.now = rundir.Epoch{Epoch: epoch, LR: score.Undefined, Loss: score.Undefined, TrainAccuracy: score.Undefined, ValidAccuracy: score.Undefined, Batches: t.schedule.perEpoch}
	t.done, t.loss, t.seeds, t.shared = 0, 0, 0, 0
	t.events.tell(&epochBegan{})
}

// note says what there is to know.
func (t *trainer) note(format string, args ...any) {
	t.events.tell(&note{fmt.Sprintf(format, args...)})
}

// epoch trains the rest of the epoch under way, validates, records both and begins the
// next.
func (t *trainer) epoch(ctx context.Context) error {
	t.events.tell(&phaseBegan{phaseTraining})
	if err := t.setRate(); err != nil {
		return err
	}
	if err := t.runBatches(); err != nil {
		return err
	}
	t.now.Seconds, t.now.Links = t.table.Seconds+t.preload, t.table.Links
	bound := t.table.Bound()
	t.now.BoundLink, t.now.BoundSeconds = bound.Link, bound.Alone()
	for _, s := range t.table.Links {
		switch s.Link {
		case linkRead:
			t.now.ReadSeconds = s.Busy
		case linkCompute:
			t.now.ComputeSeconds = s.Busy
		}
	}
	if err := t.gatherShares(true); err != nil {
		return err
	}
	if !t.root() {
		return t.follow()
	}
	t.checkpointLast()
	isBest, err := t.judge()
	if t.group.Lost() == nil && fault.EndedBy(ctx, err) {
		t.leave()
		return errors.Join(broadcast(t.group, &judged{Stop: true}, mostTold), errStopped)
	}
	if err != nil {
		return err
	}
	t.now.ReadRate = t.readRate()
	before := t.exchanged
	t.exchanged = t.group.Bytes()
	t.now.RankBytes = t.exchanged - before
	t.result.Epochs = append(t.result.Epochs, t.now)
	if err := t.events.publish(&epochJudged{&t.now, isBest, &t.table}); err != nil {
		return err
	}
	if err := broadcast(t.group, &judged{Epoch: t.now, BestEpoch: t.result.BestEpoch, ValidAccuracy: t.result.ValidAccuracy}, mostTold); err != nil {
		return err
	}
	t.begin(t.now.Epoch + 1)
	t.table, t.preload, t.fresh = t.gpu.add(t.batches.Table()), 0, true
	if t.now.Epoch == t.schedule.epochs && t.dir.extensible {
		t.fresh = false // what it goes on from comes before the last epoch was judged
	} else if t.checkpointDue(0, true) {
		if err := t.checkpoint(); err != nil {
			return err
		}
	}
	if t.alone() {
		return ctx.Err()
	}
	return nil // ranks stop after a step
}

// leave writes a checkpoint of what was done, since the run ends here.
func (t *trainer) leave() {
	if !t.fresh {
		return
	}
	if err := t.checkpoint(); err != nil {
		t.note("what was done since the latest checkpoint is lost: %v", err)
	}
}

// checkpointLast leaves a checkpoint of the last epoch before it is judged, from which the run goes
// on to more epochs as if it had been begun with them: the last epoch may be validated for the only
// reason that it is the last. The run does without it, where it cannot be written.
func (t *trainer) checkpointLast() {
	if t.engine == nil || t.now.Epoch != t.schedule.epochs-1 || t.options.Bound() != "" {
		return
	}
	if err := t.checkpoint(); err != nil {
		_ = t.dir.Checkpoints().Remove() // the part of it, whose room the weights may need
		t.note("no checkpoint of the last epoch, from which the run could be made longer: %v", err)
		return
	}
	t.dir.extensible = true
}

// follow takes over what rank 0 says of the epoch, and begins the next.
func (t *trainer) follow() error {
	var j judged
	if err := broadcast(t.group, &j, mostTold); err != nil {
		return err
	}
	if j.Stop {
		return errStopped
	}
	t.result.Epochs = append(t.result.Epochs, j.Epoch)
	t.result.BestEpoch, t.result.ValidAccuracy = j.BestEpoch, j.ValidAccuracy
	t.begin(t.now.Epoch + 1)
	t.table, t.preload = t.gpu.add(t.batches.Table()), 0
	return nil
}

// runBatches trains on what is left of the epoch's batches.
func (t *trainer) runBatches() error {
	t.running = time.Now()
	t.events.tell(&batchesRan{t.running})
	t.group.Steps(true)
	defer t.group.Steps(false)
	err := t.batches.Run(t.schedule.own() - t.schedule.before(t.done))
	for err == nil && t.done < t.schedule.perEpoch { // a step of the others alone
		err = t.endStep(t.schedule.after(t.done))
	}
	ran := time.Now()
	if err == nil {
		err = t.settle()
	}
	t.tally(time.Since(ran))
	t.gpu.idle(t.table, t.table.Seconds)
	t.running = time.Time{}
	if err == nil && t.recorder != nil {
		if l := timeline(t.recorder.Latest(timelineSpans), t.schedule.position); l != nil {
			t.dir.File.Timeline = l
		}
	}
	return err
}

// tally adds to the table where the time went since the last call. The last link went on
// for some more after the batches had run.
func (t *trainer) tally(more time.Duration) {
	u := t.batches.Table()
	u.Seconds += more.Seconds()
	u.Links[len(u.Links)-1].Busy += more.Seconds()
	t.table.Add(t.gpu.add(u))
}

// readRate returns the rate of all reads since the last call.
func (t *trainer) readRate() score.Score {
	before := t.counted
	t.counted = t.stack.Stats()
	done := t.counted.Sub(before)
	if done.BytesRead == 0 || done.InFlight <= 0 {
		return score.Undefined
	}
	return score.Score(float64(done.BytesRead) / done.InFlight.Seconds())
}

// judge scores the epoch, and keeps its weights if they are the best so far. Until the
// validation is over, what the epoch has summed up stays.
func (t *trainer) judge() (isBest bool, err error) {
	if t.engine == nil {
		return false, nil
	}
	validates := judges(&t.options.Recipe, t.validated, t.now.Epoch)
	if t.eval != nil && validates {
		t.events.tell(&phaseBegan{phaseValidating})
		began := time.Now()
		t.eval.epoch = t.now.Epoch
		if t.now.ValidAccuracy, t.now.ValidBytesRead, err = t.eval.validate(); err != nil {
			return false, err
		}
		t.now.ValidSeconds = time.Since(began).Seconds()
	}
	if t.seeds > 0 {
		t.now.Loss = score.Score(t.loss / float64(t.seeds))
	}
	t.now.TrainAccuracy = t.scorer.Score()
	// Where nothing is scored, the latest is the best.
	r := t.result
	if !validates || r.ValidAccuracy.Defined() && !(t.now.ValidAccuracy > r.ValidAccuracy) {
		return false, nil
	}
	r.BestEpoch, r.ValidAccuracy = t.now.Epoch, t.now.ValidAccuracy
	if t.best, err = t.engine.Snapshot(t.best[:0]); err != nil {
		return true, err
	}
	return true, t.saveWeights(rundir.WeightsFile, t.now.Epoch)
}

// saveWeights writes the present weights, those after an epoch. The last update of an
// epoch shows in no loss, so they are looked at.
func (t *trainer) saveWeights(name string, epoch int) error {
	list, err := tensors(t.engine)
	if err != nil {
		return err
	}
	for i := range list {
		if !cpu.Finite(list[i].Data) {
			return t.diverged(fmt.Sprintf("after epoch %d the weights %s are not finite", epoch, list[i].Name))
		}
	}
	return t.dir.SaveWeights(name, list, epoch)
}

// whole returns the context of the training pipeline. Of a step that has several batches all
// are computed before the run ends, so that it ends between two steps: the pipeline's context
// outlives the run's then.
func (t *trainer) whole(ctx context.Context) context.Context {
	if t.schedule.accumulate == 1 {
		return ctx
	}
	t.ended = ctx.Err
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ended := context.AfterFunc(t.group.Context(), func() { cancel(t.group.Lost()) })
	t.release = func() { ended(); cancel(nil) }
	return ctx
}

// step is the last link of the training pipeline, which computes a batch, and takes the step
// of which it is the last. A batch that fails or is abandoned leaves no trace in what is
// summed up.
func (t *trainer) step(ctx context.Context, sl *slot, item int) error {
	began := time.Now()
	epoch, batch := t.schedule.position(item)
	if t.engine != nil {
		if err := t.take(t.engine.Backward(ctx, sl.work, sl.Slot, engine.Place{Epoch: epoch, Batch: batch})); err != nil {
			return err
		}
	}
	t.open = true
	c := sl.Counts()
	t.now.BytesRead += c.BytesRead
	t.now.UsefulBytes += c.UsefulBytes
	t.now.SSDBytesRead += c.SSDRead
	t.now.SSDUsefulBytes += c.SSDUseful
	t.now.GraphBytesRead += c.GraphRead
	t.now.TopologyBytesRead += c.TopologyRead
	t.now.TopologyRequests += c.TopologyRequests
	t.now.RAMBytes += int64(c.RAMRows) * t.rowBytes
	t.now.GPUServedBytes += int64(c.GPURows) * t.rowBytes
	t.now.InputNodes += int64(len(sl.Batch().Input))
	t.now.Requests += c.Requests
	t.now.BufferBytes += int64(c.BufferRows) * t.rowBytes
	t.now.PageHits += int64(c.PageHits)
	t.now.PageMisses += int64(c.PageMisses)
	if t.engine != nil {
		if err := t.reduction.Add(t.engine, labelled(sl.Batch())); err != nil {
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
	if t.options.Slots == 1 {
		if err := t.settle(); err != nil {
			return err
		}
	}
	t.computed = computed{sl.kept, time.Since(began), c.BytesRead}
	if err := t.events.publish(&t.computed); err != nil || !last {
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
func (t *trainer) endStep(done int) error {
	signals, err := t.takeStep(done)
	if err != nil {
		return err
	}
	return t.stepped(done, signals)
}

// takeStep takes the step after which so many of the epoch's batches are done, with those of
// all ranks, and returns what any of them wants to follow.
func (t *trainer) takeStep(done int) (collective.Signals, error) {
	var ask collective.Signals
	if t.ended != nil && t.ended() != nil {
		ask |= collective.Stop
	}
	if t.root() && t.checkpointDue(done, false) {
		ask |= collective.Save
	}
	return t.reduction.Step(t.engine, ask)
}

// stepped counts the step that was taken, writes a checkpoint if one is due, and ends the run if
// it is to end here.
func (t *trainer) stepped(done int, signals collective.Signals) error {
	t.done, t.open, t.fresh = done, false, true
	t.taken.done = done
	t.events.tell(&t.taken)
	if signals == 0 {
		return nil
	}
	t.group.Steps(false)
	defer t.group.Steps(true)
	if err := t.gatherShares(false); err != nil {
		return err
	}
	stop := signals&collective.Stop != 0
	switch {
	case t.root() && stop:
		t.leave()
	case t.root():
		return t.checkpoint()
	}
	if stop {
		return errStopped
	}
	return nil
}

// settle waits until all is known of the batches so far.
func (t *trainer) settle() error {
	if t.engine == nil {
		return nil
	}
	return t.take(t.engine.Finish())
}

// take sums up what was found of a batch.
func (t *trainer) take(o *engine.Outcome, err error) error {
	if o != nil && (math.IsNaN(o.Loss) || math.IsInf(o.Loss, 0)) {
		return t.diverged(fmt.Sprintf("the loss is %v", o.Loss))
	}
	if err != nil || o == nil {
		return err
	}
	t.gpu.take(&o.Times)
	t.scorer.Add(o.Logits, o.Labels, o.Targets)
	f := found{Loss: o.Loss}
	for _, y := range o.Labels {
		if y != graph.Unlabelled {
			f.Seeds++
		}
	}
	t.outcome.found = f
	t.events.tell(&t.outcome)
	if t.alone() {
		t.sum(f)
	} else {
		t.found = append(t.found, f)
	}
	return nil
}

// diverged is the error of training that left the numbers which a float32 can hold: as
// what, a whole clause, shows.
func (t *trainer) diverged(what string) error {
	return fault.New(fault.ErrUsage, "%s: training diverged (try a lower --lr than %v), or the features are not finite", what, t.options.LR)
}

// timesEvery is how often the times of links are looked at while batches run; tests look after
// every step.
var timesEvery = time.Second

// sums returns what the monitor shows of the epoch under way.
func (t *trainer) sums() rundir.Epoch {
	if now := time.Now(); now.Sub(t.looked) >= timesEvery {
		t.tally(0)
		t.looked = now
	}
	e := t.now
	e.Seconds = t.table.Seconds
	if !t.running.IsZero() {
		e.Seconds += time.Since(t.running).Seconds()
	}
	t.gpu.idle(t.table, e.Seconds)
	e.Links, e.Loss = t.table.Links, score.Undefined
	if t.seeds > 0 {
		e.Loss = score.Score(t.loss / float64(t.seeds))
	}
	return e
}

// close stops loading and gives the slots back.
func (t *trainer) close() {
	if t.batches != nil {
		t.batches.Close()
	}
	if t.eval != nil {
		t.eval.close()
	}
	if t.release != nil {
		t.release()
	}
}
