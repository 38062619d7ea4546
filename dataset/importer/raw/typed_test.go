package raw_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/raw"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

const typedYAML = `types:
  - name: author
    nodes: 3
  - name: paper
    features: x.csv
    columns: [a, b]
    labels: y.csv
    label_column: topic
    train: train.npy
    valid: valid.npy
    test: test.npy
relations:
  - {source: author, name: writes, destination: paper, edges: writes.csv}
  - {source: paper, name: cites, destination: paper, edges: cites.npy}
  - {source: paper, name: by, destination: author, edges: "by.bin:int32:3x2"}
`

// typedTree writes tables of three authors and four papers.
func typedTree(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"g.yaml":     typedYAML,
		"x.csv":      "id,a,b,title\n0,1,2,x\n1,3,4,y\n2,5,6,z\n3,7,8,w\n",
		"y.csv":      "topic,year\n0,5\n1,6\n0,7\n1,8\n",
		"writes.csv": "dst,src,weight\n0,2,0.5\n3,0,0.5\n0,1,1\n",
		"cites.npy":  string(importertest.NPY("(2, 3)", []int64{0, 1, 2, 1, 2, 3})),
		"by.bin":     "\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"train.npy":  string(importertest.Vector([]int64{0, 3})),
		"valid.npy":  string(importertest.Vector([]int64{1})),
		"test.npy":   string(importertest.Vector([]int64{2})),
	} {
		importertest.Save(t, filepath.Join(dir, name), []byte(content))
	}
	return filepath.Join(dir, "g.yaml")
}

const typedWant = `type paper: 4 nodes
type author: 3 nodes without features
relation author:writes:paper
author:writes:paper: 0 <- 1
author:writes:paper: 0 <- 2
author:writes:paper: 3 <- 0
relation paper:cites:paper
paper:cites:paper: 1 <- 0
paper:cites:paper: 2 <- 1
paper:cites:paper: 3 <- 2
relation paper:by:author
paper:by:author: 0 <- 0
paper:by:author: 2 <- 1
paper:by:author: 2 <- 3
feat paper 0: 1 2
feat paper 1: 3 4
feat paper 2: 5 6
feat paper 3: 7 8
label paper 0: 0
label paper 1: 1
label paper 2: 0
label paper 3: 1
train: 0 3
valid: 1
test: 2
`

// TestTyped imports tables of types and relations.
func TestTyped(t *testing.T) {
	name := typedTree(t)
	if sign := raw.Typed.Detect(datasettest.FS, []string{name}); sign != "it lists types and relations" {
		t.Errorf("it is detected as %q", sign)
	}
	dir, res := importertest.Imported(t, raw.Typed, name, importer.Reading{Typed: true})
	d := datasettest.Verified(t, dir)
	if got := importertest.TypedText(t, d); got != typedWant {
		t.Errorf("%s\nwant\n%s", got, typedWant)
	}
	if notes := strings.Join(res.Notes, "\n"); !strings.Contains(notes, "writes.csv: data of edges is not imported: weight") {
		t.Errorf("notes %q", res.Notes)
	}
	// A matrix has sources as rows, and may be symmetric.
	changed := func(from, to string) string {
		text := strings.Replace(typedYAML, from, to, 1)
		path := filepath.Join(filepath.Dir(name), "h.yaml")
		importertest.Save(t, path, []byte(text))
		return path
	}
	importertest.Save(t, filepath.Join(filepath.Dir(name), "writes.mtx"), []byte("%%MatrixMarket matrix coordinate pattern general\n3 4 3\n3 1\n1 4\n2 1\n"))
	dir, _ = importertest.Imported(t, raw.Typed, changed("writes.csv", "writes.mtx"), importer.Reading{Typed: true})
	d = datasettest.Verified(t, dir)
	if got := importertest.TypedText(t, d); got != typedWant {
		t.Errorf("of a matrix: %s\nwant\n%s", got, typedWant)
	}
}

// TestTypedFill refuses to fill authors where the labels of papers would become features of theirs.
func TestTypedFill(t *testing.T) {
	name := typedTree(t)
	dir := filepath.Dir(name)
	path := filepath.Join(dir, "h.yaml")
	if err := os.Symlink("y.csv", filepath.Join(dir, "link.csv")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, says string }{
		{"", "", ""},
		{"features: x.csv\n    columns: [a, b]", "features: y.csv", `features of "paper": column 0 of DIR/y.csv, counted from 0, has the labels: with --fill mean they would become features of other nodes; leave the column out`},
		{"features: x.csv\n    columns: [a, b]", "features: link.csv\n    columns: [year, '0']", `features of "paper": column 0 of DIR/link.csv`},
		{"features: x.csv\n    columns: [a, b]", "features: y.csv\n    drop: [topic]", ""},
		{"nodes: 3", "features: y.csv\n    columns: ['t*', year]\n    nodes: 4", `features of "author": column 0 of DIR/y.csv`},
		{`"by.bin:int32:3x2"`, "y.csv", `the relation "by" from "paper" to "author": column 0 of DIR/y.csv`},
		{`"by.bin:int32:3x2"`, "z.csv, columns: [id, topic]", `the relation "by" from "paper" to "author": column 1 of DIR/z.csv`},
		{`"by.bin:int32:3x2"`, "z.csv, columns: [id, other]", ""},
		{`"by.bin:int32:3x2"`, "z.csv", `the relation "by" from "paper" to "author": column 1 of DIR/z.csv`},
	} {
		text := strings.Replace(typedYAML, c.from, c.to, 1)
		if strings.Contains(c.to, "z.csv") {
			text = strings.Replace(text, "y.csv", "z.csv", 1)
			heads := "id,topic,other"
			if c.to == "z.csv" {
				heads = "src,dst,other"
				text = strings.Replace(text, "label_column: topic", "label_column: dst", 1)
			}
			importertest.Save(t, filepath.Join(dir, "z.csv"), []byte(heads+"\n0,0,0\n1,1,2\n2,0,1\n3,1,0\n"))
		}
		importertest.Save(t, path, []byte(text))
		for _, fill := range []string{"", dataset.FillMean} {
			o := importer.Options{Sources: []string{path}, Reading: importer.Reading{Typed: true, Fill: fill}}
			p, err := importer.MakePlan(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), raw.Typed, o, progress.Discard)
			got := strings.Join(p.Problems, "; ")
			if says := strings.ReplaceAll(c.says, "DIR", dir); err != nil || fill != "" && says != "" && !strings.Contains(got, says) || (fill == "" || says == "") && strings.Contains(got, "has the labels") {
				t.Errorf("%q for %q, fill %q: %s, %v; want %q", c.to, c.from, fill, got, err, says)
			}
		}
	}
}

