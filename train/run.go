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
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/all"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/host"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/devread"
	"diskgnn/pipeline"
	"diskgnn/presample/sampler/topology"
	"diskgnn/simulate/trace"
	"diskgnn/train/collective"
	"diskgnn/train/engine"
	"diskgnn/train/monitor"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// traceSpans bounds a trace: 40 bytes and one line of JSON each. Beyond, the earliest
// are dropped.
const traceSpans = 1 << 18

// Run trains as the options say, and returns once the run's directory is complete. An
// error leaves a directory that says how far it got; when ctx ended, the error is of
// kind fault.ErrInterrupted.
func Run(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (rundir.Result, error) {
	if err := o.resolveGPUs(); err != nil {
		return rundir.Result{}, err
	}
	g := newGPUDevice(o.Job.LocalIndex)
	defer g.close()
	return run(ctx, fsys, o, rep, parts{g.openStack, g.newEngine, planMemory, enterGroup, joinRanks})
}

// parts are what a run is put together from; tests put faulty ones in.
type parts struct {
	stack  func(kind string, o iostack.Options) (iostack.Stack, string, error)
	engine func(o *Options, f featurestore.Facts) (engine.Engine, engineNeeds, error)
	plan   func(c featurestore.Candidate, o *Options, needs engineNeeds) (memoryPlan, error)
	enter  func(limit int64, delegated bool) (group, error) // see memgroup.Enter
	join   func(ctx context.Context, o *Options, rep progress.Reporter) (*collective.Group, error)
}

// run attempts a run until no batch that is drawn while training is larger than what was
// made for it: an attempt that meets one leaves a checkpoint, and the next goes on from it.
//
// Of several ranks each runs so. What ends one of them early ends all.
func run(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter, p parts) (r rundir.Result, err error) {
	watch, err := o.listen(rep)
	if err != nil {
		return r, err
	}
	defer watch.Close()
	group, err := p.join(ctx, &o, rep)
	if err != nil {
		if fault.EndedBy(ctx, err) {
			err = fault.New(fault.ErrInterrupted, "interrupted before all ranks were there; run the command again")
		}
		return r, err
	}
	if group != nil {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(group.Context(), func() { cancel(group.Lost()) })()
		defer func() {
			if err != nil && !errors.Is(err, errAgreed) {
				group.Fail(err)
			}
			group.Close()
		}()
	}
	var d drawing
	defer d.close()
	recording, err := newRecording(fsys, o.Record, o.Out)
	if err != nil {
		return rundir.Result{}, err
	}
	for {
		r, err := attempt(ctx, fsys, o, rep, p, &d, recording, group, watch)
		if !d.again(err) {
			return r, recording.end(err)
		}
		rep.Logf("%v: making room for it", d.grown)
		o.Resume, o.Force = true, false
	}
}

func attempt(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter, p parts, d *drawing, rec *recording, group *collective.Group, live *monitor.Monitor) (rundir.Result, error) {
	o.EnsureDefaults()
	if err := o.hashWeights(fsys); err != nil {
		return rundir.Result{}, err
	}
	var was *rundir.File
	if o.Resume && o.root() {
		var err error
		if was, err = runToResume(fsys, o.Out); err != nil {
			return rundir.Result{}, err
		}
	}
	if o.Resume && o.root() && was == nil && o.Out != "" && o.places() == (all.Places{}) {
		return rundir.Result{}, fault.New(fault.ErrUsage, "--resume: there is no run at %s; to begin it, say what to train on: --pack, or --dataset with --samples or --fanout", o.Out)
	}
	if was != nil {
		if err := checkOptions(was, o.Out); err != nil {
			return rundir.Result{}, err
		}
		if o.done(was) {
			if err := o.trainedOn(fsys, was); err != nil {
				return rundir.Result{}, err
			}
		}
	}
	if group != nil {
		var done *rundir.Result
		var err error
		if was, done, err = shareEarlier(group, &o, was); err != nil {
			return rundir.Result{}, err
		}
		if done != nil {
			o.sayDone(done, rep)
			done.State = rundir.ResultDone
			return *done, nil
		}
	}
	if was != nil {
		if err := o.recall(was); err != nil {
			return rundir.Result{}, err
		}
	}
	if err := o.Validate(); err != nil {
		return rundir.Result{}, err
	}
	if was != nil && o.done(was) {
		o.sayDone(was.Result, rep)
		was.Result.State = rundir.ResultDone
		return *was.Result, nil
	}
	r := &runner{fs: fsys, options: o, report: rep, began: time.Now(), was: was, drawing: d, recording: rec, group: group, monitor: live}
	watch := budget.StartWatch(ctx)
	defer watch.Stop()
	defer r.close()
	if err := r.prepare(ctx, p); err != nil {
		if lost, ok := asLost(group, err); ok {
			return rundir.Result{}, r.lostRank(lost)
		}
		return rundir.Result{}, r.unprepared(ctx, err)
	}
	err := r.train(ctx)
	if err == nil {
		r.result.PeakAnonBytes, r.result.PeakRSSBytes = watch.Stop()
		r.result.Seconds = time.Since(r.began).Seconds()
		err = r.finish()
	}
	if err == nil {
		return r.result, nil
	}
	lost, isLost := asLost(group, err)
	switch {
	case isLost:
		err = r.lostRank(lost)
	case errors.Is(err, errStopped):
		err = agreed{r.interrupted()}
	case fault.EndedBy(ctx, err):
		err = r.interrupted()
	default:
		err = r.failed(err)
	}
	if r.dir == nil {
		return rundir.Result{}, err
	}
	return rundir.Result{}, r.dir.abandon(err)
}

// sayDone says that a run is finished, and why it does not go on to more epochs if these are wanted.
func (o *Options) sayDone(r *rundir.Result, rep progress.Reporter) {
	if r.StoppedEarly && o.gave("epochs") && o.Epochs > len(r.Epochs) {
		rep.Logf("%s is finished: it stopped early after %d epochs, and would have with any more; a larger --patience takes a run of its own", o.Out, len(r.Epochs))
		return
	}
	rep.Logf("%s is finished: there is nothing to do", o.Out)
}

// runner holds what a run opens, in the order in which it is opened.
type runner struct {
	fs      vfs.FS
	options Options
	report  progress.Reporter
	began   time.Time    // when the run would have begun, had it never been interrupted
	was     *rundir.File // of the run that goes on, or nil

	drawing   *drawing
	recording *recording
	found     featurestore.Candidate
	facts     featurestore.Facts
	stack     iostack.Stack
	needs     engineNeeds
	plan      memoryPlan
	store     featurestore.Store
	// replicas train together, each on one device or, as the only one, on the host.
	replicas []*replica
	reduceID []byte // of the communicator of the ranks' devices
	dir      *runDir
	from     *resumePoint      // nil: the beginning
	undo     func()            // of the heap's limit
	around   group             // around the process; nil: none
	group    *collective.Group // of the ranks; nil: there is one
	monitor  *monitor.Monitor  // that shows the run; nil: none
	result   rundir.Result

	trainer *trainer
}

// prepare opens everything and makes the run's directory last, so that what cannot
// work leaves nothing behind.
func (r *runner) prepare(ctx context.Context, p parts) (err error) {
	o := &r.options
	switch {
	case !o.writes():
	case r.was == nil:
		err = rundir.CheckOut(r.fs, o.Out, o.Force)
	default:
		err = r.was.Unlocked(r.fs, o.Out)
	}
	if err != nil {
		return err
	}
	which, err := r.find(ctx)
	if err != nil {
		return ofPack(err)
	}
	f := r.found.Facts()
	r.facts = f
	if r.was != nil {
		if err := sameSamples(r.was, o.Out, r.found); err != nil {
			return err
		}
	}
	if err := o.resolve(f, r.found.InOrder()); err != nil {
		return err
	}
	if err := o.checkSlice(r.found, featurestore.Slice{Rank: o.Job.Index, World: o.world(), Accumulate: o.Accumulate}); err != nil {
		return err
	}
	if err := r.chooseReduction(); err != nil {
		return err
	}
	var how string
	if r.stack, how, err = p.stack(o.IO, reads(r.found)); err != nil {
		return err
	}
	held := iostack.Held(r.stack)
	r.stack = r.recording.wrap(r.stack)
	var needs engineNeeds
	if o.Engine != EngineNone {
		if needs, err = r.newEngines(&p, f); err != nil {
			return err
		}
		for _, rep := range r.replicas {
			needs.scorers(o.Metric, &f)
			if r.was == nil {
				if err := r.beginWith(rep); err != nil {
					return err
				}
			}
		}
	} else {
		for range o.replicas() {
			r.replicas = append(r.replicas, &replica{reduction: collective.Alone{}})
		}
	}
	needs.stack = held
	needs.replicas = o.replicas()
	r.reducing(&needs)
	needs.direct = r.stack.Caps().Device
	if needs.gpu != nil {
		needs.reads, _ = devread.Of(r.stack)
	}
	if err := errors.Join(r.joinDevices(ctx, &needs), r.connect(&needs)); err != nil {
		return err
	}
	if r.was != nil {
		needs.state = min(max(r.was.Setup.StoreState, 0), mostState)
	}
	if err = r.drawing.pin(o, &needs, o.Epochs*f.BatchesPerEpoch); err != nil {
		return err
	}
	r.needs = needs
	if r.plan, err = p.plan(r.found, o, needs); err != nil {
		return r.drawing.refused(err)
	}
	if err := r.confine(p.enter); err != nil {
		return err
	}
	r.undo = budget.LimitHeap(o.Memory, r.plan.outside(needs)-r.drawing.heap(&r.plan))
	if err = r.drawing.place(ctx, o, r.report); err != nil {
		return err
	}
	if r.store, err = r.found.Open(r.stack, r.plan.layout); err != nil {
		return ofPack(err)
	}
	for i, rep := range r.replicas {
		if rep.device == nil {
			i = 0 // the host's
		}
		rep.view = r.store.View(i)
	}
	if err := r.unite(); err != nil {
		return err
	}
	r.result = rundir.Result{State: rundir.ResultNew, Setup: r.setup(), Metric: o.Metric, BestEpoch: -1, ValidAccuracy: score.Undefined, TestAccuracy: score.Undefined}
	r.announce(which, how)
	file := r.file()
	if err := r.agree(&file); err != nil {
		return err
	}
	switch {
	case !o.writes():
	case r.was != nil:
		err = r.resume(file)
	default:
		r.dir, err = beginRun(r.fs, o.Out, o.Force, file)
	}
	if r.dir != nil {
		r.dir.note = r.report.Logf
		r.monitor.Begin(o.Out, r.dir.File, r.result.Epochs, pageOf(r.fs, r.dir.Path))
	}
	if err == nil {
		err = r.shareStand()
	}
	return err
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
	err := broadcast(r.group, &end)
	r.result.BestEpoch, r.result.ValidAccuracy, r.result.TestAccuracy, r.result.StoppedEarly = end.BestEpoch, end.ValidAccuracy, end.TestAccuracy, end.StoppedEarly
	return err
}

// mostState is more than the state of any store has.
const mostState = 1 << 50

// reads returns the options of the storage stack that suits a store.
func reads(c featurestore.Candidate) iostack.Options {
	if r, ok := c.(featurestore.Reads); ok {
		return r.Reads()
	}
	return iostack.Options{}
}

// find finds the store, and with it where batches come from. It returns which it is.
func (r *runner) find(ctx context.Context) (which string, err error) {
	o := &r.options
	if !o.Live() {
		r.found, which, err = all.Find(r.fs, o.Store, o.places())
		return which, err
	}
	source, err := r.drawing.open(ctx, r.fs, o, r.report)
	if err != nil {
		return "", err
	}
	r.found, which, err = all.On(o.Store, o.places(), source)
	return which, err
}

func (r *runner) setup() rundir.Setup {
	o := &r.options
	s := rundir.Setup{Engine: o.Engine, IO: r.stack.Name(), Threads: o.Threads, Memory: o.Memory, Planned: r.plan.total,
		CacheRows: r.plan.layout.CacheRows, CacheSize: r.plan.layout.RAMBytes, Slots: r.plan.slots, EvalSlots: r.plan.evalSlots,
		CachePolicy: r.plan.layout.Policy, FaultThreads: r.plan.layout.FaultThreads, PageCache: r.pageCache(), Unchecked: r.plan.layout.Unchecked, StoreState: max(r.plan.layout.StateBytes, r.needs.state)}
	if o.world() > 1 {
		s.Ranks = o.world()
	}
	if source := r.drawing.source; source != nil && source.Topology() != topology.Mapped {
		s.Topology, s.TopologySize = source.Topology(), source.TopologyBytes()
	}
	if r.engine() == nil {
		return s
	}
	s.Info = r.engine().Info()
	s.Note = cmp.Or(r.needs.note, s.Note)
	if d := r.needs.gpu; d != nil {
		s.GPUCacheRows, s.GPUCacheSize = r.plan.layout.GPURows, r.plan.layout.GPUCacheBytes
		held, _ := d.Held()
		s.GPUBytes = held + r.plan.gpuBytes() + r.drawing.gpuBytes(&r.plan)
	}
	return s
}

func (r *runner) file() rundir.File {
	o, l := &r.options, r.found.Lineage()
	here := host.Here()
	f := rundir.File{Version: version(), Command: o.Command, Host: &here, Store: r.found.Name(), Pack: l.Store, Samples: l.Samples, Dataset: l.Dataset,
		PackPath: absolute(o.Pack), DatasetPath: absolute(o.Dataset), SamplesPath: absolute(o.Samples), WeightsPath: absolute(o.WeightsPath),
		Preprocessing: r.preprocessing(), LabelKind: dataset.LabelKind(r.facts.MultiLabel()),
		Preferences: o.preferences(), PackFacts: summarize(r.found), Setup: r.result.Setup, Params: o.params()}
	if r.was != nil {
		f.Pack, f.Samples = r.was.Pack, r.was.Samples // which checkpoints name
		if r.was.Command != nil {
			f.Command = r.was.Command
		}
	}
	if o.first > 0 && o.first != o.Epochs {
		f.FirstEpochs = o.first
	}
	return f
}

// preprocessing returns how the dataset was preprocessed, nil where that is not known: a pack has it
// from its dataset.
func (r *runner) preprocessing() *dataset.Preprocessing {
	if r.options.Pack != "" {
		return dataset.RecordedPreprocessing(r.fs, r.options.Pack)
	}
	d, err := dataset.Open(r.fs, r.options.Dataset)
	if err != nil {
		return nil // the store, which is open, says what is wrong with it
	}
	p, err := d.Preprocessing()
	if err != nil {
		return nil
	}
	return &p
}

// absolute returns where a directory is for the process that goes on, "" for none.
func absolute(dir string) string {
	if dir == "" {
		return ""
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	return path
}

// version names the program that runs.
func version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return runtime.Version()
	}
	return b.Main.Version + " " + b.GoVersion
}

