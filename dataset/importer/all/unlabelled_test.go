package all_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/all"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
)

// TestMissingLabels: NaN among floats, and empty fields with and without quotes, are nodes without a
// label in every format that has such labels.
func TestMissingLabels(t *testing.T) {
	nan := math.NaN()
	bench := func(labels []byte) tree {
		tr := benchmarkTree()
		tr["g.npz/labels"] = labels
		return tr
	}
	bolt := func(old, new string, files tree) tree {
		tr := boltTree()
		meta := string(tr["metadata.yaml"])
		if !strings.Contains(meta, old) {
			t.Fatal(old)
		}
		tr["metadata.yaml"] = []byte(strings.ReplaceAll(meta, old, new))
		for name, content := range files {
			tr[name] = content
		}
		return tr
	}
	ofAll := bolt("{domain: node, name: year, format: numpy, in_memory: true, path: nosuch.npy}", "{domain: node, name: labels, format: numpy, path: labels.npy}",
		tree{"labels.npy": npyFile("(4, 1)", []float32{2, 1, float32(nan), 0})})
	meta := string(ofAll["metadata.yaml"])
	for _, set := range []string{"{name: labels, format: numpy, path: train_labels.npy}", "{name: labels, format: csv, path: valid_labels.csv}", "{name: labels, format: numpy, path: test_labels.npy}"} {
		meta = strings.Replace(meta, "          - "+set+"\n", "", 1)
	}
	ofAll["metadata.yaml"] = []byte(meta)
	reddit := tree{
		"reddit_graph.npz/shape": vector([]int64{4, 4}), "reddit_graph.npz/row": vector([]int32{0, 1}), "reddit_graph.npz/col": vector([]int32{1, 0}), "reddit_graph.npz/format": []byte(importertest.FormText("coo")),
		"reddit_data.npz/feature": npyFile("(4, 1)", make([]float32, 4)), "reddit_data.npz/label": vector([]float64{1, nan, 0, 2}), "reddit_data.npz/node_types": vector([]int64{1, 1, 2, 3}),
	}
	csv := func(labels string) tree {
		return tree{"e.csv": []byte("0,1\n1,2\n2,3\n"), "l.csv": []byte(labels), "s0.csv": []byte("0\n1\n"), "s1.csv": []byte("2\n"), "s2.csv": []byte("3\n")}
	}
	for what, c := range map[string]struct {
		tree    tree
		source  string // "": csv files
		classes []int32
	}{
		"gnn-benchmark":            {bench(vector([]float32{0, 2, 1, float32(nan), 0})), "g.npz", []int32{0, 2, 1, -1, 0}},
		"gnn-benchmark, double":    {bench(vector([]float64{0, 2, -1, nan, 1})), "g.npz", []int32{0, 2, -1, -1, 1}},
		"graphbolt, sets":          {bolt("domain", "domain", tree{"train_labels.npy": npyFile("(2, 1)", []float64{1, nan}), "test_labels.npy": vector([]float32{2}), "valid_labels.csv": []byte("\"\"\n")}), ".", []int32{-1, 2, 1, -1}},
		"graphbolt, node feature":  {ofAll, ".", []int32{2, 1, -1, 0}},
		"reddit":                   {reddit, ".", []int32{1, -1, 0, 2}},
		"csv":                      {csv("label\n1.0\n\"\"\n0\n2\n"), "", []int32{1, -1, 0, 2}},
		"csv without a header":     {csv("1\n\"\"\n\"\"\n2\n"), "", []int32{1, -1, -1, 2}},
		"csv, pandas with index":   {csv(",label\n0,1.0\n1,\n2,0.0\n3,\"\"\n"), "", []int32{1, -1, 0, -1}},
		"csv, the first is absent": {csv("\"\"\nnan\n0\n1\n"), "", []int32{-1, -1, 0, 1}},
	} {
		dir := vfstest.TempDir(t)
		c.tree.Write(t, dir)
		at := func(name string) string { return filepath.Join(dir, name) }
		o := importer.Options{Sources: []string{at(c.source)}}
		if c.source == "" {
			o = importer.Options{Reading: importer.Reading{Edges: at("e.csv"), FeatureFile: "random:1", LabelFile: at("l.csv"), SplitFiles: []string{at("s0.csv"), at("s1.csv"), at("s2.csv")}}}
			if c.classes[0] < 0 { // else none to train on
				o.SplitFiles = nil
				o.Split = &importer.Split{Parts: "50/50/0"}
			}
		}
		res, err := all.Import(t.Context(), datasettest.FS, at("D"), all.Auto, o, progress.Discard)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		missing := int64(0)
		for _, class := range c.classes {
			if class < 0 {
				missing++
			}
		}
		if res.Unlabelled != missing || res.LabelKind != "class" {
			t.Errorf("%s: %+v", what, res)
		}
		contents(t, at("D"), map[string][]byte{"labels.bin": binio.Bytes(c.classes)})
	}
}
