// Package rundir is RUN, the directory of a training run: the content of its files, and how they
// are written and read. The files are updated while the run trains:
//
//	run.json             parameters, as given and as resolved, the run's state and,
//	                     once finished, its result: a File
//	metrics.jsonl        a line per epoch, in order: an Epoch
//	weights.safetensors  weights of the best validation epoch so far
//	final.safetensors    weights after the last epoch
//	trace.json           the times of every link (on request), and in trace-1.json,
//	                     trace-2.json …, in the processes that went on with the run
//	checkpoints/         to resume an interrupted run (package checkpoint), and to extend a
//	                     finished one
//	report.html          all of this on a page, for people (package report)
//	lock                 held while training
//	scratch/             hidden states on disk, during an exact validation
//
// All but metrics.jsonl are replaced whole, by renaming a file with the suffix .tmp; a line of
// metrics.jsonl is synced before anything refers to it. A run that was cut off may have left a part
// of one more line; its state is running, but it holds no lock.
//
//	   ┌──────────── resumed ───────────┐
//	   ▼                                │
//	running ──► interrupted, failed ────┤   checkpoints/ are kept
//	   │  └───► (killed: no lock) ──────┘
//	   ├──────► finished                    final.safetensors, and one checkpoint or none
//	   └─ longer ───┘
//
// A run is finished when its state in run.json is finished; it then has final.safetensors and at
// most one checkpoint: of the last epoch, with all batches done, before its validation. From it the
// run can be extended to more epochs. The checkpoint exists if the weights do not depend on the
// total number of epochs: not with a cosine schedule, and not if the run stopped early. A run that
// was interrupted or failed has checkpoints, and no final.safetensors.
//
// Every file that later computations use is checked when it is read:
//
//	run.json             its last member is "checksum", two spaces before it on a line of its own:
//	                     the SHA-256, in hexadecimal digits, of all bytes before the comma that
//	                     precedes the member; "}" and a newline follow
//	*.safetensors        have a checksum in their metadata (package safetensors)
//	metrics.jsonl        "metrics" of run.json, and of every checkpoint, says how many bytes
//	                     were written when that was, and their CRC-32C; lines may follow
//	checkpoints/         have checksums of their own
//
// A checksum lies in the file that it protects, or covers a part that nothing replaces: after a
// crash between any two replacements, each matches. trace.json and report.html are for people, and
// unchecked.
//
// run.json names the format, diskgnn.run, and its version:
//
//	2    without checksums, except in checkpoints; a checksum that is there is compared
//	3    with checksums: a file that has none is damaged
//
// A program writes version 3 and reads both; earlier versions are refused. A resumed run of version
// 2 becomes one of version 3 once its weights have a checksum. New keys do not raise the version if
// the old ones keep their meaning: readers ignore unknown keys, and treat a missing key as a run
// without that option.
package rundir

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/program"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/presample/sampler/topology"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// Names of the files in a run's directory; run.json is stage.RunFile.
const (
	MetricsFile = "metrics.jsonl"
	WeightsFile = "weights.safetensors"
	FinalFile   = "final.safetensors"
	TraceFile   = "trace.json"
	ReportFile  = "report.html"

	CheckpointsDir = "checkpoints"
	ScratchDir     = "scratch"

	LockFile = "lock"
	tmpExt   = ".tmp" // of a file being replaced
)

// Format names the directory's format in run.json.
var Format = stage.Format{Name: "diskgnn.run", Version: 3}

// versions maps each readable version to whether its files have checksums.
var versions = stage.Versions[struct{ summed bool }]{2: {}, 3: {summed: true}}

// State is the state of a run.
type State string

// The states of a run. A crashed run stays running, but holds no lock.
const (
	StateRunning     State = "running"
	StateFinished    State = "finished"
	StateInterrupted State = "interrupted"
	StateFailed      State = "failed"
)

