package decide

import (
	"cmp"

	"diskgnn/featurestore"
	"diskgnn/train/engine"
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

// Methods that bound the page cache, as --page-cache names them.
const (
	PageCacheAuto   = "auto"
	PageCacheCgroup = "cgroup"
	PageCacheDrop   = "drop"
)

// Options are the user's options that the decision depends on: resolved, and completed by the
// options of the resumed run.
type Options struct {
	recipe.Recipe
	rundir.Resources
	Engine                 string // auto, until the engines are made; then cpu, gpu or none
	Rank, Ranks            int    // of the process: its first
	Replicas               int    // ranks of the process
	Out                    string // the run's directory
	Pack, Dataset, Samples string // directories of the batches; "": none
	WeightsPath            string // of the weights that training begins with; "": the seed draws them

	Command     []string           // that the run's directory records
	Preferences rundir.Preferences // the given ones: a resumed run keeps them
	Force       bool               // replaces a run at Out
	Trace       bool               // writes trace.json

	CheckpointEvery rundir.Interval
	Keep            int // checkpoints at a time
}

// Source returns the directory that messages about the batches name.
func (o *Options) Source() string { return cmp.Or(o.Pack, o.Samples, o.Dataset) }

// Facts describe the store and the machine before a run begins.
type Facts struct {
	Was   *rundir.File // of the resumed run; nil for a new run
	Store Store
	IO    Stack
	Needs Needs // of the engines, the stack and the resumed run
	// Info describes the engines, nil where nothing computes, and Note is the reason for choosing
	// them.
	Info *engine.Info
	Note string
	Said []string // lines about the ranks' devices, for the user

	Exact    *Exact   // exact validation; nil: the run validates on batches, or another rank does
	Records  int64    // bytes of records for a trace
	Drawing  *Drawing // where batches are drawn while training; nil: they were drawn before
	Unsummed bool     // the file of weights that training begins with has no checksum
	// Plan is the store's division of its memory, on the run's devices.
	Plan func(featurestore.PlanOptions) (featurestore.Layout, error)
}

// Store describes the run's store.
type Store struct {
	featurestore.Facts
	Name, Dir string
	Which     string // says why it is this one
	Lineage   featurestore.Lineage
	InOrder   bool                // see featurestore.Candidate
	Slice     *featurestore.Slice // of which it has the batches; nil: it has all batches
	Paged     bool                // its rows lie in the page cache, which a cgroup can hold
	// Description is the store's entry in run.json.
	Description featurestore.Description
}

// Stack describes the open storage stack.
type Stack struct {
	Name string
	How  string // says why it is this one
}

// Drawing is the memory of batches that are drawn while training, in bytes.
type Drawing struct {
	Topology      string // where neighbours are read from
	TopologyBytes int64
	Heap          [2]int64 // of a slot for training, and of one for evaluation
	Host          int64    // outside Go's heap
	GPU           [2]int64 // of a slot on the GPU that draws
}

// Exact is the memory of exact validation, in bytes.
type Exact struct {
	Fixed   int64 // held all the time
	Opening int64 // held beside it before the run's buffers are taken
	// A validation takes at least Least bytes, and has no use for more than Most. Where a GPU computes, the same holds
	// for its memory; of that GPUFixed is held all the time.
	Least, Most                 int64
	GPUFixed, GPULeast, GPUMost int64
}

// Needs is the memory of engines and of their works, in bytes.
type Needs struct {
	Engine, Work, EvalWork int64
	Replicas               int   // that works are for, each in its own slots; 0 means one
	Stack                  int64 // of the storage stack, beyond a few buffers
	Resume                 int64 // of a checkpoint while the run resumes from it
	State                  int64 // of Resume: the most that an earlier process' store wrote to a checkpoint
	OnGPU                  bool  // a GPU computes
	Shared                 bool  // another process takes the batches, in place of an engine: Work and EvalWork are mapped, for it to read
	GPULeft                int64 // bytes that the engine leaves of its memory
	InBits                 bool  // the engines decode the blocks of batches
	Stored                 bool  // the other process takes rows in the type that the store has them in
}
