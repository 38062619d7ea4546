package train

import (
	"cmp"
	"runtime"
	"slices"
	"strings"
	"time"

	"diskgnn/featurestore"
	"diskgnn/featurestore/stores"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/iostack/all"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/ranks"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// Engines, as --engine names them.
const (
	EngineAuto = decide.EngineAuto
	EngineCPU  = decide.EngineCPU
	EngineGPU  = decide.EngineGPU
	EngineNone = decide.EngineNone
)

// Engines returns the values of --engine.
func Engines() []string { return []string{EngineAuto, EngineCPU, EngineGPU, EngineNone} }

// PageCaches returns the values of --page-cache.
func PageCaches() []string {
	return []string{decide.PageCacheAuto, decide.PageCacheCgroup, decide.PageCacheDrop}
}

// Reductions returns the values of --reduce.
func Reductions() []string { return []string{decide.ReduceAuto, decide.ReduceNCCL, decide.ReduceHost} }

// Options describe a training run. Start from Defaults: a zero CheckpointEvery means the ends of
// epochs, and zero is a value of its own for some options of the recipe.
type Options struct {
	Stores stores.List // to choose from; the program names them

	Store   string // of the batches: a name of Stores; "" means auto
	Pack    string // directory of a finished pack
	Dataset string // directory of the dataset, for stores without a pack
	Samples string // directory of its samples; "" with a Fanout: batches are drawn while training
	Out     string // directory of the run, to be made; rank 0's
	// AllNodes draws batches for all nodes of Dataset, in ascending order, in place of its training nodes; for a consumer.
	AllNodes bool

	// Command is the command line that gave the options, recorded in the run's directory.
	Command []string

	ranks.Membership // of a run of several ranks
	// Replicas is the number of devices of this process that train together, each as a rank; 0
	// means one, AllGPUs one for each GPU.
	Replicas int

	// Reduce names the place where gradients of several ranks are summed; "" means auto.
	Reduce string

	recipe.Recipe // the options that decide the weights; WeightsPath sets InitFrom

	// WeightsPath names the file of weights that training begins with, or a run, for its best
	// weights; "": the seed draws them. Recipe.InitFrom is set from it.
	WeightsPath string

	rundir.Resources // the use of the machine

	Engine string // auto, cpu, gpu or none; "" means auto
	BLAS   string // a kind that blas.Open knows; "" means auto

	Trace bool // write trace.json
	// Record names a file to write in the format of simulate/trace: the reads of this process'
	// training batches, and the times of drawing and computing them. "": none.
	Record string
	// Listen is the address, HOST:PORT, at which the run can be watched (package monitor); "":
	// none.
	Listen string
	Force  bool // replace a run at Out

	CheckpointEvery rundir.Interval
	Keep            int // checkpoints at a time; 0 means 3
	// Resume continues the run at Out, if there is one, with its recipe and the options of its
	// Given.
	Resume bool
	// Given names the flags that the user set. A given flag that decides the result must agree with a
	// resumed run. Flags that are not given keep the resumed run's values.
	Given []string
}

// Defaults returns the options of a run without any flag.
func Defaults() Options {
	o := Options{Recipe: recipe.Defaults(), CheckpointEvery: rundir.Interval{Time: 10 * time.Minute}}
	o.EnsureDefaults()
	return o
}

// EnsureDefaults replaces zero values that mean a default.
func (o *Options) EnsureDefaults() {
	setDefault(&o.Store, stores.Auto)
	o.Recipe.EnsureDefaults()
	o.Topology.EnsureDefaults()
	o.DivideDefaults()
	setDefault(&o.Threads, defaultThreads())
	setDefault(&o.Engine, EngineAuto)
	setDefault(&o.Reduce, decide.ReduceAuto)
	setDefault(&o.IO, all.Auto)
	setDefault(&o.BLAS, blas.Auto)
	setDefault(&o.Keep, 3)
	if o.Memory == 0 {
		o.Memory, _ = budget.Default()
	}
}

func defaultThreads() int { return runtime.GOMAXPROCS(0) }

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Larger values are slips, and counts that are computed from them would overflow.
const (
	maxSlots = 1 << 10
)

// Validate returns an error that names the first invalid flag. Call EnsureDefaults before.
func (o *Options) Validate() error {
	if err := o.checkStore(); err != nil {
		return err
	}
	return o.checkOthers()
}

// checkOthers is Validate without the flags that depend on the store.
func (o *Options) checkOthers() error {
	for _, check := range []func() error{o.checkRun, o.checkResources, o.checkNames, o.Recipe.Validate, o.checkRanks, o.checkValidation, o.checkDrawing, o.checkTopology, o.checkPlateau} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func usage(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }

// checkStore refuses flags that the store has no use for.
func (o *Options) checkStore() error {
	store, err := o.Stores.Choose(o.Store, o.places())
	if err != nil {
		return err
	}
	if _, err = o.Accesses(); err == nil {
		err = store.Refuse(&featurestore.PlanOptions{Policy: o.CachePolicy, FaultThreads: o.FaultThreads})
	}
	if err != nil {
		return err
	}
	switch {
	case o.Accumulator != "" && store.Accesses == nil:
		return usage("--accumulator %s: the store %s has no accumulator", o.Accumulator, store.Name)
	case o.PageCache != "" && o.PageCache != decide.PageCacheAuto && !store.Maps:
		return usage("--page-cache %s: the store %s does not map its rows", o.PageCache, store.Name)
	case o.FaultThreads < 0 || o.FaultThreads > engine.MaxThreads:
		return usage("--fault-threads %d: give a number from 1 to %d", o.FaultThreads, engine.MaxThreads)
	case o.Topology.Level != topology.Mapped && !o.Live():
		return usage("--topology %s needs --fanout, which draws batches while training", o.Topology.Level)
	case o.Record != "" && store.Maps:
		return usage("--record: the store %s reads by page faults, which cannot be recorded; simulate drives computes them from samples", store.Name)
	}
	return nil
}

// checkRun refuses invalid flags about the run's directory and its weights.
func (o *Options) checkRun() error {
	switch {
	case o.Out == "":
		return usage("--out is missing: name the directory to make for this run")
	case o.InitFrom != "" && o.Engine == EngineNone:
		return usage("--init-from: with --engine none there are no weights")
	case o.Resume && o.Force:
		return usage("--resume and --force exclude each other: one goes on with the run, the other replaces it")
	case o.Keep < 1 || o.CheckpointEvery.Batches < 0 || o.CheckpointEvery.Time < 0:
		return usage("--keep %d, --checkpoint-every %s: give a positive number", o.Keep, o.CheckpointEvery)
	}
	return nil
}

// checkResources refuses amounts that no machine has.
func (o *Options) checkResources() error {
	switch {
	case o.Memory < 0:
		return usage("--memory %d: give a positive size", o.Memory)
	case o.Threads < 1 || o.Threads > engine.MaxThreads:
		return usage("--threads %d: give a number from 1 to %d", o.Threads, engine.MaxThreads)
	case o.Slots < 0 || o.Slots > maxSlots:
		return usage("--slots %d: give a number from 0 to %d", o.Slots, maxSlots)
	case !isCache(o.RAMCache):
		return noCache("ram-cache", o.RAMCache)
	case !isCache(o.GPUCache):
		return noCache("gpu-cache", o.GPUCache)
	case o.GPUMemory < 0:
		return usage("--gpu-memory %d: give a positive size", o.GPUMemory)
	case o.GPUMemory > 0 && o.Engine != EngineGPU && o.Engine != EngineAuto:
		return usage("--gpu-memory is for --engine %s", EngineGPU)
	case o.GPUCache != nil && o.GPUCache.Value != 0 && o.Engine == EngineNone:
		return usage("--gpu-cache is for --engine %s", EngineGPU)
	}
	return nil
}

// servesCPU refuses resources and precisions that the CPU's engine has no use for.
func servesCPU(precision string, r *rundir.Resources) error {
	switch {
	case precision != recipe.PrecisionFloat32:
		return usage("--precision %s is for --engine %s", precision, EngineGPU)
	case r.GPUCache != nil && r.GPUCache.Value != 0:
		return usage("--gpu-cache %s is for --engine %s; use --ram-cache", r.GPUCache, EngineGPU)
	}
	return nil
}

// checkNames refuses a value that its flag does not list.
func (o *Options) checkNames() error {
	for _, c := range []struct {
		flag, value string
		known       []string
	}{
		{"--reduce", cmp.Or(o.Reduce, decide.ReduceAuto), Reductions()},
		{"--engine", o.Engine, Engines()},
		{"--page-cache", cmp.Or(o.PageCache, decide.PageCacheDrop), PageCaches()},
		{"--blas", o.BLAS, blas.Kinds()},
	} {
		if !slices.Contains(c.known, c.value) {
			return usage("%s %s is not one of %s", c.flag, c.value, strings.Join(c.known, ", "))
		}
	}
	return nil
}

// checkDrawing refuses parameters by which no batches can be drawn while training.
func (o *Options) checkDrawing() error {
	if !o.Live() {
		return nil
	}
	_, err := o.sampling()
	return err
}

// checkValidation refuses exact validation without a dataset, or without weights.
func (o *Options) checkValidation() error {
	switch {
	case o.Validation != recipe.Exact:
		return nil
	case o.Engine == EngineNone:
		return usage("--validate exact: with --engine none there are no weights to score")
	case o.Dataset == "" && o.root():
		return usage("--validate exact computes scores on the dataset: name it with --dataset, also beside --pack")
	}
	return nil
}

// checkPlateau refuses flags of the plateau schedule with another schedule.
func (o *Options) checkPlateau() error {
	for _, flag := range []string{"plateau-factor", "plateau-patience"} {
		if o.gave(flag) && o.Schedule != recipe.SchedulePlateau {
			return usage("--%s is for --schedule plateau, not %s", flag, o.Schedule)
		}
	}
	return nil
}

// noCache returns the error of a flag with a size that isCache refuses.
func noCache(flag string, s *budget.Size) error {
	return usage("--%s %s: give a share of the rows (10%%) or bytes (2GiB)", flag, s)
}

// isCache reports whether a cache can have this size. Nil is the default one.
func isCache(s *budget.Size) bool {
	if s == nil {
		return true
	}
	switch s.Unit {
	case budget.UnitPercent:
		return s.Value >= 0 && s.Value <= 100
	case budget.UnitBytes:
		return s.Value >= 0 && s.Value <= 1<<62
	}
	return s.Unit == budget.UnitUnlimited
}

// world returns the number of ranks: processes, or the replicas of one.
func (o *Options) world() int { return max(1, o.Job.Count, o.Replicas) }

// replicas returns the number of ranks in this process.
func (o *Options) replicas() int { return max(1, o.Replicas) }

// root reports whether the process has the run's directory.
func (o *Options) root() bool { return o.Job.Index == 0 }

// places returns the directories that the options give for a store.
func (o *Options) places() stores.Places {
	p := stores.Places{Pack: o.Pack, Dataset: o.Dataset, Samples: o.Samples, Live: o.Live()}
	if o.Pack != "" && o.Validation == recipe.Exact { // which alone reads the dataset
		p.Dataset = ""
	}
	return p
}

// source returns the directory that messages about the batches name.
func (o *Options) source() string { return cmp.Or(o.Pack, o.Samples, o.Dataset) }

// store returns the design of the store that the options choose. Validate has accepted it.
func (o *Options) store() featurestore.Design {
	store, _ := o.Stores.Choose(o.Store, o.places())
	return store
}

// gave reports whether the user set a flag.
func (o *Options) gave(flag string) bool { return slices.Contains(o.Given, flag) }

// checkRanks refuses flags that several ranks cannot follow.
func (o *Options) checkRanks() error {
	switch {
	case o.world() == 1:
		return nil
	case o.Job.Count > 1 && o.Replicas > 1:
		return usage("%d processes with --gpus %d each: start one process for every GPU instead", o.Job.Count, o.Replicas)
	case o.Record != "":
		return usage("--record traces one process: train with one rank")
	case o.Live() && o.DryEpochs != recipe.DryAll:
		return usage("--fanout with %d ranks: the largest batches must be found before training: give --dry-epochs all", o.world())
	}
	return nil
}

// checkTopology refuses flags that do not go with --topology.
func (o *Options) checkTopology() error {
	c := o.Topology
	if c.Level != topology.Pinned {
		if levels := append(topology.Levels(), topology.Pinned); !slices.Contains(levels, c.Level) {
			return usage("--topology %s is not one of %s", c.Level, strings.Join(levels, ", "))
		}
		return c.Validate()
	}
	switch {
	case o.Recipe.Sampler == mbfile.Labor:
		return usage("--topology %s: a GPU draws only by --sampler uniform, not %s", c.Level, mbfile.Labor)
	case o.Engine == EngineCPU || o.Engine == EngineNone:
		return usage("--topology %s is for --engine %s", c.Level, EngineGPU)
	}
	c.Level = topology.Mapped
	return c.Validate() // which refuses options of a cached topology
}

// sampling returns the parameters that decide the batches drawn while training.
func (o *Options) sampling() (mbfile.Params, error) {
	p := mbfile.Params{BatchSize: o.BatchSize, Epochs: o.Epochs, TrainRatio: o.TrainRatio, Order: sampler.Random, Seed: o.SampleSeed, Sampler: sampler.Version}
	var err error
	if p.Fanout, err = sampler.ParseFanout(o.Fanout); err != nil {
		return p, fault.New(err, "--fanout: %v", err)
	}
	if p.EvalFanout, err = sampler.EvalFanout(o.EvalFanout, p.Fanout); err != nil {
		return p, err
	}
	if err := sampler.SetMethod(&p, o.Sampler, o.BatchDependency, o.LayerDependency); err != nil {
		return p, err
	}
	return p, sampler.Check(&p)
}

// DivideDefaults divides the machine's memory and threads, where no option sets them, among the
// processes that train on it. It reports whether there are several.
func (o *Options) DivideDefaults() bool {
	n := o.Job.LocalCount
	if n < 2 {
		return false
	}
	if o.Threads == 0 {
		o.Threads = max(1, defaultThreads()/n)
	}
	if o.Memory == 0 {
		whole, _ := budget.Default()
		o.Memory = whole / int64(n)
	}
	return true
}
