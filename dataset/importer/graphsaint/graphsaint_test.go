package graphsaint_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/graphsaint"
	"diskgnn/dataset/importer/importertest"
)

// TestFixtures compares what is imported with what PyTorch Geometric loads.
func TestFixtures(t *testing.T) {
	for name, classes := range map[string]int{"flickr": 4, "yelp": 5, "reddit": 5} {
		t.Run(name, func(t *testing.T) {
			out, res := importertest.Imported(t, graphsaint.Format, filepath.Join("testdata", name), importer.Reading{})
			if res.Classes != classes || res.Nodes != 24 || res.Dim != 3 {
				t.Errorf("%+v", res)
			}
			importertest.SameNodes(t, out, filepath.Join("testdata", name+".txt"))
			if sign := graphsaint.Format.Detect(datasettest.FS, []string{filepath.Join("testdata", name, "raw")}); !strings.HasSuffix(sign, ".npz") {
				t.Errorf("it is seen by %q", sign)
			}
		})
	}
}

// TestRefuses changes one file of a fixture at a time.
func TestRefuses(t *testing.T) {
	v := importertest.Vector
	for what, c := range map[string]struct {
		source string
		change importertest.Tree
		says   string
	}{
		"nothing":               {"", nil, "has neither adj_full.npz nor reddit_graph.npz"},
		"no roles":              {"flickr", importertest.Tree{"role.json": nil}, "role.json is missing"},
		"a set of another name": {"flickr", importertest.Tree{"role.json": []byte(`{"tr":[1],"vali":[2]}`)}, `role.json: byte 18: unknown set "vali"; use tr, va, te`},
		"a node of two sets":    {"flickr", importertest.Tree{"role.json": []byte(`{"tr":[1],"va":[1]}`)}, "node 1 is in the train set and in the valid set"},
		"a node out of range":   {"flickr", importertest.Tree{"role.json": []byte(`{"tr":[24]}`)}, "the train set has node 24, but there are only 24 nodes"},
		"a node of 2⁶⁴":         {"flickr", importertest.Tree{"role.json": []byte(`{"tr":[18446744073709551616]}`)}, `"18446744073709551616" is not an integer of 64 bits`},
		"a key of 2⁶⁴":          {"flickr", importertest.Tree{"class_map.json": []byte(`{"18446744073709551616":1}`)}, `class_map.json: byte 25: its key "18446744073709551616" is not a node of the graph, which has 24 nodes`},
		"a key that is no node": {"flickr", importertest.Tree{"class_map.json": []byte(`{"x":1}`)}, `its key "x" is not a node of the graph, which has`},
		"a class below -1":      {"flickr", importertest.Tree{"class_map.json": []byte(`{"1":-2}`)}, "node 1 has the label -2: labels are classes, counted from 0, or -1 for none"},
		"a class among lists":   {"yelp", importertest.Tree{"class_map.json": []byte(`{"1":[0,1],"2":1}`)}, "node 2 differs from the first node: one has a class, the other a list of classes"},
		"a short list":          {"yelp", importertest.Tree{"class_map.json": []byte(`{"1":[0,1],"2":[1],"3":[0,1]}`)}, "node 2 has 1 numbers instead of one for each of 2"},
		"a short last list":     {"yelp", importertest.Tree{"class_map.json": []byte(`{"1":[0,1],"2":[1]}`)}, "class_map.json: node 2 has 1 numbers"},
		"a long list":           {"yelp", importertest.Tree{"class_map.json": []byte(`{"1":[0,1],"2":[1,0,1]}`)}, "node 2 has more than 2"},
		"a two in a list":       {"yelp", importertest.Tree{"class_map.json": []byte(`{"1":[0,2]}`)}, "node 1 has 2 in the column of class 1"},
		"an empty list":         {"yelp", importertest.Tree{"class_map.json": []byte(`{"1":[]}`)}, "the list of the first node's classes is empty"},
		"features of others":    {"flickr", importertest.Tree{"feats.npy": importertest.NPY("(3, 1)", make([]float32, 3))}, "feats.npy: there are features of 3 nodes, but the graph has 24 nodes"},
		"columns, not rows":     {"flickr", importertest.Tree{"adj_full.npz/format": []byte(importertest.FormText("csc")), "adj_full.npz/shape": v([]int64{24, 24}), "adj_full.npz/indices": v([]int32{})}, `the adjacency matrix has the format "csc" instead of csr`},
		"not square":            {"flickr", importertest.Tree{"adj_full.npz/shape": v([]int64{24, 3}), "adj_full.npz/format": []byte(importertest.FormText("csr"))}, "adj_full.npz: the adjacency matrix is 24 × 3, not square with at least 1 node"},
		"no form":               {"flickr", importertest.Tree{"adj_full.npz/shape": v([]int64{24, 24})}, "adj_full.npz is not a matrix that SciPy saved"},
		"rows of coordinates":   {"reddit", importertest.Tree{"reddit_graph.npz/format": []byte(importertest.FormText("csr")), "reddit_graph.npz/shape": v([]int64{24, 24})}, `reddit_graph.npz: the adjacency matrix has the format "csr" instead of coo`},
		"a set of type 4":       {"reddit", importertest.Tree{"reddit_data.npz/feature": importertest.NPY("(24, 1)", make([]float32, 24)), "reddit_data.npz/label": v(make([]int64, 24)), "reddit_data.npz/node_types": v(make([]int64, 24))}, "node 0 has the type 0"},
		"an edge out of range":  {"reddit", importertest.Tree{"reddit_graph.npz/format": []byte(importertest.FormText("coo")), "reddit_graph.npz/shape": v([]int64{24, 24}), "reddit_graph.npz/row": v([]int32{24}), "reddit_graph.npz/col": v([]int32{0})}, "the edge from 24 to 0 is out of range: the graph has"},
		"unequal coordinates":   {"reddit", importertest.Tree{"reddit_graph.npz/format": []byte(importertest.FormText("coo")), "reddit_graph.npz/shape": v([]int64{24, 24}), "reddit_graph.npz/row": v([]int32{1}), "reddit_graph.npz/col": v([]int32{0, 1})}, "its shape is (2,) instead of (1,)"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			if c.source != "" {
				if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", c.source, "raw"))); err != nil {
					t.Fatal(err)
				}
			}
			for name, content := range c.change {
				if content == nil {
					if err := os.Remove(filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, name := range []string{"adj_full.npz", "reddit_graph.npz", "reddit_data.npz", "role.json", "class_map.json", "feats.npy"} {
				if err := os.Chmod(filepath.Join(dir, name), 0o666); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
			c.change.Write(t, dir)
			importertest.Refused(t, graphsaint.Format, dir, importer.Reading{}, c.says)
		})
	}
}