// File is the content of run.json.
type File struct {
	Format  stage.Format `json:"format"`
	State   State        `json:"state"`
	Error   string       `json:"error,omitempty"`
	Version string       `json:"program"`
	// ProgramHash is the SHA-256 of the program's file; "" in runs of earlier versions, and where it
	// could not be read.
	ProgramHash string `json:"program_sha256,omitempty"`
	// Command is the command line that began the run, and Host the machine of the latest process.
	// They are for people.
	Command []string      `json:"command,omitempty"`
	Host    *program.Host `json:"host,omitempty"`
	Begun   time.Time     `json:"begun"`
	Ended   *time.Time    `json:"ended,omitempty"`
	// Params and Pack decide the weights, together with BLAS.
	Params Params `json:"params"`
	// Store is the kind of the store; "" in runs of earlier versions, which are packed.
	Store string `json:"store,omitempty"`
	Pack  string `json:"pack"` // fingerprint of the store's directory; "" if it has none
	// Samples and Dataset are the fingerprints of the store's sources. Where batches are drawn
	// while training, Samples is a hash of their parameters. Runs of earlier versions lack Samples.
	Samples string `json:"samples,omitempty"`
	Dataset string `json:"dataset"`
	// Preprocessing is the dataset's, with which other graphs' is compared, and LabelKind the kind
	// of its labels: nil and "" in runs of earlier versions, and of packs of earlier versions.
	Preprocessing *dataset.Preprocessing `json:"preprocessing,omitempty"`
	LabelKind     string                 `json:"label_kind,omitempty"`
	// ClassNames are the names of the dataset's classes, if they have some: see
	// dataset.CarriedClassNames.
	ClassNames []string `json:"class_names,omitempty"`
	// PackPath, DatasetPath and SamplesPath are the paths of the store's sources, for the process
	// that resumes.
	PackPath    string `json:"pack_path,omitempty"`
	DatasetPath string `json:"dataset_path,omitempty"`
	SamplesPath string `json:"samples_path,omitempty"`
	// WeightsPath is the path of the file of weights that the run began with. Its hash is in
	// Params.
	WeightsPath string      `json:"weights_path,omitempty"`
	Preferences Preferences `json:"preferences"`
	Resumed     int         `json:"resumed,omitempty"` // how often
	// Metrics is the length and checksum of metrics.jsonl when run.json was written; nil in runs of
	// earlier versions.
	Metrics *MetricsEnd `json:"metrics,omitempty"`
	// FirstEpochs is the number of epochs that the run was begun with, if it has more now; else 0.
	FirstEpochs int `json:"first_epochs,omitempty"`
	// PackFacts are for people: Pack implies them.
	PackFacts PackFacts `json:"pack_facts"`
	Setup     Setup     `json:"setup"`
	Timeline  *Timeline `json:"timeline,omitempty"`
	Result    *Result   `json:"result,omitempty"`
}

// Timeline is the links' spans for the last batches of an epoch, for people.
type Timeline struct {
	Epoch int            `json:"epoch"`
	Spans []TimelineSpan `json:"spans"`
}

// TimelineSpan is the work of a lane, a worker of a link, on a batch of the epoch. Times are in
// seconds since the first span began.
type TimelineSpan struct {
	Lane    string  `json:"lane"`
	Batch   int     `json:"batch"`
	Begin   float64 `json:"begin"`
	Seconds float64 `json:"seconds"`
}

// Params are the parameters that decide the result.
type Params struct {
	recipe.Recipe
	Network model.Model `json:"network"` // that engines compute: all that its weights mean
}

// Preferences are the given options that do not decide the result: a resumed run keeps them.
type Preferences struct {
	Resources
	CheckpointEvery *Interval `json:"checkpoint_every,omitempty"`
	Keep            int       `json:"keep,omitempty"`
	Trace           *bool     `json:"trace,omitempty"`
}

// Resources are a run's use of its machine: memory, caches, threads, slots, storage and the
// topology. A zero value leaves the choice to the run.
type Resources struct {
	Memory  int64 `json:"memory,omitempty"`  // anonymous and locked bytes; 0 means budget.Default
	Threads int   `json:"threads,omitempty"` // of the engine; 0 means GOMAXPROCS
	// RAMCache is the size of the rows held in RAM; nil: all hot rows of the pack that fit in
	// Memory.
	RAMCache *budget.Size `json:"ram_cache,omitempty"`
	// CachePolicy chooses the rows in the RAM cache of a store that reads rows while training; ""
	// means the store's default.
	CachePolicy string `json:"cache_policy,omitempty"`
	// FaultThreads is the number of threads on which a store that maps its rows waits for
	// their pages; 0 means the store's default.
	FaultThreads int `json:"fault_threads,omitempty"`
	// Accumulator is the number of accesses that batches must exceed to be read together, for a store that
	// gathers batches: a number, or Measure, which the run replaces by a number; "" means the store's default.
	Accumulator string `json:"accumulator,omitempty"`
	// Topology is the place that neighbours are read from, if batches are drawn while training.
	// Under topology.Cached, neighbours get a quarter of Memory by default; under topology.Pinned
	// the engine's GPU draws the batches.
	Topology
	// PageCache is the method that bounds the page cache to Memory, for a store that leaves rows to
	// it: "cgroup", by a memory cgroup that the process makes and enters; "auto", by a cgroup if
	// the process's own cgroup was delegated to it; "" or "drop", by dropping pages.
	PageCache string `json:"page_cache,omitempty"`
	// Slots is the number of batches under way; 0 means the most that are useful and fit in memory.
	// With one slot, nothing overlaps.
	Slots int `json:"slots,omitempty"`
	// GPUMemory is the most bytes of the GPU's memory that the run holds; 0 means all free bytes,
	// less a reserve for the driver.
	GPUMemory int64        `json:"gpu_memory,omitempty"`
	GPUCache  *budget.Size `json:"gpu_cache,omitempty"` // held by the GPU; nil: as much as it has room for
	IO        string       `json:"io,omitempty"`        // a kind that iostack/all knows; "" means auto
}

