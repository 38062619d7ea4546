package tables_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/tables"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// files are the files of tables.
var files = importertest.NewFiles(datasettest.FS)

func allClosed(t testing.TB) {
	t.Helper()
	if open := files.StillOpen(); len(open) > 0 {
		t.Fatalf("%q are open", open)
	}
}

// table is a .npy file, or text, of the given name.
func table(t testing.TB, dir, name string, content []byte) tables.Table {
	t.Helper()
	path := filepath.Join(dir, name)
	importertest.Save(t, path, content)
	return tables.Table{Name: name, Open: func() (matrix.Matrix, error) { return matrix.Open(files, matrix.Spec{Path: path}) }}
}

// graph has four nodes, of which nodes 0 to 2 are training, validation and test nodes.
func graph(t testing.TB, dir string) tables.Graph {
	t.Helper()
	edges := filepath.Join(dir, "edges.npy")
	importertest.Save(t, edges, importertest.NPY("(2, 3)", []int64{0, 1, 2, 1, 2, 3}))
	g := tables.Graph{
		Files: []string{edges},
		Edges: tables.Edges{Name: "edges.npy", Count: 3, Open: func() (stream.Pairs, error) {
			return stream.TwoRows(func() (*npz.Array, error) { return npz.Open(files, edges) })
		}},
		Features: tables.Features{table(t, dir, "x.npy", importertest.NPY("(4, 2)", []float32{1, 2, 3, 4, 5, 6, 7, 8}))},
		Labels:   table(t, dir, "y.npy", importertest.Vector([]int64{0, 1, 1, -1})),
	}
	for i, name := range dataset.SplitNames {
		g.Sets[i].Table = table(t, dir, name+".npy", importertest.Vector([]int64{int64(i), 3}[:1]))
	}
	return g
}

// formatOf is a format with the given graph.
func formatOf(g tables.Graph) importer.Format {
	return importer.Format{Name: "test", Takes: tables.Takes, Open: func(_ vfs.FS, _ []string, o *importer.Reading) (importer.Source, error) {
		return tables.New(g, o)
	}}
}

