package graphbolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/graphbolt"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

func imported(t *testing.T, source string, o importer.Reading) (dir string, res dataset.Result) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "D")
	res, err := importer.Import(t.Context(), datasettest.FS, dir, graphbolt.Format, importer.Options{Sources: []string{source}, Reading: o}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return dir, res
}

func golden(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "| validation\n", "| valid\n")
}

// TestTutorial imports the tree of DGL's tutorial, and what GraphBolt made of it, and compares both
// with what DGL loads.
func TestTutorial(t *testing.T) {
	want := golden(t, "tutorial.txt")
	for _, name := range []string{"tutorial", "preprocessed", "preprocessed/preprocessed", "preprocessed/preprocessed/metadata.yaml", "tutorial/metadata.yaml"} {
		t.Run(name, func(t *testing.T) {
			dir, res := imported(t, filepath.Join("testdata", name), importer.Reading{})
			if res.Classes != 10 || res.Dim != 10 || res.Edges != 600 || res.Train != 36 {
				t.Errorf("%+v", res)
			}
			if got := importertest.Nodes(t, dir); got != want {
				t.Errorf("imported\n%s, DGL loads\n%s", got, want)
			}
		})
	}
}

// TestArrays imports the tutorial's tree with arrays of NumPy in its files of torch.
func TestArrays(t *testing.T) {
	source := filepath.Join(t.TempDir(), "tree")
	if err := os.CopyFS(source, os.DirFS(filepath.Join("testdata", "tutorial"))); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "arrays", "*.pt"))
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		put(filepath.Base(name), content)(t, source)
	}
	dir, _ := imported(t, source, importer.Reading{})
	if got, want := importertest.Nodes(t, dir), golden(t, "tutorial.txt"); got != want {
		t.Errorf("imported\n%s, with tensors\n%s", got, want)
	}
}

// TestChoice names the task and the features, and looks what becomes part of the fingerprint.
func TestChoice(t *testing.T) {
	source := filepath.Join("testdata", "tutorial")
	_, plain := imported(t, source, importer.Reading{})
	_, same := imported(t, source, importer.Reading{Task: "node_classification", Features: []string{"feat_0", "feat_1"}})
	if plain.Fingerprint != same.Fingerprint {
		t.Error("to name what is chosen anyway makes another dataset")
	}
	dir, turned := imported(t, source, importer.Reading{Features: []string{"feat_1", "feat_0"}})
	_, one := imported(t, source, importer.Reading{Features: []string{"feat_1"}})
	if plain.Fingerprint == turned.Fingerprint || plain.Fingerprint == one.Fingerprint || turned.Dim != 10 || one.Dim != 5 {
		t.Errorf("%+v, %+v, %+v", plain, turned, one)
	}
	var want strings.Builder
	for line := range strings.Lines(golden(t, "tutorial.txt")) {
		f := strings.Split(line, " | ")
		x := strings.Fields(f[2])
		f[2] = strings.Join(append(x[5:], x[:5]...), " ")
		want.WriteString(strings.Join(f, " | "))
	}
	if got := importertest.Nodes(t, dir); got != want.String() {
		t.Errorf("imported\n%s, want\n%s", got, want.String())
	}
	for says, o := range map[string]importer.Reading{
		`its tasks are link_prediction, node_classification: none is the "x"`: {Task: "x"},
		`its node features are feat_0, feat_1: none`:                          {Features: []string{"feat_2"}},
		`more than one, is the "feat_0" that is wanted once`:                  {Features: []string{"feat_0", "feat_0"}},
		`metadata.yaml: the train set has no seeds or no labels`:              {Task: "link_prediction"},
	} {
		refused(t, source, o, says)
	}
}

func refused(t *testing.T, source string, o importer.Reading, says string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "D")
	_, err := importer.Import(t.Context(), datasettest.FS, out, graphbolt.Format, importer.Options{Sources: []string{source}, Reading: o}, progress.Discard)
	if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v; want bad input in one line that says %q", err, says)
	}
}