func TestTypedRefuses(t *testing.T) {
	name := typedTree(t)
	path := filepath.Join(filepath.Dir(name), "h.yaml")
	for _, c := range []struct {
		from, to string
		r        importer.Reading
		kind     error
		says     string
	}{
		{"", "", importer.Reading{}, fault.ErrUsage, "the format typed needs --typed"},
		{"nodes: 3", "", importer.Reading{Typed: true}, fault.ErrInput, `the number of nodes of the type "author" is not known: give nodes`},
		{"nodes: 3", "nodes: -3", importer.Reading{Typed: true}, fault.ErrInput, `the type "author" has -3 nodes`},
		{"nodes: 3", "nodes: 2", importer.Reading{Typed: true}, fault.ErrInput, "writes.csv: the edge from 2 to 0 is out of range: there are 2 source nodes and 4 destination nodes"},
		{"nodes: 3", "node: 3", importer.Reading{Typed: true}, fault.ErrInput, "node"},
		{"x.csv", "../x.csv", importer.Reading{Typed: true}, fault.ErrInput, "is not inside the directory"},
		{"x.csv", "none.csv", importer.Reading{Typed: true}, fault.ErrInput, "none.csv is missing"},
		{"[a, b]", "[a, title]", importer.Reading{Typed: true}, fault.ErrInput, "x.csv"},
		{"    features: x.csv\n    columns: [a, b]\n", "", importer.Reading{Typed: true}, fault.ErrInput, "no node type has features"},
		{"    features: x.csv\n", "", importer.Reading{Typed: true}, fault.ErrInput, `the type "paper" has columns, but no features`},
		{"    labels: y.csv\n", "", importer.Reading{Typed: true}, fault.ErrInput, "no type has labels"},
		{"nodes: 3", "nodes: 3\n    labels: y.csv", importer.Reading{Typed: true}, fault.ErrInput, "several types have labels (author, paper): choose one with --task"},
		{"", "", importer.Reading{Typed: true, Task: "author"}, fault.ErrUsage, "--task author: types with labels are paper"},
		{"destination: author", "destination: city", importer.Reading{Typed: true}, fault.ErrInput, "paper:by:city is between node types of which at least one does not exist"},
		{"name: author", "name: paper", importer.Reading{Typed: true}, fault.ErrInput, `the node type "paper" is listed twice`},
		{", edges: writes.csv", "", importer.Reading{Typed: true}, fault.ErrInput, "has no edges: give a file"},
		{"by.bin:int32:3x2", "by.bin:int32:9x2", importer.Reading{Typed: true}, fault.ErrInput, "by.bin"},
		{"nodes: 3", "features: valid.npy", importer.Reading{Typed: true}, fault.ErrInput, "the features of the node type paper have 2 elements, but of author they have 1: give --without-features paper or author"},
	} {
		text := strings.Replace(typedYAML, c.from, c.to, 1)
		importertest.Save(t, path, []byte(text))
		o := importer.Options{Sources: []string{path}, Reading: c.r}
		_, err := importer.Import(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), raw.Typed, o, progress.Discard)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q for %q: %v; want %q", c.to, c.from, err, c.says)
		}
	}
	for _, other := range []string{"", "a: 1\n", "types: []\n", "types: {", "\x00"} {
		importertest.Save(t, path, []byte(other))
		if sign := raw.Typed.Detect(datasettest.FS, []string{path}); sign != "" {
			t.Errorf("%q is detected: %s", other, sign)
		}
	}
}

// FuzzTyped fuzzes the description of the tables.
func FuzzTyped(f *testing.F) {
	dir := filepath.Dir(typedTree(f))
	typed := raw.Typed
	typed.Open = func(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
		o.Typed = true
		return raw.Typed.Open(fsys, []string{filepath.Join(sources[0], "g.yaml")}, o)
	}
	importertest.Fuzz(f, typed, dir, "g.yaml", typedYAML, func(text string) ([]byte, error) { return []byte(text), nil })
}
