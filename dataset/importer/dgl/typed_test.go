package dgl_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/dgl"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// TestTyped imports a graph of several types in all forms.
func TestTyped(t *testing.T) {
	for _, form := range []string{"coo", "csr", "csc", "int32"} {
		dir, res := importertest.Imported(t, dgl.Format, filepath.Join("testdata", "typed-"+form+".bin"), importer.Reading{Typed: true})
		d := datasettest.Verified(t, dir)
		importertest.SameTyped(t, d, "testdata/typed.txt")
		if notes := strings.Join(res.Notes, "\n"); !strings.Contains(notes, "data of edges is not imported: paper:in:venue.w") {
			t.Errorf("notes %q", res.Notes)
		}
	}
}

// two is a graph of papers and authors, both with features and labels.
func two(change func(g *writtenGraph)) written {
	f := hetero()
	g := &f.graphs[0]
	labels := func(n int) []datum {
		return []datum{{name: "feat", values: make([]float32, 2*n), shape: []int64{int64(n), 2}}, {name: "label", values: make([]int64, n)}, {name: "year", values: make([]int64, n)}, {name: "train_idx", values: []int64{0}}}
	}
	g.data = [][]datum{labels(2), labels(3)}
	change(g)
	return f
}

// TestTypedChoices chooses types, labels and features.
func TestTypedChoices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.bin")
	importertest.Save(t, path, two(func(g *writtenGraph) {
		g.data[0][0] = datum{name: "h", values: make([]float32, 6), shape: []int64{2, 3}}
	}).bytes())
	for _, c := range []struct {
		r        importer.Reading
		dim      int
		labelled string
		features string // the types
	}{
		{importer.Reading{Task: "author"}, 2, "author", "paper"},
		{importer.Reading{Task: "paper:year"}, 2, "paper", "paper"},
		{importer.Reading{Task: "paper", Features: []string{"h"}}, 3, "paper", "author"},
		{importer.Reading{Task: "paper", For: importer.ForPredict}, 2, "paper", "paper"},
	} {
		c.r.Typed = true
		s, err := dgl.Format.Open(datasettest.FS, []string{path}, &c.r)
		if err != nil {
			t.Fatal(err)
		}
		sh := s.Shape()
		var features []string
		for _, k := range sh.Types.Nodes {
			if k.Features {
				features = append(features, k.Name)
			}
		}
		if sh.Dim != c.dim || sh.Types.Nodes[sh.LabelledType].Name != c.labelled || strings.Join(features, " ") != c.features || sh.Reading["task"] != c.r.Task {
			t.Errorf("%+v: %+v", c.r, sh)
		}
	}
}

func TestTypedRefuses(t *testing.T) {
	typed := importer.Reading{Typed: true}
	path := filepath.Join(t.TempDir(), "g.bin")
	same := func(*writtenGraph) {}
	for _, c := range []struct {
		f    written
		r    importer.Reading
		says string
	}{
		{tiny("coo"), typed, "its graph has one type of nodes and of edges: import it without --typed"},
		{two(same), typed, "several node types have labels (author, paper): choose one with --task TYPE"},
		{two(same), importer.Reading{Typed: true, Task: "city"}, "--task city"},
		{two(same), importer.Reading{Typed: true, Task: "author:city"}, "--task author:city"},
		{two(same), importer.Reading{Typed: true, Task: "paper", Features: []string{"h"}}, "no node type has features, data of nodes called h"},
		{two(func(g *writtenGraph) { g.data[0][0].shape = []int64{4, 1} }), importer.Reading{Typed: true, Task: "paper"}, "there are features of 4 nodes, but the graph has 2 nodes"},
		{two(func(g *writtenGraph) { g.data[0] = append([]datum{}, g.data[0][1:]...); g.data[1] = g.data[1][1:] }), importer.Reading{Typed: true, Task: "paper"}, "no node type has features"},
		{two(func(g *writtenGraph) { g.data = [][]datum{g.data[0][:1], g.data[1][:1]} }), typed, "no node type has labels"},
		{two(func(g *writtenGraph) { g.relations[1].edges = [][2]int64{{2, 0}} }), importer.Reading{Typed: true, Task: "paper"}, "edges author:writes:paper: the edge from 2 to 0 is out of range: there are 2 source nodes and 3 destination nodes"},
		{two(func(g *writtenGraph) { g.relations[1].rows = 4 }), importer.Reading{Typed: true, Task: "paper"}, "the relation author:writes:paper is between"},
		{two(func(g *writtenGraph) { g.types[0] = "paper" }), importer.Reading{Typed: true, Task: "author"}, "--task author"},
		{two(func(g *writtenGraph) { g.relations[0] = g.relations[1] }), importer.Reading{Typed: true, Task: "paper"}, "two relations are author:writes:paper"},
		{two(func(g *writtenGraph) { g.counts[0], g.relations[1].rows, g.relations[1].edges = 0, 0, nil }), importer.Reading{Typed: true, Task: "paper"}, "the type author has no nodes"},
	} {
		importertest.Save(t, path, c.f.bytes())
		o := importer.Options{Sources: []string{path}, Reading: c.r, Split: &importer.Split{Parts: "60/20/20"}}
		if _, err := dgl.Format.Open(datasettest.FS, []string{path}, &c.r); err == nil { // the splits of the source are of one node
			o.Split = nil
		}
		_, err := importer.Import(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), dgl.Format, o, progress.Discard)
		if err == nil || !errors.Is(err, fault.ErrInput) && !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v; want %q", c.r, err, c.says)
		}
	}
}

// FuzzTyped fuzzes the layout of a graph of several types.
func FuzzTyped(f *testing.F) {
	tree := f.TempDir()
	whole := two(func(g *writtenGraph) { g.data[0] = g.data[0][:1] })
	content := whole.bytes()
	importertest.Save(f, filepath.Join(tree, "g.bin"), content)
	const fixed = 4096
	typed := dgl.Format
	typed.Open = func(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
		o.Typed = true
		return dgl.Format.Open(fsys, sources, o)
	}
	importertest.Fuzz(f, typed, tree, "g.bin", string(content[fixed:]), func(text string) ([]byte, error) {
		return append(content[:fixed:fixed], text...), nil
	})
}
