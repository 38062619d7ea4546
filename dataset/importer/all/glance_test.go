package all_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/all"
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
		{"a source beyond", []int64{0, 1, 3, 1, 2, 0}, "edge_index: an edge from 3 is out of range: there are 3 source nodes and 3 destination nodes", "an edge from 3 is out of range"},
		{"a negative source", []int64{-1, 1, 2, 1, 2, 0}, "edge_index: an edge from -1 is out of range: there are 3 source nodes and 3 destination nodes", "an edge from -1 is out of range"},
		{"a destination beyond", []int64{0, 1, 2, 1, 2, 3}, "", "the edge from 2 to 3 is out of range: there are"},
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

// TestGlanceRaw looks at the sources of arrays of two rows in archives that --edges names, and at whole
// edges of other forms.
func TestGlanceRaw(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	importertest.Tree{
		"e.npz/good":    importertest.NPY("(2, 3)", []int64{0, 1, 2, 1, 2, 0}),
		"e.npz/source":  importertest.NPY("(2, 3)", []int64{0, 1, 3, 1, 2, 0}),
		"e.npz/minus":   importertest.NPY("(2, 3)", []int64{-1, 1, 2, 1, 2, 0}),
		"e.npz/behind":  importertest.NPY("(2, 3)", []int64{0, 1, 2, 1, 2, 3}),
		"e.npz/pairs":   importertest.NPY("(3, 2)", []int64{0, 1, 2, 1, 2, 3}),
		"e.npz/columns": importertest.NPYOrder("(3, 2)", true, []int64{0, 1, 3, 1, 2, 0}),
		"plain.npy":     importertest.NPY("(2, 3)", []int64{0, 1, 2, 1, 2, 3}),
		"f.npy":         importertest.NPY("(3, 1)", []float32{1, 2, 3}),
		"l.npy":         importertest.Vector([]int64{0, 1, 0}),
	}.Write(t, dir)
	for _, c := range []struct{ edges, plan string }{
		{"e.npz:good", ""},
		{"e.npz:source", "e.npz: source: an edge from 3 is out of range: the graph has 3 nodes"},
		{"e.npz:minus", "e.npz: minus: an edge from -1 is out of range: the graph has 3 nodes"},
		{"e.npz:behind", ""}, // seen when all is unpacked
		{"e.npz:pairs", "e.npz: the edge from 2 to 3 is out of range: the graph has 3 nodes"},
		{"e.npz:columns", "e.npz: columns: an edge from 3 is out of range: the graph has 3 nodes"},
		{"plain.npy", "plain.npy: the edge from 2 to 3 is out of range: the graph has 3 nodes"},
	} {
		o := importer.Options{Split: &importer.Split{Parts: "34/33/33"}, Reading: importer.Reading{Edges: at(c.edges), FeatureFile: at("f.npy"), LabelFile: at("l.npy")}}
		p, err := all.MakePlan(t.Context(), datasettest.FS, at("D"), all.Auto, o, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		if c.plan != "" {
			want = []string{at(c.plan)}
		}
		if !slices.Equal(p.Problems, want) {
			t.Errorf("%s: the plan finds %q, want %q", c.edges, p.Problems, want)
		}
	}
}
