package train

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/train/rundir"
	"diskgnn/train/safetensors"
	"diskgnn/train/score"
)

func mustBegin(t *testing.T, out string, force bool) *runDir {
	t.Helper()
	d, err := beginRun(vfs.OS, out, force, rundir.File{Pack: "f00d"})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func state(t testing.TB, out string) rundir.File {
	t.Helper()
	r, err := rundir.Read(vfs.OS, out)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func names(t testing.TB, dir string) string {
	t.Helper()
	l, err := vfs.OS.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(l, " ")
}

func TestRunDirectory(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	d := mustBegin(t, out, false)
	if got := names(t, out); got != "lock metrics.jsonl run.json" || state(t, out).State != rundir.StateRunning {
		t.Errorf("under way: %s, %s", got, state(t, out).State)
	}
	if _, err := beginRun(vfs.OS, out, false, rundir.File{}); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("a second run: %v", err)
	}
	if _, err := beginRun(vfs.OS, out, true, rundir.File{}); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("a second run, forced: %v", err)
	}
	if err := d.AppendMetrics(rundir.Epoch{Epoch: 0, Loss: 0.5, ValidAccuracy: score.Undefined}); err != nil {
		t.Fatal(err)
	}
	tensors := []safetensors.Tensor{{Name: "w", Shape: []int{2}, Data: []float32{1, 2}}}
	for _, name := range []string{rundir.WeightsFile, rundir.FinalFile} {
		if err := d.SaveWeights(name, tensors, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.finish(&rundir.Result{BestEpoch: 3}); err != nil {
		t.Fatal(err)
	}
	if got := names(t, out); got != "final.safetensors metrics.jsonl report.html run.json weights.safetensors" {
		t.Errorf("finished: %s", got)
	}
	if r := state(t, out); r.State != rundir.StateFinished || r.Result.BestEpoch != 3 || r.Ended == nil || r.Pack != "f00d" {
		t.Errorf("finished: %+v", r)
	}

	_, err := beginRun(vfs.OS, out, false, rundir.File{})
	if !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "a finished run; use --force") {
		t.Errorf("over a finished run: %v", err)
	}
	if err := os.WriteFile(filepath.Join(out, "notes.txt"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	d = mustBegin(t, out, true)
	if got := names(t, out); got != "lock metrics.jsonl notes.txt run.json" {
		t.Errorf("begun anew: %s", got)
	}
	if err := d.SaveWeights(rundir.FinalFile, tensors, 1); err != nil {
		t.Fatal(err)
	}
	why := errors.New("the disk burns")
	if err := d.abandon(why); !errors.Is(err, why) || err.Error() != "the disk burns" {
		t.Errorf("abandon returns %v", err)
	}
	if r := state(t, out); r.State != rundir.StateFailed || r.Error != "the disk burns" || r.Result != nil {
		t.Errorf("failed: %+v", r)
	}
	if got := names(t, out); got != "lock metrics.jsonl notes.txt report.html run.json" {
		t.Errorf("failed: %s", got)
	}
	_, err = beginRun(vfs.OS, out, false, rundir.File{})
	if !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "did not finish (failed)") {
		t.Errorf("over a failed run: %v", err)
	}
	d = mustBegin(t, out, true)
	if err := d.abandon(fault.ErrInterrupted); !errors.Is(err, fault.ErrInterrupted) || state(t, out).State != rundir.StateInterrupted {
		t.Errorf("interrupted: %v, %s", err, state(t, out).State)
	}
}

// A run that was killed says running, but nobody holds its lock.
func TestKilledRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	d := mustBegin(t, out, false)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := beginRun(vfs.OS, out, false, rundir.File{})
	if !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "did not finish (running)") {
		t.Errorf("got %v", err)
	}
	d = mustBegin(t, out, true)
	_ = d.abandon(fault.ErrInterrupted)
}

// What is not a run is never touched, forced or not.
func TestForeignDirectories(t *testing.T) {
	for what, file := range map[string]struct{ name, content string }{
		"some file":          {"thesis.tex", "years of work"},
		"another directory":  {stage.RunFile, `{"format":{"name":"something else","version":1}}`},
		"a finished dataset": {stage.MetaFile, "{}"},
		"a broken run.json":  {stage.RunFile, "{"},
	} {
		for _, force := range []bool{false, true} {
			out := t.TempDir()
			path := filepath.Join(out, file.name)
			if err := os.WriteFile(path, []byte(file.content), 0o666); err != nil {
				t.Fatal(err)
			}
			_, err := beginRun(vfs.OS, out, force, rundir.File{})
			if !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "is not a run") {
				t.Errorf("%s, force %t: %v", what, force, err)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != file.content || names(t, out) != file.name {
				t.Errorf("%s, force %t: holds %s", what, force, names(t, out))
			}
		}
	}
	_ = mustBegin(t, t.TempDir(), false).abandon(fault.ErrInterrupted) // empty: there is nothing to lose
	if _, err := beginRun(vfs.OS, filepath.Join("rundir_test.go", "run"), false, rundir.File{}); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("a file as the parent: %v", err)
	}
}

// A weights file is the old one or the new one, whichever operation fails.
func TestWeightsAreReplacedWhole(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	d := mustBegin(t, out, false)
	defer func() { _ = d.abandon(io.EOF) }()
	tensor := func(x float32) []safetensors.Tensor {
		return []safetensors.Tensor{{Name: "w", Shape: []int{1}, Data: []float32{x}}}
	}
	if err := d.SaveWeights(rundir.WeightsFile, tensor(0), 0); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	for n, old := 0, float32(0); ; n++ {
		in := &vfs.FailAt{N: n, Err: boom}
		d.FS = vfs.Inject(vfs.OS, in)
		err := d.SaveWeights(rundir.WeightsFile, tensor(float32(n+1)), n)
		b, rerr := os.ReadFile(filepath.Join(out, rundir.WeightsFile))
		got, _, derr := safetensors.Decode(b)
		if rerr != nil || derr != nil || got[0].Data[0] != old && got[0].Data[0] != float32(n+1) {
			t.Fatalf("%v: holds %v (%v, %v)", in, got, rerr, derr)
		}
		old = got[0].Data[0]
		if !in.Fired() {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if !errors.Is(err, boom) || !strings.Contains(err.Error(), rundir.WeightsFile) {
			t.Fatalf("%v: %v", in, err)
		}
	}
	d.FS = vfs.OS
}
