package trained

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strings"
	"time"

	"diskgnn/featurestore"
	"diskgnn/featurestore/stores"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	stacks "diskgnn/iostack/all"
	"diskgnn/train/cpu"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/epoch"
	"diskgnn/train/score"
	"diskgnn/train/terminal"
)

// Evaluation is the scores of a run's weights, with the time and the reads that they took.
type Evaluation struct {
	score.Outcome
	// Exact reports that every node was computed from all of its neighbours, rather than the
	// sampled neighbours of a pack.
	Exact  bool   `json:"exact"`
	Metric string `json:"metric"`
	// ClassNames are the names of the classes, in their order, as the run records them.
	ClassNames []string `json:"class_names,omitempty"`
	// TrainAccuracy is undefined for packs: they hold no batches to score the training nodes by.
	TrainAccuracy score.Score `json:"train_accuracy"`
	ValidAccuracy score.Score `json:"valid_accuracy"`
	TestAccuracy  score.Score `json:"test_accuracy"`
}

// PackOptions choose the weights, the pack to score them on, and the resources for it.
type PackOptions struct {
	Stores  stores.List // one of them reads packs
	Run     string      // directory of a run
	Pack    string      // directory of a finished pack of the same dataset
	Weights string      // best or final; "" means best
	Memory  int64       // anonymous and locked bytes; 0 means budget.Default
	Threads int         // 0 means GOMAXPROCS
	IO      string      // a kind that iostack/all knows; "" means auto
	BLAS    string      // a kind that blas.Open knows; "" means auto
}

// EnsureDefaults replaces zero values by their defaults.
func (o *PackOptions) EnsureDefaults() {
	o.Weights = cmp.Or(o.Weights, WeightsBest)
	o.Threads = cmp.Or(o.Threads, runtime.GOMAXPROCS(0))
	o.IO = cmp.Or(o.IO, stacks.Auto)
	o.BLAS = cmp.Or(o.BLAS, blas.Auto)
	if o.Memory == 0 {
		o.Memory, _ = budget.Default()
	}
}

// Validate returns an error that names the first invalid flag. Call EnsureDefaults before.
func (o *PackOptions) Validate() error {
	if o.Pack == "" {
		return fault.New(fault.ErrUsage, "--pack is missing: name the directory that `diskgnn pack` made")
	}
	return CheckEngineFlags(o.Run, o.Weights, o.BLAS, o.Memory, o.Threads)
}

// CheckEngineFlags checks the options that all commands with a run's weights share.
func CheckEngineFlags(run, weights, library string, memory int64, threads int) error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	choices := []string{WeightsBest, WeightsFinal}
	libraries := blas.Kinds()
	switch {
	case run == "":
		return usage("--run is missing: name the directory that `diskgnn train` made")
	case !slices.Contains(choices, weights):
		return usage("--weights %s is not one of %s", weights, strings.Join(choices, ", "))
	case !slices.Contains(libraries, library):
		return usage("--blas %s is not one of %s", library, strings.Join(libraries, ", "))
	case memory < 0:
		return usage("--memory %d: give a positive size", memory)
	case threads < 1 || threads > engine.MaxThreads:
		return usage("--threads %d: give a number from 1 to %d", threads, engine.MaxThreads)
	}
	return nil
}

// EvaluatePack scores a run's weights on the validation and test batches of a pack. The pack may be
// another than the run's, if it was made from the same dataset.
func EvaluatePack(ctx context.Context, fsys vfs.FS, o PackOptions, rep progress.Reporter) (Evaluation, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return Evaluation{}, err
	}
	began := time.Now()
	watch := budget.StartWatch(ctx)
	defer watch.Stop()
	p := &packEvaluation{fs: fsys, options: o, report: rep}
	defer p.close()
	err := p.prepare()
	if err == nil {
		err = p.score(ctx)
	}
	if fault.EndedBy(ctx, err) {
		err = fault.New(fault.ErrInterrupted, "interrupted before scoring ended")
	}
	if err != nil {
		return Evaluation{}, epoch.RemakePack(err, o.Pack)
	}
	p.result.PeakAnonBytes, p.result.PeakRSSBytes = watch.Stop()
	p.result.Seconds = time.Since(began).Seconds()
	return p.result, nil
}

// packEvaluation holds the resources of EvaluatePack, in the order in which they are opened.
type packEvaluation struct {
	fs      vfs.FS
	options PackOptions
	report  progress.Reporter

	pack   featurestore.Candidate
	facts  featurestore.Facts
	stack  iostack.Stack
	engine *cpu.Engine
	undo   func() // of the heap's limit
	store  featurestore.Store
	slots  int
	held   int64 // bytes of rows that the store holds
	result Evaluation
}

