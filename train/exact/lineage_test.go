package exact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// sum returns the SHA-256 of a file.
func (w *world) sum(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(w.path(name))
	check(t, err)
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// What a prediction was made of lies beside it, whatever its form, and is what Predict returns.
func TestLineage(t *testing.T) {
	w := newWorld(t, vfstest.TempDir(t), datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 5, Classes: 3, Seed: 3}.Raw(), 4)
	check(t, os.WriteFile(w.path("list.txt"), []byte("3\n1\n"), 0o666))
	for _, c := range []struct{ out, file, nodes, says string }{
		{"l.npy", "l.npy.lineage.json", AllNodes, "all"}, {"c.d.csv", "c.d.csv.lineage.json", "test", "test"}, {"p.parquet", "p.parquet.lineage.json", w.path("list.txt"), "list"},
	} {
		p, err := Predict(context.Background(), disk, PredictOptions{Options: w.options(), Out: w.path(c.out), Nodes: c.nodes}, progress.Discard)
		check(t, err)
		b, err := os.ReadFile(w.path(c.file))
		check(t, err)
		var l Lineage
		check(t, json.Unmarshal(b, &l))
		st, err := os.Stat(w.path(c.out))
		check(t, err)
		want := Lineage{Format: lineageFormat, File: c.out, Bytes: st.Size(), SHA256: w.sum(t, c.out), Origin: Origin{Nodes: c.says, Output: Logits, Weights: "best", WeightsSHA256: w.sum(t, "run/weights.safetensors"),
			Checked: true, Dataset: w.fingerprint, TrainedOn: w.fingerprint, BLAS: p.BLAS}}
		if c.says == "list" {
			want.NodesSHA256 = binio.Hash(binio.Bytes([]uint32{1, 3}))
		}
		if l != want || *p.Lineage != want || p.LineageFile != w.path(c.file) {
			t.Errorf("%s: %+v, returned %+v, want %+v", c.out, l, p.Lineage, want)
		}
		if bytes.Contains(b, []byte(w.dir)) {
			t.Errorf("%s has a path: %s", c.file, b)
		}
	}
}

// A prediction that is there is finished only if the same options give it; Predict then does nothing.
func TestFinished(t *testing.T) {
	w := newWorld(t, t.TempDir(), datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 5, Classes: 3, Seed: 3}.Raw(), 4)
	w.write(t, "list.txt", "3\n1\n")
	o := PredictOptions{Options: w.options(), Out: w.path("l.npy"), Nodes: w.path("list.txt"), Output: Classes}
	o.EnsureDefaults()
	predict := func() (Prediction, error) {
		return Predict(context.Background(), disk, o, progress.Discard)
	}
	first, err := predict()
	check(t, err)
	again, err := predict()
	check(t, err)
	if first.State != "new" || again.State != "done" || again.IDs != first.IDs || again.Rows != 2 || again.Columns != first.Columns || again.DType != first.DType || *again.Lineage != *first.Lineage || again.BLAS != first.BLAS {
		t.Errorf("%+v, then %+v", first, again)
	}
	finished := func(what string, want bool, o PredictOptions) {
		t.Helper()
		if p, err := Finished(context.Background(), disk, o); err != nil || (p != nil) != want {
			t.Errorf("%s: %+v, %v", what, p, err)
		}
	}
	finished("the same", true, o)
	for what, change := range map[string]func(o *PredictOptions){
		"output":  func(o *PredictOptions) { o.Output = Logits },
		"nodes":   func(o *PredictOptions) { o.Nodes = AllNodes },
		"weights": func(o *PredictOptions) { o.Weights = "final" },
		"library": func(o *PredictOptions) {
			if o.BLAS = "gonum"; first.BLAS == o.BLAS {
				o.BLAS = "builtin"
			}
		},
		"run":     func(o *PredictOptions) { o.Run = w.path("nowhere") },
		"dataset": func(o *PredictOptions) { o.Dataset = w.path("nowhere") },
		"name":    func(o *PredictOptions) { o.Out = w.path("m.npy") },
	} {
		other := o
		change(&other)
		finished(what, false, other)
	}
	for _, c := range []struct{ file, content string }{{"list.txt", "3\n2\n"}, {"l.npy", "x"}, {"l.npy.lineage.json", "{"}, {"dataset/meta.json", "{"}} {
		good, err := os.ReadFile(w.path(c.file))
		check(t, err)
		w.write(t, c.file, c.content)
		finished(c.file, false, o)
		w.write(t, c.file, string(good))
		finished("restored", true, o)
	}
	check(t, os.Rename(first.IDs, w.path("aside")))
	finished("without ids", false, o)
	if _, err := predict(); !errors.Is(err, fault.ErrExists) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	check(t, os.Rename(w.path("aside"), first.IDs))
	if _, err := Finished(ctx, disk, o); !errors.Is(err, fault.ErrInterrupted) {
		t.Error(err)
	}
	o.Force = true
	if p, err := predict(); err != nil || p.State != "new" {
		t.Errorf("%+v, %v", p, err)
	}
}

