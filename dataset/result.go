package dataset

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Result describes the dataset that Generate or Import made. The JSON keys are stable.
type Result struct {
	Out         string     `json:"out"`
	Fingerprint string     `json:"fingerprint"`
	State       string     `json:"state"` // new, resumed, or done: it was there already
	Nodes       int64      `json:"nodes"`
	Edges       int64      `json:"edges"`
	Dim         int        `json:"dim"`
	DType       dtype.Type `json:"dtype"`
	Classes     int        `json:"classes"`
	Train       int64      `json:"train"`
	Valid       int64      `json:"valid"`
	Test        int64      `json:"test"`
	Unlabelled  int64      `json:"unlabelled"`
	LabelKind   string     `json:"label_kind"` // class, or multi-hot: any number of them
	DiskBytes   int64      `json:"disk_bytes"`
	// FeatureBytes is the size of the features on disk, compressed or not.
	FeatureBytes int64  `json:"feature_bytes"`
	Compression  string `json:"compression,omitempty"`
	OriginalIDs  string `json:"original_ids,omitempty"` // see Facts
	// Fill has the node types that got features by this run; see importer.Options.
	Fill []Filled `json:"fill,omitempty"`
	// Notes are messages about the way in which an import read its source.
	Notes []string `json:"notes,omitempty"`
	// FeaturesAlone is the test accuracy of the best classifier of features alone on a generated graph:
	// the baseline for a model's gain by the neighbourhood. Nil for imported graphs, and for graphs of
	// many labels.
	FeaturesAlone *float64 `json:"features_alone_accuracy,omitempty"`

	Seconds         float64 `json:"seconds"`
	LabelSeconds    float64 `json:"label_seconds"`
	TopologySeconds float64 `json:"topology_seconds"`
	FeatureSeconds  float64 `json:"feature_seconds"`
	PeakAnon        int64   `json:"peak_anon_bytes"`
	PeakRSS         int64   `json:"peak_rss_bytes"`
}

// maxRunFile is the largest size of a run.json that is read; it has a few hundred bytes.
const maxRunFile = 1 << 20

// runFacts is the content of run.json.
type runFacts struct {
	Host          string   `json:"host"`
	Started       string   `json:"started"`
	Seconds       float64  `json:"seconds"`
	Version       string   `json:"version"`
	Go            string   `json:"go"`
	Workers       int      `json:"workers"`
	Memory        int64    `json:"memory_bytes"`
	FeaturesAlone *float64 `json:"features_alone_accuracy,omitempty"`
}

// Call measures the time and memory of one call of a function that makes a dataset, and makes its
// Result.
type Call struct {
	Res   Result // the caller sets the fields of seconds and notes; method Result sets the others
	start time.Time
	watch *budget.Watch
	use   Resources
}

// StartCall begins to measure the making of the dataset out. The caller must call Stop or Result.
func StartCall(ctx context.Context, out string, use Resources) *Call {
	return &Call{Res: Result{Out: out}, start: time.Now(), watch: budget.StartWatch(ctx), use: use}
}

// Stop ends measuring memory. It may be called more than once.
func (r *Call) Stop() { r.watch.Stop() }

// Since adds the seconds since began to *seconds, such as a field of a Result.
func Since(seconds *float64, began time.Time) { *seconds += time.Since(began).Seconds() }

// Facts returns the record for run.json, for Writer.Commit.
func (r *Call) Facts() any { return r.facts() }

func (r *Call) facts() runFacts {
	host, _ := os.Hostname() // a run without a name is no reason to fail
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	return runFacts{
		Host: host, Started: r.start.UTC().Format(time.RFC3339), Seconds: time.Since(r.start).Seconds(),
		Version: version, Go: runtime.Version(), Workers: r.use.Workers, Memory: r.use.Memory,
		FeaturesAlone: r.Res.FeaturesAlone,
	}
}

// Result opens the finished dataset once and returns its description, with the time and memory since
// StartCall.
func (r *Call) Result(fsys vfs.FS, state stage.State) (Result, error) {
	d, err := OpenAny(fsys, r.Res.Out)
	if err != nil {
		return Result{}, err
	}
	f, res := d.facts, &r.Res
	res.Fingerprint = d.Fingerprint()
	res.Nodes, res.Edges, res.Dim, res.DType, res.Classes = f.Nodes, f.Edges, f.Dim, f.DType, f.Classes
	res.Train, res.Valid, res.Test, res.Unlabelled, res.LabelKind = f.Train, f.Valid, f.Test, f.Unlabelled, f.LabelKind
	for _, file := range d.meta.Files {
		res.DiskBytes += file.Size
	}
	table, _ := d.meta.File(f.FeaturesFile())
	res.FeatureBytes, res.Compression, res.OriginalIDs = table.Size, f.Compression, f.OriginalIDs
	switch state {
	case stage.StateNew:
		res.State = "new"
	case stage.StateResumed:
		res.State = "resumed"
	case stage.StateDone:
		res.State = "done"
		var was runFacts
		if b, err := vfs.ReadSmall(fsys, d.path(stage.RunFile), maxRunFile); err == nil && json.Unmarshal(b, &was) == nil {
			res.FeaturesAlone = was.FeaturesAlone
		}
	}
	res.Seconds = time.Since(r.start).Seconds()
	res.PeakAnon, res.PeakRSS = r.watch.Stop()
	return *res, nil
}
