package train

import (
	"context"
	"errors"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/driverate"
	"diskgnn/internal/fault"
	"diskgnn/internal/program"
	"diskgnn/iostack"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/epoch"
	"diskgnn/train/ranks"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// usual are the parts of a run outside of tests. stack opens its storage stack, engine makes its
// engine.
func usual(stack func(kind string, o iostack.Options) (iostack.Stack, string, error), engine func(w engineWish) (engine.Engine, engineNeeds, error)) parts {
	return parts{stack, engine, decide.Decide, enterGroup, ranks.Join, &ranks.ByNCCL, measureDrive(driverate.Limited)}
}

// prepare opens everything and makes the run's directory last, so that a failure leaves nothing
// behind.
func (r *runner) prepare(ctx context.Context, o *Options) error {
	facts, err := r.probe(ctx, o)
	if err != nil {
		return err
	}
	if r.decision, err = r.parts.decide(o.decided(), facts); err != nil {
		return r.drawing.refused(err)
	}
	if err := r.arrange(); err != nil {
		return err
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	return r.enter()
}

// open opens the store as decided, and unites the replicas.
func (r *runner) open(ctx context.Context) (err error) {
	if err := r.confine(r.parts.enter); err != nil {
		return err
	}
	r.onClose(budget.LimitHeap(r.decision.Options.Memory, r.outside()))
	if err = r.drawing.place(ctx, r.report); err != nil {
		return err
	}
	if r.store, err = r.found.Open(r.stack, r.decision.Memory.Layout); errors.Is(err, fault.ErrDevice) {
		return noGPUEngine(err)
	} else if err != nil {
		return epoch.OfPack(err)
	}
	r.onClose(func() { _ = r.store.Close() }) // only read from
	for i, rep := range r.replicas {
		if rep.Device == nil {
			i = 0 // the host's
		}
		rep.View = r.store.View(i)
	}
	return r.unite()
}

// enter reports the decision, and begins the run's directory or resumes it, once all ranks agree.
func (r *runner) enter() error {
	o := &r.decision.Options
	r.result = rundir.Result{State: rundir.ResultNew, Setup: r.setup(), Metric: o.Metric, BestEpoch: -1, ValidAccuracy: score.Undefined, TestAccuracy: score.Undefined}
	for _, line := range r.decision.Lines(&r.result.Setup) {
		r.report.Logf("%s", line)
	}
	if r.exact != nil {
		r.report.Logf("validation: %s", r.exact)
	}
	file := r.file()
	mine, err := r.decision.Identity(&file)
	if err != nil {
		return err
	}
	if err := ranks.Agree(r.group, mine); err != nil {
		return err
	}
	switch {
	case !r.writes():
	case r.was != nil:
		err = r.resume(file)
	default:
		r.dir, err = beginRun(r.fs, o.Out, o.Force, file)
	}
	if r.dir != nil {
		r.dir.note, r.dir.Sources = r.report.Logf, r.unchanged
		r.monitor.Begin(o.Out, r.dir.File, r.result.Epochs, pageOf(r.fs, r.dir.Path))
	}
	if err != nil {
		return err
	}
	from, err := epoch.ShareStand(r.group, r.from, o.Epochs, max(ranks.MostEarlier, o.Memory/8), r.limits())
	if err == nil && from != r.from {
		r.goOn(from)
		r.report.Logf("rank %d resumes after %d epochs and %d batches", o.Rank, from.At.Epoch, from.At.Batch)
	}
	return err
}

// limits returns the upper bounds of a checkpoint of the run.
func (r *runner) limits() epoch.Limits {
	o := &r.decision.Options
	return epoch.Limits{PerEpoch: r.facts.BatchesPerEpoch, Accumulate: o.Accumulate, Seeds: epoch.TrainJudging(o.Metric, &r.facts).Rows, Sections: r.decision.Checkpoint()}
}

// unchanged returns an error of kind fault.ErrCorrupt if the mapped files of the batches have
// changed since they were opened.
func (r *runner) unchanged() error {
	if source := r.drawing.source; source != nil {
		if err := source.Unchanged(); err != nil {
			return err
		}
	}
	if m, ok := r.store.(featurestore.Mapped); ok {
		return m.Unchanged()
	}
	return nil
}

// setup returns how the run computes and uses memory, for run.json.
func (r *runner) setup() rundir.Setup {
	var held int64
	if d := r.needs.gpu; d != nil {
		held, _ = d.Held()
	}
	return r.decision.Setup(held)
}

// file returns the content of run.json.
func (r *runner) file() rundir.File {
	f, o, here := r.decision.File(r.result.Setup), &r.decision.Options, program.ThisHost()
	f.Version, f.ProgramHash, f.Host = program.Version(), program.Hash(), &here
	f.PackPath, f.DatasetPath, f.SamplesPath, f.WeightsPath = absolute(o.Pack), absolute(o.Dataset), absolute(o.Samples), absolute(o.WeightsPath)
	f.Preprocessing, f.ClassNames = r.preprocessing(), r.classNames()
	return f
}

// preprocessing returns how the dataset was preprocessed, nil if unknown. A pack copies this from
// its dataset.
func (r *runner) preprocessing() *dataset.Preprocessing {
	if r.decision.Options.Pack != "" {
		return dataset.RecordedPreprocessing(r.fs, r.decision.Options.Pack)
	}
	d, err := dataset.OpenAny(r.fs, r.decision.Options.Dataset)
	if err != nil {
		return nil // the open store reports its own damage
	}
	p, err := d.Preprocessing()
	if err != nil {
		return nil
	}
	return &p
}

// classNames returns the names of the dataset's classes, nil if it has none, or if they are unknown. A
// pack copies them from its dataset.
func (r *runner) classNames() []string {
	o := &r.decision.Options
	if o.Pack != "" {
		return dataset.RecordedClassNames(r.fs, o.Pack)
	}
	d, err := dataset.OpenAny(r.fs, o.Dataset)
	if err != nil {
		return nil // the open store reports its own damage
	}
	names, err := d.CarriedClassNames()
	if err != nil {
		r.report.Logf("the run goes without the names of its classes: %v", err)
	}
	return names
}

// resume continues the run in the directory.
func (r *runner) resume(file rundir.File) (err error) {
	if err := decide.SameArithmetic(r.was, file.Setup.Info); err != nil {
		return err
	}
	var from *epoch.Point
	o := &r.decision.Options
	if r.dir, from, err = continueRun(r.fs, o.Out, r.was, file, r.limits(), r.report); err != nil || from == nil {
		return err
	}
	if had := r.was.Params.Epochs; o.Epochs > had {
		r.report.Logf("%s had %d epochs: it continues to %d", o.Out, had, o.Epochs)
	}
	r.goOn(from)
	r.report.Logf("resumed after %d epochs and %d batches", from.At.Epoch, from.At.Batch)
	if changed := changes(r.was, &file); changed != "" {
		r.report.Logf("resumed with another setup: %s", changed)
	}
	return nil
}
