package dataset_test

import (
	"os"
	"path/filepath"
	"testing"

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
	}{
		{"amazon-computers.npz", dataset.FormatGNNBenchmark, dataset.Facts{Nodes: 13_752, Edges: 491_722, Dim: 767, Classes: 10, Train: 8251, Valid: 2750, Test: 2751}},
		{"coauthor-physics.npz", dataset.FormatGNNBenchmark, dataset.Facts{Nodes: 34_493, Edges: 495_924, Dim: 8415, Classes: 5, Train: 20_695, Valid: 6898, Test: 6900}},
		{"fb100.npz", dataset.FormatGNNBenchmark, dataset.Facts{Nodes: 367_282, Edges: 29_769_994, Dim: 1386, Classes: 6, Train: 151_270, Valid: 75_635, Test: 75_635, Unlabelled: 64_742}},
		{"tolokers", dataset.FormatGraphBolt, dataset.Facts{Nodes: 11_758, Edges: 1_038_000, Dim: 10, Classes: 2, Train: 5879, Valid: 2939, Test: 2940}},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := filepath.Join(data, c.name)
			if _, err := os.Stat(source); err != nil {
				t.Skipf("absent: %v", err)
			}
			o := dataset.ImportOptions{Format: c.format, Source: source, Binarize: c.format == dataset.FormatGNNBenchmark, Resources: dataset.Resources{Memory: 256 << 20}}
			o.RowNormalize = o.Binarize
			out := filepath.Join(t.TempDir(), "D")
			res, err := dataset.Import(t.Context(), datasettest.FS, out, o, progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%.1f s, peak %d MiB", res.Seconds, res.PeakAnon>>20)
			c.want.DType, c.want.LabelKind, c.want.Metric, c.want.NodeIDBytes = dtype.Float32, "class", "accuracy", 4
			if got := verified(t, out).Facts(); !cmp.Equal(c.want, got) {
				t.Error(cmp.Diff(c.want, got))
			}
		})
	}
}