// TestKinds reads a set in all the forms that it may have.
func TestKinds(t *testing.T) {
	v, npy := importertest.Vector, importertest.NPY
	const mask0, list0 = "0", "0"
	for what, c := range map[string]struct {
		kind    tables.Kind
		name    string
		content []byte
		index   int
		want    string // the training nodes, or
		says    string
	}{
		"a mask of booleans":       {tables.AnyKind, "s.npy", v([]bool{true, false, false, false}), 0, mask0, ""},
		"one of bytes":             {tables.AnyKind, "s.npy", v([]uint8{1, 0, 0, 0}), 0, mask0, ""},
		"one of int64":             {tables.AnyKind, "s.npy", v([]int64{1, 0, 0, 0}), 0, mask0, ""},
		"one of floats":            {tables.AnyKind, "s.npy", v([]float32{1, 0, 0, 0}), 0, mask0, ""},
		"one column":               {tables.AnyKind, "s.npy", npy("(4, 1)", []int8{1, 0, 0, 0}), 0, mask0, ""},
		"text":                     {tables.AnyKind, "s.txt", []byte("1\n0\n0\n0\n"), 0, mask0, ""},
		"two columns":              {tables.AnyKind, "s.npy", npy("(4, 2)", []uint8{1, 0, 0, 0, 0, 0, 0, 1}), 0, mask0, ""},
		"the second":               {tables.AnyKind, "s.npy", npy("(4, 2)", []bool{true, false, false, false, false, false, false, true}), 1, "3", ""},
		"a list":                   {tables.AnyKind, "s.npy", v([]int32{3, 0}), 0, "0 3", ""},
		"a list of zero":           {tables.AnyKind, "s.npy", v([]int32{0}), 0, list0, ""},
		"a list in a column":       {tables.AnyKind, "s.npy", npy("(1, 1)", []int32{3}), 0, "3", ""},
		"a list of text":           {tables.AnyKind, "s.txt", []byte("3\n0\n"), 0, "0 3", ""},
		"all nodes":                {tables.AnyKind, "s.npy", v([]int32{3, 0, 2, 1}), 0, "", "node 1 is in the train set and in the valid set"},
		"a list, by its kind":      {tables.List, "s.npy", v([]int32{0, 0, 0, 1}), 0, "", "node 0 is in the train set twice"},
		"a mask, by its kind":      {tables.Mask, "s.npy", v([]int32{2, 0, 0, 1}), 0, "", "node 0 has the value 2: a mask has only 0 and 1"},
		"a mask with -1":           {tables.AnyKind, "s.npy", npy("(4, 2)", []int8{1, 0, 0, 0, 0, 0, -1, 1}), 0, "", "node 3 has the value -1: a mask has only 0 and 1"},
		"halves":                   {tables.AnyKind, "s.npy", v([]float64{1, 0.5, 0, 0}), 0, "", "node 1 has the value 0.5: a mask has only 0 and 1"},
		"a short mask":             {tables.AnyKind, "s.npy", v([]bool{true, false, false}), 0, "", "s.npy: the mask has 3 rows, but the graph has 4 nodes"},
		"a short mask of columns":  {tables.AnyKind, "s.npy", npy("(3, 2)", make([]bool, 6)), 0, "", "s.npy: the mask has 3 rows, but the graph has 4 nodes"},
		"a short mask of text":     {tables.Mask, "s.txt", []byte("1\n0\n0\n"), 0, "", "s.txt: the mask has 3 rows, but the graph has 4 nodes"},
		"a long mask of text":      {tables.Mask, "s.txt", []byte("1\n0\n0\n0\n0\n"), 0, "", "s.txt: the mask has 5 rows, but the graph has 4 nodes"},
		"more ones than nodes":     {tables.Mask, "s.txt", []byte("1\n0\n0\n0\n1\n"), 0, "", "s.txt: the train set has node 4, but there are only 4 nodes"},
		"a list of floats":         {tables.AnyKind, "s.npy", v([]float32{1}), 0, "", "s.npy: it is no set of nodes"},
		"floats, by the kind":      {tables.List, "s.npy", v([]float32{1, 0, 0, 0}), 0, "", "s.npy: it is no set of nodes"},
		"a list of columns":        {tables.List, "s.npy", npy("(1, 2)", []int32{3, 0}), 0, "", "s.npy: it is no set of nodes"},
		"a column that is missing": {tables.AnyKind, "s.npy", npy("(4, 2)", make([]bool, 8)), 2, "", "--split-index 2: " + "DIR/s.npy has 2 columns, counted from 0"},
		"a negative column":        {tables.AnyKind, "s.npy", npy("(4, 2)", make([]bool, 8)), -1, "", "--split-index -1: columns are counted from 0"},
		"no columns":               {tables.AnyKind, "s.npy", v([]bool{true, false, false, false}), 1, "", "--split-index 1: the source has no mask with several columns"},
		"an empty set":             {tables.AnyKind, "s.npy", v([]int32{}), 0, "", "the train set is empty"},
		"a cube":                   {tables.AnyKind, "s.npy", npy("(4, 1, 1)", make([]bool, 4)), 0, "", "instead of a matrix or a vector"},
		"a node beyond":            {tables.AnyKind, "s.npy", v([]int32{4}), 0, "", "s.npy: the train set has node 4, but there are only 4 nodes"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			g := graph(t, dir)
			g.Sets[0] = tables.Set{Table: table(t, dir, c.name, c.content), Kind: c.kind}
			g.Labels = table(t, dir, "y.npy", importertest.Vector([]int64{0, 1, 1, 0}))
			out := filepath.Join(t.TempDir(), "D")
			o := importer.Options{Sources: []string{dir}, Reading: importer.Reading{SplitIndex: c.index}}
			_, err := importer.Import(t.Context(), datasettest.FS, out, formatOf(g), o, progress.Discard)
			allClosed(t)
			says := strings.ReplaceAll(c.says, "DIR", dir)
			if says != "" {
				if !errors.Is(err, fault.ErrInput) && !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), says) {
					t.Fatalf("%v; want %q", err, says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var train []string
			for v, line := range strings.Split(strings.TrimSpace(importertest.Nodes(t, out)), "\n") {
				if strings.HasSuffix(line, "| train") {
					train = append(train, fmt.Sprint(v))
				}
			}
			if got := strings.Join(train, " "); got != c.want {
				t.Errorf("training nodes %s, want %s", got, c.want)
			}
		})
	}
}

