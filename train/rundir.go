package train

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/pipeline"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
	"diskgnn/train/report"
	"diskgnn/train/safetensors"
)

// Names of the files in a run's directory; run.json is stage.RunFile.
const (
	MetricsFile = "metrics.jsonl"
	WeightsFile = "weights.safetensors"
	FinalFile   = "final.safetensors"
	TraceFile   = "trace.json"
	ReportFile  = "report.html"

	CheckpointsDir = "checkpoints"

	lockFile = "lock"
	tmpExt   = ".tmp" // of a file being replaced
)

// runFormat names the directory's format in run.json.
var runFormat = stage.Format{Name: "diskgnn.run", Version: 2}

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

// runFile is the content of run.json.
type runFile struct {
	Format  stage.Format `json:"format"`
	State   State        `json:"state"`
	Error   string       `json:"error,omitempty"`
	Version string       `json:"program"`
	Begun   time.Time    `json:"begun"`
	Ended   *time.Time   `json:"ended,omitempty"`
	// Params and Pack are what the weights follow from, together with BLAS.
	Params runParams `json:"params"`
	// Store is the kind of the store; "" in runs of earlier versions, which are packed.
	Store string `json:"store,omitempty"`
	Pack  string `json:"pack"` // fingerprint of the store's directory; "" if it has none
	// Samples and Dataset are the fingerprints of those that the store was made from. Runs
	// of earlier versions say nothing of the samples.
	Samples string `json:"samples,omitempty"`
	Dataset string `json:"dataset"`
	// PackPath, DatasetPath and SamplesPath are where these were that the store is of, for
	// the process that goes on.
	PackPath    string      `json:"pack_path,omitempty"`
	DatasetPath string      `json:"dataset_path,omitempty"`
	SamplesPath string      `json:"samples_path,omitempty"`
	Preferences preferences `json:"preferences"`
	Resumed     int         `json:"resumed,omitempty"` // how often
	// PackFacts are for people: Pack implies them.
	PackFacts packFacts `json:"pack_facts"`
	Setup     Setup     `json:"setup"`
	Result    *Result   `json:"result,omitempty"`
}

// runParams are what decides the result.
type runParams struct {
	recipe.Recipe
	Network model.Model `json:"network"` // that engines compute: all that its weights mean
}

// runDir is the directory of a run under way.
type runDir struct {
	fs      vfs.FS
	path    string
	lock    io.Closer
	file    runFile
	metrics vfs.File
	metricsEnd
	note    func(format string, args ...any) // what people should know, not errors
	reports throttle

	recorder *pipeline.Recorder // of this process; nil: no trace is asked for
}

