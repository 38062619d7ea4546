package graphsaint_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/graphsaint"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
)

// saint is a graph of 3 nodes and the edges 0→2, 0→1 and 2→1 in GraphSAINT's layout.
func saint() importertest.Tree {
	v := importertest.Vector
	return importertest.Tree{
		"adj_full.npz/format":  []byte(importertest.FormText("csr")),
		"adj_full.npz/shape":   v([]int64{3, 3}),
		"adj_full.npz/indptr":  v([]int32{0, 2, 2, 3}),
		"adj_full.npz/indices": v([]int32{2, 1, 1}),
		"feats.npy":            importertest.NPY("(3, 2)", []float64{1, 2, 3, 4, 5, 6}),
		"class_map.json":       []byte(`{"0": 1, "2": 0, "1": 0}`),
		"role.json":            []byte(`{"tr": [2], "va": [0], "te": [1]}`),
	}
}

// reddit is the same graph in the layout of Reddit's files.
func reddit() importertest.Tree {
	v := importertest.Vector
	return importertest.Tree{
		"reddit_graph.npz/format":    []byte(importertest.FormText("coo")),
		"reddit_graph.npz/shape":     v([]int64{3, 3}),
		"reddit_graph.npz/row":       v([]int32{0, 0, 2}),
		"reddit_graph.npz/col":       v([]int32{2, 1, 1}),
		"reddit_data.npz/feature":    importertest.NPY("(3, 2)", []float64{1, 2, 3, 4, 5, 6}),
		"reddit_data.npz/label":      v([]int64{1, 0, 0}),
		"reddit_data.npz/node_types": v([]int64{2, 3, 1}),
	}
}

func with(tr, change importertest.Tree) importertest.Tree {
	maps.Copy(tr, change)
	return tr
}

func graph(t *testing.T, tr importertest.Tree) (dir string) {
	t.Helper()
	dir = t.TempDir()
	tr.Write(t, dir)
	return dir
}

