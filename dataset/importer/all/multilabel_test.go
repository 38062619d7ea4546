package all_test

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
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
		"node 0 has 2 in the column of class 1":                        func(tr tree) { tr["train_labels.npy"] = npyFile("(2, 3)", []int8{1, 0, 1, 0, 2, 0}) },
		"node 3 has NaN in the column of class 2":                      func(tr tree) { tr["valid_labels.npy"] = npyFile("(1, 3)", []float32{0, 1, float32(math.NaN())}) },
		"node 1 has 0.5 in the column of class 0":                      func(tr tree) { tr["test_labels.npy"] = npyFile("(1, 3)", []float64{0.5, 1, 1}) },
		"valid_labels.npy: its shape is (1, 2), but other labels have": func(tr tree) { tr["valid_labels.npy"] = npyFile("(1, 2)", []bool{true, true}) },
		"test_labels.npy: its shape is (1,), but other labels have":    func(tr tree) { tr["test_labels.npy"] = vector([]int64{1}) },
		"num_classes is 3, but the labels have 2 columns":              func(tr tree) { tr["train_labels.npy"] = npyFile("(2, 2)", []int8{1, 0, 1, 0}) },
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
