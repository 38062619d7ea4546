package train

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/program"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/all"
	"diskgnn/train/report"
	"diskgnn/train/rundir"
)

func TestReportOfARun(t *testing.T) {
	w := newWorld(t, worldParams{})
	o := w.options(w.pack(10))
	r, _ := w.mustRun(o, nil)
	page := string(w.file(o.Out, rundir.ReportFile))
	for _, want := range []string{"Finished 3 epochs. Test accuracy", "300 nodes, 3 classes", "7 → 8 → 3", "load graph"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	// It can be made again, from the directory alone.
	if err := os.Remove(filepath.Join(o.Out, rundir.ReportFile)); err != nil {
		t.Fatal(err)
	}
	before := names(t, o.Out)
	got, err := Report(disk, o.Out, 0)
	if err != nil || got.State != rundir.StateFinished || len(got.Epochs) != len(r.Epochs) {
		t.Errorf("%+v, %v", got, err)
	}
	if string(w.file(o.Out, rundir.ReportFile)) != page {
		t.Error("made again, the page differs")
	}
	if after := names(t, o.Out); strings.Replace(after, rundir.ReportFile+" ", "", 1) != before {
		t.Errorf("the directory held %s, and then %s", before, after)
	}
	if _, err := Report(disk, w.path("dataset"), 0); !errors.Is(err, fault.ErrInput) && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a dataset: %v", err)
	}
}

// A run records what every cache of its pack would serve and leave to be read, which is what
// runs with that cache find; and the machine and the command line, of the process that began it.
func TestRecordedForPeople(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(5)
	first := w.options(p, func(o *Options) { o.Epochs, o.Engine, o.Command = 2, EngineNone, []string{"diskgnn", "train"} })
	w.mustRun(first, nil)
	caches := mustRead(t, first.Out).PackFacts.Caches
	if len(caches) < 3 {
		t.Fatalf("%d caches", len(caches))
	}
	for i, c := range caches {
		r, _ := w.mustRun(w.fresh(first, func(o *Options) { o.RAMCache = &budget.Size{Value: float64(c.Rows * 28)} }), nil)
		ram, rows, read, pages := int64(0), int64(0), int64(0), int64(0)
		for _, e := range r.Epochs { // as many as were sampled
			ram, rows, read, pages = ram+e.RAMBytes/28, rows+e.InputNodes, read+e.BytesRead-e.GraphBytesRead, pages+int64(e.Batches)
		}
		if hits := float64(ram) / float64(rows); r.CacheRows != c.Rows || math.Abs(hits-c.Hits) > 1e-12 {
			t.Errorf("%d rows: %.4f of the rows are served, %.4f were foretold of %d", r.CacheRows, hits, c.Hits, c.Rows)
		}
		if c.ReadBytes > read || read >= c.ReadBytes+pages<<12 || i > 0 && (c.ReadBytes >= caches[i-1].ReadBytes || c.Rows <= caches[i-1].Rows) {
			t.Errorf("%d rows: %d bytes are read, %d were foretold", r.CacheRows, read, c.ReadBytes)
		}
	}
	o := w.options(p, func(o *Options) {
		o.CheckpointEvery, o.Command = rundir.Interval{Batches: 2}, []string{"diskgnn", "train", "--lr", "0.01"}
	})
	w.interrupt(o, 5)
	o.Resume, o.Command = true, []string{"diskgnn", "train", "--resume"}
	w.mustRun(o, nil)
	if f := mustRead(t, o.Out); !slices.Equal(f.Command, []string{"diskgnn", "train", "--lr", "0.01"}) || f.Host == nil || *f.Host != program.ThisHost() {
		t.Errorf("command %q on %+v", f.Command, f.Host)
	}
}

func mustRead(t *testing.T, out string) rundir.File {
	t.Helper()
	f, err := rundir.Read(disk, out)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A run under way makes its own report, a killed one gets one that says so.
func TestReportOfLiveRuns(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	d := mustBegin(t, out, false)
	if _, err := Report(vfs.OS, out, 0); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("under way: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := Report(vfs.OS, out, 0); err != nil || r.State != report.Killed {
		t.Errorf("killed: %+v, %v", r, err)
	}
}

// unlockable is a file system on which nobody may lock.
type unlockable struct{ vfs.FS }

func (unlockable) Lock(name string) (io.Closer, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

// A run of somebody else's is not taken for one under way: its page may be written elsewhere.
func TestReportWithoutPermission(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	if err := mustBegin(t, out, false).Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Report(unlockable{vfs.OS}, out, 0)
	if !errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "under way") || !strings.Contains(err.Error(), "--html") {
		t.Error(err)
	}
}

// A run whose report cannot be written goes on, and says so.
func TestReportFails(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120, batch: 60, epochs: 1})
	o := w.options(w.pack(10))
	in := &vfs.FailAt{After: true, Err: errors.New("boom"), Match: func(op vfs.Op, name string) bool {
		return strings.Contains(name, rundir.ReportFile) && op != vfs.OpRemove
	}}
	var rep logged
	r, err := run(context.Background(), vfs.Inject(disk, in), o, &rep, usual(all.Open, newCPUEngine))
	if err != nil || len(r.Epochs) != 3 || state(t, o.Out).State != rundir.StateFinished {
		t.Errorf("%d epochs, %v", len(r.Epochs), err)
	}
	if !strings.Contains(rep.String(), "report.html was not written: ") {
		t.Errorf("reported:\n%s", rep.String())
	}
}

func TestThrottle(t *testing.T) {
	var th throttle
	n := 0
	th.do(func() { n++ })
	th.next = th.next.Add(1 << 40) // a long time after
	th.do(func() { n++ })
	if n != 1 {
		t.Errorf("done %d times", n)
	}
}