func (p *packEvaluation) prepare() error {
	o := &p.options
	run, err := Open(p.fs, o.Run)
	if err != nil {
		return err
	}
	for _, note := range []string{run.Note(), run.Unfinished()} {
		if note != "" {
			p.report.Logf("%s", note)
		}
	}
	if p.pack, _, err = o.Stores.Find(p.fs, stores.Auto, stores.Places{Pack: o.Pack}); err != nil {
		return epoch.OfPack(err)
	}
	p.facts = p.pack.Facts()
	if err := checkPack(run, p.pack); err != nil {
		return err
	}
	var how string
	if p.stack, how, err = stacks.Open(o.IO, iostack.Options{}); err != nil {
		return err
	}
	p.report.Logf("I/O: %s", how)
	layout, err := p.pack.PlanEval(0)
	if err != nil {
		return err
	}
	left, err := p.newEngine(run, layout)
	if err != nil {
		return err
	}
	if layout, err = p.pack.PlanEval(left); err != nil {
		return err
	}
	p.held = layout.HeldBytes
	p.undo = budget.LimitHeap(o.Memory, iostack.Held(p.stack)+layout.HeldBytes+int64(p.slots)*layout.EvalSlotBytes)
	if p.store, err = p.pack.Open(p.stack, layout); err != nil {
		return epoch.OfPack(err)
	}
	info := p.engine.Info()
	p.result = Evaluation{Metric: run.Metric(), ClassNames: run.ClassNames(), TrainAccuracy: score.Undefined, Outcome: score.Outcome{Run: o.Run, RunState: run.State(), Engine: decide.EngineCPU, BLAS: info.BLAS,
		SIMD: info.SIMD, Threads: o.Threads, IO: p.stack.Name(), Weights: o.Weights, Memory: o.Memory}}
	return nil
}

// checkPack makes sure that the run's weights can be scored on the pack.
func checkPack(run *Run, pack featurestore.Candidate) error {
	f := pack.Facts()
	if err := run.CheckDataset("the dataset of "+pack.Dir(), pack.Lineage().Dataset); err != nil {
		return err
	}
	if err := run.CheckShape(pack.Dir(), f.Dim, f.Classes, f.MultiLabel()); err != nil {
		return err
	}
	if m := run.Model(); m.Layers() != len(f.Fanout) {
		return fault.New(fault.ErrInput, "%s has %d layers, but %s was sampled for %d layers", run.Dir(), m.Layers(), pack.Dir(), len(f.Fanout))
	}
	if f.Valid+f.Test == 0 {
		return fault.New(fault.ErrInput, "%s has no validation and no test batches", pack.Dir())
	}
	return nil
}

// newEngine makes the engine, if the evaluation's whole memory fits, and returns the memory left, in bytes.
func (p *packEvaluation) newEngine(run *Run, layout featurestore.Layout) (left int64, err error) {
	o, f := &p.options, &p.facts
	scorer, _ := score.Bytes(epoch.EvalJudging(run.Metric(), f))
	fixed := budget.Reserve + iostack.Held(p.stack) + scorer + layout.KeepBytes + layout.DecodeBytes + layout.TableBytes
	e, bytes, err := run.NewEngine(EngineOptions{Weights: o.Weights, Threads: o.Threads, BLAS: o.BLAS}, fixed, o.Memory)
	if err != nil {
		return 0, err
	}
	p.engine = e
	more, err := e.EvaluatorBytes(f.EvalSizes)
	if err != nil {
		return 0, err
	}
	fixed += bytes + more
	if err := budget.Check("the engine", fixed, o.Memory); err != nil {
		return 0, err
	}
	if err := e.EvaluateAt(f.EvalSizes); err != nil {
		return 0, err
	}
	_, work := e.WorkBytes()
	slot := layout.EvalSlotBytes + work
	if p.slots = decide.MostEvalSlots; fixed+2*slot > o.Memory || f.Valid+f.Test == 1 {
		p.slots = 1
	}
	need := fixed + int64(p.slots)*slot
	return o.Memory - need, budget.Check("the evaluation", need, o.Memory)
}

// score evaluates all batches.
func (p *packEvaluation) score(ctx context.Context) error {
	r := &epoch.Replica{View: p.store.View(0), Engine: p.engine}
	events := epoch.Stream{terminal.New(p.report, nil, true, true), terminal.Watch(p.report, "")}
	var read int64
	var err error
	if p.held > 0 {
		if read, err = p.store.Fill(ctx, 0, p.report); err != nil {
			return epoch.OfPack(err)
		}
	}
	p.result.ValidAccuracy, p.result.TestAccuracy, p.result.BytesRead, err = r.Evaluate(ctx, &p.facts, p.result.Metric, p.slots, p.stack, events, p.diverged)
	p.result.BytesRead += read
	return err
}

// diverged is the error of weights that give non-finite logits.
func (p *packEvaluation) diverged(what string) error {
	return fault.New(fault.ErrInput, "%s: the weights of %s diverged, or the features of %s are not finite", what, p.options.Run, p.options.Pack)
}

// close releases prepare's resources in reverse order.
func (p *packEvaluation) close() {
	if p.store != nil {
		_ = p.store.Close() // only read from
	}
	if p.undo != nil {
		p.undo()
	}
	if p.engine != nil {
		p.engine.Close()
	}
	if p.stack != nil {
		_ = p.stack.Close()
	}
}
