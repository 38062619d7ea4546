package dglchunked_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/dglchunked"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

func run(t *testing.T, source string, o importer.Reading) (out string, res dataset.Result, err error) {
	out = filepath.Join(t.TempDir(), "D")
	how := importer.Options{Sources: []string{source}, Reading: o}
	if res, err = importer.Import(t.Context(), datasettest.FS, out, dglchunked.Format, how, progress.Discard); err != nil {
		importertest.Plan(t, dglchunked.Format, how)
	}
	return out, res, err
}

// TestFixtures compares what is imported with what the script says that wrote the files.
func TestFixtures(t *testing.T) {
	for name, edges := range map[string]int64{"one": 50, "many": 45} {
		t.Run(name, func(t *testing.T) {
			out, res, err := run(t, filepath.Join("testdata", name), importer.Reading{})
			if err != nil {
				t.Fatal(err)
			}
			if res.Dim != 3 || res.Edges != edges {
				t.Errorf("%+v", res)
			}
			want, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			if got := importertest.Nodes(t, out); got != string(want) {
				t.Errorf("imported\n%s, want\n%s", got, want)
			}
		})
	}
	if _, res, err := run(t, filepath.Join("testdata", "many", "metadata.json"), importer.Reading{Task: "paper", Features: []string{"width"}}); err != nil || res.Dim != 1 {
		t.Errorf("one feature: %+v, %v", res, err)
	}
}

// TestRefuses changes one thing of a fixture at a time.
func TestRefuses(t *testing.T) {
	replace := func(old, new string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			name := filepath.Join(dir, "metadata.json")
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(b, []byte(old)) {
				t.Fatalf("no %s", old)
			}
			importertest.Save(t, name, bytes.Replace(b, []byte(old), []byte(new), 1))
		}
	}
	set := func(name string, content []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if content != nil {
				importertest.Save(t, path, content)
			}
		}
	}
	const edges = "edges/_N__E__N-00001.csv"
	for what, c := range map[string]struct {
		change func(*testing.T, string)
		o      importer.Reading
		says   string
	}{
		"no metadata":         {set("metadata.json", nil), importer.Reading{}, "metadata.json is missing"},
		"no JSON":             {set("metadata.json", []byte("{")), importer.Reading{}, "metadata.json: unexpected end"},
		"a huge metadata":     {set("metadata.json", bytes.Repeat([]byte(" "), 1<<20+1)), importer.Reading{}, "metadata.json"},
		"a negative chunk":    {replace("6,\n   7,\n   7", "-6, 7, 7"), importer.Reading{}, "a chunk of -6"},
		"overflowing chunks":  {replace("6,\n   7,\n   7", "9223372036854775807, 7, 7"), importer.Reading{}, "a chunk of 9223372036854775807"},
		"chunks of 2⁶⁴":       {replace("6,\n   7,\n   7", "18446744073709551616, 7, 7"), importer.Reading{}, "metadata.json: json: cannot unmarshal number"},
		"more nodes than ids": {replace("6,\n   7,\n   7", "4294967296, 7, 7"), importer.Reading{}, "32-bit"},
		"other nodes":         {replace("6,\n   7,\n   7", "6, 7, 6"), importer.Reading{}, "label has 20 rows, there are 19 nodes \"_N\""},
		"other edges":         {replace("25,\n   25", "25, 24"), importer.Reading{}, "more edges than the 24"},
		"missing edges":       {replace("25,\n   25", "25, 26"), importer.Reading{}, "25 edges instead of the 26"},
		"other chunks":        {replace("25,\n   25", "50"), importer.Reading{}, "in 2 files instead of one for each of 1 chunks"},
		"a type that is not": {replace(`"edge_type": [
  "_N:_E:_N"`, `"edge_type": ["_N:_E:x"`), importer.Reading{}, `"_N:_E:x" is not source:relation:destination`},
		"a path outside":       {replace(edges, "../one/"+edges), importer.Reading{}, "is not inside the directory"},
		"an absolute path":     {replace(edges, "/etc/passwd"), importer.Reading{}, "is not inside the directory"},
		"another format":       {replace(`"name": "csv"`, `"name": "orc"`), importer.Reading{}, `format "orc", known are csv, numpy and parquet`},
		"a long delimiter":     {replace(`"delimiter": " "`, `"delimiter": "||"`), importer.Reading{}, `separated by "||"`},
		"a name of a format":   {replace(`"name": "csv"`, `"name": "numpy"`), importer.Reading{}, "ends in .npy"},
		"no labels":            {replace(`"label"`, `"lable"`), importer.Reading{}, "no node type has labels"},
		"no mask of training":  {replace(`"train_mask"`, `"trainmask"`), importer.Reading{}, "masks, but no train_mask"},
		"another task":         {nil, importer.Reading{Task: "author"}, `none is the "author" that is wanted`},
		"another feature":      {nil, importer.Reading{Features: []string{"x"}}, `are feat, year: none is the "x"`},
		"a feature twice":      {nil, importer.Reading{Features: []string{"year", "year"}}, "wanted once"},
		"an edge out of range": {set(edges, []byte("0 20\n")), importer.Reading{}, "the edge from 0 to 20 leaves 20 nodes _N"},
		"an edge of 2⁶⁴":       {set(edges, []byte("0 18446744073709551616\n")), importer.Reading{}, edges},
		"an edge of one node":  {set(edges, []byte("0\n")), importer.Reading{}, edges},
		"a missing chunk":      {set(edges, nil), importer.Reading{}, edges + " is missing"},
		"features by columns":  {set("node_data/_N/feat-00001.npy", importertest.NPY("(7, 2)", make([]float32, 14))), importer.Reading{}, "it has 2 columns, other chunks 3"},
		"fewer features":       {set("node_data/_N/feat-00001.npy", importertest.NPY("(6, 3)", make([]float32, 18))), importer.Reading{}, "feat has 19 rows, there are 20 nodes"},
		"a label of a half":    {set("node_data/_N/label-00000.npy", importertest.Vector([]float64{0, 1, 0.5, 0, 0, 0})), importer.Reading{}, "node 2 has label 0.5"},
		"overlapping masks":    {set("node_data/_N/val_mask-00000.npy", importertest.Vector([]int8{1, 1, 1, 1, 1, 1})), importer.Reading{}, "the splits overlap: node 0"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "one"))); err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				c.change(t, dir)
			}
			_, _, err := run(t, dir, c.o)
			if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v; want bad input in one line that says %q", err, c.says)
			}
		})
	}
}

// TestSymbolicLink refuses a link to a file of the machine, and takes one within the tree.
func TestSymbolicLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "one"))); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "edges", "_N__E__N-00000.csv")
	moved := filepath.Join(dir, "moved.csv")
	if err := errors.Join(os.Rename(name, moved), os.Symlink(moved, name)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, dir, importer.Reading{}); err != nil {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(name), os.Symlink("/etc/passwd", name)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, dir, importer.Reading{}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "symbolic link that leaves") {
		t.Errorf("a link to /etc/passwd: %v", err)
	}
}
