package graphbolt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/graphbolt"
	"diskgnn/dataset/importer/importertest"
)

// tutorial is what DGL loads of its tutorial's tree.
var tutorial = filepath.Join("testdata", "tutorial.txt")

// TestTutorial imports the tree of DGL's tutorial, and what GraphBolt made of it, and compares both
// with what DGL loads.
func TestTutorial(t *testing.T) {
	for _, name := range []string{"tutorial", "preprocessed", "preprocessed/preprocessed", "preprocessed/preprocessed/metadata.yaml", "tutorial/metadata.yaml"} {
		t.Run(name, func(t *testing.T) {
			dir, res := importertest.Imported(t, graphbolt.Format, filepath.Join("testdata", name), importer.Reading{})
			if res.Classes != 10 || res.Dim != 10 || res.Edges != 600 || res.Train != 36 {
				t.Errorf("%+v", res)
			}
			importertest.SameNodes(t, dir, tutorial)
		})
	}
}

// TestArrays imports the tutorial's tree with arrays of NumPy in its files of torch.
func TestArrays(t *testing.T) {
	source := importertest.Edited(t, filepath.Join("testdata", "tutorial"))
	files, err := filepath.Glob(filepath.Join("testdata", "arrays", "*.pt"))
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		importertest.Put(filepath.Base(name), content)(t, source)
	}
	dir, _ := importertest.Imported(t, graphbolt.Format, source, importer.Reading{})
	importertest.SameNodes(t, dir, tutorial)
}

// TestChoice names the task and the features, and looks what becomes part of the fingerprint.
func TestChoice(t *testing.T) {
	source := filepath.Join("testdata", "tutorial")
	_, plain := importertest.Imported(t, graphbolt.Format, source, importer.Reading{})
	_, same := importertest.Imported(t, graphbolt.Format, source, importer.Reading{Task: "node_classification", Features: []string{"feat_0", "feat_1"}})
	if plain.Fingerprint != same.Fingerprint {
		t.Error("to name what is chosen anyway makes another dataset")
	}
	dir, turned := importertest.Imported(t, graphbolt.Format, source, importer.Reading{Features: []string{"feat_1", "feat_0"}})
	_, one := importertest.Imported(t, graphbolt.Format, source, importer.Reading{Features: []string{"feat_1"}})
	if plain.Fingerprint == turned.Fingerprint || plain.Fingerprint == one.Fingerprint || turned.Dim != 10 || one.Dim != 5 {
		t.Errorf("%+v, %+v, %+v", plain, turned, one)
	}
	var want strings.Builder
	for line := range strings.Lines(importertest.GoldenNodes(t, tutorial)) {
		f := strings.Split(line, " | ")
		x := strings.Fields(f[2])
		f[2] = strings.Join(append(x[5:], x[:5]...), " ")
		want.WriteString(strings.Join(f, " | "))
	}
	if got := importertest.Nodes(t, dir); got != want.String() {
		t.Errorf("imported\n%s, want\n%s", got, want.String())
	}
	for says, o := range map[string]importer.Reading{
		`its tasks are link_prediction, node_classification; --task "x" is not one of them`: {Task: "x"},
		`its node features are feat_0, feat_1; --feature`:                                   {Features: []string{"feat_2"}},
		`; --feature "feat_0" is not exactly one of them, or is given twice`:                {Features: []string{"feat_0", "feat_0"}},
		`metadata.yaml: the train set has no seeds or no labels`:                            {Task: "link_prediction"},
	} {
		importertest.Refused(t, graphbolt.Format, source, o, says)
	}
}