// TestShape looks at the shape that New returns.
func TestShape(t *testing.T) {
	dir := t.TempDir()
	g := graph(t, dir)
	g.Shape = importer.Shape{Undirected: true, Held: 7, Notes: []string{"a note"}, Reading: map[string]string{"a": "b"}}
	s, err := tables.New(g, &importer.Reading{})
	if err != nil {
		t.Fatal(err)
	}
	sh := s.Shape()
	if sh.Nodes != 4 || sh.Edges != 3 || s.CountEdges(nil) != 3 || sh.Dim != 2 || sh.Multi || sh.Classes != 0 || sh.NoSplit || !sh.Undirected ||
		sh.Held != 7 || !slices.Equal(sh.Notes, g.Shape.Notes) || !maps.Equal(sh.Reading, g.Shape.Reading) || sh.Features != filepath.Join(dir, "x.npy") || !slices.Equal(s.Files(), g.Files) {
		t.Errorf("%+v, %q", sh, s.Files())
	}
	masks := g
	for i := range masks.Sets {
		rows := make([]bool, 8)
		rows[2*i+1] = true
		masks.Sets[i].Table = table(t, dir, fmt.Sprint(i, ".npy"), importertest.NPY("(4, 2)", rows))
	}
	s, err = tables.New(masks, &importer.Reading{SplitIndex: 1})
	if err != nil {
		t.Fatal(err)
	}
	if sh := s.Shape(); sh.Reading["split_index"] != "1" || len(sh.Notes) != 4 || !strings.Contains(sh.Notes[1], "has 2 columns, each a division into sets: column 1") {
		t.Errorf("%+v", sh)
	}
	// A mask of one column holds for every division.
	masks.Sets[2].Table = table(t, dir, "one.npy", importertest.Vector([]bool{false, false, true, true}))
	out := filepath.Join(t.TempDir(), "D")
	o := importer.Options{Sources: []string{dir}, Reading: importer.Reading{SplitIndex: 1}}
	if res, err := importer.Import(t.Context(), datasettest.FS, out, formatOf(masks), o, progress.Discard); err != nil || res.Train != 1 || res.Valid != 1 || res.Test != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	if len(g.Shape.Reading) != 1 || len(g.Shape.Notes) != 1 {
		t.Errorf("the graph has changed: %+v", g.Shape)
	}
	g.Labels, g.Sets = tables.Table{Name: "y"}, [3]tables.Set{}
	if s, err = tables.New(g, &importer.Reading{For: importer.ForPredict}); err != nil || !s.Shape().NoSplit {
		t.Errorf("for predictions: %v", err)
	}
	if _, err := tables.New(g, &importer.Reading{}); !errors.Is(err, fault.ErrInput) || err.Error() != "y is missing" {
		t.Errorf("without labels: %v", err)
	}
}