// announce says what was chosen.
func (r *runner) announce(which, how string) {
	f, s := r.facts, &r.result.Setup
	r.report.Logf("store: %s", which)
	r.report.Logf("I/O: %s", how)
	r.report.Logf("%s", r.plan.String())
	if note := r.plan.layout.Note; note != "" {
		r.report.Logf("%s", note)
	}
	if r.plan.layout.QueueBytes > 0 {
		r.report.Logf("the GPU submits the reads of training batches, and completes them when it takes the batch")
	}
	if r.engine() == nil {
		r.report.Logf("engine: none; batches are loaded, assembled and thrown away")
		return
	}
	if s.Engine == EngineGPU {
		r.report.Logf("engine: gpu, %s, %s, products in %s, layer orders %v", s.Device, s.BLAS, s.Precision, s.Orders)
		r.report.Logf("GPU memory: %s", budget.FormatBytes(s.GPUBytes))
	} else {
		r.report.Logf("engine: cpu, %s, %s, %s kernels, layer orders %v", units.Of(s.Threads, "thread"), s.BLAS, s.SIMD, s.Orders)
	}
	if s.Note != "" {
		r.report.Logf("%s", s.Note)
	}
	if r.options.InitFrom != "" {
		r.report.Logf("the weights begin as those of %s", r.options.WeightsPath)
	}
	if o := &r.options; o.world() > 1 {
		r.report.Logf("steps of %d batches, of which each of %d ranks computes %d", o.Accumulate, o.world(), o.Accumulate/o.world())
	}
	if f.Valid == 0 {
		r.report.Logf("no validation batches in %s: the last epoch counts as the best", r.found.Dir())
	}
	if f.Test == 0 {
		r.report.Logf("no test batches in %s: there will be no test score", r.found.Dir())
	}
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
	t := r.trainer
	began := time.Now()
	r.monitor.Phase(monitor.Filling)
	bytes, err := r.store.Fill(ctx, t.schedule.next(), r.report)
	if err != nil {
		return ofPack(err)
	}
	t.preload = time.Since(began).Seconds()
	r.result.PreloadBytes += bytes
	r.result.PreloadSeconds += t.preload
	r.monitor.Preloaded(bytes, t.preload)
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
		report: r.report, recorder: recorder, recording: r.recording, stack: r.stack, counted: r.stack.Stats(), rowBytes: int64(f.RowBytes),
		began: r.began, scorer: score.New(trainJudging(o.Metric, &r.facts))}
	sch.divide(o.Accumulate, rep.rank(), o.world())
	t.unscored = t.scorer.State()
	if rep == r.replicas[0] {
		r.trainer, t.monitor = t, r.monitor
	} else {
		t.result, t.report, t.recorder = &rundir.Result{Epochs: slices.Clone(r.result.Epochs), BestEpoch: r.result.BestEpoch, ValidAccuracy: r.result.ValidAccuracy}, progress.Discard, nil
	}
	t.begin(0)
	if r.from == nil {
		if r.was != nil { // else prepare has done so
			return t, r.beginWith(rep)
		}
		return t, nil
	}
	t.kept = &standing{r.from.at.Epoch, r.from.at.Batch}
	sch.begin(r.from.at.Epoch, r.from.at.Batch)
	return t, t.goOn(r.from)
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
	slots, err := t.newSlots(r.plan.slots, false)
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
	if r.plan.evalSlots > 0 && t.root() {
		slots, err := t.newSlots(r.plan.evalSlots, true)
		if err != nil {
			return err
		}
		f := r.facts
		t.eval = &evaluation{valid: f.Valid, tests: f.Test, rounds: r.options.Epochs - t.now.Epoch, replica: t.replica, scorer: score.New(evalJudging(r.options.Metric, &r.facts)), report: r.report, diverged: t.diverged}
		if r.options.planning {
			t.eval.valid, t.eval.tests, t.eval.rounds = min(f.Valid, plannedBatches), 0, 1
		}
		if err := t.eval.start(ctx, slots, t.recorder); err != nil {
			return err
		}
	}
	return nil
}

// close releases what prepare opened, in reverse.
func (r *runner) close() {
	if r.store != nil {
		_ = r.store.Close() // only read from
	}
	r.drawing.unpin()
	r.leaveDevices()
	r.separate()
	for _, rep := range r.replicas {
		if rep.engine != nil {
			rep.engine.Close()
		}
	}
	if r.stack != nil {
		_ = r.stack.Close()
	}
	if r.undo != nil {
		r.undo()
	}
	r.release()
}
