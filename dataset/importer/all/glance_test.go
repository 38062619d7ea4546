package all_test

import (
	"os"
	"path/filepath"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/ogb"
	"diskgnn/internal/progress"
)

// TestGlance looks at the first edges of an archive's array of two rows before anything is
// imported: at the sources, which come first. Destinations are seen when all is unpacked.
func TestGlance(t *testing.T) {
	for _, c := range []struct {
		what    string
		edges   []int64
		plan    string // what the plan finds wrong
		refusal string // what an import does
	}{
		{"good", []int64{0, 1, 2, 1, 2, 0}, "", ""},
		{"a source beyond", []int64{0, 1, 3, 1, 2, 0}, "edge_index: an edge from 3 leaves the graph of 3 and 3 nodes", "an edge from 3 leaves"},
		{"a negative source", []int64{-1, 1, 2, 1, 2, 0}, "edge_index: an edge from -1 leaves the graph of 3 and 3 nodes", "an edge from -1 leaves"},
		{"a destination beyond", []int64{0, 1, 2, 1, 2, 3}, "", "the edge from 2 to 3 leaves"},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := t.TempDir()
			for _, sub := range []string{"raw", "split/time"} {
				if err := os.MkdirAll(filepath.Join(dir, sub), 0o777); err != nil {
					t.Fatal(err)
				}
			}
			importertest.Tree{
				"data.npz/num_nodes_list":   importertest.Vector([]int64{3}),
				"data.npz/num_edges_list":   importertest.Vector([]int64{3}),
				"data.npz/edge_index":       importertest.NPY("(2, 3)", c.edges),
				"data.npz/node_feat":        importertest.NPY("(3, 1)", []float32{1, 2, 3}),
				"node-label.npz/node_label": importertest.NPY("(3, 1)", []float32{0, 1, 0}),
			}.Write(t, filepath.Join(dir, "raw"))
			for i, split := range []string{"train", "valid", "test"} {
				importertest.Save(t, filepath.Join(dir, "split", "time", split+".csv.gz"), gzipped(string('0'+rune(i))+"\n"))
			}
			o := importer.Options{Sources: []string{dir}}
			p, err := importer.MakePlan(t.Context(), datasettest.FS, filepath.Join(dir, "D"), ogb.Format, o, progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			switch found := p.Problems; {
			case c.plan == "" && len(found) > 0, c.plan != "" && len(found) != 1,
				c.plan != "" && found[0] != filepath.Join(dir, "raw", "data.npz")+": "+c.plan:
				t.Errorf("the plan finds %q, want %q", found, c.plan)
			}
			if c.refusal != "" {
				refused(t, c.what, o, "data.npz", c.refusal)
				return
			}
			if _, err := importer.Import(t.Context(), datasettest.FS, filepath.Join(dir, "D"), ogb.Format, o, progress.Discard); err != nil {
				t.Error(err)
			}
		})
	}
}
