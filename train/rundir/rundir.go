// Package rundir is RUN, the directory of a training run: what its files hold, and how
// they are written and read. It is live while the run trains:
//
//	run.json             parameters, what they were resolved to, the run's state and,
//	                     once finished, its result: a File
//	metrics.jsonl        a line per epoch, in order: an Epoch
//	weights.safetensors  weights of the best validation epoch so far
//	final.safetensors    weights after the last epoch
//	trace.json           what every link did when (on request), and in trace-1.json,
//	                     trace-2.json …, in the processes that went on with the run
//	checkpoints/         what an interrupted run goes on from (package checkpoint), and a
//	                     finished one that is made longer
//	report.html          all of this on a page, for people (package report)
//	lock                 held while training
//
// All but metrics.jsonl are replaced whole, by way of a file whose name ends in .tmp; a
// line of metrics.jsonl is synced before anything refers to it. A run that was cut off may
// have left a part of one more line, and says running but holds no lock.
//
//	   ┌──────────── resumed ───────────┐
//	   ▼                                │
//	running ──► interrupted, failed ────┤   checkpoints/ are kept
//	   │  └───► (killed: no lock) ──────┘
//	   ├──────► finished                    final.safetensors, and one checkpoint or none
//	   └─ longer ───┘
//
// A run is finished when run.json says so; final.safetensors is there then, and of the
// checkpoints at most one: of the last epoch, all of whose batches are done and which is yet to be
// validated. From it the run goes on to more epochs. It is there where the weights do not depend on
// how many epochs there are in all: not with a cosine, nor where a run stopped early. A run that
// ended early has checkpoints, and no final.safetensors.
//
// Every file that something is computed from is checked when it is read:
//
//	run.json             its last member is "checksum", two spaces before it on a line of its own:
//	                     the SHA-256, in hexadecimal digits, of all bytes before the comma that
//	                     precedes the member; "}" and a newline follow
//	*.safetensors        have a checksum in their metadata (package safetensors)
//	metrics.jsonl        "metrics" of run.json, and of every checkpoint, says how many bytes
//	                     were written when that was, and their CRC-32C; lines may follow
//	checkpoints/         have checksums of their own
//
// A checksum lies in the file that it protects, or is of a part that nothing replaces: whichever
// file was replaced last before a crash, each matches. trace.json and report.html are for people,
// and unchecked.
//
// run.json names the format, diskgnn.run, and its version:
//
//	2    without checksums, but for those of checkpoints; a checksum that is there is compared
//	3    with checksums: a file that has none is damaged
//
// A program writes version 3 and reads both; earlier ones are refused. A run of version 2 that goes
// on becomes one of version 3 once its weights have a checksum.
// Keys that a version adds without meaning anything else by the old ones do not raise
// it: readers ignore keys that they do not know, and take keys that are missing for those of
// a run that had no such choice.
package rundir

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
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

	LockFile = "lock"
	tmpExt   = ".tmp" // of a file being replaced
)

// Format names the directory's format in run.json.
var Format = stage.Format{Name: "diskgnn.run", Version: 3}

// versions says of each version that is read whether its files have checksums.
var versions = stage.Versions[struct{ summed bool }]{2: {}, 3: {summed: true}}

// State says how far a run got.
type State string

// The states of a run. One that ended without saying how, by a crash, stays running,
// but holds no lock.
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
	// Command is the command line that began the run, and Host the machine that it runs on, or
	// ran on last. They are for people.
	Command []string      `json:"command,omitempty"`
	Host    *program.Host `json:"host,omitempty"`
	Begun   time.Time     `json:"begun"`
	Ended   *time.Time    `json:"ended,omitempty"`
	// Params and Pack are what the weights follow from, together with BLAS.
	Params Params `json:"params"`
	// Store is the kind of the store; "" in runs of earlier versions, which are packed.
	Store string `json:"store,omitempty"`
	Pack  string `json:"pack"` // fingerprint of the store's directory; "" if it has none
	// Samples and Dataset are the fingerprints of those that the store was made from. Where
	// batches are drawn while training, Samples is a hash of what decides them. Runs of
	// earlier versions say nothing of the samples.
	Samples string `json:"samples,omitempty"`
	Dataset string `json:"dataset"`
	// Preprocessing is the dataset's, by which other graphs are compared with it, and LabelKind
	// its labels': nil and "" in runs of earlier versions, and of packs of earlier versions.
	Preprocessing *dataset.Preprocessing `json:"preprocessing,omitempty"`
	LabelKind     string                 `json:"label_kind,omitempty"`
	// PackPath, DatasetPath and SamplesPath are where these were that the store is of, for
	// the process that goes on.
	PackPath    string `json:"pack_path,omitempty"`
	DatasetPath string `json:"dataset_path,omitempty"`
	SamplesPath string `json:"samples_path,omitempty"`
	// WeightsPath is where the file was that the run began with, whose hash is in Params.
	WeightsPath string      `json:"weights_path,omitempty"`
	Preferences Preferences `json:"preferences"`
	Resumed     int         `json:"resumed,omitempty"` // how often
	// Metrics is how far metrics.jsonl was written when run.json was; nil in runs of earlier versions.
	Metrics *MetricsEnd `json:"metrics,omitempty"`
	// FirstEpochs is how many epochs the run was begun with, if it has more now; else 0.
	FirstEpochs int `json:"first_epochs,omitempty"`
	// PackFacts are for people: Pack implies them.
	PackFacts PackFacts `json:"pack_facts"`
	Setup     Setup     `json:"setup"`
	Timeline  *Timeline `json:"timeline,omitempty"`
	Result    *Result   `json:"result,omitempty"`
}

