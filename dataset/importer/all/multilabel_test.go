package all_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer/all"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

func TestImportMultiLabel(t *testing.T) {
	nan := math.NaN()
	for name, labels := range map[string][]byte{
		"floats":   npyFile("(5, 3)", []float64{1, 0, 0, 0, 0, 0, 0, 1, 1, nan, nan, nan, 1, 1, 1}),
		"integers": npyFile("(5, 3)", []int8{1, 0, 0, 0, 0, 0, 0, 1, 1, -1, -1, -1, 1, 1, 1}),
	} {
		dir := t.TempDir()
		tr := benchmarkTree()
		tr["g.npz/labels"] = labels
		tr.Write(t, dir)
		out := filepath.Join(dir, "D")
		res, err := importAs(t.Context(), datasettest.FS, out, benchmarkOptions(dir), progress.Discard)
		if err != nil {
			t.Fatal(name, err)
		}
		if res.Classes != 3 || res.Unlabelled != 1 || res.LabelKind != "multi-hot" || res.Train != 2 {
			t.Errorf("%s: %+v", name, res)
		}
		contents(t, out, map[string][]byte{"targets.bin": {1, 0, 6, 0, 7}})
	}
}

// boltMulti is boltTree with three classes that nodes may have together.
func boltMulti() tree {
	tr := boltTree()
	text := string(tr["metadata.yaml"])
	text = strings.Replace(text, "{name: labels, format: csv, path: valid_labels.csv}", "{name: labels, format: numpy, path: valid_labels.npy}", 1)
	tr["metadata.yaml"] = []byte(text)
	tr["train_labels.npy"] = npyFile("(2, 3)", []bool{true, false, true, false, true, false})
	tr["valid_labels.npy"] = npyFile("(1, 3)", []float32{0, 0, 0})
	tr["test_labels.npy"] = npyFile("(1, 3)", []int64{1, 1, 1})
	return tr
}