// beginRun makes the directory, or with force clears the run that is there, and
// locks it. Nothing but a run is ever replaced.
func beginRun(fsys vfs.FS, out string, force bool, file runFile) (d *runDir, err error) {
	out = filepath.Clean(out)
	if err := checkOut(fsys, out, force); err != nil {
		return nil, err
	}
	parent := filepath.Dir(out)
	if ok, err := vfs.Exists(fsys, parent); err != nil || !ok {
		return nil, fault.New(fault.ErrUsage, "cannot write %s: the directory %s does not exist", out, parent)
	}
	if err := fsys.MkdirAll(out); err != nil {
		return nil, fmt.Errorf("make %s: %w", out, err)
	}
	// What is written inside is as durable as the directory's name.
	if err := fsys.SyncDir(parent); err != nil {
		return nil, err
	}
	d = &runDir{fs: fsys, path: out, file: file, note: progress.Discard.Logf}
	if d.lock, err = fsys.Lock(d.name(lockFile)); err != nil {
		return nil, err
	}
	if err := d.open(force); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

// open starts the locked directory's content.
func (d *runDir) open(force bool) (err error) {
	// Somebody else may have come between the first look and the lock.
	if err := checkOut(d.fs, d.path, force); err != nil {
		return err
	}
	// Checkpoints go before run.json says that another run is here.
	if err := d.checkpoints().Clear(); err != nil {
		return err
	}
	// run.json next: from here on, what is left of an earlier run is not finished.
	d.file.Format, d.file.State, d.file.Begun = runFormat, StateRunning, time.Now().UTC()
	if err := d.save(); err != nil {
		return err
	}
	names, err := d.fs.List(d.path)
	if err != nil {
		return fmt.Errorf("clear %s: %w", d.path, err)
	}
	ours := []string{FinalFile, WeightsFile, ReportFile}
	for _, name := range names {
		if !slices.Contains(ours, name) && !isTrace(name) {
			continue
		}
		if err := d.remove(name); err != nil {
			return fmt.Errorf("clear %s: %w", d.path, err)
		}
	}
	return d.openMetrics(metricsEnd{})
}

// traceFile returns the name of the trace of the process that went on with a run for the
// n-th time.
func traceFile(n int) string {
	if n == 0 {
		return TraceFile
	}
	return fmt.Sprintf("trace-%d.json", n)
}

// isTrace tells whether a file is some process's trace.
func isTrace(name string) bool {
	var n int
	_, err := fmt.Sscanf(name, "trace-%d.json", &n)
	return name == TraceFile || err == nil && n > 0 && name == traceFile(n)
}

// writeTrace writes what this process recorded, if it did.
func (d *runDir) writeTrace() error {
	if d.recorder == nil {
		return nil
	}
	name := traceFile(d.file.Resumed)
	if n := d.recorder.Dropped(); n > 0 {
		d.note("%s holds the latest %d spans; %d earlier ones were dropped", name, traceSpans, n)
	}
	return d.replace(name, d.recorder.WriteTrace)
}

// checkOut refuses an output that exists, unless it is a run that may be replaced.
func checkOut(fsys vfs.FS, out string, force bool) error {
	ok, err := vfs.Exists(fsys, out)
	if err != nil || !ok {
		return err
	}
	was, err := readRun(fsys, out)
	if err != nil {
		names, lerr := fsys.List(out)
		ours := []string{lockFile, stage.RunFile + tmpExt} // what a run leaves that ended before it began
		if lerr == nil && !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(ours, n) }) {
			return nil
		}
		return fault.New(fault.ErrExists, "%s exists and is not a run of this program; remove it or choose another name", out)
	}
	if force {
		return nil
	}
	switch was.State {
	case StateFinished:
		return fault.New(fault.ErrExists, "%s exists: a finished run; use --force to train anew in its place, or another name", out)
	default:
		if err := was.unlocked(fsys, out); err != nil {
			return err
		}
	}
	return fault.New(fault.ErrExists, "%s exists: a run that did not finish (%s); use --resume to go on, --force to start over, or another name", out, was.State)
}

// Of run.json, all but the result is some ten thousand bytes long, and in the result an
// epoch no less than these.
const (
	mostRunFacts   = 1 << 20
	leastEpochText = 256
)

// readRun reads run.json and makes sure that it is one.
func readRun(fsys vfs.FS, dir string) (runFile, error) {
	name := filepath.Join(dir, stage.RunFile)
	b, err := vfs.ReadSmall(fsys, name, report.MostRun)
	if err != nil {
		return runFile{}, err
	}
	r, err := decodeRun(b)
	if err != nil {
		return r, fault.New(fault.ErrCorrupt, "%s: %w", name, err)
	}
	if r.Format.Name != runFormat.Name {
		return r, fault.New(fault.ErrInput, "%s is no run of this program", dir)
	}
	return r, nil
}

// decodeRun reads the JSON of a run.json, in memory of its length.
func decodeRun(b []byte) (r runFile, err error) {
	var all struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(b, &all); err != nil {
		return r, err
	}
	if n := len(b) - len(all.Result); n > mostRunFacts {
		return r, fmt.Errorf("%d bytes beside the result", n)
	}
	facts := struct {
		*runFile
		Result json.RawMessage `json:"result"` // hides the run's
	}{runFile: &r}
	if err := json.Unmarshal(b, &facts); err != nil {
		return r, err
	}
	if len(all.Result) == 0 || string(all.Result) == "null" {
		return r, nil
	}
	r.Result, err = decodeResult(all.Result)
	return r, err
}