// Measure is the value of Resources.Accumulator for the number that suits the drive.
const Measure = "measure"

// Accesses returns the number in Accumulator, 0 if it has none. An invalid value is an error of kind fault.ErrUsage.
func (r *Resources) Accesses() (int64, error) {
	if r.Accumulator == "" || r.Accumulator == Measure {
		return 0, nil
	}
	n, err := strconv.ParseInt(r.Accumulator, 10, 64)
	if err != nil || n < 1 || n > mostAccesses {
		return 0, fault.New(fault.ErrUsage, "--accumulator %s: give a number of accesses from 1 to %d, or %s", r.Accumulator, int64(mostAccesses), Measure)
	}
	return n, nil
}

// mostAccesses exceeds the accesses of all batches that a store gathers.
const mostAccesses = 1 << 40

// Topology names the embedded field of Resources.
type Topology = topology.Choice

// PackFacts describe the training data in run.json.
type PackFacts struct {
	Dir      string     `json:"dir"` // as it was named
	Nodes    int64      `json:"nodes"`
	Dim      int        `json:"dim"`
	Classes  int        `json:"classes"`
	DType    dtype.Type `json:"dtype"`
	RowBytes int        `json:"row_bytes"`
	Fanout   []int      `json:"fanout"`
	// Types and TypeInputs are the featurestore.Facts of a typed graph.
	Types           *graph.Types `json:"types,omitempty"`
	TypeInputs      []int64      `json:"type_input_nodes,omitempty"`
	Epochs          int          `json:"epochs"` // sampled
	BatchesPerEpoch int          `json:"batches_per_epoch"`
	featurestore.Description
}

// First returns the number of epochs that the run was begun with: 0 if f is nil, which means no run
// yet.
func (f *File) First() int {
	if f == nil {
		return 0
	}
	return cmp.Or(f.FirstEpochs, f.Params.Epochs)
}

// Identity returns a hash of the parameters that decide a run's weights. It stays the same when the
// run is extended.
func (f *File) Identity() (string, error) {
	params := f.Params
	params.Epochs = f.First()
	b, err := json.Marshal(struct {
		Params Params
		Pack   string
		Engine engine.Info
	}{params, cmp.Or(f.Pack, f.Samples), f.Setup.Info})
	return binio.Hash(b), err
}

// Checked reports whether the run's files have checksums.
func (f *File) Checked() bool { return versions[f.Format.Version].summed }

// Note returns a warning that the files of the run in dir have no checksums, and so damage is not
// noticed; "" for a run with checksums.
func (f *File) Note(dir string) string {
	if f.Checked() {
		return ""
	}
	return dir + " is a run of an earlier version of this program: run.json, metrics and weights have no checksums and are read unchecked"
}

// Unlocked returns an error if a process trains the run.
func (f *File) Unlocked(fsys vfs.FS, out string) error {
	if f.State != StateRunning {
		return nil
	}
	lock, err := fsys.Lock(filepath.Join(out, LockFile))
	if err != nil {
		return err
	}
	return lock.Close() // only tried
}

// NameTrace returns the name of the trace of the n-th process that resumed a run.
func NameTrace(n int) string {
	if n == 0 {
		return TraceFile
	}
	return fmt.Sprintf("trace-%d.json", n)
}

// isTrace reports whether a file is some process's trace.
func isTrace(name string) bool {
	var n int
	_, err := fmt.Sscanf(name, "trace-%d.json", &n)
	return name == TraceFile || err == nil && n > 0 && name == NameTrace(n)
}

// MetricsEnd is the length of metrics.jsonl in bytes, with its CRC-32C.
type MetricsEnd struct {
	Bytes int64  `json:"bytes"`
	CRC   uint32 `json:"crc"` // CRC-32C of them
}