// TestRefuses gives a graph tables of other sizes.
func TestRefuses(t *testing.T) {
	v, npy := importertest.Vector, importertest.NPY
	for says, change := range map[string]func(dir string, g *tables.Graph){
		"x.npy: there are features of 3 nodes, but the graph has 4 nodes": func(dir string, g *tables.Graph) {
			g.Shape.Nodes, g.Features[0] = 4, table(t, dir, "x.npy", npy("(3, 1)", make([]float32, 3)))
		},
		"x.npy: the graph has 0 nodes; at least 1 is needed": func(dir string, g *tables.Graph) {
			g.Features[0] = table(t, dir, "x.npy", npy("(0, 1)", []float32{}))
		},
		"y.npy: there are labels of 5 nodes instead of 4": func(dir string, g *tables.Graph) { g.Labels = table(t, dir, "y.npy", v(make([]int8, 5))) },
		"y.npy: there are labels of 3 nodes instead of 4": func(dir string, g *tables.Graph) {
			g.Labels = table(t, dir, "y.npy", npy("(3, 2)", make([]int8, 6)))
		},
		"y.txt: there are labels of 3 nodes instead of 4": func(dir string, g *tables.Graph) { g.Labels = table(t, dir, "y.txt", []byte("1\n0\n0\n")) },
		"y.txt: there are labels of more nodes than 4":    func(dir string, g *tables.Graph) { g.Labels = table(t, dir, "y.txt", []byte("1\n0\n0\n0\n0\n")) },
		"y.csv: there are labels of more nodes than 4": func(dir string, g *tables.Graph) {
			g.Labels = table(t, dir, "y.csv", []byte("1,0\n0,1\n0,0\n0,0\n1,1\n"))
		},
		"y.csv: node 1 has 2 in the column of class 1": func(dir string, g *tables.Graph) { g.Labels = table(t, dir, "y.csv", []byte("1,0\n0,2\n0,0\n0,0\n")) },
		"y.npy: node 2 has the label 0.5":              func(dir string, g *tables.Graph) { g.Labels = table(t, dir, "y.npy", v([]float64{0, 1, 0.5, 1})) },
		"x.txt: truncated: it ends before the last node's row": func(dir string, g *tables.Graph) {
			g.Shape.Nodes, g.Features[0] = 4, table(t, dir, "x.txt", []byte("1\n1\n1\n"))
		},
		"edges.npy: the edge from 2 to 3 is out of range: the graph has 3 no": func(dir string, g *tables.Graph) {
			g.Features[0], g.Labels = table(t, dir, "x.npy", v(make([]float32, 3))), table(t, dir, "y.npy", v(make([]int8, 3)))
		},
		"valid is a set of nodes, but there is no training set": func(dir string, g *tables.Graph) {
			g.Sets[0].Open, g.Sets[1].Name = nil, "valid"
		},
	} {
		dir := t.TempDir()
		g := graph(t, dir)
		change(dir, &g)
		importertest.Refused(t, formatOf(g), dir, importer.Reading{}, says)
		allClosed(t)
	}
}

// TestSplits compares masks and lists of random sets with the sets themselves.
func TestSplits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		part := rapid.SliceOfN(rapid.IntRange(0, 3), 2, 40).Draw(rt, "part")
		part[0] = 1
		n, dir := len(part), t.TempDir()
		g := graph(t, dir)
		g.Features[0], g.Labels = table(t, dir, "x.npy", importertest.Vector(make([]float32, n))), table(t, dir, "y.npy", importertest.Vector(make([]int8, n)))
		g.Edges.Count, g.Edges.Open = 0, func() (stream.Pairs, error) {
			m, err := matrix.Open(datasettest.FS, matrix.Spec{Path: filepath.Join(dir, "none.npy")})
			return stream.Interleave(matrix.Stream{Matrix: m}), err
		}
		importertest.Save(t, filepath.Join(dir, "none.npy"), importertest.NPY("(0, 2)", []int64{}))
		columns := rapid.IntRange(1, 5).Draw(rt, "columns")
		index := rapid.IntRange(0, columns-1).Draw(rt, "index")
		for i := range g.Sets {
			var ids []int64
			mask := make([]int8, n*columns)
			for v, p := range part {
				mask[v*columns+index] = 0
				if p == i+1 {
					ids, mask[v*columns+index] = append(ids, int64(v)), 1
				}
			}
			if i > 0 && rapid.Bool().Draw(rt, "list") && len(ids) < n {
				g.Sets[i].Table = table(t, dir, fmt.Sprint(i, ".npy"), importertest.Vector(ids))
			} else {
				g.Sets[i].Table = table(t, dir, fmt.Sprint(i, ".npy"), importertest.NPY(fmt.Sprintf("(%d, %d)", n, columns), mask))
			}
		}
		out := filepath.Join(t.TempDir(), "D")
		o := importer.Options{Sources: []string{dir}, Reading: importer.Reading{SplitIndex: index}}
		if _, err := importer.Import(t.Context(), datasettest.FS, out, formatOf(g), o, progress.Discard); err != nil {
			rt.Fatal(err)
		}
		for v, line := range strings.Split(strings.TrimSpace(importertest.Nodes(t, out)), "\n") {
			if want := append([]string{"-"}, dataset.SplitNames[:]...)[part[v]]; !strings.HasSuffix(line, "| "+want) {
				rt.Fatalf("node %d: %s, want %s", v, line, want)
			}
		}
	})
}