// decodeResult reads a result, its epochs one by one.
func decodeResult(b []byte) (*Result, error) {
	var all struct {
		Epochs json.RawMessage `json:"epochs"`
	}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	if n := len(b) - len(all.Epochs); n > mostRunFacts {
		return nil, fmt.Errorf("result: %d bytes beside the epochs", n)
	}
	r := new(Result)
	facts := struct {
		*Result
		Epochs json.RawMessage `json:"epochs"` // hides the result's
	}{Result: r}
	if err := json.Unmarshal(b, &facts); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(all.Epochs))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return r, nil // of a run without epochs
	}
	for d.More() {
		var e Epoch
		if err := d.Decode(&e); err != nil {
			return nil, fmt.Errorf("epoch %d of the result: %w", len(r.Epochs), err)
		}
		if r.Epochs = append(r.Epochs, e); d.InputOffset() < leastEpochText*int64(len(r.Epochs)) {
			return nil, fmt.Errorf("%d epochs in %d bytes of the result", len(r.Epochs), d.InputOffset())
		}
	}
	return r, nil
}

func (d *runDir) name(file string) string { return filepath.Join(d.path, file) }

func (d *runDir) remove(file string) error {
	if ok, err := vfs.Exists(d.fs, d.name(file)); err != nil || !ok {
		return err
	}
	return d.fs.Remove(d.name(file))
}

// save replaces run.json.
func (d *runDir) save() error {
	b, err := json.MarshalIndent(d.file, "", "  ")
	if err != nil {
		return err
	}
	if err := vfs.ReplaceFile(d.fs, d.name(stage.RunFile), append(b, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", d.name(stage.RunFile), err)
	}
	return nil
}

// saveWeights replaces a file of weights as they are after an epoch.
func (d *runDir) saveWeights(name string, tensors []safetensors.Tensor, epoch int) error {
	metadata := map[string]string{
		"format": "pt", // the orientation is PyTorch's
		"model":  d.file.Params.Model,
		"epoch":  fmt.Sprint(epoch),
	}
	return d.replace(name, func(w io.Writer) error { return safetensors.Write(w, tensors, metadata) })
}

// replace writes a file so that the old content or the new is there, never a mixture.
func (d *runDir) replace(name string, content func(io.Writer) error) error {
	path := d.name(name)
	write := func() (err error) {
		f, err := d.fs.Create(path + tmpExt)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		b := bufio.NewWriterSize(f, 1<<20)
		if err := content(b); err != nil {
			return err
		}
		if err := b.Flush(); err != nil {
			return err
		}
		return f.Sync()
	}
	err := write()
	if err == nil {
		err = d.fs.Rename(path+tmpExt, path)
	}
	if err == nil {
		err = d.fs.SyncDir(d.path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// finish says that the run is complete: after everything else is.
func (d *runDir) finish(r *Result) error {
	if err := d.metrics.Close(); err != nil {
		d.metrics = nil
		return fmt.Errorf("write %s: %w", d.name(MetricsFile), err)
	}
	d.metrics = nil
	d.end(StateFinished, nil)
	d.file.Result = r
	if err := d.save(); err != nil {
		return err
	}
	d.report()
	// The run is finished; checkpoints that stay behind, and a lock unheld, do no harm.
	_ = d.checkpoints().Clear()
	_ = d.fs.Remove(d.name(lockFile))
	_ = d.lock.Close()
	return nil
}

// abandon records why the run ended early and leaves nothing that could be taken for
// a finished one. It returns why, with what went wrong on the way.
func (d *runDir) abandon(why error) error {
	state := StateFailed
	if errors.Is(why, fault.ErrInterrupted) {
		state = StateInterrupted
	}
	var errs []error
	if d.metrics != nil {
		errs = append(errs, d.metrics.Close())
	}
	d.end(state, why)
	errs = append(errs, d.save(), d.remove(FinalFile))
	d.report()
	if err := d.writeTrace(); err != nil {
		d.note("no trace: %v", err)
	}
	errs = append(errs, d.lock.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w (and then: %s)", why, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return why
}

func (d *runDir) end(s State, why error) {
	now := time.Now().UTC()
	d.file.State, d.file.Ended = s, &now
	if why != nil {
		d.file.Error = why.Error()
	}
}
