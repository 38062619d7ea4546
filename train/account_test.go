package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
	"diskgnn/train/engine"
	"diskgnn/train/rundir"
	"diskgnn/train/trained"
	"diskgnn/train/traintest"
)

// adding is a reporter that checks what is added to each task.
type adding struct {
	progress.Reporter
	t     *testing.T
	mu    sync.Mutex
	names []string
}

type addingTask struct {
	r     *adding
	name  string
	total int64
	added atomic.Int64
}

func (a *adding) Task(name string, total int64, _ progress.Unit) progress.Task {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names = append(a.names, name)
	return &addingTask{r: a, name: name, total: total}
}

func (t *addingTask) Add(n int64) { t.added.Add(n) }

func (t *addingTask) Done() {
	if n := t.added.Load(); t.total > 0 && n != t.total {
		t.r.t.Errorf("%s: %d of %d", t.name, n, t.total)
	}
}

// operations notes what is done with files.
type operations struct {
	mu   sync.Mutex
	list []string // operation and base name
}

func (o *operations) Before(op vfs.Op, name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, string(op)+" "+filepath.Base(name))
	return nil
}

// TestAccounts holds a run to its books: the times of an epoch are its links', progress
// ends with what was announced, and a line of metrics.jsonl is durable before anything else
// is done with it.
func TestAccounts(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15})
	o := w.options(w.pack(20), func(o *Options) { o.CheckpointEvery, o.Keep = rundir.Interval{Batches: 2}, 2 })
	rep, ops := &adding{Reporter: progress.Discard, t: t}, &operations{}
	r, err := Run(context.Background(), vfs.Inject(disk, ops), o, rep)
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(rep.names, " "); !strings.Contains(all, "train") {
		t.Errorf("tasks: %s", all)
	}
	for _, e := range r.Epochs {
		busy := map[string]float64{}
		for _, s := range e.Links {
			busy[s.Link] = s.Busy
		}
		if e.ReadSeconds != busy["read features"] || e.ComputeSeconds != busy["compute"] || e.ReadSeconds <= 0 || e.ComputeSeconds <= 0 {
			t.Errorf("epoch %d: %g s of reading and %g of computing, where the links took %v", e.Epoch, e.ReadSeconds, e.ComputeSeconds, busy)
		}
	}
	written, lines := false, 0
	for _, op := range ops.list {
		what, name, _ := strings.Cut(op, " ")
		if name != rundir.MetricsFile {
			continue
		}
		if written && vfs.Op(what) != vfs.OpSync {
			t.Errorf("%s: %s before what was written is durable", rundir.MetricsFile, what)
		}
		if written = vfs.Op(what) == vfs.OpWrite; written {
			lines++
		}
	}
	if lines != len(r.Epochs) {
		t.Errorf("%d lines of %d epochs", lines, len(r.Epochs))
	}
}

// TestMetricsThatAreNotDurable end the run.
func TestMetricsThatAreNotDurable(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15})
	boom := errors.New("boom")
	in := &vfs.FailAt{N: 1, Err: boom, Match: func(op vfs.Op, name string) bool {
		return op == vfs.OpSync && filepath.Base(name) == rundir.MetricsFile
	}}
	if _, err := Run(context.Background(), vfs.Inject(disk, in), w.options(w.pack(20)), progress.Discard); !errors.Is(err, boom) || !strings.Contains(err.Error(), rundir.MetricsFile) {
		t.Errorf("%v", err)
	}
}

// TestOutputIsLookedAtFirst: a run that may not be written is refused before its pack is
// opened, new or to be gone on with.
func TestOutputIsLookedAtFirst(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15})
	o := w.options(w.pack(20), func(o *Options) { o.Epochs = 1 })
	w.mustRun(o, nil)
	o.Pack = w.path("nowhere")
	if _, err := Run(context.Background(), disk, o, progress.Discard); !errors.Is(err, fault.ErrExists) {
		t.Errorf("a finished run: %v", err)
	}
	going := w.options(w.pack(20), func(o *Options) { o.CheckpointEvery = rundir.Interval{Batches: 2} })
	w.interrupt(going, 5)
	name := filepath.Join(going.Out, stage.RunFile)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.ReplaceAll(b, []byte(`"`+string(rundir.StateInterrupted)+`"`), []byte(`"`+string(rundir.StateRunning)+`"`)) // as of a process that lives
	traintest.WriteRun(t, going.Out, b)
	lock, err := disk.Lock(filepath.Join(going.Out, rundir.LockFile))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	going.Resume, going.Pack = true, w.path("nowhere")
	if _, err := Run(context.Background(), disk, going, progress.Discard); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("a locked run: %v", err)
	}
}