// TestLookAt looks at sets without reading them.
func TestLookAt(t *testing.T) {
	dir := t.TempDir()
	for says, set := range map[string]tables.Set{
		"a.npy: the mask has 3 rows, but the graph has 4 nodes":  {Table: table(t, dir, "a.npy", importertest.Vector(make([]bool, 3)))},
		"b.npy: the mask has 5 rows, but the graph has 4 nodes":  {Table: table(t, dir, "b.npy", importertest.Vector(make([]int8, 5))), Kind: tables.Mask},
		"c.npy: it is no set of nodes":                           {Table: table(t, dir, "c.npy", importertest.Vector(make([]float32, 3)))},
		"d.npy: it has 16385 columns, each a division into sets": {Table: table(t, dir, "d.npy", importertest.NPY("(4, 16385)", make([]bool, 4*16385)))},
		"": {Table: table(t, dir, "e.npy", importertest.NPY("(4, 16384)", make([]bool, 4*16384)))},
	} {
		columns, err := set.LookAt(4, 16383)
		if says == "" && (err != nil || columns != 16384) || says != "" && (!errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%d, %v; want %q", columns, err, says)
		}
	}
}

// TestOpens reads tables that cannot be opened any more, and a graph of one node.
func TestOpens(t *testing.T) {
	dir := t.TempDir()
	g := graph(t, dir)
	gone, broken := fault.New(fault.ErrInput, "it is gone"), false
	for _, open := range []*tables.Table{&g.Features[0], &g.Labels, &g.Sets[1].Table} {
		was := open.Open
		open.Open = func() (matrix.Matrix, error) {
			if broken {
				return nil, gone
			}
			return was()
		}
	}
	g.Edges.Open = func() (stream.Pairs, error) { return nil, gone }
	s, err := tables.New(g, &importer.Reading{})
	if err != nil {
		t.Fatal(err)
	}
	broken = true
	_, errRows := s.Features(0)
	for _, err := range []error{errRows, s.Labels(t.Context(), nil), s.Edges(t.Context(), nil)} {
		if !errors.Is(err, gone) {
			t.Errorf("%v", err)
		}
	}
	set := g.Sets[1]
	if err := set.Read(t.Context(), nil, 1, stream.Span{Count: 4}, 0); !errors.Is(err, gone) {
		t.Errorf("a set: %v", err)
	}
	other := graph(t, dir)
	other.Labels = table(t, dir, "y5.npy", importertest.Vector(make([]int8, 5)))
	if _, err := tables.New(other, &importer.Reading{}); !errors.Is(err, fault.ErrInput) {
		t.Errorf("labels of five nodes: %v", err)
	}
	one := graph(t, dir)
	one.Features[0], one.Labels, one.Sets = table(t, dir, "x.npy", importertest.Vector([]float32{1})), table(t, dir, "y.npy", importertest.Vector([]int8{0})), [3]tables.Set{}
	if s, err := tables.New(one, &importer.Reading{}); err != nil || s.Shape().Nodes != 1 {
		t.Errorf("one node: %v", err)
	}
}
