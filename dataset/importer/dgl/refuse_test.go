package dgl_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/dgl"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
)

// hetero is a graph of two types of nodes and two relations.
func hetero() written {
	return written{graphs: []writtenGraph{{
		types: []string{"author", "paper"}, counts: []int64{2, 3},
		relations: []relation{
			{name: "cites", from: 1, to: 1, rows: 3, cols: 3, forms: []string{"coo"}, edges: [][2]int64{{0, 1}}},
			{name: "writes", from: 0, to: 1, rows: 2, cols: 3, forms: []string{"csc"}, edges: [][2]int64{{0, 1}, {1, 2}}},
		},
		data:     [][]datum{nil, {{name: "feat", values: make([]float32, 3), shape: []int64{3, 1}}}},
		edgeData: [][]datum{nil, nil},
	}}}
}

func column(r func(row, col []int64)) func(row, col, ids []int64) (a, b, c []int64) {
	return func(row, col, ids []int64) (a, b, c []int64) { r(row, col); return row, col, ids }
}

// TestRefuses changes one thing of a good file at a time.
func TestRefuses(t *testing.T) {
	data := func(name string, d datum) func(f *written) {
		return func(f *written) {
			list := &f.graphs[0].data[0]
			i := slices.IndexFunc(*list, func(d datum) bool { return d.name == name })
			if *list = slices.Delete(*list, i, i+1); d.name != "" {
				*list = append(*list, d)
			}
		}
	}
	of := func(change func(g *writtenGraph, r *relation)) func(f *written) {
		return func(f *written) { change(&f.graphs[0], &f.graphs[0].relations[0]) }
	}
	magic := func(which int) func(f *written) { return func(f *written) { f.magicOff[which] = 1 } }
	for _, c := range []struct {
		what   string
		form   string
		change func(f *written)
		says   string
	}{
		{"version 1", "coo", func(f *written) { f.version, f.kind = 1, 1 }, "g.bin: it has version 1 of DGL's format, which releases before 0.5 wrote: save it again"},
		{"version 3", "coo", func(f *written) { f.version = 3 }, "it has version 3 of DGL's format, with graphs of the kind 2: this program reads version 2, with the kind 2"},
		{"another kind", "coo", func(f *written) { f.kind = 3 }, "with graphs of the kind 3"},
		{"no graphs", "coo", func(f *written) { f.graphs = nil }, "it has 0 graphs instead of one"},
		{"two graphs", "coo", func(f *written) { f.graphs = append(f.graphs, f.graphs[0]) }, "it has 2 graphs instead of one: save one of them, with `dgl.save_graphs(path, [g])`"},
		{"several types", "", func(f *written) { *f = hetero() }, "its graph has several types, nodes of author, paper and edges of paper:cites:paper, author:writes:paper: give --typed to keep them, or save `dgl.to_homogeneous(g, ndata=[...])`"},
		{"two relations of a type", "", func(f *written) {
			*f = hetero()
			f.graphs[0].types, f.graphs[0].counts, f.graphs[0].data = []string{"paper"}, []int64{3}, [][]datum{nil}
			f.graphs[0].relations[1].from, f.graphs[0].relations[1].to = 0, 0
			f.graphs[0].relations[0].from, f.graphs[0].relations[0].to = 0, 0
			f.graphs[0].relations[1].rows, f.graphs[0].relations[1].cols, f.graphs[0].relations[1].edges = 3, 3, nil
		}, "nodes of paper and edges of paper:cites:paper, paper:writes:paper:"},
		{"wrong relations of types", "", func(f *written) { *f = hetero(); f.graphs[0].relations[0].to = 7 }, "its graph of types has the edge 0 from 1 to 7"},
		{"no types", "", func(f *written) { f.graphs = []writtenGraph{{}} }, "its graph has several types, nodes of none and edges of none"},

		{"another file", "coo", magic(inFile), "at byte 0 the file does not begin with dd2e4ff046b4a13f"},
		{"another graph", "coo", magic(inGraph), "a graph does not begin with dd589fbe35224abf"},
		{"another graph of types", "coo", magic(inMeta), "a graph of types does not begin with dd3c5ffe20046abf"},
		{"another relation", "coo", magic(inUnit), "a relation does not begin with dd2e60f0f6b4a127"},
		{"another list of edges", "coo", magic(inCOO), "a matrix does not begin with dd61ffd305dff127"},
		{"other rows", "csr", magic(inCSR), "a matrix does not begin with dd6cd31205dff127"},
		{"another array", "coo", magic(inArray), "an array does not begin with dd5e40f096b4a13f"},
		{"another position", "coo", func(f *written) { f.positionOff = 1 }, "the first graph begins, but the file says that it begins at byte 4113"},
		{"a tail", "coo", func(f *written) { f.tail = []byte{1} }, "the graph has its end, but the file has"},

		{"no form", "coo", of(func(_ *writtenGraph, r *relation) { r.code = 1 << 32 }), "edges are stored in the forms 0"},
		{"a fourth form", "coo", of(func(_ *writtenGraph, r *relation) { r.code = 8 | 1<<32 }), "edges are stored in the forms 8"},
		{"a fourth form of early releases", "coo", of(func(_ *writtenGraph, r *relation) { r.code = 4 }), "edges are stored in the forms 0"},
		{"automatic, of early releases", "coo", of(func(_ *writtenGraph, r *relation) { r.code = -1 << 40 }), "edges are stored in the forms 0"},
		{"no nodes", "coo", of(func(g *writtenGraph, r *relation) { g.counts[0], r.rows, r.cols, r.edges = 0, 0, 0, nil }), "g.bin: the graph has no nodes"},
		{"nodes below none", "coo", of(func(g *writtenGraph, r *relation) { g.counts[0], r.rows, r.cols, r.edges = -1, -1, -1, nil }), "the graph has -1 nodes"},
		{"too many nodes", "coo", of(func(g *writtenGraph, r *relation) { g.counts[0], r.rows, r.cols = 1<<32+1, 1<<32+1, 1<<32+1 }), "g.bin: "},
		{"other rows than nodes", "coo", of(func(g *writtenGraph, _ *relation) { g.counts[0] = 4 }), "the graph has 4 nodes, but its matrix has the shape (3, 3)"},
		{"other columns than nodes", "csc", of(func(_ *writtenGraph, r *relation) { r.rows, r.cols = 4, 3; r.edges = nil }), "the graph has 3 nodes, but its matrix has the shape (3, 4)"},
		{"data of two types", "coo", of(func(g *writtenGraph, _ *relation) { g.data = append(g.data, nil) }), "there are 2 lists of node data instead of 1"},
		{"data of no edges", "coo", of(func(g *writtenGraph, _ *relation) { g.edgeData = nil }), "there are 0 lists of edge data instead of 1"},
		{"fewer names", "coo", of(func(g *writtenGraph, _ *relation) { g.fewerNames = true }), "there are 0 names of types instead of 1"},
		{"a long name", "coo", of(func(g *writtenGraph, _ *relation) { g.types[0] = strings.Repeat("x", 1025) }), "there are 1025 bytes in a name"},
		{"a name with a line", "coo", of(func(g *writtenGraph, _ *relation) { g.types[0] = "a\nb" }), `the name "a\nb" has control characters, or is not UTF-8`},
		{"a name of bytes", "coo", of(func(g *writtenGraph, _ *relation) { g.types[0] = "\xff" }), `the name "\xff" has control characters`},

		{"edges that leave", "coo", of(func(_ *writtenGraph, r *relation) { r.edges[0] = [2]int64{1, 3} }), "g.bin: edges: the edge from 1 to 3 is out of range: the graph has 3 nodes"},
		{"edges below 0", "csr", of(func(_ *writtenGraph, r *relation) { r.change = column(func(_, c []int64) { c[0] = -1 }) }), "g.bin: edges: the edge from 0 to -1 is out of range"},
		{"fewer destinations", "coo", of(func(_ *writtenGraph, r *relation) {
			r.change = func(a, b, c []int64) ([]int64, []int64, []int64) { return a, b[1:], c }
		}), "g.bin: destinations: its shape is (4,) instead of (5,)"},
		{"descending offsets", "csr", of(func(_ *writtenGraph, r *relation) { r.change = column(func(a, _ []int64) { a[1] = 4 }) }), "g.bin: indptr: offset 3 follows offset 4"},
		{"offsets that begin late", "csc", of(func(_ *writtenGraph, r *relation) { r.change = column(func(a, _ []int64) { a[0] = 1 }) }), "g.bin: indptr: it begins with 1 instead of 0"},
		{"fewer offsets", "csc", of(func(_ *writtenGraph, r *relation) {
			r.change = func(a, b, c []int64) ([]int64, []int64, []int64) { return a[:3], b, c }
		}), "g.bin: indptr: its shape is (3,) instead of (4,)"},

		{"no features", "coo", data("feat", datum{name: "h", values: make([]float32, 3)}), "g.bin: its graph has no features, data of nodes called feat, feature, features or x; it has label, train_mask, val_mask, test_mask, h: choose with --feature"},
		{"features of other nodes", "coo", data("feat", datum{name: "feat", values: make([]float32, 4), shape: []int64{4, 1}}), "g.bin: feat: there are features of 4 nodes, but the graph has 3 nodes"},
		{"features of three dimensions", "coo", data("feat", datum{name: "feat", values: make([]float32, 12), shape: []int64{3, 2, 2}}), "g.bin: feat: its shape is (3, 2, 2) instead of a matrix or a vector"},
		{"features of complex numbers", "coo", data("feat", datum{name: "feat", values: make([]float64, 3), shape: []int64{3}, odd: &[4]byte{5, 64, 1, 0}}), "g.bin: feat: its elements have the type 5 of DLPack, with 1 × 64 bits: only integers, floats and booleans can be read"},
		{"features of vectors", "coo", data("feat", datum{name: "feat", values: make([]float64, 3), shape: []int64{3}, odd: &[4]byte{2, 32, 2, 0}}), "2 of DLPack, with 2 × 32 bits"},
		{"features of nothing", "coo", data("feat", datum{name: "feat", values: []float32{}, shape: []int64{3}, odd: &[4]byte{2, 0, 1, 0}}), "an array of shape (3,) has 0 bytes instead of 0"},
		{"nine dimensions", "coo", data("feat", datum{name: "feat", values: make([]float32, 3), shape: []int64{3, 1, 1, 1, 1, 1, 1, 1, 1}}), "an array has 9 dimensions"},
		{"a shape below 0", "coo", data("feat", datum{name: "feat", values: make([]float32, 3), shape: []int64{-3}}), "an array has a dimension of -3"},
		{"a shape that overflows", "coo", data("feat", datum{name: "feat", values: make([]float32, 3), shape: []int64{1 << 62, 4}}), "an array has a dimension of 4611686018427387904, more than the file has"},
		{"a product that overflows", "coo", data("feat", datum{name: "feat", values: make([]float32, 3), shape: []int64{4096, 4096, 4096, 4096, 4096, 4096}}), "an array has a dimension of 4096, more than the file has"},
		{"another shape", "coo", data("feat", datum{name: "feat", values: make([]float32, 3), shape: []int64{3, 2}}), "an array of shape (3, 2) has 12 bytes instead of 24"},
		{"data twice", "coo", data("feat", datum{name: "label", values: make([]float32, 3)}), `two arrays have the name "label"`},
		{"no labels", "coo", data("label", datum{}), "g.bin: its graph has no labels, data of nodes called label, labels or y; it has feat, train_mask, val_mask, test_mask: choose with --task"},
		{"no data at all", "coo", of(func(g *writtenGraph, _ *relation) { g.data[0] = nil }), "g.bin: its graph has no features, data of nodes called feat, feature, features or x; it has none"},
		{"labels of other nodes", "coo", data("label", datum{name: "label", values: make([]int64, 2)}), "g.bin: label: there are labels of 2 nodes instead of 3"},
		{"a mask of others", "coo", data("val_mask", datum{name: "val_mask", values: make([]bool, 2)}), "g.bin: val_mask: the mask has 2 rows, but the graph has 3 nodes"},
		{"a mask of numbers", "coo", data("val_mask", datum{name: "val_mask", values: []int64{0, 2, 0}}), "g.bin: val_mask: node 1 has the value 2: a mask has only 0 and 1"},
		{"overlapping masks", "coo", data("val_mask", datum{name: "val_mask", values: []int64{1, 0, 0}}), "node 0"},
		{"validation alone", "coo", data("train_mask", datum{}), "g.bin: val_mask is a set of nodes, but there is no training set"},
		{"a set of a node too many", "coo", func(f *written) {
			data("test_mask", datum{})(f)
			f.labels = []datum{{name: "test_idx", values: []int64{3}}}
		}, "g.bin: test_idx: the test set has node 3, but there are only 3 nodes"},
		{"labels of graphs alone", "coo", func(f *written) {
			data("label", datum{})(f)
			f.labels = []datum{{name: "labels", values: []int64{1}}}
		}, "g.bin: its graph has no labels"},
		{"many arrays", "coo", of(func(g *writtenGraph, _ *relation) {
			for i := range 4097 {
				g.data[0] = append(g.data[0], datum{name: string(rune(0x4e00 + i)), values: []int8{}})
			}
		}), "there are 4102 arrays in a list"},
		{"most types", "coo", of(func(g *writtenGraph, _ *relation) { g.counts = make([]int64, 1<<16) }), "there are 1 lists of node data instead of 65536"},
		{"too many types", "coo", of(func(g *writtenGraph, _ *relation) { g.counts = make([]int64, 1<<16+1) }), "there are 65537 types of nodes"},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := tiny(c.form)
			c.change(&f)
			path := filepath.Join(t.TempDir(), "g.bin")
			importertest.Save(t, path, f.bytes())
			importertest.Refused(t, dgl.Format, path, importer.Reading{}, c.says)
		})
	}
}

