package importer_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage/stagetest"
	"diskgnn/internal/vfs"
)

// TestClassNames imports a source that names its classes, of one or of several a node, under any
// numbers of the nodes.
func TestClassNames(t *testing.T) {
	names := []string{"ant", "bee", "crow"}
	for _, multi := range []bool{false, true} {
		for _, relabel := range importer.Relabels() {
			g := &drawn{nodes: 30, dim: 2, classes: 3, seed: 5, multi: multi, edges: [][2]int64{{0, 1}, {2, 1}}}
			plain := imported(t, g.format(), importer.Options{Relabel: relabel})
			g.names = names
			d := imported(t, g.format(), importer.Options{Relabel: relabel})
			got, err := d.ClassNames()
			if err != nil || !slices.Equal(got, names) || d.Facts().ClassNameBytes != 13 || d.Meta().Format != plain.Meta().Format {
				t.Errorf("multi-label %t, %s: %q, %v, %+v", multi, relabel, got, err, d.Facts())
			}
			if err := d.Verify(t.Context(), progress.Discard, 1); err != nil {
				t.Error(err)
			}
			files := stagetest.Files(t, d.Dir())
			for name, content := range stagetest.Files(t, plain.Dir()) {
				if name != "meta.json" && files[name] != content {
					t.Errorf("multi-label %t, %s: %s differs by the names", multi, relabel, name)
				}
			}
		}
	}
	// Prediction needs none.
	g := &drawn{nodes: 30, dim: 2, classes: 3, seed: 5, names: names}
	d := imported(t, g.format(), importer.Options{Reading: importer.Reading{For: importer.ForPredict}})
	if got, err := d.ClassNames(); got != nil || err != nil {
		t.Errorf("without labels: %q, %v", got, err)
	}
	for says, names := range map[string][]string{
		"x has 2 names of classes, but 3 classes":          {"a", "b"},
		"x: classes 0 and 2 are both called \"a\"":         {"a", "b", "a"},
		"x: the name of class 1 is \"b\\t\": it has a con": {"a", "b\t", "c"},
	} {
		g.names = names
		p, err := importer.MakePlan(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), g.format(), importer.Options{Sources: []string{"x"}}, progress.Discard)
		if err != nil || len(p.Problems) != 1 || !strings.Contains(p.Problems[0], says) {
			t.Errorf("%q, %v, want %q", p.Problems, err, says)
		}
		if _, err := importer.Import(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), g.format(), importer.Options{Sources: []string{"x"}}, progress.Discard); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// TestClassNamesFlipped meets the contract of interrupted stages, with names of classes.
func TestClassNamesFlipped(t *testing.T) {
	g := &drawn{nodes: 20, dim: 2, classes: 3, seed: 5, names: []string{"ant", "bee", "crow"}, edges: [][2]int64{{0, 1}, {2, 1}}}
	run := func(fsys vfs.FS, out string, force bool) error {
		_, err := importer.Import(t.Context(), fsys, out, g.format(), importer.Options{Sources: []string{"x"}, Resources: dataset.Resources{Workers: 1, Force: force}}, progress.Discard)
		return err
	}
	datasettest.FlippedBytes(t, run)
	datasettest.EveryFailure(t, []bool{true}, func(fsys vfs.FS, out string) error { return run(fsys, out, false) })
}
