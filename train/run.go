// Package train is the run: it trains a model on a pack's mini-batches, epoch by
// epoch, validates, keeps the best weights and records what happened.
//
//	pack ─► load graph ─► read features ─► assemble ─► compute ─► epoch's metrics
//	     └► evaluation batches ─────────────────────► validation and test scores
//
// A run's directory is live while it trains:
//
//	run.json             parameters, what they were resolved to, the run's state and,
//	                     once finished, its result
//	metrics.jsonl        a line per epoch
//	weights.safetensors  weights of the best validation epoch so far
//	final.safetensors    weights after the last epoch
//	trace.json           what every stage did when (on request), and in trace-1.json,
//	                     trace-2.json …, in the processes that went on with the run
//	checkpoints/         what an interrupted run goes on from (package checkpoint)
//	report.html          all of this on a page, for people
//	lock                 held while training
//
// A run is finished when run.json says so; final.safetensors is there then, checkpoints
// are not; in a run that ended early it is the other way round. A run that is resumed
// from its latest checkpoint ends with the bytes of one that was never interrupted, but
// for times in metrics.jsonl and what run.json and trace.json say of its processes.
//
// The weights follow from the pack's content, the parameters in run.json and the BLAS
// recorded there: not from threads, slots, memory or caches. Packs that were made with
// other caches of the same samples number a batch's input nodes otherwise. The weights are
// the same, but for last bits where the outermost layer multiplies before it aggregates
// and no input projection, which takes the nodes in an order of its own, precedes it.
// Evaluation takes them as they lie: with some BLAS a logit's last bits depend on that.
package train

import (
	"context"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"diskgnn/featurestore/packed"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
	"diskgnn/pipeline"
)

// traceSpans bounds a trace: 40 bytes and one line of JSON each. Beyond, the earliest
// are dropped.
const traceSpans = 1 << 18

