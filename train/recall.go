package train

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/featurestore/stores"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/program"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/presample/sampler/topology"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// preference is a flag that does not decide the result: a resumed run keeps the value of an earlier
// process, and reports changes.
type preference struct {
	recipe.Option // its flag; no name: the compared value has no flag of its own
	value         func(o *Options) any
	// keep notes the value, and take takes it over from an earlier process: false if that process
	// had none, or if the store has no use for it.
	keep func(p *rundir.Preferences, o *Options)
	take func(o *Options, p *rundir.Preferences) bool
	compared
}

// compared is a part of the setup. A change of it is reported.
type compared struct {
	name string // "": it is not compared
	of   func(s *rundir.Setup) any
}

// resource is the preference for a field of Resources. serves reports whether the options have a
// use for the value; nil: they always do.
func resource[T comparable](flag recipe.Option, field func(r *rundir.Resources) *T, serves func(o *Options, v T) bool, c compared) preference {
	return preference{flag,
		func(o *Options) any { return field(&o.Resources) },
		func(p *rundir.Preferences, o *Options) { *field(&p.Resources) = *field(&o.Resources) },
		func(o *Options, p *rundir.Preferences) bool {
			var none T
			v := *field(&p.Resources)
			if v == none || serves != nil && !serves(o, v) {
				return false
			}
			*field(&o.Resources) = v
			return true
		}, c}
}