// Timeline is what the links did when for the last batches of an epoch, for people.
type Timeline struct {
	Epoch int            `json:"epoch"`
	Spans []TimelineSpan `json:"spans"`
}

// TimelineSpan is what a lane, a worker of a link, did for a batch of the epoch. Times are in
// seconds, from the begin of the first of the spans.
type TimelineSpan struct {
	Lane    string  `json:"lane"`
	Batch   int     `json:"batch"`
	Begin   float64 `json:"begin"`
	Seconds float64 `json:"seconds"`
}

// Params are what decides the result.
type Params struct {
	recipe.Recipe
	Network model.Model `json:"network"` // that engines compute: all that its weights mean
}

// Preferences are options that decide nothing of the result, as far as they were
// given: a resumed run keeps them.
type Preferences struct {
	Resources
	CheckpointEvery *Interval `json:"checkpoint_every,omitempty"`
	Keep            int       `json:"keep,omitempty"`
	Trace           *bool     `json:"trace,omitempty"`
}

// Resources say how a run uses its machine: memory, caches, threads, slots, storage and the
// topology. A zero value leaves the choice to the run.
type Resources struct {
	Memory  int64 `json:"memory,omitempty"`  // anonymous and locked bytes; 0 means budget.Default
	Threads int   `json:"threads,omitempty"` // of the engine; 0 means GOMAXPROCS
	// RAMCache is what RAM holds of the rows; nil: as much of what the pack holds as hot as Memory
	// allows.
	RAMCache *budget.Size `json:"ram_cache,omitempty"`
	// CachePolicy is what decides which rows the RAM cache of a store holds that reads rows
	// while training; "" means the store's default.
	CachePolicy string `json:"cache_policy,omitempty"`
	// FaultThreads is the number of threads on which a store that maps its rows waits for
	// their pages; 0 means the store's default.
	FaultThreads int `json:"fault_threads,omitempty"`
	// Topology is where neighbours are read from, if batches are drawn while training. Under
	// topology.Cached, what they take by default is a quarter of Memory; under topology.Pinned
	// the engine's GPU draws the batches.
	Topology
	// PageCache says how the page cache is held to Memory by a store that leaves rows to it:
	// "cgroup", by a memory cgroup that the process makes and enters; "auto", by one where the
	// process's own cgroup was delegated to it; "" or "drop", by dropping pages.
	PageCache string `json:"page_cache,omitempty"`
	// Slots is the number of batches under way; 0 means what memory allows, up to what
	// serves. With one, nothing overlaps.
	Slots int `json:"slots,omitempty"`
	// GPUMemory is what the run may hold of the GPU's; 0 means all that is free, but for
	// what the driver may still need.
	GPUMemory int64        `json:"gpu_memory,omitempty"`
	GPUCache  *budget.Size `json:"gpu_cache,omitempty"` // held by the GPU; nil: as much as it has room for
	IO        string       `json:"io,omitempty"`        // a kind that iostack/all knows; "" means auto
}

// Topology names the embedded field of Resources.
type Topology = topology.Choice

// PackFacts say in run.json what was trained on.
type PackFacts struct {
	Dir             string     `json:"dir"` // as it was named
	Nodes           int64      `json:"nodes"`
	Dim             int        `json:"dim"`
	Classes         int        `json:"classes"`
	DType           dtype.Type `json:"dtype"`
	RowBytes        int        `json:"row_bytes"`
	Fanout          []int      `json:"fanout"`
	Epochs          int        `json:"epochs"` // sampled
	BatchesPerEpoch int        `json:"batches_per_epoch"`
	featurestore.Description
}

// First returns how many epochs the run was begun with: 0 where there is none yet, of which f is nil.
func (f *File) First() int {
	if f == nil {
		return 0
	}
	return cmp.Or(f.FirstEpochs, f.Params.Epochs)
}

// Identity returns the hash of what a run's weights follow from, which it keeps when it is made
// longer.
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

// Checked tells whether the run's files have checksums.
func (f *File) Checked() bool { return versions[f.Format.Version].summed }

// Note says of a run whose files have no checksums that damage would not be noticed; "" of others.
func (f *File) Note(dir string) string {
	if f.Checked() {
		return ""
	}
	return dir + " is a run of an earlier version of this program: run.json, metrics and weights have no checksums and are read unchecked"
}

// Unlocked makes sure that no process trains the run.
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

// NameTrace returns the name of the trace of the process that went on with a run for the
// n-th time.
func NameTrace(n int) string {
	if n == 0 {
		return TraceFile
	}
	return fmt.Sprintf("trace-%d.json", n)
}

// isTrace tells whether a file is some process's trace.
func isTrace(name string) bool {
	var n int
	_, err := fmt.Sscanf(name, "trace-%d.json", &n)
	return name == TraceFile || err == nil && n > 0 && name == NameTrace(n)
}

// MetricsEnd is how far metrics.jsonl is written.
type MetricsEnd struct {
	Bytes int64  `json:"bytes"`
	CRC   uint32 `json:"crc"` // CRC-32C of them
}
