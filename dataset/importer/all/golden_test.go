package all_test

import (
	"path/filepath"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/all"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/progress"
)

const fixtures = "../testdata"

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
