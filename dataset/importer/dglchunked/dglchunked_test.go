package dglchunked_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/dglchunked"
	"diskgnn/dataset/importer/importertest"
)

// TestFixtures compares what is imported with what the script says that wrote the files.
func TestFixtures(t *testing.T) {
	for name, edges := range map[string]int64{"one": 50, "many": 45} {
		t.Run(name, func(t *testing.T) {
			out, res := importertest.Imported(t, dglchunked.Format, filepath.Join("testdata", name), importer.Reading{})
			if res.Dim != 3 || res.Edges != edges {
				t.Errorf("%+v", res)
			}
			importertest.SameNodes(t, out, filepath.Join("testdata", name+".txt"))
		})
	}
	if _, res := importertest.Imported(t, dglchunked.Format, filepath.Join("testdata", "many", "metadata.json"), importer.Reading{Task: "paper", Features: []string{"width"}}); res.Dim != 1 {
		t.Errorf("one feature: %+v", res)
	}
}

// TestRefuses changes one thing of a fixture at a time.
func TestRefuses(t *testing.T) {
	set := importertest.Put
	replace := func(old, new string) importertest.Edit { return importertest.Replace("metadata.json", old, new) }
	same := func(testing.TB, string) {}
	const edges = "edges/_N__E__N-00001.csv"
	for what, c := range map[string]struct {
		change importertest.Edit
		o      importer.Reading
		says   string
	}{
		"no metadata":         {set("metadata.json", nil), importer.Reading{}, "metadata.json is missing"},
		"no JSON":             {set("metadata.json", []byte("{")), importer.Reading{}, "metadata.json: unexpected end"},
		"a huge metadata":     {set("metadata.json", bytes.Repeat([]byte(" "), 1<<20+1)), importer.Reading{}, "metadata.json"},
		"a negative chunk":    {replace("6,\n   7,\n   7", "-6, 7, 7"), importer.Reading{}, "a chunk has an impossible number of nodes or edges, -6"},
		"overflowing chunks":  {replace("6,\n   7,\n   7", "9223372036854775807, 7, 7"), importer.Reading{}, "a chunk has an impossible number of nodes or edges, 9223372036854775807"},
		"chunks of 2⁶⁴":       {replace("6,\n   7,\n   7", "18446744073709551616, 7, 7"), importer.Reading{}, "metadata.json: json: cannot unmarshal number"},
		"more nodes than ids": {replace("6,\n   7,\n   7", "4294967296, 7, 7"), importer.Reading{}, "32-bit"},
		"other nodes":         {replace("6,\n   7,\n   7", "6, 7, 6"), importer.Reading{}, "the files of label have 20 rows, but there are 19 nodes of the type \"_N\""},
		"other edges":         {replace("25,\n   25", "25, 24"), importer.Reading{}, "more edges than the 24"},
		"missing edges":       {replace("25,\n   25", "25, 26"), importer.Reading{}, "25 edges instead of the 26"},
		"other chunks":        {replace("25,\n   25", "50"), importer.Reading{}, "it names 2 files instead of one for each of 1 chunks"},
		"a type that is not": {replace(`"edge_type": [
  "_N:_E:_N"`, `"edge_type": ["_N:_E:x"`), importer.Reading{}, `"_N:_E:x" is not source:relation:destination`},
		"a path outside":       {replace(edges, "../one/"+edges), importer.Reading{}, "is not inside the directory"},
		"an absolute path":     {replace(edges, "/etc/passwd"), importer.Reading{}, "is not inside the directory"},
		"another format":       {replace(`"name": "csv"`, `"name": "orc"`), importer.Reading{}, `unknown format "orc"; use csv, numpy or parquet`},
		"a long delimiter":     {replace(`"delimiter": " "`, `"delimiter": "||"`), importer.Reading{}, `the delimiter is "||" instead of one character`},
		"a name of a format":   {replace(`"name": "csv"`, `"name": "numpy"`), importer.Reading{}, "must end in .npy"},
		"no labels":            {replace(`"label"`, `"lable"`), importer.Reading{}, "no node type has labels"},
		"no mask of training":  {replace(`"train_mask"`, `"trainmask"`), importer.Reading{}, "masks, but no train_mask"},
		"another task":         {same, importer.Reading{Task: "author"}, `; --task "author" is not one of them`},
		"another feature":      {same, importer.Reading{Features: []string{"x"}}, `are feat, year; --feature "x" is not one of them, or is given twice`},
		"a feature twice":      {same, importer.Reading{Features: []string{"year", "year"}}, "is not one of them, or is given twice"},
		"an edge out of range": {set(edges, []byte("0 20\n")), importer.Reading{}, "the edge from 0 to 20 is out of range: there are 20 nodes of the source type _N and"},
		"an edge of 2⁶⁴":       {set(edges, []byte("0 18446744073709551616\n")), importer.Reading{}, edges},
		"an edge of one node":  {set(edges, []byte("0\n")), importer.Reading{}, edges},
		"a missing chunk":      {set(edges, nil), importer.Reading{}, edges + " is missing"},
		"features by columns":  {set("node_data/_N/feat-00001.npy", importertest.NPY("(7, 2)", make([]float32, 14))), importer.Reading{}, "it has 2 columns, but other chunks have 3"},
		"fewer features":       {set("node_data/_N/feat-00001.npy", importertest.NPY("(6, 3)", make([]float32, 18))), importer.Reading{}, "the files of feat have 19 rows, but there are 20 nodes of the type"},
		"a label of a half":    {set("node_data/_N/label-00000.npy", importertest.Vector([]float64{0, 1, 0.5, 0, 0, 0})), importer.Reading{}, "node 2 has the label 0.5: labels are whole numbers"},
		"overlapping masks":    {set("node_data/_N/val_mask-00000.npy", importertest.Vector([]int8{1, 1, 1, 1, 1, 1})), importer.Reading{}, "node 0 is in the train set and in the valid set"},
	} {
		t.Run(what, func(t *testing.T) {
			importertest.Refused(t, dglchunked.Format, importertest.Edited(t, filepath.Join("testdata", "one"), c.change), c.o, c.says)
		})
	}
}

// TestSymbolicLink refuses a link to a file of the machine, and takes one within the tree.
func TestSymbolicLink(t *testing.T) {
	dir := importertest.Edited(t, filepath.Join("testdata", "one"))
	name := filepath.Join(dir, "edges", "_N__E__N-00000.csv")
	moved := filepath.Join(dir, "moved.csv")
	if err := errors.Join(os.Rename(name, moved), os.Symlink(moved, name)); err != nil {
		t.Fatal(err)
	}
	importertest.Imported(t, dglchunked.Format, dir, importer.Reading{})
	if err := errors.Join(os.Remove(name), os.Symlink("/etc/passwd", name)); err != nil {
		t.Fatal(err)
	}
	importertest.Refused(t, dglchunked.Format, dir, importer.Reading{}, "is a symbolic link to outside the directory: put the file itself there")
}
