package graphbolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/graphbolt"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

const typedMetadata = `graph:
  nodes:
    - {type: author, num: 2}
    - {type: paper, num: 3}
  edges:
    - {type: "author:writes:paper", format: csv, path: writes.csv}
    - {type: "paper:cites:paper", format: numpy, path: cites.npy}
feature_data:
  - {domain: node, type: paper, name: feat, format: numpy, path: feat.npy}
  - {domain: edge, type: "paper:cites:paper", name: year, format: numpy, path: year.npy}
tasks:
  - name: topics
    num_classes: 2
    train_set: [{type: paper, data: [{name: seeds, format: numpy, path: seeds.npy}, {name: labels, format: numpy, path: labels.npy}]}]
    validation_set: [{type: paper, data: [{name: seeds, format: numpy, path: valid.npy}, {name: labels, format: numpy, path: valid.npy}]}]
`

// typedTree writes a tree of two authors and three papers.
func typedTree(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"metadata.yaml": []byte(typedMetadata),
		"writes.csv":    []byte("0,2\n1,0\n1,2\n"),
		"cites.npy":     importertest.NPY("(2, 2)", []int64{0, 2, 1, 1}),
		"feat.npy":      importertest.NPY("(3, 2)", []float32{1, 2, 3, 4, 5, 6}),
		"seeds.npy":     importertest.Vector([]int64{0, 2}),
		"labels.npy":    importertest.Vector([]int64{1, 0}),
		"valid.npy":     importertest.Vector([]int64{1}),
	} {
		importertest.Save(t, filepath.Join(dir, name), content)
	}
	return dir
}

// TestTyped imports a source tree with its types.
func TestTyped(t *testing.T) {
	dir, res := importertest.Imported(t, graphbolt.Format, typedTree(t), importer.Reading{Typed: true})
	d := datasettest.Verified(t, dir)
	const want = `type paper: 3 nodes
type author: 2 nodes without features
relation author:writes:paper
author:writes:paper: 0 <- 1
author:writes:paper: 2 <- 0
author:writes:paper: 2 <- 1
relation paper:cites:paper
paper:cites:paper: 1 <- 0
paper:cites:paper: 1 <- 2
feat paper 0: 1 2
feat paper 1: 3 4
feat paper 2: 5 6
label paper 0: 1
label paper 1: 1
label paper 2: 0
train: 0 2
valid: 1
test:
`
	if got := importertest.TypedText(t, d); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if notes := strings.Join(res.Notes, "\n"); !strings.Contains(notes, "data of edges is not imported: paper:cites:paper.year") {
		t.Errorf("notes %q", res.Notes)
	}
	dir, res = importertest.Imported(t, graphbolt.Format, typedTree(t), importer.Reading{Typed: true, For: importer.ForPredict})
	d = datasettest.Verified(t, dir)
	if f := d.Facts(); f.Labelled() || res.Edges != 5 {
		t.Errorf("for prediction: %+v", res)
	}
}

func TestTypedRefuses(t *testing.T) {
	dir := typedTree(t)
	typed := importer.Reading{Typed: true}
	for _, c := range []struct {
		from, to string
		r        importer.Reading
		says     string
	}{
		{"", "", importer.Reading{}, "2 node types and 2 edge types: give --typed to keep them"},
		{"author:writes:paper", "writes", typed, `the edge type "writes" is not source:relation:destination`},
		{"author:writes:paper", "city:writes:paper", typed, "city:writes:paper is between node types of which at least one does not exist"},
		{"num: 2", "num: 1", typed, "writes.csv: the edge from 1 to 0 is out of range: there are 1 source nodes and 3 destination nodes"},
		{"num: 2", "num: 0", typed, `the node type "author" has 0 nodes`},
		{"num: 3", "num: 4", typed, "feat.npy: there are features of 3 nodes, but the graph has 4 nodes"},
		{"[{type: paper, data: [{name: seeds, format: numpy, path: valid", "[{type: author, data: [{name: seeds, format: numpy, path: valid", typed, `has sets of the node types "paper" and "author", but only one type may have labels`},
		{"type: paper, name: feat", "type: city, name: feat", typed, "no node type has features"},
		{"path: seeds.npy", "path: cites.npy", typed, "cites.npy"},
		{"path: writes.csv", "path: ../writes.csv", typed, "is not inside the directory"},
		{"num_classes: 2", "num_classes: 1", typed, "has the label 1, but there are 1 classes"},
	} {
		text := strings.Replace(typedMetadata, c.from, c.to, 1)
		importertest.Save(t, filepath.Join(dir, "metadata.yaml"), []byte(text))
		o := importer.Options{Sources: []string{dir}, Reading: c.r}
		_, err := importer.Import(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), graphbolt.Format, o, progress.Discard)
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q for %q: %v; want %q", c.to, c.from, err, c.says)
		}
	}
	importertest.Save(t, filepath.Join(dir, "metadata.yaml"), []byte(typedMetadata))
	importertest.Save(t, filepath.Join(dir, "seeds.npy"), importertest.Vector([]int64{0, 3}))
	importertest.Refused(t, graphbolt.Format, dir, typed, "seeds.npy: the train set has node 3, but there are only 3 nodes")
	importertest.Refused(t, graphbolt.Format, preprocessedTree, typed, "with --typed, name the source tree")
}

// FuzzTyped fuzzes the description of a tree of several types.
func FuzzTyped(f *testing.F) {
	dir := typedTree(f)
	typed := graphbolt.Format
	typed.Open = func(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
		o.Typed = true
		return graphbolt.Format.Open(fsys, sources, o)
	}
	seed, err := os.ReadFile(filepath.Join(dir, "metadata.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	importertest.Fuzz(f, typed, dir, "metadata.yaml", string(seed), importertest.Plain)
}