func TestImportMultiLabelGraphBolt(t *testing.T) {
	dir := t.TempDir()
	boltMulti().Write(t, dir)
	out := filepath.Join(dir, "D")
	if _, err := importAs(t.Context(), datasettest.FS, out, boltOptions(dir), progress.Discard); err != nil {
		t.Fatal(err)
	}
	contents(t, out, map[string][]byte{"targets.bin": {2, 7, 5, 0}, "train.bin": {0, 0, 0, 0, 2, 0, 0, 0}})

	for want, change := range map[string]func(tree){
		"node 0 has 2 in the column of class 1":                             func(tr tree) { tr["train_labels.npy"] = npyFile("(2, 3)", []int8{1, 0, 1, 0, 2, 0}) },
		"node 3 has NaN in the column of class 2":                           func(tr tree) { tr["valid_labels.npy"] = npyFile("(1, 3)", []float32{0, 1, float32(math.NaN())}) },
		"node 1 has 0.5 in the column of class 0":                           func(tr tree) { tr["test_labels.npy"] = npyFile("(1, 3)", []float64{0.5, 1, 1}) },
		"valid_labels.npy: its rows have 2 elements, but other labels have": func(tr tree) { tr["valid_labels.npy"] = npyFile("(1, 2)", []bool{true, true}) },
		"test_labels.npy: its rows have 1 elements, but other labels have":  func(tr tree) { tr["test_labels.npy"] = vector([]int64{1}) },
		"num_classes is 3, but the labels have 2 columns":                   func(tr tree) { tr["train_labels.npy"] = npyFile("(2, 2)", []int8{1, 0, 1, 0}) },
		"save it row-major":      func(tr tree) { tr["train_labels.npy"] = npyOrder("(2, 3)", true, []int8{1, 0, 1, 0, 0, 0}) },
		"have different lengths": func(tr tree) { tr["test_labels.npy"] = npyFile("(2, 3)", []int64{1, 1, 1, 0, 0, 0}) },
		"valid_labels.csv: other labels are arrays with 3 columns": func(tr tree) { tr["metadata.yaml"] = boltTree()["metadata.yaml"] },
	} {
		dir := t.TempDir()
		tr := boltMulti()
		change(tr)
		tr.Write(t, dir)
		if _, err := importAs(t.Context(), datasettest.FS, filepath.Join(dir, "D"), boltOptions(dir), progress.Discard); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
}

// TestLabelsAs imports rows that each have a single one: import asks for their meaning, unless the format
// or another row tells.
func TestLabelsAs(t *testing.T) {
	nan := math.NaN()
	oneHot := npyFile("(5, 3)", []float64{1, 0, 0, 0, 0, 1, 0, 1, 0, nan, nan, nan, 0, 0, 1})
	open := npyFile("(5, 3)", []int8{1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1})
	made := func(labels []byte, as string) (dataset.Result, string, error) {
		dir := t.TempDir()
		tr := benchmarkTree()
		tr["g.npz/labels"] = labels
		tr.Write(t, dir)
		o := benchmarkOptions(dir)
		o.LabelsAs = as
		res, err := importAs(t.Context(), datasettest.FS, filepath.Join(dir, "D"), o, progress.Discard)
		if err != nil {
			if _, begun := os.Stat(filepath.Join(dir, "D.partial")); begun == nil {
				t.Errorf("%v, but the dataset was begun", err)
			}
			return res, "", err
		}
		d, err := dataset.Open(datasettest.FS, filepath.Join(dir, "D"))
		if err != nil {
			t.Fatal(err)
		}
		labels, err = json.Marshal(d.Meta().Params)
		if err != nil {
			t.Fatal(err)
		}
		contents(t, filepath.Join(dir, "D"), map[string][]byte{"labels.bin": binio.Bytes(map[bool][]int32{
			false: {0, 0, 0, map[bool]int32{false: 0, true: -1}[res.Unlabelled == 1], 0}, true: {0, 2, 1, -1, 2},
		}[res.LabelKind == "class"])})
		return res, string(labels), nil
	}
	for _, labels := range [][]byte{oneHot, open} {
		res, params, err := made(labels, "classes")
		if err != nil || res.Classes != 3 || res.LabelKind != "class" || res.Unlabelled != 1 || !strings.Contains(params, `"reading":{"labels_as":"classes"}`) {
			t.Errorf("classes: %+v, %s, %v", res, params, err)
		}
		res, params, err = made(labels, "multi")
		if err != nil || res.Classes != 3 || res.LabelKind != "multi-hot" || strings.Contains(params, "labels_as") { // as older programs say
			t.Errorf("multi: %+v, %s, %v", res, params, err)
		}
	}
	if _, _, err := made(oneHot, ""); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "g.npz: every row of labels has a single 1 in 3 columns: give --labels-as classes") {
		t.Errorf("not asked: %v", err)
	}
	if res, _, err := made(open, ""); err != nil || res.LabelKind != "multi-hot" {
		t.Errorf("a row without a one: %+v, %v", res, err)
	}
	if _, _, err := made(npyFile("(5, 3)", []int8{1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 1}), "classes"); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "g.npz: labels: node 3 has a 1 in the columns of classes 0 and 1") {
		t.Errorf("two ones: %v", err)
	}
	if _, _, err := made(vector([]int64{0, 2, 1, -1, 0}), "multi"); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--labels-as multi: ") {
		t.Errorf("one column: %v", err)
	}
	if res, params, err := made(vector([]int64{0, 2, 1, -100, 2}), "classes"); err != nil || res.Unlabelled != 1 || strings.Contains(params, "labels_as") {
		t.Errorf("one column: %+v, %s, %v", res, params, err)
	}

	// GraphBolt's rows are multi-label.
	dir := t.TempDir()
	tr := boltMulti()
	tr["train_labels.npy"] = npyFile("(2, 3)", []bool{true, false, false, false, true, false})
	tr["valid_labels.npy"], tr["test_labels.npy"] = npyFile("(1, 3)", []float32{0, 0, 1}), npyFile("(1, 3)", []int64{1, 0, 0})
	tr.Write(t, dir)
	if res, err := importAs(t.Context(), datasettest.FS, filepath.Join(dir, "D"), boltOptions(dir), progress.Discard); err != nil || res.LabelKind != "multi-hot" {
		t.Errorf("graphbolt: %+v, %v", res, err)
	}
}

// TestLabelNotes: an import and its plan tell of a class 0 without nodes.
func TestLabelNotes(t *testing.T) {
	dir := t.TempDir()
	tr := benchmarkTree()
	tr["g.npz/labels"] = vector([]int64{1, 3, 2, -1, 1})
	tr.Write(t, dir)
	const want = "class 0 has no node: labels seem to be counted from 1; the model gets 4 classes"
	p, err := all.MakePlan(t.Context(), datasettest.FS, filepath.Join(dir, "D"), all.Auto, benchmarkOptions(dir).Options, progress.Discard)
	if err != nil || !slices.Contains(p.Notes, want) {
		t.Errorf("planned: %q, %v", p.Notes, err)
	}
	res, err := importAs(t.Context(), datasettest.FS, filepath.Join(dir, "D"), benchmarkOptions(dir), progress.Discard)
	if err != nil || !slices.Contains(res.Notes, want) || res.Classes != 4 {
		t.Errorf("imported: %q, %v", res.Notes, err)
	}
}

// TestLabelsAreDefined: import asks no owner of a set in a format that defines the meaning of its labels.
func TestLabelsAreDefined(t *testing.T) {
	for _, f := range all.Formats {
		if slices.Contains([]string{"graphbolt", "graphsaint", "ogb", "igb", "igb-h", "offgs"}, f.Name) && slices.Contains(f.Takes, "labels-as") {
			t.Errorf("%s takes --labels-as", f.Name)
		}
	}
}
