package all_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer/all"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
)

// TestSuggestions compares the messages for sources that no format takes by itself with a golden file.
func TestSuggestions(t *testing.T) {
	dir := t.TempDir()
	floats := func(n int) []float32 { return make([]float32, n) }
	ints := func(n int) []int64 { return make([]int64, n) }
	tree := importertest.Tree{
		"edges.csv": []byte("src,dst,weight\n0,1,0.5\n1,2,1\n"), "names.csv": []byte("source;target\nann;bob\nbob;cy\n"), "plain.csv": []byte("0,1\n1,2\n"), "timed.tsv": []byte("0\t1\t77\n1\t2\t78\n"),
		"strings.csv": []byte("ann,bob\nbob,cy\n"), "my edges.csv": []byte("from,to\n0,1\n"), "graph.edgelist": []byte("0 1 {'weight': 3}\n1 2 {'weight': 4}\n"),
		"nodes.csv": []byte("id,title,label,split,x0,x1\n0,a b,vet,train,1,2\n1,c,cook,test,3,4\n"), "cora.content.csv": []byte("1,0,1,0\n0,0,1,1\n"), "labels.csv": []byte("id,label\n0,vet\n1,cook\n"), "ids.csv": []byte("0\n5\n7\n"),
		"notes.txt": []byte("See the README\nfor the files of this graph.\n"), "empty.csv": nil,
		"edge_index.npy": importertest.NPY("(2, 5)", ints(10)), "pairs.npy": importertest.NPY("(5, 2)", ints(10)), "x.npy": importertest.NPY("(5, 3)", floats(15)), "y.npy": importertest.Vector(ints(5)), "mask.npy": importertest.Vector(make([]bool, 5)), "cube.npy": importertest.NPY("(1, 2, 3)", floats(6)),
		"words.npy": headed("<U4", "(3,)"), "objects.npy": headed("|O", "(3,)"),
		"adj.npz/indptr": importertest.Vector(ints(6)), "adj.npz/indices": importertest.Vector(ints(0)), "adj.npz/data": importertest.Vector(floats(0)), "adj.npz/shape": importertest.Vector([]int64{5, 5}), "adj.npz/format": []byte(importertest.FormText("csr")),
		"bag.npz/row": importertest.Vector(ints(0)), "bag.npz/col": importertest.Vector(ints(0)), "bag.npz/data": importertest.Vector(floats(0)), "bag.npz/shape": importertest.Vector([]int64{5, 9}), "bag.npz/format": []byte(importertest.FormText("coo")),
		"graph.npz/edge_index": importertest.NPY("(2, 5)", ints(10)), "graph.npz/x": importertest.NPY("(5, 3)", floats(15)), "graph.npz/y": importertest.Vector(ints(5)),
		"odd.npz/a": importertest.NPY("(1, 2, 3)", floats(6)), "broken.npz": []byte("PK"),
		"adj.mtx": []byte("%%MatrixMarket matrix coordinate pattern general\n% a graph\n5 5 1\n1 2\n"), "bag.mtx": []byte("%%MatrixMarket matrix coordinate real general\n5 9 1\n1 2 3\n"),
		"numbers.bin": {0, 0, 0, 1}, "data.h5": []byte("\x89HDF\r\n\x1a\n"), "data.nc": []byte("CDF\x01"), "graph.graphml": []byte("<?xml version='1.0'?>\n<graphml xmlns=\"x\">"), "graph.gexf": []byte("<gexf>"), "graph.gml": []byte("graph [\n  directed 1\n"),
		"graph.pkl": []byte("\x80\x04\x95"), "model.ckpt": []byte("PK\x03\x04\x00data/data.pkl"), "graph.json": []byte("{\"nodes\": []}"), "graph.db": []byte("SQLite format 3\x00"), "what.xyz": []byte("?"),
		"split 1.pt.txt": []byte("1 2 3 4\n5 6 7 8\n"),
	}
	for name, text := range map[string]string{
		"parts/part-0.csv": "src,dst\n0,1\n", "parts/part-1.csv": "src,dst\n1,2\n", "parts/_SUCCESS": "",
		"whole/edges.csv": "0,1\n", "whole/features.csv": "1\n2\n", "whole/labels.csv": "0\n1\n", "whole/train.txt": "0\n", "whole/val.txt": "1\n", "whole/test.txt": "1\n", "whole/README.md": "",
		"other/a.json": "{}", "other/b.md": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		importertest.Save(t, filepath.Join(dir, name), []byte(text))
	}
	if err := os.Mkdir(filepath.Join(dir, "nothing"), 0o777); err != nil {
		t.Fatal(err)
	}
	tree.Write(t, dir)
	type row struct {
		Src, Dst int64
		Weight   float32
	}
	parquetOf(t, filepath.Join(dir, "edges.parquet"), []row{{0, 1, 2}})
	type node struct {
		ID    int64
		Topic string
		X     []float32
	}
	parquetOf(t, filepath.Join(dir, "nodes.parquet"), []node{{0, "a", []float32{1, 2}}})

	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		_, sign, err := all.Find(datasettest.FS, all.Auto, []string{filepath.Join(dir, e.Name())})
		if err == nil {
			t.Errorf("%s: %s", e.Name(), sign)
			continue
		}
		if !errors.Is(err, fault.ErrInput) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", e.Name(), err)
		}
		text := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
		fmt.Fprintln(&b, strings.ReplaceAll(text, strings.Join(all.Names(), ", "), "FORMATS"))
	}
	const golden = "testdata/suggestions.txt"
	if *updateSources {
		if err := os.WriteFile(golden, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	got, lines := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(got), len(lines)) {
		if got[i] != lines[i] {
			t.Errorf("%s:%d: %q, want %q", golden, i+1, got[i], lines[i])
		}
	}
	if len(got) != len(lines) {
		t.Errorf("%d messages, want %d", len(got), len(lines))
	}
}
