package graphbolt_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/graphbolt"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/binio"
)

// link makes a file a symbolic link.
func link(name, to string) importertest.Edit {
	return func(t testing.TB, dir string) {
		t.Helper()
		if err := errors.Join(os.Remove(filepath.Join(dir, name)), os.Symlink(to, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
	}
}

// poke writes an element into a record of a file of torch, in place.
func poke(name, record string, at int, value int32) importertest.Edit {
	return func(t testing.TB, dir string) {
		t.Helper()
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range z.File {
			if strings.HasSuffix(e.Name, "/"+record) {
				off, err := e.DataOffset()
				if err != nil {
					t.Fatal(err)
				}
				binary.LittleEndian.PutUint32(b[int(off)+4*at:], uint32(value))
				importertest.Save(t, path, b)
				return
			}
		}
		t.Fatalf("no %s in %s", record, path)
	}
}

// typed gives a graph another tensor's name: that of one which graphs of several types have.
func typed(name string) importertest.Edit {
	return func(t testing.TB, dir string) {
		t.Helper()
		path := filepath.Join(dir, name)
		z, err := zip.OpenReader(path)
		if err != nil {
			t.Fatal(err)
		}
		records := map[string][]byte{}
		for _, e := range z.File {
			f, err := e.Open()
			if err != nil {
				t.Fatal(err)
			}
			_, key, _ := strings.Cut(e.Name, "/")
			if records[key], err = io.ReadAll(f); err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		pickle := strings.Replace(string(records["data.pkl"]), "\x0e\x00\x00\x00version_number", "\x10\x00\x00\x00node_type_offset", 1)
		importertest.Save(t, path, importertest.Torch(t, pickle, records["data/0"], records["data/1"], records["data/2"]))
	}
}

// TestAdversary changes one thing of a good tree at a time. Each is refused in one line, and nothing
// is written beside the output.
func TestAdversary(t *testing.T) {
	const graph = "preprocessed/fused_csc_sampling_graph.pt"
	put := importertest.Put
	say := func(old, new string) importertest.Edit { return importertest.Replace("metadata.yaml", old, new) }
	huge := []uint64{math.MaxUint64}
	wide := func(v []uint64) []byte {
		head := "{'descr': '<u8', 'fortran_order': False, 'shape': (1,), }"
		return slices.Concat([]byte("\x93NUMPY\x01\x00"), []byte{byte(len(head)), 0}, []byte(head), binio.Bytes(v))
	}
	shape := func(text string) []byte {
		head := "{'descr': '<f4', 'fortran_order': False, 'shape': " + text + ", }"
		return slices.Concat([]byte("\x93NUMPY\x01\x00"), []byte{byte(len(head)), 0}, []byte(head))
	}
	for what, c := range map[string]struct {
		tree string
		edit importertest.Edit
		says string
	}{
		"os.system":                     {"tutorial", put("nc-train-labels.pt", importertest.Torch(t, "\x80\x02cos\nsystem\nX\x08\x00\x00\x00touch /x\x85R.")), `nc-train-labels.pt: byte 2 of its pickle: it uses "os.system"`},
		"eval, by protocol 4":           {"tutorial", put("node-feat-1.pt", importertest.Torch(t, "\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.")), `"builtins.eval"`},
		"a pickle of a gigabyte":        {"tutorial", put("node-feat-1.pt", importertest.Torch(t, "\x80\x02X\xff\xff\xff\x7fx.")), "it is truncated"},
		"a large pickle":                {"tutorial", put("node-feat-1.pt", importertest.Torch(t, "\x80\x02"+strings.Repeat("(", 2<<20))), "more than 32768 values"},
		"a value in itself":             {"tutorial", put("node-feat-1.pt", importertest.Torch(t, "\x80\x02]q\x00h\x00a.")), "contains itself"},
		"no tensor":                     {"tutorial", put("node-feat-1.pt", importertest.Torch(t, "\x80\x02N.")), "node-feat-1.pt: it has None instead of a tensor"},
		"an npy bomb":                   {"tutorial", put("node-feat-0.npy", shape("(60, 4000000000000000000)")), "node-feat-0.npy: its shape (60, 4000000000000000000) is impossible"},
		"an npy of a negative shape":    {"tutorial", put("node-feat-0.npy", shape("(-60, 5)")), "node-feat-0.npy: its header \"{'descr'"},
		"an npy that ends":              {"tutorial", put("node-feat-0.npy", shape("(60, 1000000)")), "node-feat-0.npy: truncated"},
		"ids of 2⁶⁴ (numpy)":            {"tutorial", put("nc-train-ids.npy", wide(huge)), "nc-train-ids.npy: its element 18446744073709551615 is larger than a signed integer of 64 bits"},
		"ids of 2⁶⁴ (csv)":              {"tutorial", put("edges.csv", []byte("0,18446744073709551616\n")), "edges.csv: line 1"},
		"a path outside":                {"tutorial", say("edges.csv", "../edges.csv"), `edges: path "../edges.csv" is not inside the directory`},
		"an absolute path":              {"tutorial", say("node-feat-1.pt", "/etc/hostname"), `features feat_1: path "/etc/hostname" is not inside`},
		"a path through a link":         {"tutorial", link("edges.csv", "/etc/passwd"), `path "edges.csv" is a symbolic link to outside the directory: put the file itself there`},
		"features of other nodes":       {"tutorial", put("node-feat-0.npy", importertest.NPY("(59, 5)", make([]float32, 295))), "there are features of 59 nodes, but the graph has 60 nodes"},
		"edges of 2⁶² nodes":            {"tutorial", say("num: 60", "num: 4611686018427387904"), "32-bit"},
		"a graph of 2⁶⁴ nodes":          {"tutorial", say("num: 60", "num: 18446744073709551616"), "metadata.yaml"},
		"labels that are missing":       {"tutorial", put("nc-val-labels.pt", nil), "nc-val-labels.pt is missing"},
		"a graph of another kind":       {"preprocessed/preprocessed", say("FusedCSCSamplingGraph", "CSC"), `its graph_topology has the type "CSC"; only FusedCSCSamplingGraph can be read`},
		"no graph":                      {"preprocessed", put(graph, importertest.Torch(t, "\x80\x02}.")), "it does not contain a FusedCSCSamplingGraph"},
		"a graph without state":         {"preprocessed", put(graph, importertest.Torch(t, "\x80\x02cdgl.graphbolt.impl.fused_csc_sampling_graph\nFusedCSCSamplingGraph\n)\x81.")), "it does not contain a FusedCSCSamplingGraph"},
		"a graph of several types":      {"preprocessed", typed(graph), "its graph has several types (it has node_type_offset): this version reads graphs of one type"},
		"indices out of range":          {"preprocessed", poke(graph, "data/2", 3, 60), "fused_csc_sampling_graph.pt: indices: the edge from 60 to 0 is out of range: the graph has 60 nodes"},
		"negative indices":              {"preprocessed", poke(graph, "data/2", 3, -1), "indices: the edge from -1 to 0"},
		"an indptr that descends":       {"preprocessed", poke(graph, "data/1", 5, 1), "indptr: offset 1 follows"},
		"an indptr that begins with 1":  {"preprocessed", poke(graph, "data/1", 0, 1), "indptr: it begins with 1 instead of 0"},
		"an indptr that ends elsewhere": {"preprocessed", poke(graph, "data/1", 60, 599), ", which is wrong for 600 entries"},
	} {
		t.Run(what, func(t *testing.T) {
			importertest.Refused(t, graphbolt.Format, importertest.Edited(t, filepath.Join("testdata", c.tree), c.edit), importer.Reading{}, c.says)
		})
	}
}

// TestLabelFeature takes labels from a node feature: of all nodes, and without it among the features.
func TestLabelFeature(t *testing.T) {
	tree := importertest.Tree{
		"metadata.yaml": []byte(`graph: {nodes: [{num: 4}], edges: [{format: csv, path: e.csv}]}
feature_data:
  - {domain: node, name: a, format: numpy, path: a.npy}
  - {domain: node, name: labels, format: numpy, path: l.npy}
tasks:
  - name: t
    train_set: [{data: [{name: seeds, format: numpy, path: s.npy}]}]
    test_set: [{data: [{name: seeds, format: csv, path: s.csv}]}]
`),
		"e.csv": []byte("0,1\n"), "a.npy": importertest.Vector([]float32{5, 6, 7, 8}), "l.npy": importertest.Vector([]int64{0, 2, -1, 1}),
		"s.npy": importertest.Vector([]int32{1}), "s.csv": []byte("3\n"),
	}
	for name, c := range map[string]struct {
		labels []byte
		want   string
	}{
		"classes":    {importertest.Vector([]int64{0, 2, -1, 1}), "0 |  | 5 | 0 | -\n1 | 0 | 6 | 2 | train\n2 |  | 7 | -1 | -\n3 |  | 8 | 1 | test\n"},
		"column":     {importertest.NPY("(4, 1)", []int64{0, 2, -1, 1}), "0 |  | 5 | 0 | -\n1 | 0 | 6 | 2 | train\n2 |  | 7 | -1 | -\n3 |  | 8 | 1 | test\n"},
		"any number": {importertest.NPY("(4, 2)", []float32{0, 1, 1, 1, -1, -1, 0, 0}), "0 |  | 5 | 0 1 | -\n1 | 0 | 6 | 1 1 | train\n2 |  | 7 | -1 | -\n3 |  | 8 | 0 0 | test\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tree["l.npy"] = c.labels
			tree.Write(t, dir)
			out, res := importertest.Imported(t, graphbolt.Format, dir, importer.Reading{})
			if got := importertest.Nodes(t, out); got != c.want || res.Dim != 1 {
				t.Errorf("imported\n%s, want\n%s", got, c.want)
			}
		})
	}
	dir := t.TempDir()
	tree["l.npy"] = importertest.Vector([]int64{0, 1, 2})
	tree.Write(t, dir)
	importertest.Refused(t, graphbolt.Format, dir, importer.Reading{}, "l.npy: there are labels of 3 nodes instead of 4")
}