func TestImports(t *testing.T) {
	const one = `0 |  | 1 2 | 1 | valid
1 | 0 2 | 3 4 | 0 | test
2 | 0 | 5 6 | 0 | train
`
	many := importertest.Tree{"class_map.json": []byte(`{"2": [0, 1], "0": [1, 1], "1": [0, 0]}`)}
	for name, c := range map[string]struct {
		tree importertest.Tree
		want string
	}{
		"saint":      {saint(), one},
		"reddit":     {reddit(), one},
		"self-loops": {renamed(reddit(), "reddit_graph.npz", "reddit_self_loop_graph.npz"), one},
		"many labels": {with(saint(), many), `0 |  | 1 2 | 1 1 | valid
1 | 0 2 | 3 4 | 0 0 | test
2 | 0 | 5 6 | 0 1 | train
`},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := importertest.Imported(t, graphsaint.Format, graph(t, c.tree), importer.Reading{})
			if got := importertest.Nodes(t, dir); got != c.want {
				t.Errorf("imported\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// renamed gives an archive another name.
func renamed(tr importertest.Tree, old, new string) importertest.Tree {
	out := importertest.Tree{}
	for name, content := range tr {
		out[strings.Replace(name, old+"/", new+"/", 1)] = content
	}
	return out
}

// TestRows reads features from every node on, and leaves nothing open.
func TestRows(t *testing.T) {
	want := []float32{1, 2, 3, 4, 5, 6}
	for name, tr := range map[string]importertest.Tree{"saint": saint(), "reddit": reddit()} {
		files := importertest.NewFiles(datasettest.FS)
		s, err := graphsaint.Format.Open(files, []string{graph(t, tr)}, &importer.Reading{})
		if err != nil {
			t.Fatal(err)
		}
		if sh := s.Shape(); sh.Nodes != 3 || sh.Edges != 3 || sh.Dim != 2 || s.CountEdges(nil) != 3 {
			t.Errorf("%s: %+v", name, sh)
		}
		for first := range 3 {
			rows, err := s.Features(int64(first))
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float32, 2*(3-first))
			if err := errors.Join(rows.Next(got), rows.Close()); err != nil || !slices.Equal(got, want[2*first:]) {
				t.Errorf("%s from node %d on: %v, %v; want %v", name, first, got, err, want[2*first:])
			}
		}
		if left := files.StillOpen(); len(left) > 0 {
			t.Errorf("%s: %q are open", name, left)
		}
	}
}

// TestChanged changes a file after the source was opened: reading it fails, and leaves nothing open.
func TestChanged(t *testing.T) {
	v := importertest.Vector
	edges := func(s importer.Source) error {
		return s.Edges(t.Context(), func(dst, src []int64) error { return nil })
	}
	features := func(s importer.Source) error {
		rows, err := s.Features(0)
		if err == nil {
			err = errors.Join(rows.Next(make([]float32, 6)), rows.Close())
		}
		return err
	}
	labels := func(s importer.Source) error { return s.Labels(t.Context(), nil) }
	for what, c := range map[string]struct {
		of           importertest.Tree
		name, member string // the file that changes; without a member it is gone
		by           []byte
		read         func(s importer.Source) error
		says         string
	}{
		"no classes":          {saint(), "class_map.json", "", nil, labels, "class_map.json is missing"},
		"no roles":            {with(saint(), importertest.Tree{"class_map.json": []byte("{}")}), "role.json", "", nil, labels, "role.json is missing"},
		"no features":         {saint(), "feats.npy", "", nil, features, "feats.npy is missing"},
		"no graph":            {saint(), "adj_full.npz", "", nil, edges, "adj_full.npz is missing"},
		"no offsets":          {saint(), "adj_full.npz", "indptr", nil, edges, `has no array "indptr"`},
		"no entries":          {saint(), "adj_full.npz", "indices", nil, edges, `has no array "indices"`},
		"offsets of others":   {saint(), "adj_full.npz", "indptr", v([]int32{0, 3}), edges, "indptr: its shape is (2,) instead of (4,)"},
		"offsets that end":    {saint(), "adj_full.npz", "indptr", v([]int32{0, 2, 2, 4}), edges, "offset 4 follows offset 2, which is wrong for"},
		"no coordinates":      {reddit(), "reddit_graph.npz", "row", nil, edges, `has no array "row"`},
		"half of coordinates": {reddit(), "reddit_graph.npz", "col", nil, edges, `has no array "col"`},
		"no data":             {reddit(), "reddit_data.npz", "", nil, features, "reddit_data.npz is missing"},
		"no rows":             {reddit(), "reddit_data.npz", "feature", nil, features, `has no array "feature"`},
		"fewer rows":          {reddit(), "reddit_data.npz", "feature", importertest.NPY("(3, 2)", make([]float64, 5)), features, "feature: truncated"},
		"no labels":           {reddit(), "reddit_data.npz", "label", nil, labels, `has no array "label"`},
		"labels of others":    {reddit(), "reddit_data.npz", "label", v(make([]int64, 4)), labels, "label: there are labels of 4 nodes instead of 3"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := graph(t, c.of)
			files := importertest.NewFiles(datasettest.FS)
			s, err := graphsaint.Format.Open(files, []string{dir}, &importer.Reading{})
			if err == nil {
				err = os.Remove(filepath.Join(dir, c.name))
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.member != "" {
				with(c.of, importertest.Tree{c.name + "/" + c.member: c.by}).Write(t, dir)
			}
			if err := c.read(s); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; want bad input that says %q", err, c.says)
			}
			if left := files.StillOpen(); len(left) > 0 {
				t.Errorf("%q are open", left)
			}
		})
	}
}

// TestStopped ends reading many coordinates at the first: nothing reads on.
func TestStopped(t *testing.T) {
	ends := importertest.Vector(make([]int32, 1<<17))
	dir := graph(t, with(reddit(), importertest.Tree{"reddit_graph.npz/row": ends, "reddit_graph.npz/col": ends}))
	synctest.Test(t, func(t *testing.T) { // it fails if a goroutine is left
		s, err := graphsaint.Format.Open(datasettest.FS, []string{dir}, &importer.Reading{})
		if err != nil {
			t.Fatal(err)
		}
		stop := errors.New("stop")
		if err := s.Edges(t.Context(), func(dst, src []int64) error { return stop }); !errors.Is(err, stop) {
			t.Error(err)
		}
	})
}

// TestRefusesTiny changes one member of a good graph at a time.
func TestRefusesTiny(t *testing.T) {
	v, npy := importertest.Vector, importertest.NPY
	for what, c := range map[string]struct {
		of     importertest.Tree
		member string
		by     []byte
		says   string
	}{
		"the node behind the last": {saint(), "class_map.json", []byte(`{"3": 0}`), `its key "3" is not a node of the graph, which has 3 nodes`},
		"a negative node":          {saint(), "class_map.json", []byte(`{"-1": 0}`), `its key "-1" is not a node of the graph, which has 3 nodes`},
		"features of text":         {saint(), "feats.npy", []byte("text"), "feats.npy: "},
		"no columns":               {saint(), "feats.npy", npy("(3, 0)", []float32{}), "feats.npy: its shape is (3, 0)"},
		"features in a cube":       {saint(), "feats.npy", npy("(3, 1, 1)", make([]float32, 3)), "feats.npy: its shape is (3, 1, 1) instead of a matrix or a vector"},
		"features by columns":      {saint(), "feats.npy", importertest.NPYOrder("(3, 2)", true, make([]float32, 6)), "feats.npy: its elements are in column-major order"},
		"too many columns":         {reddit(), "reddit_data.npz/feature", npy("(3, 16777217)", []float32{}), "feature: its shape is (3, 16777217)"},
		"the most columns":         {reddit(), "reddit_data.npz/feature", npy("(3, 16777216)", []float32{}), "feature: truncated"},
		"no nodes":                 {saint(), "adj_full.npz/shape", v([]int64{0, 0}), "adj_full.npz: the adjacency matrix is 0 × 0, not square with at least 1 node"},
		"2³³ nodes":                {saint(), "adj_full.npz/shape", v([]int64{1 << 33, 1 << 33}), "32-bit"},
		"a shape of three":         {saint(), "adj_full.npz/shape", v([]int64{3, 3, 3}), "shape: its shape is (3,) instead of (2,)"},
		"entries in a table":       {saint(), "adj_full.npz/indices", npy("(3, 1)", make([]int32, 3)), "indices: its shape is (3, 1) instead of one dimension"},
		"the set 0":                {reddit(), "reddit_data.npz/node_types", v([]int64{2, 0, 1}), "node 1 has the type 0"},
		"the set 4":                {reddit(), "reddit_data.npz/node_types", v([]int64{2, 4, 1}), "node 1 has the type 4"},
		"the set 257":              {reddit(), "reddit_data.npz/node_types", v([]int64{2, 257, 1}), "node 1 has the type 257"},
		"a set by another name":    {saint(), "role.json", []byte(`{"tr": [2], "": [1]}`), `unknown set ""; use tr, va, te`},
	} {
		t.Run(what, func(t *testing.T) {
			importertest.Refused(t, graphsaint.Format, graph(t, with(c.of, importertest.Tree{c.member: c.by})), importer.Reading{}, c.says)
		})
	}
	two := []string{graph(t, saint()), graph(t, reddit())}
	if _, err := graphsaint.Format.Open(datasettest.FS, two, &importer.Reading{}); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("two directories: %v", err)
	}
	for want, sources := range map[string][]string{
		"it has adj_full.npz": two[:1], "it has reddit_graph.npz": two[1:],
	} {
		if got := graphsaint.Format.Detect(datasettest.FS, sources); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := graphsaint.Format.Detect(datasettest.FS, two); got != "" {
		t.Errorf("two directories are seen by %q", got)
	}
}
