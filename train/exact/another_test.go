package exact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack/all"
	"diskgnn/train/model"
	"diskgnn/train/rundir"
)

// on returns the run of w on another graph, whose dataset it makes in a new directory.
func (w *world) on(t datasettest.TB, dir string, raw dataset.Raw) (*world, Options) {
	t.Helper()
	check(t, os.MkdirAll(dir, 0o777))
	datasettest.Create(t, dir, raw)
	there := *w
	there.raw = raw
	o := w.options()
	o.Dataset = dir + "/dataset"
	return &there, o
}

// All kinds of models are inductive: on another graph they compute what their formulas say.
func TestEveryModelOnAnotherGraph(t *testing.T) {
	raw := datasettest.Params{Nodes: 90, AvgDegree: 5, Dim: 6, Classes: 3, Seed: 8}.Raw()
	other := datasettest.Params{Nodes: 130, AvgDegree: 3, Dim: 6, Classes: 3, Seed: 9}.Raw()
	for _, m := range []model.Model{
		{Kind: model.SAGE, Dims: []int{6, 8, 3}, Norm: model.BatchNorm},
		{Kind: model.GCN, Dims: []int{6, 8, 3}, GCNNorm: model.BlockNorm},
		{Kind: model.GAT, Dims: []int{6, 8, 3}, Heads: 2, Residual: true, Orders: slices.Repeat([]model.Order{model.Aggregate}, 2)},
	} {
		w := newWorldOf(t, vfstest.TempDir(t), raw, m)
		there, o := w.on(t, w.path("other"), other)
		got, _ := w.predict(t, PredictOptions{Options: o}, 0)
		want, _ := there.oracle(t)
		near(t, string(m.Kind), got, want[1], tolerance)
	}
}

// says adds keys to what the run says of itself.
func (w *world) says(t *testing.T, keys map[string]any) {
	t.Helper()
	b, err := os.ReadFile(w.path("run/run.json"))
	check(t, err)
	run := map[string]any{}
	check(t, json.Unmarshal(b, &run))
	maps.Copy(run, keys)
	delete(run, "checksum")
	b, err = rundir.Encode(run)
	check(t, err)
	check(t, os.WriteFile(w.path("run/run.json"), b, 0o666))
}

// notes keeps what is said.
type notes struct {
	progress.Reporter
	text []string
}

func (n *notes) Logf(format string, args ...any) {
	n.text = append(n.text, fmt.Sprintf(format, args...))
}

// A graph that was preprocessed otherwise is refused by name, and accepted by name. A run that
// does not say how its own graph was preprocessed says so once.
func TestAnotherPreprocessing(t *testing.T) {
	raw := datasettest.Params{Nodes: 40, AvgDegree: 4, Dim: 5, Classes: 3, Seed: 1}.Raw()
	w := newWorld(t, vfstest.TempDir(t), raw, 4)
	half := datasettest.Params{Nodes: 30, AvgDegree: 4, Dim: 5, Classes: 3, Seed: 2, DType: dtype.Float16}.Raw()
	_, o := w.on(t, w.path("other"), half)
	predict := func(accept ...string) (string, error) {
		o := PredictOptions{Options: o, Out: w.path("out.npy"), Force: true}
		o.Accept = accept
		said := notes{Reporter: progress.Discard}
		_, err := predict(context.Background(), disk, o, &said, parts{stack: all.Open})
		return strings.Join(said.text, "\n"), err
	}
	said, err := predict()
	if err != nil || strings.Count(said, "does not record") != 1 {
		t.Errorf("a run without a record: %v, %q", err, said)
	}
	w.says(t, map[string]any{"preprocessing": dataset.Preprocessing{DType: dtype.Float32, SelfLoops: "drop", RowNormalize: true}})
	for _, accept := range [][]string{nil, {"dtype"}, {"row-normalize", "self-loops"}} {
		_, err = predict(accept...)
		if !errors.Is(err, fault.ErrLineage) {
			t.Errorf("accepting %v: %v", accept, err)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "(dtype: float16, not float32): import it alike, or go on with --accept dtype") {
		t.Errorf("%v", err)
	}
	for _, accept := range [][]string{{AcceptAll}, {"dtype", "row-normalize", "self-loops"}} {
		if said, err = predict(accept...); err != nil || !strings.Contains(said, "is another graph than the one") {
			t.Errorf("accepting %v: %v, %q", accept, err, said)
		}
	}
	// Of its own graph nothing is asked.
	if _, p := w.predict(t, PredictOptions{}, 0); p.OtherGraph {
		t.Errorf("%+v", p)
	}
	w.says(t, map[string]any{"preprocessing": map[string]any{"dtype": "float32", "self_loops": "perhaps"}})
	if _, err := predict(); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a forged record: %v", err)
	}
}

// Labels that the model was not made for are refused where they are scored, and not where they
// are not looked at.
func TestAnotherGraphsLabels(t *testing.T) {
	raw := datasettest.Params{Nodes: 40, AvgDegree: 4, Dim: 5, Classes: 3, Seed: 1}.Raw()
	w := newWorld(t, vfstest.TempDir(t), raw, 4)
	more := datasettest.Params{Nodes: 30, AvgDegree: 4, Dim: 5, Classes: 4, Seed: 2}.Raw()
	_, o := w.on(t, w.path("more"), more)
	if _, err := Evaluate(context.Background(), disk, o, progress.Discard); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "was trained on 5 features and 3 classes, but ") {
		t.Errorf("%v", err)
	}
	multi := datasettest.Params{Nodes: 30, AvgDegree: 4, Dim: 5, Classes: 3, Seed: 2}.Raw()
	multi.Targets = make([]byte, len(multi.Labels))
	for v, y := range multi.Labels {
		multi.Labels[v] = min(y, 0)
	}
	w.says(t, map[string]any{"label_kind": "class"})
	there, o := w.on(t, w.path("multi"), multi)
	if _, err := Evaluate(context.Background(), disk, o, progress.Discard); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "was trained on class labels, ") {
		t.Errorf("%v", err)
	}
	// What is predicted is what was trained: a class for each node.
	classes, p := w.predict(t, PredictOptions{Options: o, Output: Classes}, 0)
	if p.DType != "int32" || p.Columns != 1 || len(classes) != len(there.raw.Labels) {
		t.Errorf("%+v", p)
	}
	w.says(t, map[string]any{"label_kind": "multi-hot"})
	p, err := Predict(context.Background(), disk, PredictOptions{Options: o, Output: Classes, Out: w.path("each.npy")}, progress.Discard)
	if err != nil || p.DType != "uint8" || p.Columns != 3 {
		t.Errorf("%+v, %v", p, err)
	}
}