func (w *world) write(t *testing.T, name, content string) {
	t.Helper()
	check(t, os.WriteFile(w.path(name), []byte(content), 0o666))
}

// No prediction gets its name before what says what it was made of.
func TestLineageComesFirst(t *testing.T) {
	w := newWorld(t, vfstest.TempDir(t), datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 5, Classes: 3, Seed: 3}.Raw(), 4)
	boom := errors.New("boom")
	in := &vfs.FailAt{Err: boom, Match: func(op vfs.Op, name string) bool { return strings.Contains(name, lineageSuffix) }}
	_, err := Predict(context.Background(), vfs.Inject(disk, in), PredictOptions{Options: w.options(), Out: w.path("l.npy")}, progress.Discard)
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "l.npy.lineage.json") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"l.npy", "l.npy.tmp", "l.npy.lineage.json"} {
		if _, err := os.Stat(w.path(name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

// Nothing is computed with weights, or by a model, that are not what was written; what says nothing
// of that is said to be unchecked.
func TestDamagedRun(t *testing.T) {
	w := newWorld(t, vfstest.TempDir(t), datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 5, Classes: 3, Seed: 3}.Raw(), 4)
	both := func() (rep said, errs [2]error) {
		_, errs[0] = Predict(context.Background(), disk, PredictOptions{Options: w.options(), Out: w.path("l.npy"), Force: true}, &rep)
		_, errs[1] = Evaluate(context.Background(), disk, w.options(), &rep)
		return rep, errs
	}
	for _, c := range []struct{ file, old, new string }{
		{"run/weights.safetensors", "diskgnn.sha256", "diskgnn_sha256"},
		{"run/weights.safetensors", `"dtype"`, `"dtypf"`},
		{"run/run.json", `"metric": "accuracy"`, `"metric": "auc"`},
		{"run/run.json", `"version": 3`, `"version": 2`},
	} {
		good, err := os.ReadFile(w.path(c.file))
		check(t, err)
		check(t, os.WriteFile(w.path(c.file), bytes.Replace(good, []byte(c.old), []byte(c.new), 1), 0o666))
		_, errs := both()
		for _, err := range errs {
			if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), w.path(c.file)) {
				t.Errorf("%s without %s: %v", c.file, c.old, err)
			}
		}
		check(t, os.WriteFile(w.path(c.file), good, 0o666))
	}
	b, err := os.ReadFile(w.path("run/run.json"))
	check(t, err)
	b = bytes.Replace(b[:bytes.LastIndex(b, []byte(",\n  \"checksum\""))], []byte(`"version": 3`), []byte(`"version": 2`), 1)
	check(t, os.WriteFile(w.path("run/run.json"), append(b, "\n}\n"...), 0o666))
	rep, errs := both()
	if errs != [2]error{} || strings.Count(strings.Join(rep.lines, "\n"), "unchecked") != 2 {
		t.Errorf("%v, %q", errs, rep.lines)
	}
	l, err := os.ReadFile(w.path("l.npy.lineage.json"))
	check(t, err)
	if !bytes.Contains(l, []byte(`"checked": false`)) {
		t.Errorf("%s", l)
	}
}

// said keeps what is said.
type said struct{ lines []string }

func (s *said) Logf(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (*said) Task(string, int64, progress.Unit) progress.Task {
	return progress.Discard.Task("", 0, "")
}
