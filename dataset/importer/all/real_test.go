package all_test

import (
	"os"
	"path/filepath"
	"testing"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/gnnbenchmark"
	"diskgnn/dataset/importer/graphbolt"

	"github.com/google/go-cmp/cmp"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
)

// TestRealGraphs imports the graphs in the directory $DISKGNN_DATA and compares
// their counts with what is published of them.
func TestRealGraphs(t *testing.T) {
	data := os.Getenv("DISKGNN_DATA")
	if data == "" {
		t.Skip("DISKGNN_DATA names no directory with amazon-computers.npz, coauthor-physics.npz, fb100.npz and tolokers/")
	}
	for _, c := range []struct {
		name, format string
		want         dataset.Facts
		fingerprint  string // what the first version made of them
	}{
		{"amazon-computers.npz", gnnbenchmark.Name, dataset.Facts{Nodes: 13_752, Edges: 491_722, Dim: 767, Classes: 10, Train: 8251, Valid: 2750, Test: 2751}, "e71c2e51edc4429472851725cdecf05dd9089342b45770b12d3990db9374af60"},
		{"coauthor-physics.npz", gnnbenchmark.Name, dataset.Facts{Nodes: 34_493, Edges: 495_924, Dim: 8415, Classes: 5, Train: 20_695, Valid: 6898, Test: 6900}, "257f4b6f1a5a6a447f5a880ba09fc8a3b1eadbbe240d4f95d6a447ad61b9a3c4"},
		{"fb100.npz", gnnbenchmark.Name, dataset.Facts{Nodes: 367_282, Edges: 29_769_994, Dim: 1386, Classes: 6, Train: 151_270, Valid: 75_635, Test: 75_635, Unlabelled: 64_742}, "fbdf24ab251740655950228c2ef5bddd06a894f4b5194ceb4bbc16b42d3d9f6c"},
		{"tolokers", graphbolt.Name, dataset.Facts{Nodes: 11_758, Edges: 1_038_000, Dim: 10, Classes: 2, Train: 5879, Valid: 2939, Test: 2940}, "af375531b8bffef40a1f5ea147b220c3fc9e7b3f49a127c3bd506489ce348474"},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := filepath.Join(data, c.name)
			if _, err := os.Stat(source); err != nil {
				t.Skipf("absent: %v", err)
			}
			o := options{c.format, importer.Options{Sources: []string{source}, Resources: dataset.Resources{Memory: 256 << 20}}}
			out := filepath.Join(t.TempDir(), "D")
			res, err := importAs(t.Context(), datasettest.FS, out, o, progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if res.Fingerprint != c.fingerprint {
				t.Errorf("fingerprint %s", res.Fingerprint)
			}
			t.Logf("%.1f s, peak %d MiB", res.Seconds, res.PeakAnon>>20)
			c.want.DType, c.want.LabelKind, c.want.Metric, c.want.NodeIDBytes = dtype.Float32, "class", "accuracy", 4
			if got := datasettest.Verified(t, out).Facts(); !cmp.Equal(c.want, got) {
				t.Error(cmp.Diff(c.want, got))
			}
		})
	}
}