// preferences lists all preferences, in the order in which changes are reported.
var preferences = []preference{
	resource(recipe.Option{Name: "threads", Help: "threads that compute; the result is the same for any number", Shown: "all processors", Least: 1, Most: engine.MaxThreads},
		func(r *rundir.Resources) *int { return &r.Threads }, nil,
		compared{"threads", func(s *rundir.Setup) any { return s.Threads }}),
	resource(recipe.Option{Name: "io", Help: "storage backend: uring, pread, cufile, nvme:TARGET, or auto"},
		func(r *rundir.Resources) *string { return &r.IO }, nil,
		compared{"io", func(s *rundir.Setup) any { return s.IO }}),
	resource(recipe.Option{Name: "memory", Help: "hold less memory than this, like 4GiB", Shown: "80% of the machine's or the cgroup's"},
		func(r *rundir.Resources) *int64 { return &r.Memory }, nil,
		compared{"memory", func(s *rundir.Setup) any { return budget.FormatBytes(s.Memory) }}),
	resource(recipe.Option{Name: "ram-cache", Help: "rows held in RAM: a share of them, or bytes; rounded down to a band edge", Shown: "as much as memory and the pack allow"},
		func(r *rundir.Resources) **budget.Size { return &r.RAMCache },
		func(o *Options, _ *budget.Size) bool { return !o.store().HoldsAll },
		compared{"cache", func(s *rundir.Setup) any { return budget.FormatBytes(s.CacheSize) }}),
	resource(recipe.Option{Name: "cache-policy", Help: "policy that chooses the rows in the cache"},
		func(r *rundir.Resources) *string { return &r.CachePolicy },
		func(o *Options, v string) bool { return slices.Contains(o.store().Policies, v) },
		compared{"cache policy", func(s *rundir.Setup) any { return s.CachePolicy }}),
	resource(recipe.Option{Name: "accumulator", Help: "with --store gids: accesses that batches must exceed to be read together; measure: the number that keeps this drive busy, by a measurement of five seconds", Takes: "N|measure", Shown: "854, GIDS' for its drive"},
		func(r *rundir.Resources) *string { return &r.Accumulator },
		func(o *Options, _ string) bool { return o.store().Accesses != nil },
		compared{"accumulator", func(s *rundir.Setup) any { return s.Accumulator }}),
	resource(recipe.Option{Name: "fault-threads", Help: "threads on which --store mmap waits for page faults", Shown: "16", Least: 1},
		func(r *rundir.Resources) *int { return &r.FaultThreads },
		func(o *Options, _ int) bool { return o.store().Maps },
		compared{"fault threads", func(s *rundir.Setup) any { return s.FaultThreads }}),
	resource(recipe.Option{Name: "topology", Default: topology.Mapped, Names: append(topology.Levels(), topology.Pinned),
		Help: "with --fanout: where neighbours are read from: mapped; cached: some are held in memory, others read while drawing; or pinned: the GPU draws, from a topology in its memory or pinned in RAM"},
		func(r *rundir.Resources) *string { return &r.Topology.Level },
		func(o *Options, _ string) bool { return o.Live() },
		compared{"topology", func(s *rundir.Setup) any { return cmp.Or(s.Topology, topology.Mapped) }}),
	resource(recipe.Option{Name: "topology-memory", Help: "with --topology cached: neighbours held, as bytes or a share of them all", Shown: "a quarter of --memory"},
		func(r *rundir.Resources) **budget.Size { return &r.Topology.Memory },
		func(o *Options, _ *budget.Size) bool { return o.Topology.Level == topology.Cached },
		compared{"held topology", func(s *rundir.Setup) any { return budget.FormatBytes(s.TopologySize) }}),
	resource(recipe.Option{Name: "topology-order", Names: topology.Orders(), Shown: "reach",
		Help: "with --topology cached: the nodes with neighbours in memory: reach, nodes that batches reach often for the size of their lists; degree, nodes with many neighbours; ginex, by out-degree over in-degree"},
		func(r *rundir.Resources) *string { return &r.Topology.Order },
		func(o *Options, _ string) bool { return o.Topology.Level == topology.Cached }, compared{}),
	resource(recipe.Option{Name: "page-cache", Takes: "HOW", Names: PageCaches(),
		Help: "mechanism that keeps the page cache of --store mmap within --memory: cgroup, which the process makes and enters; drop, which drops pages; auto: cgroup where one is delegated"},
		func(r *rundir.Resources) *string { return &r.PageCache },
		func(o *Options, _ string) bool { return o.store().Maps },
		compared{"page cache", func(s *rundir.Setup) any { return s.PageCache }}),
	resource(recipe.Option{Name: "gpu-memory", Help: "GPU memory to stay under", Shown: "all that is free but 512 MiB"},
		func(r *rundir.Resources) *int64 { return &r.GPUMemory }, nil, compared{}),
	resource(recipe.Option{Name: "gpu-cache", Help: "rows held by the GPU: a share of them, or bytes", Shown: "as much as it has room for"},
		func(r *rundir.Resources) **budget.Size { return &r.GPUCache }, nil,
		compared{"GPU cache", func(s *rundir.Setup) any { return budget.FormatBytes(s.GPUCacheSize) }}),
	resource(recipe.Option{Name: "slots", Help: "batches under way at a time; 1: nothing overlaps", Shown: "up to 6, as memory allows"},
		func(r *rundir.Resources) *int { return &r.Slots }, nil,
		compared{"slots", func(s *rundir.Setup) any { return s.Slots }}),
	{compared: compared{"slots for evaluation", func(s *rundir.Setup) any { return s.EvalSlots }}},
	{compared: compared{"ranks", func(s *rundir.Setup) any { return max(1, s.Ranks) }}},
	{Option: recipe.Option{Name: "checkpoint-every", Help: "time between checkpoints, or batches; 0: at the ends of epochs", Takes: "TIME|N"},
		value: func(o *Options) any { return &o.CheckpointEvery },
		keep:  func(p *rundir.Preferences, o *Options) { p.CheckpointEvery = &o.CheckpointEvery },
		take:  func(o *Options, p *rundir.Preferences) bool { return takeOver(&o.CheckpointEvery, p.CheckpointEvery) }},
	{Option: recipe.Option{Name: "keep", Help: "checkpoints to keep", Least: 1},
		value: func(o *Options) any { return &o.Keep },
		keep:  func(p *rundir.Preferences, o *Options) { p.Keep = o.Keep },
		take:  func(o *Options, p *rundir.Preferences) bool { return p.Keep != 0 && takeOver(&o.Keep, &p.Keep) }},
	{Option: recipe.Option{Name: "trace", Help: "write trace.json, for chrome://tracing or Perfetto, and trace-1.json when the run is resumed"},
		value: func(o *Options) any { return &o.Trace },
		keep:  func(p *rundir.Preferences, o *Options) { p.Trace = &o.Trace },
		take:  func(o *Options, p *rundir.Preferences) bool { return takeOver(&o.Trace, p.Trace) }},
}

// takeOver sets v to the given value, if there is one.
func takeOver[T any](v, given *T) bool {
	if given != nil {
		*v = *given
	}
	return given != nil
}

// Preference returns the row of a flag that does not decide the result, and a pointer to its value.
func (o *Options) Preference(flag string) (recipe.Option, any) {
	for _, p := range preferences {
		if p.Name == flag {
			return p.Option, p.value(o)
		}
	}
	panic("no preference " + flag)
}

// preferences returns the preferences that the user gave.
func (o *Options) preferences() (p rundir.Preferences) {
	for _, f := range preferences {
		if f.Name != "" && o.gave(f.Name) {
			f.keep(&p, o)
		}
	}
	return p
}

// prefer takes over the preferences that an earlier process was given and this one was not.
func (o *Options) prefer(p *rundir.Preferences) {
	for _, f := range preferences {
		if f.Name != "" && !o.gave(f.Name) && f.take(o, p) {
			o.Given = append(slices.Clip(o.Given), f.Name)
		}
	}
}

