package raw_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/raw"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

// TestSparse imports a graph with its edges and features in forms of SciPy, Matrix Market and torch, and
// compares it with the graph in text.
func TestSparse(t *testing.T) {
	const scipy, torch = "../internal/matrix/testdata/", "../pyg/testdata/"
	dir := t.TempDir()
	for name, lines := range map[string]string{"y.txt": strings.Repeat("1\n", 9), "y12.txt": strings.Repeat("1\n", 12)} {
		importertest.Save(t, filepath.Join(dir, name), []byte(lines))
	}
	imported := func(o importer.Reading) (string, importer.Plan, error) {
		o.LabelFile = filepath.Join(dir, o.LabelFile)
		opts := importer.Options{Reading: o, Split: &importer.Split{Parts: "60/20/20"}}
		p, err := importer.MakePlan(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), raw.Format, opts, progress.Discard)
		if err != nil {
			return "", p, err
		}
		out := filepath.Join(t.TempDir(), "D")
		if _, err := importer.Import(t.Context(), datasettest.FS, out, raw.Format, opts, progress.Discard); err != nil {
			return "", p, err
		}
		return importertest.Nodes(t, out), p, nil
	}
	for _, c := range []struct {
		edges, features, note string
		plain                 importer.Reading
	}{
		{"a_csr.npz", "x_csr.npz", "", importer.Reading{Edges: "graph.txt"}},
		{"a_csc.npz", "x_coo.npz", "", importer.Reading{Edges: "graph.txt"}},
		{"a_coo.npz", "x.mtx", "", importer.Reading{Edges: "graph.txt"}},
		{"a_old_coo.npz", "rows.txt", "a_old_coo.npz: data of edges is not imported: the values of the matrix", importer.Reading{Edges: "graph.txt"}},
		{"graph.mtx", "rows.txt", "", importer.Reading{Edges: "graph.txt"}},
		{"undirected.mtx.gz", "rows.txt", "undirected.mtx.gz: data of edges is not imported", importer.Reading{Edges: "undirected.txt"}},
	} {
		c.plain.Edges, c.plain.FeatureFile, c.plain.LabelFile = scipy+c.plain.Edges, scipy+"rows.txt", "y.txt"
		want, _, err := imported(c.plain)
		if err != nil {
			t.Fatal(err)
		}
		got, p, err := imported(importer.Reading{Edges: scipy + c.edges, FeatureFile: scipy + c.features, LabelFile: "y.txt"})
		if err != nil || got != want {
			t.Errorf("%s: %v\n%swant\n%s", c.edges, err, got, want)
		}
		if notes := strings.Join(p.Notes, "; "); !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "data of edges") {
			t.Errorf("%s: %q is noted, want %q", c.edges, notes, c.note)
		}
	}
	// Tensors: features alone or by a key, dense or sparse; edges dense, labels by a key.
	var all []string
	for _, features := range []string{"x.pt", "x_csr.pt:x", "tensors.pt:feat", "split_idx.pt:x"} {
		got, p, err := imported(importer.Reading{Edges: torch + "tensors.pt:edges", FeatureFile: torch + features, LabelFile: "y12.txt"})
		if all = append(all, got); err != nil || got == "" || got != all[0] || p.MemoryBytes < 16<<20 {
			t.Errorf("%s: %v\n%swant\n%s", features, err, got, all[0])
		}
	}
	for says, o := range map[string]importer.Reading{
		"x_csr.npz: the adjacency matrix is 9 × 4, not square with at least 1 node":  {Edges: scipy + "x_csr.npz", FeatureFile: scipy + "rows.txt"},
		"a_csr.npz says 9 nodes, but another file says 12 nodes":                     {Edges: scipy + "a_csr.npz", FeatureFile: torch + "x.pt"},
		"tensors.pt: it has feat, label, edges: name one of them, as in FILE.pt:KEY": {Edges: scipy + "a_csr.npz", FeatureFile: torch + "tensors.pt"},
		"tensors.pt: it has feat, label, edges: name one":                            {Edges: scipy + "a_csr.npz", FeatureFile: torch + "tensors.pt:none"},
		`x.pt: it has a single value, without the name "x"`:                          {Edges: scipy + "a_csr.npz", FeatureFile: torch + "x.pt:x"},
		"none.pt is missing": {Edges: scipy + "a_csr.npz", FeatureFile: torch + "none.pt"},
		"hetero.pt: ":        {Edges: torch + "hetero.pt:x", FeatureFile: scipy + "rows.txt"},
		"--edge-columns: " + scipy + "a_csr.npz is a matrix":                                        {Edges: scipy + "a_csr.npz", FeatureFile: scipy + "rows.txt", EdgeColumns: []string{"0", "1"}},
		"--node-ids: the adjacency lists of " + scipy + "a_csr.npz have no ids":                     {Edges: scipy + "a_csr.npz", FeatureFile: scipy + "rows.txt", NodeIDs: raw.ByEdges},
		"x_csc.npz: the entries of the sparse matrix are not in the order of rows: save it in comp": {Edges: scipy + "a_csr.npz", FeatureFile: scipy + "x_csc.npz"},
	} {
		o.LabelFile = "y.txt"
		if _, _, err := imported(o); !errors.Is(err, fault.ErrInput) && !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v; want %q", err, says)
		}
	}
}
