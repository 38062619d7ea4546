package train

import (
	"cmp"
	"runtime"
	"slices"
	"strings"
	"time"

	"diskgnn/featurestore"
	stores "diskgnn/featurestore/all"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/job"
	"diskgnn/iostack/all"
	"diskgnn/presample/sampler/topology"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// Engines, as --engine names them.
const (
	EngineAuto = "auto"
	EngineCPU  = "cpu"
	EngineGPU  = "gpu"
	EngineNone = "none" // the loader alone: batches are assembled and thrown away
)

// How the page cache is held, as --page-cache names it.
const (
	PageCacheAuto   = "auto"
	PageCacheCgroup = "cgroup"
	PageCacheDrop   = "drop"
)

// Options describe a training run. Start from Defaults: a zero CheckpointEvery means the
// ends of epochs, and some of the recipe's zeros are values too.
type Options struct {
	Store   string // of the batches: a name that featurestore/all knows; "" means auto
	Pack    string // directory of a finished pack
	Dataset string // those that other stores take the batches from
	Samples string // "" with a Fanout: batches are drawn while training
	Out     string // directory of the run, to be made; rank 0's

	// Command is the command line that the options are of, which the run's directory records.
	Command []string

	// Job is which of how many ranks this process is, and where rank 0 listens; the zero Place
	// is that of a run of one rank. RunID is what all ranks of the run know: it tells a run's
	// listener from others'.
	Job   job.Place
	RunID string
	// Replicas is how many devices of this process train together, each as a rank; 0 means one,
	// AllGPUs one for each GPU.
	Replicas int
	replica  int // that an engine is made for: options are those of all

	// Reduce is where gradients of several ranks are summed; "" means auto.
	Reduce string

	recipe.Recipe // what decides the weights

	RAMCache *budget.Size // nil: as much of what the pack holds as hot as Memory allows
	// CachePolicy is what decides which rows the RAM cache of a store holds that reads rows
	// while training; "" means the store's default.
	CachePolicy string
	// FaultThreads is the number of threads on which a store that maps its rows waits for
	// their pages; 0 means the store's default.
	FaultThreads int
	// PageCache says how the page cache is held to Memory by a store that leaves rows to it:
	// PageCacheCgroup, by a memory cgroup that the process makes and enters; PageCacheAuto, by
	// one where the process's own cgroup was delegated to it; "" or PageCacheDrop, by dropping
	// pages.
	PageCache string
	// Topology is where neighbours are read from, if batches are drawn while training. Under
	// topology.Cached, what they take by default is a quarter of Memory; under topology.Pinned
	// the engine's GPU draws the batches.
	Topology topology.Choice
	GPUCache *budget.Size // held by the GPU; nil: as much as it has room for
	Memory   int64        // anonymous and locked bytes; 0 means budget.Default
	// GPUMemory is what the run may hold of the GPU's; 0 means all that is free, but for
	// what the driver may still need.
	GPUMemory int64
	Threads   int // of the engine; 0 means GOMAXPROCS
	// Slots is the number of batches under way; 0 means what memory allows, up to what
	// serves. With one, nothing overlaps.
	Slots int

	Engine string // auto, cpu, gpu or none; "" means auto
	IO     string // a kind that iostack/all knows; "" means auto
	BLAS   string // a kind that blas.Open knows; "" means auto

	Trace bool // write trace.json
	// Record names a file to write, of the format of simulate/trace: what the training
	// batches of this process read, and how long they were drawn and computed. "": none.
	Record string
	// Listen is an address, HOST:PORT, at which the run is to be seen while it is under way
	// (package monitor); "": none.
	Listen string
	Force  bool // replace a run at Out

	CheckpointEvery rundir.Interval
	Keep            int // checkpoints at a time; 0 means 3
	// Resume goes on with the run at Out, if there is one. What decides its result is
	// taken from there, and so is what it was Given.
	Resume bool
	// Given names the flags that the user set: they must agree with a run that is
	// resumed, where they decide its result, and it keeps the others of them.
	Given []string

	planning bool      // a few batches are computed, nothing is written
	apart    bool      // the ranks' gradients are summed on the host
	reducing *reducing // what sums them on their devices; nil: NCCL
}

// Defaults returns the options of a run of which nothing is said.
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
	setDefault(&o.Reduce, ReduceAuto)
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

// What is beyond these is a slip, and would overflow what is counted from it.
const (
	maxSlots   = 1 << 10
	maxThreads = 1 << 12
)

// Validate names the flag that makes no sense. It expects EnsureDefaults to have
// been called.
func (o *Options) Validate() error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	store, err := stores.Choose(o.Store, o.places())
	if err != nil {
		return err
	}
	policies := stores.Policies(store)
	switch {
	case o.CachePolicy != "" && len(policies) == 0:
		return usage("--cache-policy %s: what the store %s holds is settled before training", o.CachePolicy, store)
	case o.CachePolicy != "" && !slices.Contains(policies, o.CachePolicy):
		return usage("--cache-policy %s: the store %s has %s", o.CachePolicy, store, strings.Join(policies, ", "))
	case o.FaultThreads != 0 && !stores.Maps(store):
		return usage("--fault-threads %d: the store %s does not map its rows", o.FaultThreads, store)
	case o.PageCache != "" && o.PageCache != PageCacheAuto && !stores.Maps(store):
		return usage("--page-cache %s: the store %s does not map its rows", o.PageCache, store)
	case o.FaultThreads < 0 || o.FaultThreads > maxThreads:
		return usage("--fault-threads %d: give a number from 1 to %d", o.FaultThreads, maxThreads)
	case o.Topology.Level != topology.Mapped && !o.Live():
		return usage("--topology %s: only with --fanout batches are drawn while training", o.Topology.Level)
	case o.Record != "" && stores.Maps(store):
		return usage("--record: the store %s reads by page faults, of which nothing is known; simulate drives has them of samples", store)
	case o.Out == "":
		return usage("--out is missing: name the directory to make for this run")
	case o.Resume && o.Force:
		return usage("--resume and --force: go on with the run, or replace it")
	case o.Keep < 1 || o.CheckpointEvery.Batches < 0 || o.CheckpointEvery.Time < 0:
		return usage("--keep %d, --checkpoint-every %s: give a positive number", o.Keep, o.CheckpointEvery)
	case o.Memory < 0:
		return usage("--memory %d: give a positive size", o.Memory)
	case o.Threads < 1 || o.Threads > maxThreads:
		return usage("--threads %d: give a number from 1 to %d", o.Threads, maxThreads)
	case o.Slots < 0 || o.Slots > maxSlots:
		return usage("--slots %d: give a number from 0 to %d", o.Slots, maxSlots)
	case o.RAMCache != nil && !isCache(*o.RAMCache):
		return usage("--ram-cache %s: give a share of the rows (10%%) or bytes (2GiB)", o.RAMCache)
	case o.GPUCache != nil && !isCache(*o.GPUCache):
		return usage("--gpu-cache %s: give a share of the rows (10%%) or bytes (2GiB)", o.GPUCache)
	case o.GPUMemory < 0:
		return usage("--gpu-memory %d: give a positive size", o.GPUMemory)
	case o.GPUMemory > 0 && o.Engine != EngineGPU && o.Engine != EngineAuto:
		return usage("--gpu-memory is for --engine %s", EngineGPU)
	case o.GPUCache != nil && o.GPUCache.Value != 0 && o.Engine == EngineNone:
		return usage("--gpu-cache is for --engine %s", EngineGPU)
	}
	for _, c := range []struct {
		flag, value string
		known       []string
	}{
		{"--reduce", cmp.Or(o.Reduce, ReduceAuto), []string{ReduceAuto, ReduceNCCL, ReduceHost}},
		{"--engine", o.Engine, []string{EngineAuto, EngineCPU, EngineGPU, EngineNone}},
		{"--page-cache", cmp.Or(o.PageCache, PageCacheDrop), []string{PageCacheAuto, PageCacheCgroup, PageCacheDrop}},
		{"--blas", o.BLAS, blas.Kinds()},
	} {
		if !slices.Contains(c.known, c.value) {
			return usage("%s %s: there are %s", c.flag, c.value, strings.Join(c.known, ", "))
		}
	}
	if err := o.Recipe.Validate(); err != nil {
		return err
	}
	if err := o.checkRanks(); err != nil {
		return err
	}
	if o.Live() {
		if _, err := o.sampling(); err != nil {
			return err
		}
	}
	if err := o.checkTopology(); err != nil {
		return err
	}
	for _, flag := range []string{"plateau-factor", "plateau-patience"} {
		if o.gave(flag) && o.Schedule != recipe.SchedulePlateau {
			return usage("--%s is for --schedule plateau, not %s", flag, o.Schedule)
		}
	}
	return nil
}