// TestOptions gives options that do not fit the source.
func TestOptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.bin")
	importertest.Save(t, path, tiny("coo").bytes())
	for _, c := range []struct {
		how  importer.Reading
		says string
	}{
		{importer.Reading{Features: []string{"h"}}, "--feature h: " + path + " has no such data of nodes; it has feat, label, train_mask, val_mask, test_mask"},
		{importer.Reading{Features: []string{"feat", "h"}}, "--feature h: " + path + " has no such data of nodes"},
		{importer.Reading{Features: []string{"feat", "feat"}}, "--feature feat,feat: feat is given twice"},
		{importer.Reading{Task: "year"}, "--task year: " + path + " has no such data of nodes; it has feat, label"},
		{importer.Reading{SplitIndex: 1}, "--split-index 1: "},
	} {
		if _, err := dgl.Format.Open(datasettest.FS, []string{path}, &c.how); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v; want %q", c.how, err, c.says)
		}
	}
	if _, err := dgl.Format.Open(datasettest.FS, []string{path, path}, &importer.Reading{}); err == nil {
		t.Error("two sources are opened")
	}
	importertest.Refused(t, dgl.Format, filepath.Join(filepath.Dir(path), "none"), importer.Reading{}, "is missing")
}

// TestChoices takes other data than the usual ones. A dataset for prediction needs less.
func TestChoices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.bin")
	f := tiny("csr")
	list := &f.graphs[0].data[0]
	(*list)[1].name = "year"
	*list = append(*list, datum{name: "h", values: []float64{7, 8, 9}})
	importertest.Save(t, path, f.bytes())
	s, err := dgl.Format.Open(datasettest.FS, []string{path}, &importer.Reading{Features: []string{"h"}, Task: "year"})
	if err != nil {
		t.Fatal(err)
	}
	if sh := s.Shape(); sh.Dim != 1 || !maps.Equal(sh.Reading, map[string]string{"feature": "h", "task": "year"}) || sh.NoSplit {
		t.Errorf("%+v", sh)
	}
	if s, err = dgl.Format.Open(datasettest.FS, []string{path}, &importer.Reading{Features: []string{"h", "feat"}, Task: "year"}); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Features(1)
	if err != nil {
		t.Fatal(err)
	}
	got, sh := make([]float32, 6), s.Shape()
	if err := errors.Join(rows.Next(got), rows.Close()); err != nil || !slices.Equal(got, []float32{8, 3, 4, 9, 5, 6}) || sh.Dim != 3 || sh.Reading["feature"] != "h,feat" {
		t.Errorf("side by side: %v, %+v, %v", got, sh, err)
	}
	for _, how := range []importer.Reading{{For: importer.ForPredict}, {For: importer.ForPredict, Features: []string{"feat"}}} {
		if s, err = dgl.Format.Open(datasettest.FS, []string{path}, &how); err != nil || s.Shape().Dim != 2 || len(s.Shape().Reading) > 0 || !s.Shape().NoSplit {
			t.Errorf("for prediction: %v", err)
		}
	}
}