// Run trains as the options say, and returns once the run's directory is complete. An
// error leaves a directory that says how far it got; when ctx ended, the error is of
// kind fault.ErrInterrupted.
func Run(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (Result, error) {
	g := newGPUDevice()
	defer g.close()
	return run(ctx, fsys, o, rep, parts{g.openStack, g.newEngine, planMemory})
}

// parts are what a run is put together from; tests put faulty ones in.
type parts struct {
	stack  func(kind string, o iostack.Options) (iostack.Stack, string, error)
	engine func(o *Options, f packfile.Facts) (engine, engineNeeds, error)
	plan   func(r *packfile.Reader, o *Options, needs engineNeeds, held int64) (memoryPlan, error)
}

func run(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter, p parts) (Result, error) {
	o.EnsureDefaults()
	var was *runFile
	if o.Resume {
		var err error
		if was, err = runToResume(fsys, o.Out); err != nil {
			return Result{}, err
		}
	}
	if was != nil {
		if err := was.checkOptions(o.Out); err != nil {
			return Result{}, err
		}
		if err := o.recall(was); err != nil {
			return Result{}, err
		}
	}
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	if was != nil && was.State == StateFinished && was.Result != nil {
		rep.Logf("%s is finished: there is nothing to do", o.Out)
		was.Result.State = ResultDone
		return *was.Result, nil
	}
	r := &runner{fs: fsys, options: o, report: rep, began: time.Now(), was: was}
	watch := budget.StartWatch(ctx)
	defer watch.Stop()
	defer r.close()
	if err := r.prepare(p); err != nil {
		return Result{}, r.remake(err)
	}
	err := r.train(ctx)
	if err == nil {
		r.result.PeakAnonBytes, r.result.PeakRSSBytes = watch.Stop()
		r.result.Seconds = time.Since(r.began).Seconds()
		err = r.dir.finish(&r.result)
	}
	if err == nil {
		return r.result, nil
	}
	if fault.EndedBy(ctx, err) {
		err = r.interrupted()
	} else {
		err = r.failed(err)
	}
	return Result{}, r.dir.abandon(err)
}

// runner holds what a run opens, in the order in which it is opened.
type runner struct {
	fs      vfs.FS
	options Options
	report  progress.Reporter
	began   time.Time // when the run would have begun, had it never been interrupted
	was     *runFile  // of the run that goes on, or nil

	pack   *packfile.Reader
	stack  iostack.Stack
	engine engine // nil with --engine none
	needs  engineNeeds
	plan   memoryPlan
	store  *packed.Store
	dir    *runDir
	from   *resumePoint // nil: the beginning
	undo   func()       // of the heap's limit
	result Result

	trainer *trainer
}

// prepare opens everything and makes the run's directory last, so that what cannot
// work leaves nothing behind.
func (r *runner) prepare(p parts) (err error) {
	o := &r.options
	if r.was == nil {
		err = checkOut(r.fs, o.Out, o.Force)
	} else {
		err = r.was.unlocked(r.fs, o.Out)
	}
	if err != nil {
		return err
	}
	if r.pack, err = packfile.Open(r.fs, o.Pack); err != nil {
		return ofPack(err)
	}
	f := r.pack.Facts()
	if fp := r.pack.Meta().Fingerprint; r.was != nil && fp != r.was.Pack {
		return fault.New(fault.ErrLineage, "%s was trained on the pack %.12s…, %s is %.12s…", o.Out, r.was.Pack, o.Pack, fp)
	}
	if err := o.resolve(f, r.pack.Params().Policy); err != nil {
		return err
	}
	held := budget.Now().Anon
	var how string
	if r.stack, how, err = p.stack(o.IO, iostack.Options{}); err != nil {
		return err
	}
	var needs engineNeeds
	if o.Engine != EngineNone {
		if r.engine, needs, err = p.engine(o, f); err != nil {
			return err
		}
		needs.scorers(o.Metric, r.pack)
	}
	r.needs = needs
	needs.direct = r.stack.Caps().Device
	if r.plan, err = p.plan(r.pack, o, needs, held); err != nil {
		return err
	}
	r.undo = budget.LimitHeap(o.Memory, r.plan.outside(needs))
	if r.store, err = packed.Open(r.fs, r.pack, r.stack, r.plan.layout); err != nil {
		return ofPack(err)
	}
	r.result = Result{State: ResultNew, Setup: r.setup(), Metric: o.Metric, BestEpoch: -1, ValidAccuracy: undefined, TestAccuracy: undefined}
	r.announce(how)
	file := r.file()
	if r.was != nil {
		err = r.resume(file)
	} else {
		r.dir, err = beginRun(r.fs, o.Out, o.Force, file)
	}
	if r.dir != nil {
		r.dir.note = r.report.Logf
	}
	return err
}

func (r *runner) setup() Setup {
	o := &r.options
	s := Setup{Engine: o.Engine, IO: r.stack.Name(), Threads: o.Threads, Memory: o.Memory, Planned: r.plan.total,
		CacheRows: r.plan.layout.CacheRows, CacheSize: r.plan.layout.RAMBytes, Slots: r.plan.slots, EvalSlots: r.plan.evalSlots}
	if r.engine == nil {
		return s
	}
	s.engineInfo = r.engine.Info()
	if d := r.engine.Device(); d != nil {
		s.GPUCacheRows, s.GPUCacheSize = r.plan.layout.GPURows, r.plan.layout.GPUCacheBytes
		held, _ := d.Held()
		s.GPUBytes = held + r.plan.gpuBytes()
	}
	return s
}

func (r *runner) file() runFile {
	o, meta := &r.options, r.pack.Meta()
	path, err := filepath.Abs(o.Pack)
	if err != nil {
		path = o.Pack
	}
	return runFile{Version: version(), Pack: meta.Fingerprint, Dataset: meta.Parents[stage.RoleDataset], PackPath: path, Preferences: o.preferences(), PackFacts: summarize(r.pack), Setup: r.result.Setup, Params: o.params(r.pack.Facts())}
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
func (r *runner) announce(how string) {
	f, s := r.pack.Facts(), &r.result.Setup
	r.report.Logf("I/O: %s", how)
	r.report.Logf("%s", r.plan.String())
	if note := r.plan.layout.Note; note != "" {
		r.report.Logf("%s", note)
	}
	if r.engine == nil {
		r.report.Logf("engine: none; batches are loaded, assembled and thrown away")
		return
	}
	if s.Engine == EngineGPU {
		r.report.Logf("engine: gpu, %s, %s, products in %s, layer orders %v", s.Device, s.BLAS, s.Precision, s.Orders)
		r.report.Logf("GPU memory: %s", budget.FormatBytes(s.GPUBytes))
	} else {
		r.report.Logf("engine: cpu, %d threads, %s, %s kernels, layer orders %v", s.Threads, s.BLAS, s.SIMD, s.Orders)
	}
	if s.note != "" {
		r.report.Logf("%s", s.note)
	}
	if f.Valid == 0 {
		r.report.Logf("no validation batches in %s: the last epoch counts as the best", r.options.Pack)
	}
	if f.Test == 0 {
		r.report.Logf("no test batches in %s: there will be no test score", r.options.Pack)
	}
}

// train fills the cache and runs the epochs.
func (r *runner) train(ctx context.Context) error {
	var recorder *pipeline.Recorder
	lane := pipeline.Lane(0)
	if r.options.Trace {
		recorder = pipeline.NewRecorder(traceSpans)
		lane = recorder.Lane("fill the cache")
		r.dir.recorder = recorder
	}
	t, err := r.newTrainer(recorder)
	if err != nil {
		return err
	}
	began := time.Now()
	bytes, err := r.store.PreloadFor(ctx, t.schedule.next(), r.report)
	if err != nil {
		return ofPack(err)
	}
	t.preload = time.Since(began).Seconds()
	r.result.PreloadBytes += bytes
	r.result.PreloadSeconds += t.preload
	if recorder != nil {
		recorder.Add(lane, 0, began)
	}
	if err := r.epochs(ctx, t); err != nil {
		return err
	}
	return r.dir.writeTrace()
}

// newTrainer returns a trainer that stands where the run goes on.
func (r *runner) newTrainer(recorder *pipeline.Recorder) (*trainer, error) {
	f, o := r.pack.Facts(), &r.options
	sch := newSchedule(o.Epochs, f.BatchesPerEpoch, f.Epochs, o.ShuffleBatches, o.Seed)
	t := &trainer{options: o, schedule: sch, store: r.store, engine: r.engine, dir: r.dir, result: &r.result,
		report: r.report, recorder: recorder, stack: r.stack, counted: r.stack.Stats(), rowBytes: int64(f.RowBytes),
		began: r.began, scorer: newScorer(trainJudging(o.Metric, r.pack))}
	r.trainer = t
	t.begin(0)
	if r.from == nil {
		return t, nil
	}
	t.kept = &standing{r.from.at.Epoch, r.from.at.Batch}
	sch.first = r.from.at.Epoch*f.BatchesPerEpoch + r.from.at.Batch
	err := t.goOn(r.from)
	r.from = nil // its memory is needed
	return t, err
}

// epochs runs the trainer and, whatever comes of it, gives its slots back.
func (r *runner) epochs(ctx context.Context, t *trainer) error {
	defer t.close()
	slots, err := newSlots(r.plan.slots, r.store.NewSlot, r.engine, false)
	if err != nil {
		return err
	}
	if err := t.start(ctx, slots); err != nil {
		return err
	}
	if r.plan.evalSlots > 0 {
		slots, err := newSlots(r.plan.evalSlots, r.store.NewEvalSlot, r.engine, true)
		if err != nil {
			return err
		}
		f := r.pack.Facts()
		t.eval = &evaluation{valid: f.Valid, tests: f.Test, rounds: r.options.Epochs - t.now.Epoch, engine: r.engine, scorer: newScorer(evalJudging(r.options.Metric, r.pack)), report: r.report, diverged: t.diverged}
		if err := t.eval.start(ctx, r.store, slots, t.recorder); err != nil {
			return err
		}
	}
	return t.run(ctx)
}

// close releases what prepare opened, in reverse.
func (r *runner) close() {
	if r.store != nil {
		_ = r.store.Close() // only read from
	}
	if r.engine != nil {
		r.engine.Close()
	}
	if r.stack != nil {
		_ = r.stack.Close()
	}
	if r.undo != nil {
		r.undo()
	}
}