// TestPackPathIsAbsolute: a run knows its pack from wherever it is gone on with.
func TestPackPathIsAbsolute(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15})
	o := w.options(w.pack(20), func(o *Options) { o.CheckpointEvery = rundir.Interval{Batches: 2} })
	whole := o.Pack
	t.Chdir(filepath.Dir(whole))
	o.Pack = filepath.Base(whole)
	w.interrupt(o, 5)
	b, err := os.ReadFile(filepath.Join(o.Out, stage.RunFile))
	var run struct {
		Pack string `json:"pack_path"`
	}
	if err := errors.Join(err, json.Unmarshal(b, &run)); err != nil || run.Pack != whole {
		t.Errorf("the pack is %q, want %q: %v", run.Pack, whole, err)
	}
	t.Chdir(t.TempDir())
	o.Resume, o.Pack = true, ""
	if r, err := Run(context.Background(), disk, o, progress.Discard); err != nil || r.State != rundir.ResultResumed {
		t.Errorf("%+v, %v", r.State, err)
	}
}

// TestPackDamagedAtOpening says of a pack whose tables are damaged how it is made again.
func TestPackDamagedAtOpening(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15})
	o := w.options(w.pack(20))
	name := filepath.Join(o.Pack, packfile.HotSums)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), disk, o, progress.Discard); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "make it again") || !strings.Contains(err.Error(), packfile.HotSums) {
		t.Errorf("%v", err)
	}
	if _, err := disk.Stat(o.Out); err == nil {
		t.Error("a run was begun")
	}
}

// noRestore is an engine that fails to restore weights, once.
type noRestore struct {
	engine.Engine
	err error
}

func (n *noRestore) Restore(x []float32) error {
	if err := n.err; err != nil {
		n.err = nil
		return err
	}
	return n.Engine.Restore(x)
}

// TestBestWeightsCannotBeRestored: a run does not go on without the best weights that its
// checkpoint has.
func TestBestWeightsCannotBeRestored(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15})
	o := w.options(w.pack(20), func(o *Options) { o.CheckpointEvery = rundir.Interval{Batches: 1} })
	w.interrupt(o, 12)
	o.Resume = true
	boom := errors.New("boom")
	_, err := w.run(context.Background(), o, progress.Discard, func(p *parts) {
		wrapEngine(p, func(e engine.Engine) engine.Engine { return &noRestore{e, boom} })
	})
	if !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
}

// TestGarbageForWeights names the file, and what is wrong with it.
func TestGarbageForWeights(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15})
	o := w.options(w.pack(20), func(o *Options) { o.Epochs = 1 })
	w.mustRun(o, nil)
	name := filepath.Join(o.Out, rundir.WeightsFile)
	if err := os.WriteFile(name, []byte("\x10\x00\x00\x00\x00\x00\x00\x00no JSON, of course"), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: o.Out, Pack: o.Pack, BLAS: "gonum"}, progress.Discard)
	if err == nil || !strings.HasPrefix(err.Error(), name+": safetensors: ") || !strings.Contains(err.Error(), "not a JSON object") {
		t.Errorf("%v", err)
	}
}

// TestRemakeInOneLine: an error of several lines is told in one, each but once.
func TestRemakeInOneLine(t *testing.T) {
	err := errors.Join(fault.New(fault.ErrCorrupt, "hot.bin: bytes 0 to 9"), errors.New("the device is lost"), errors.New("the device is lost"), errors.New("close: no"))
	got := fault.Remake(err, "P", "pack").Error()
	if want := "hot.bin: bytes 0 to 9; the device is lost; close: no; P is damaged: make it again, by pack with --force, or from a copy"; !strings.HasSuffix(got, want) || strings.Contains(got, "\n") {
		t.Errorf("%q, want %q", got, want)
	}
}