// isCache tells whether a cache can be so large.
func isCache(s budget.Size) bool {
	switch s.Unit {
	case budget.UnitPercent:
		return s.Value >= 0 && s.Value <= 100
	case budget.UnitBytes:
		return s.Value >= 0 && s.Value <= 1<<62
	}
	return s.Unit == budget.UnitUnlimited
}

// resolve replaces every auto that the pack decides, and refuses what the pack
// cannot serve.
func (o *Options) resolve(f featurestore.Facts, inOrder bool) error {
	if err := o.accumulates(); err != nil {
		return err
	}
	data := recipe.Data{Name: o.source(), Dim: f.Dim, Classes: f.Classes, MultiLabel: f.MultiLabel(), Metric: f.Metric, Layers: len(f.Fanout)}
	if err := o.Recipe.Resolve(data); err != nil {
		return err
	}
	if inOrder && o.world() > 1 {
		if o.Pack != "" {
			return fault.New(fault.ErrUsage, "%d ranks: %s has the policy min, whose cache follows all batches in their order; pack with the policy static", o.world(), o.source())
		}
		store, _ := stores.Choose(o.Store, o.places())
		return fault.New(fault.ErrUsage, "%d ranks: the cache of the store %s follows all batches in their order", o.world(), store)
	}
	if o.ShuffleBatches && inOrder && o.Pack == "" {
		store, _ := stores.Choose(o.Store, o.places())
		return fault.New(fault.ErrUsage, "--shuffle-batches: the cache of the store %s follows the order of the batches", store)
	}
	if o.ShuffleBatches && inOrder {
		return fault.New(fault.ErrUsage, "--shuffle-batches: %s has the policy min, whose cache follows the order of the batches", o.source())
	}
	if err := o.checkPatience(f); err != nil {
		return err
	}
	if f.Train == 0 || f.BatchesPerEpoch < 1 || f.Epochs < 1 || f.Train != f.BatchesPerEpoch*f.Epochs {
		return fault.New(fault.ErrCorrupt, "%s: %d training batches in %d epochs of %d", o.source(), f.Train, f.Epochs, f.BatchesPerEpoch)
	}
	return nil
}

// checkPatience refuses to wait for scores that never come.
func (o *Options) checkPatience(f featurestore.Facts) error {
	switch {
	case o.Patience > 0 && o.Engine == EngineNone:
		return fault.New(fault.ErrUsage, "--patience %d: with --engine none there are no scores to wait for", o.Patience)
	case o.Patience > 0 && f.Valid == 0:
		return fault.New(fault.ErrUsage, "--patience %d: %s has no validation batches, and so no scores to wait for", o.Patience, o.source())
	}
	return nil
}
