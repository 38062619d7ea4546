package train

import (
	"cmp"
	"context"
	"errors"

	"diskgnn/featurestore"
	"diskgnn/iostack"
	"diskgnn/pipeline"
	"diskgnn/train/collective"
	"diskgnn/train/decide"
	"diskgnn/train/epoch"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// mostState exceeds the state of any store, in bytes.
const mostState = 1 << 50

// probe opens the store's metadata, the storage stack, the devices and their engines, from which
// the run's facts follow. It refuses a combination that does not work before it opens more.
func (r *runner) probe(ctx context.Context, o *Options) (f decide.Facts, err error) {
	if err := r.checkOut(o); err != nil {
		return f, err
	}
	which, err := r.find(ctx, o)
	if err != nil {
		return f, epoch.OfPack(err)
	}
	f.Store = storeOf(r.found, which)
	r.facts = f.Store.Facts
	if d := recipe.Defaults().Model; r.facts.Types != nil && o.Model == d && (o.Engine == EngineNone || !o.gave("model")) {
		o.Model = string(model.RSAGE) // the default for typed graphs; without an engine, any of their models
	}
	if o.Recipe, err = decide.Resolve(o.decided(), &f.Store, r.was); err != nil {
		return f, err
	}
	if err := r.chooseReduction(o, r.parts.reduce); err != nil {
		return f, err
	}
	if f.IO.How, err = r.openStack(o.IO); err != nil {
		return f, err
	}
	f.IO.Name = r.stack.Name()
	if err := r.accumulate(ctx, o); err != nil {
		return f, err
	}
	if err := r.openEngines(ctx, o); err != nil {
		return f, err
	}
	if f.Exact, err = r.openValidator(ctx, o); err != nil {
		return f, err
	}
	steps := o.Epochs * r.facts.BatchesPerEpoch
	r.onClose(r.drawing.unpin)
	if err := r.drawing.pin(o, &r.needs, steps); err != nil {
		return f, err
	}
	f.Needs, f.Note, f.Unsummed, f.Drawing = r.needs.Needs, r.needs.note, r.unsummed, r.drawing.facts()
	if e := r.engine(); e != nil {
		info := e.Info()
		f.Info = &info
	}
	f.Was, f.Said, f.Records, f.Plan = r.was, r.said, o.records(&r.facts), planOn(r.found, r.needs)
	return f, nil
}

// records returns the bytes in which the run records spans and reads.
func (o *Options) records(f *featurestore.Facts) (n int64) {
	if o.Trace {
		n = pipeline.RecorderBytes(traceSpans)
	}
	if o.Record != "" {
		wanted := o.decided()
		n += recordBytes(f, wanted.UnderWay(o.Epochs*f.BatchesPerEpoch))
	}
	return n
}

// planOn returns a store's division of its memory on the engines' devices.
func planOn(c featurestore.Candidate, needs engineNeeds) func(featurestore.PlanOptions) (featurestore.Layout, error) {
	return func(o featurestore.PlanOptions) (featurestore.Layout, error) {
		o.GPU, o.Direct, o.Reads = needs.gpu, needs.direct, needs.reads
		if b := needs.beside; b != nil {
			o.Peers, o.Divide = b.peers, b.divide
		}
		return c.Plan(o)
	}
}

// checkOut refuses a run's directory that cannot be made or resumed.
func (r *runner) checkOut(o *Options) error {
	switch {
	case !r.writes():
		return nil
	case r.was == nil:
		return rundir.CheckOut(r.fs, o.Out, o.Force)
	}
	return r.was.Unlocked(r.fs, o.Out)
}

// reads returns the options of the storage stack that suits a store.
func reads(c featurestore.Candidate) iostack.Options {
	if r, ok := c.(featurestore.Reads); ok {
		return r.Reads()
	}
	return iostack.Options{}
}

// find finds the store, and with it the source of batches. It returns a text that names the store.
func (r *runner) find(ctx context.Context, o *Options) (which string, err error) {
	if !o.Live() {
		r.found, which, err = o.Stores.Find(r.fs, o.Store, o.places())
		return which, err
	}
	source, err := r.drawing.open(ctx, r.fs, o, r.was.First(), r.report)
	if err != nil {
		return "", err
	}
	r.found, which, err = o.Stores.On(o.Store, o.places(), source)
	return which, err
}

// openStack opens the storage stack, and returns the reason for choosing it.
func (r *runner) openStack(kind string) (how string, err error) {
	stack, how, err := r.parts.stack(kind, reads(r.found))
	if err != nil {
		return "", err
	}
	r.needs.Stack = iostack.Held(stack)
	r.stack = r.recording.wrap(stack)
	r.onClose(func() { _ = r.stack.Close() })
	return how, nil
}

// openEngines makes an engine for every replica, joins the ranks' devices, and settles how much
// memory the engines hold and leave.
func (r *runner) openEngines(ctx context.Context, o *Options) error {
	held := r.needs.Stack
	r.needs = engineNeeds{}
	if o.Engine == EngineNone {
		for range o.replicas() {
			r.replicas = append(r.replicas, &epoch.Replica{Reduction: collective.Alone{}})
		}
		if r.consumer != nil {
			r.needs.Needs = r.consumer(&r.facts)
		}
	} else if err := r.newEngines(o); err != nil {
		return err
	}
	needs := &r.needs
	needs.Stack, needs.Replicas = held, o.replicas()
	r.reducing(o, needs)
	needs.direct = r.stack.Caps().Device
	if needs.gpu != nil {
		needs.reads, _ = iostack.DeviceStackOf(r.stack)
	}
	r.onClose(r.separate)
	r.onClose(r.leaveDevices)
	if err := errors.Join(r.joinDevices(ctx, o, r.parts.reduce, needs), r.connect(needs, o.Stores.Design(r.found.Name()))); err != nil {
		return err
	}
	if r.was != nil {
		needs.State = min(max(r.was.Setup.StoreState, 0), mostState)
	}
	return nil
}

// newEngines makes the engine of every replica, which share the threads.
func (r *runner) newEngines(o *Options) error {
	all := &r.needs
	for i := range o.replicas() {
		w := o.wish(&r.facts, r.apart)
		w.replica, w.Threads = i, max(1, o.Threads/o.replicas())
		e, needs, err := r.parts.engine(w)
		if err != nil {
			return err
		}
		r.onClose(e.Close)
		r.replicas = append(r.replicas, &epoch.Replica{Device: needs.gpu, Engine: e, Reduction: collective.Alone{}})
		if o.Engine = cmp.Or(needs.kind, o.Engine); i == 0 {
			*all = needs
		} else {
			all.Engine += needs.Engine
			all.GPULeft = min(all.GPULeft, needs.GPULeft)
		}
	}
	wanted := o.decided()
	for _, rep := range r.replicas {
		all.scorers(o.Metric, &r.facts)
		if r.was == nil {
			if err := beginWith(r.fs, &wanted, rep); err != nil {
				return err
			}
		}
	}
	return nil
}