// TestDetect looks at directories, and at files that are none of DGL.
func TestDetect(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "g.bin")
	importertest.Save(t, path, tiny("coo").bytes())
	several, empty := t.TempDir(), t.TempDir()
	importertest.Save(t, filepath.Join(several, "a.bin"), tiny("coo").bytes())
	importertest.Save(t, filepath.Join(several, "b.bin"), tiny("csr").bytes())
	importertest.Save(t, filepath.Join(empty, "b.txt"), tiny("csr").bytes())
	importertest.Save(t, filepath.Join(empty, "c.bin"), []byte("something else"))
	importertest.Save(t, filepath.Join(dir, "info.bin"), []byte("short"))
	if sign := dgl.Format.Detect(datasettest.FS, []string{dir}); sign != "dgl.save_graphs wrote g.bin" {
		t.Errorf("a directory: %q", sign)
	}
	importertest.Refused(t, dgl.Format, several, importer.Reading{}, several+" has several files of dgl.save_graphs, a.bin, b.bin: name the file to import")
	importertest.Refused(t, dgl.Format, empty, importer.Reading{}, empty+" has no file NAME.bin of dgl.save_graphs: name the file to import")
	for _, sources := range [][]string{nil, {path, path}, {several}, {empty}, {filepath.Join(dir, "none")}} {
		if sign := dgl.Format.Detect(datasettest.FS, sources); sign != "" {
			t.Errorf("%q: %s", sources, sign)
		}
	}
	for _, size := range []int64{8, 7, 0} {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		if sign := dgl.Format.Detect(datasettest.FS, []string{path}); (sign != "") != (size == 8) {
			t.Errorf("%d bytes: %q", size, sign)
		}
	}
}
