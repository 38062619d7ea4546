package all_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/all"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

const fixtures = "../testdata"

// TestIGB imports fixtures in the layout of IGB, whose split is drawn.
func TestIGB(t *testing.T) {
	for _, name := range []string{"tiny", "large", "patched"} {
		source := filepath.Join(fixtures, "igb", name)
		f, _, err := all.Find(datasettest.FS, all.Auto, []string{source})
		if err != nil || f.Name != "igb" {
			t.Fatalf("found format %q, %v", f.Name, err)
		}
		out := filepath.Join(t.TempDir(), "D")
		res, err := importer.Import(t.Context(), datasettest.FS, out, f, importer.Options{Sources: []string{source}}, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if res.Train != 7 || res.Valid != 2 || res.Test != 2 || res.Classes != 19 {
			t.Errorf("%s: %+v", name, res)
		}
		d := datasettest.Verified(t, out)
		text := importertest.Text(t, d)
		want, err := os.ReadFile(source + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(text, "nodes 11\nedges 31\n"+string(want)+"train: ") {
			t.Errorf("%s: other than what NumPy reads", name)
		}
		if again := importertest.Text(t, d); again != text {
			t.Errorf("%s: read otherwise a second time", name)
		}
	}
	if _, err := all.Import(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), "igb", importer.Options{
		Sources: []string{filepath.Join(fixtures, "igb", "tiny")}, Reading: importer.Reading{Task: "2983"}}, progress.Discard); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "node_label_2K.npy is missing") {
		t.Error(err)
	}
}

// TestGoldens imports the fixtures that make.py wrote, and compares the datasets with what the
// formats' own libraries load of them.
func TestGoldens(t *testing.T) {
	for _, c := range []struct {
		golden string // and the source, unless that is named
		format string // as auto finds it
		o      importer.Options
	}{
		{"ogb/arxiv", "ogb", importer.Options{}},
		{"ogb/ogbn_products", "ogb", importer.Options{}},
		{"ogb/ogbn_proteins", "ogb", importer.Options{}},
		{"ogb/binary", "ogb", importer.Options{}},
		{"ogb/hetero", "ogb", importer.Options{}},
		{"ogb/hetero-binary", "ogb", importer.Options{}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			golden := filepath.Join(fixtures, filepath.FromSlash(c.golden))
			if c.o.Sources == nil {
				c.o.Sources = []string{golden}
			}
			f, _, err := all.Find(datasettest.FS, all.Auto, c.o.Sources)
			if err != nil || f.Name != c.format {
				t.Fatalf("found format %q, %v", f.Name, err)
			}
			out := filepath.Join(t.TempDir(), "D")
			if _, err := importer.Import(t.Context(), datasettest.FS, out, f, c.o, progress.Discard); err != nil {
				t.Fatal(err)
			}
			importertest.Same(t, datasettest.Verified(t, out), golden+".txt")
		})
	}
}