// decided returns the options that a Decision follows from.
func (o *Options) decided() decide.Options {
	return decide.Options{Recipe: o.Recipe, Resources: o.Resources, Engine: o.Engine, Rank: o.Job.Index, Ranks: o.world(),
		Replicas: o.replicas(), Out: o.Out, Pack: o.Pack, Dataset: o.Dataset, Samples: o.Samples, WeightsPath: o.WeightsPath, Command: o.Command,
		Preferences: o.preferences(), Force: o.Force, Trace: o.Trace, CheckpointEvery: o.CheckpointEvery, Keep: o.Keep}
}

// recall completes the options by the options of the resumed run. It refuses flags that differ from
// it and decide the result.
func (o *Options) recall(was *rundir.File) error {
	if err := o.sameDrawing(was); err != nil {
		return err
	}
	if o.Pack == "" && o.Dataset == "" && o.Samples == "" {
		o.Pack, o.Dataset, o.Samples = was.PackPath, was.DatasetPath, was.SamplesPath
		if !o.gave("store") {
			o.Store = cmp.Or(was.Store, stores.Auto)
		}
	}
	if was.Params.Validation == recipe.Exact && !was.Params.Live() { // its dataset is beside a pack, or has the samples
		if o.Samples == "" {
			o.Pack = cmp.Or(o.Pack, was.PackPath)
		}
		o.Dataset = cmp.Or(o.Dataset, was.DatasetPath)
	}
	if o.WeightsPath == "" {
		o.WeightsPath = was.WeightsPath
	}
	if o.Engine == EngineAuto {
		o.Engine = was.Setup.Engine
	}
	var differ []string
	if was.FirstEpochs < 0 || was.FirstEpochs > was.Params.Epochs {
		return fault.New(fault.ErrCorrupt, "it was begun with %d epochs, but has %d in all", was.FirstEpochs, was.Params.Epochs)
	}
	for _, d := range o.Recipe.Recall(&was.Params.Recipe, o.Given) {
		if o.longer(was) && d.Flag == "epochs" {
			if err := o.checkLonger(was); err != nil {
				return err
			}
			continue
		}
		if d.Flag == "init-from" {
			differ = append(differ, o.otherWeights(was))
			continue
		}
		differ = append(differ, d.String())
	}
	if !o.gave("engine") {
		o.Engine = was.Setup.Engine
	} else if o.Engine != was.Setup.Engine {
		differ = append(differ, recipe.Difference{Flag: "engine", Value: o.Engine, Than: was.Setup.Engine}.String())
	}
	if len(differ) > 0 {
		return fault.New(fault.ErrExists, "%s cannot be resumed with other parameters: %s; leave these flags out, or train anew under another name or with --force", o.Out, strings.Join(differ, "; "))
	}
	if kind := blas.KindOf(was.Setup.BLAS); (kind == blas.Gonum || kind == blas.Builtin) && !o.gave("blas") {
		o.BLAS = kind // for a run with OpenBLAS, auto stays, and SameArithmetic reports a missing library
	}
	o.prefer(&was.Preferences)
	if o.Engine != EngineGPU && !o.gave("gpu-memory") { // the environment may set it for other runs
		o.GPUMemory = 0
	}
	o.EnsureDefaults() // for options that earlier versions of this program lacked
	return nil
}

// otherWeights returns the sentence that the run began with other weights than are given now.
func (o *Options) otherWeights(was *rundir.File) string {
	if was.Params.InitFrom == "" {
		return fmt.Sprintf("--init-from %s was given, but the run began with random weights of --seed", o.WeightsPath)
	}
	return fmt.Sprintf("--init-from %s was given, but the run began with another file, %s", o.WeightsPath, was.WeightsPath)
}

// longer reports whether a resumed run is to have more epochs than it had.
func (o *Options) longer(was *rundir.File) bool {
	return o.gave("epochs") && o.Epochs > was.Params.Epochs
}

// done reports whether the run is finished and the options ask for no more. More epochs change
// nothing for a run that stopped early: it would have stopped all the same.
func (o *Options) done(was *rundir.File) bool {
	return was.State == rundir.StateFinished && was.Result != nil && (was.Result.StoppedEarly || !o.longer(was))
}

// checkLonger refuses to extend a run if its steps depend on the total number of epochs.
func (o *Options) checkLonger(was *rundir.File) error {
	r := &was.Params.Recipe
	why := r.Bound()
	if r.Live() && r.Dry() > float64(was.First()) && !decide.InputOrderFree(&was.Params.Network, &was.Setup.Info) {
		why = "all epochs are drawn before training, and the resulting numbering of the nodes decides last bits (--dry-epochs, --layer-order)"
	}
	if why == "" {
		return nil
	}
	return fault.New(fault.ErrUsage, "%s cannot be made longer than its %d epochs: %s; train another run of %d epochs, which may begin with its weights: --init-from %s", o.Out, was.Params.Epochs, why, o.Epochs, o.Out)
}

// sameDrawing refuses to draw batches while training where the run's batches were drawn before, and
// the reverse.
func (o *Options) sameDrawing(was *rundir.File) error {
	before := &was.Params.Recipe
	switch from := cmp.Or(o.Pack, o.Samples); {
	case before.Live() && from != "":
		return fault.New(fault.ErrLineage, "%s was trained on batches that were drawn while training, with fanout %s: go on without %s", o.Out, before.Fanout, from)
	case o.Live() && !before.Live():
		return fault.New(fault.ErrExists, "%s was trained on batches that were drawn before training: go on without --fanout", o.Out)
	}
	return nil
}

// checkOptions refuses to resume a run at out with options that are invalid with any store.
func checkOptions(f *rundir.File, out string) error {
	if n := f.Params.Epochs; n > recipe.MaxEpochs && n <= recipe.EarlierEpochs {
		if f.State != rundir.StateFinished {
			return fault.New(fault.ErrVersion, "%s was begun with %d epochs, but this program resumes runs of at most %d epochs (report, eval and predict still read it); train another run, which may begin with its weights: --init-from %s", out, n, recipe.MaxEpochs, out)
		}
		all := *f
		all.Params.Epochs, all.FirstEpochs = recipe.MaxEpochs, min(f.FirstEpochs, recipe.MaxEpochs)
		f = &all // which is not to go on: the rest is checked
	}
	o := Defaults()
	if o.Out = out; f.Params.Live() {
		o.Dataset = "dataset"
	} else {
		o.Pack = "pack"
	}
	err := o.recall(f)
	if err == nil {
		err = o.checkOthers()
	}
	if err != nil {
		return fault.New(fault.ErrCorrupt, "%s has options that no run begins with: %v", filepath.Join(out, stage.RunFile), err)
	}
	return nil
}

// earlier returns the run to resume, nil where a run is to be begun.
func (o *Options) earlier(fsys vfs.FS) (was *rundir.File, err error) {
	if !o.Resume || !o.root() {
		return nil, nil
	}
	if was, err = runToResume(fsys, o.Out); err != nil {
		return nil, err
	}
	if was == nil && o.Out != "" && o.places() == (stores.Places{}) {
		return nil, fault.New(fault.ErrUsage, "--resume: there is no run at %s; to begin one, name its data: --pack, or --dataset with --samples or --fanout", o.Out)
	}
	if was == nil {
		return nil, nil
	}
	if err := checkOptions(was, o.Out); err != nil {
		return nil, err
	}
	if o.done(was) {
		if err = o.trainedOn(fsys, was); err == nil {
			err = was.CheckWeights(fsys, o.Out)
		}
	}
	return was, err
}

// Agrees returns the error with which Run would refuse the options, on their own or because of the
// run's directory. It does not look at the input data of the run. It changes nothing. The directory is
// rank 0's: of another rank's options Agrees checks no output, and with --resume, where rank 0's run
// completes the options, only the initial weights.
func Agrees(fsys vfs.FS, o Options) error {
	o.EnsureDefaults()
	if _, err := o.hashWeights(fsys); err != nil || o.Resume && !o.root() {
		return err
	}
	was, err := o.earlier(fsys)
	if err == nil && was != nil {
		err = o.recall(was)
	}
	if err == nil {
		err = o.Validate()
	}
	if err == nil && was == nil && o.root() {
		err = rundir.CheckOut(fsys, o.Out, o.Force)
	}
	return err
}

// runToResume returns run.json of the run at out, or nil where there is none.
func runToResume(fsys vfs.FS, out string) (*rundir.File, error) {
	out = filepath.Clean(out)
	if ok, err := vfs.Exists(fsys, out); err != nil || !ok {
		return nil, err
	}
	was, err := rundir.Read(fsys, out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // checkOut decides whether anything else is there
	case err != nil:
		return nil, err
	}
	return &was, nil
}

// changes describes the permitted differences between two processes of a run, "" if there are none.
func changes(f, now *rundir.File) string {
	var differ []string
	add := func(what string, was, now any) {
		if was != now {
			differ = append(differ, fmt.Sprintf("%s %v (was %v)", what, now, was))
		}
	}
	for _, p := range preferences {
		if p.name != "" {
			add(p.name, p.of(&f.Setup), p.of(&now.Setup))
		}
	}
	add("program", programOf(f, now), programOf(now, f))
	return strings.Join(differ, ", ")
}

// programOf returns the name of a run's program that distinguishes it from the other run's.
func programOf(f, other *rundir.File) string {
	if f.ProgramHash == "" || other.ProgramHash == "" {
		return f.Version
	}
	return program.Name(f.Version, f.ProgramHash)
}
