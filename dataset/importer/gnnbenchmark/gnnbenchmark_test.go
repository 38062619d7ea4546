package gnnbenchmark_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/gnnbenchmark"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

// sparse is a graph of 4 nodes, 4 undirected edges, of which one is a self-loop and left out, and 2 features; node
// 1 has no features, and the first column of node 0 is given twice. Node 3 has no label.
func sparse() importertest.Tree {
	v := importertest.Vector
	return importertest.Tree{
		"g.npz/adj_data":     v([]float32{1, 1, 1, 1}),
		"g.npz/adj_indptr":   v([]int32{0, 2, 3, 3, 4}),
		"g.npz/adj_indices":  v([]int32{1, 2, 1, 2}),
		"g.npz/adj_shape":    v([]int64{4, 4}),
		"g.npz/attr_data":    v([]float32{1, 2, 3, 4, 5}),
		"g.npz/attr_indptr":  v([]int32{0, 2, 2, 4, 5}),
		"g.npz/attr_indices": v([]int32{0, 0, 1, 0, 1}),
		"g.npz/attr_shape":   v([]int64{4, 2}),
		"g.npz/labels":       v([]int64{0, 2, 1, -1}),
		"g_split.npz/train":  v([]int64{0}),
		"g_split.npz/valid":  v([]int64{2}),
		"g_split.npz/test":   v([]int64{1}),
	}
}

// dense is the same with other features, of one column.
func dense() importertest.Tree {
	return with(sparse(), importertest.Tree{
		"g.npz/attr_data": nil, "g.npz/attr_indptr": nil, "g.npz/attr_indices": nil, "g.npz/attr_shape": nil,
		"g.npz/attr_matrix": importertest.NPY("(4, 1)", []float32{7, 0, -8, 9}),
	})
}

// matrix is the dense graph with features of another type, in which uint16 stands for float16.
func matrix(features any) importertest.Tree {
	return with(dense(), importertest.Tree{"g.npz/attr_matrix": importertest.NPY("(4, 1)", features)})
}

// narrow is the sparse graph without the second column.
func narrow() importertest.Tree {
	v := importertest.Vector
	return with(sparse(), importertest.Tree{
		"g.npz/attr_data": v([]float32{1, 2, 4}), "g.npz/attr_indptr": v([]int32{0, 2, 2, 3, 3}),
		"g.npz/attr_indices": v([]int32{0, 0, 0}), "g.npz/attr_shape": v([]int64{4, 1}),
	})
}

func with(tr, change importertest.Tree) importertest.Tree {
	maps.Copy(tr, change)
	return tr
}

// graph writes a tree and returns its archive.
func graph(t *testing.T, tr importertest.Tree) string {
	t.Helper()
	dir := t.TempDir()
	tr.Write(t, dir)
	return filepath.Join(dir, "g.npz")
}

func TestImports(t *testing.T) {
	multi := importertest.NPY("(4, 3)", []float32{1, 0, 1, 0, 0, 0, 0, 1, 0, -1, -1, -1})
	for name, c := range map[string]struct {
		tree importertest.Tree
		want string
	}{
		"sparse": {sparse(), `0 | 1 2 | 3 0 | 0 | train
1 | 0 | 0 0 | 2 | test
2 | 0 3 | 4 3 | 1 | valid
3 | 2 | 0 5 | -1 | -
`},
		"dense": {dense(), `0 | 1 2 | 7 | 0 | train
1 | 0 | 0 | 2 | test
2 | 0 3 | -8 | 1 | valid
3 | 2 | 9 | -1 | -
`},
		"narrow": {narrow(), `0 | 1 2 | 3 | 0 | train
1 | 0 | 0 | 2 | test
2 | 0 3 | 4 | 1 | valid
3 | 2 | 0 | -1 | -
`},
		"many labels": {with(dense(), importertest.Tree{"g.npz/labels": multi}), `0 | 1 2 | 7 | 1 0 1 | train
1 | 0 | 0 | 0 0 0 | test
2 | 0 3 | -8 | 0 1 0 | valid
3 | 2 | 9 | -1 | -
`},
		"one node": {with(dense(), importertest.Tree{
			"g.npz/adj_indptr": importertest.Vector([]int32{0, 0}), "g.npz/adj_indices": importertest.Vector([]int32{}), "g.npz/adj_shape": importertest.Vector([]int64{1, 1}),
			"g.npz/attr_matrix": importertest.NPY("(1, 1)", []float32{7}), "g.npz/labels": importertest.Vector([]int64{0}),
			"g_split.npz/valid": importertest.Vector([]int64{}), "g_split.npz/test": importertest.Vector([]int64{}),
		}), "0 |  | 7 | 0 | train\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := importertest.Imported(t, gnnbenchmark.Format, graph(t, c.tree), importer.Reading{})
			if got := importertest.Nodes(t, dir); got != c.want {
				t.Errorf("imported\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// TestWithoutSplit imports an archive beside which there is no split: the labels are read, and a split
// may be drawn.
func TestWithoutSplit(t *testing.T) {
	name := graph(t, sparse())
	split := filepath.Join(filepath.Dir(name), "g_split.npz")
	both, err := gnnbenchmark.Format.Open(datasettest.FS, []string{name}, &importer.Reading{})
	if err == nil {
		err = os.Remove(split)
	}
	if err != nil {
		t.Fatal(err)
	}
	one, err := gnnbenchmark.Format.Open(datasettest.FS, []string{name}, &importer.Reading{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(both.Files(), []string{name, split}) || !slices.Equal(one.Files(), []string{name}) || both.Shape().NoSplit || !one.Shape().NoSplit {
		t.Errorf("with a split %q, %t; without %q, %t", both.Files(), both.Shape().NoSplit, one.Files(), one.Shape().NoSplit)
	}
	o := importer.Options{Sources: []string{name}, Split: &importer.Split{Parts: "34/33/33"}}
	res, err := importer.Import(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), gnnbenchmark.Format, o, progress.Discard)
	if err != nil || res.Classes != 3 || res.Train != 1 || res.Valid != 1 || res.Test != 1 {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestRows reads features from every node on, a row at a time and all at once.
func TestRows(t *testing.T) {
	for name, c := range map[string]struct {
		tree importertest.Tree
		dim  int
		as   dtype.Type
		want []float32
	}{
		"sparse":     {sparse(), 2, dtype.Float32, []float32{3, 0, 0, 0, 4, 3, 0, 5}},
		"dense":      {dense(), 1, dtype.Float32, []float32{7, 0, -8, 9}},
		"narrow":     {narrow(), 1, dtype.Float32, []float32{3, 0, 4, 0}},
		"of float64": {matrix([]float64{7, 0, -8, 9}), 1, dtype.Float32, []float32{7, 0, -8, 9}},
		"of float16": {matrix([]uint16{0x4700, 0, 0xC800, 0x4880}), 1, dtype.Float16, []float32{7, 0, -8, 9}},
		"of int16":   {matrix([]int16{7, 0, -8, 9}), 1, dtype.Float32, []float32{7, 0, -8, 9}},
	} {
		files := importertest.NewFiles(datasettest.FS)
		s, err := gnnbenchmark.Format.Open(files, []string{graph(t, c.tree)}, &importer.Reading{})
		if err != nil {
			t.Fatal(err)
		}
		if sh := s.Shape(); sh.Nodes != 4 || sh.Edges != 4 || sh.Dim != c.dim || sh.DType != c.as || s.CountEdges(nil) != 4 {
			t.Errorf("%s: %+v", name, sh)
		}
		for first := range 4 {
			for _, at := range []int{1, 4 - first} {
				rows, err := s.Features(int64(first))
				if err != nil {
					t.Fatalf("%s from node %d on: %v", name, first, err)
				}
				var got []float32
				for range (4 - first) / at {
					part := slices.Repeat([]float32{99}, at*c.dim)
					if err := rows.Next(part); err != nil {
						t.Errorf("%s from node %d on: %v", name, first, err)
					}
					got = append(got, part...)
				}
				if err := rows.Close(); err != nil || !slices.Equal(got, c.want[first*c.dim:]) {
					t.Errorf("%s from node %d on: %v, %v; want %v", name, first, got, err, c.want[first*c.dim:])
				}
			}
		}
		if left := files.StillOpen(); len(left) > 0 {
			t.Errorf("%s: %q are open", name, left)
		}
	}
}

// TestSigns sees the format in its own archives alone.
func TestSigns(t *testing.T) {
	name := graph(t, sparse())
	split := filepath.Join(filepath.Dir(name), "g_split.npz")
	text := filepath.Join(t.TempDir(), "x.npz")
	importertest.Save(t, text, []byte("text"))
	files := importertest.NewFiles(datasettest.FS)
	for _, c := range []struct {
		sources []string
		want    string
	}{
		{[]string{name}, "it has an array adj_shape"},
		{[]string{split}, ""},
		{[]string{text}, ""},
		{[]string{filepath.Dir(name)}, ""},
		{[]string{name, split}, ""},
		{nil, ""},
	} {
		if got := gnnbenchmark.Format.Detect(files, c.sources); got != c.want {
			t.Errorf("%q: %q, want %q", c.sources, got, c.want)
		}
	}
	if left := files.StillOpen(); len(left) > 0 {
		t.Errorf("%q are open", left)
	}
	if _, err := gnnbenchmark.Format.Open(files, []string{filepath.Dir(name)}, &importer.Reading{}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "is a file NAME.npz") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := gnnbenchmark.Format.Open(files, []string{name, split}, &importer.Reading{}); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("two archives: %v", err)
	}
}

// TestRefuses changes one thing of a good graph at a time.
func TestRefuses(t *testing.T) {
	v, npy := importertest.Vector, importertest.NPY
	for what, c := range map[string]struct {
		of     importertest.Tree
		member string
		by     []byte
		says   string
	}{
		"no nodes":                {sparse(), "g.npz/adj_shape", v([]int64{0, 0}), "adj_shape: the adjacency matrix is 0 × 0, not square with at least 1 node"},
		"negative nodes":          {sparse(), "g.npz/adj_shape", v([]int64{-1, -1}), "adj_shape: the adjacency matrix is -1 × -1, not square with at least 1 node"},
		"not square":              {sparse(), "g.npz/adj_shape", v([]int64{4, 5}), "adj_shape: the adjacency matrix is 4 × 5, not square with at least 1 node"},
		"a cube":                  {sparse(), "g.npz/adj_shape", v([]int64{4, 4, 4}), "adj_shape: its shape is (3,) instead of (2,)"},
		"a cube of features":      {sparse(), "g.npz/attr_shape", v([]int64{4, 2, 2}), "attr_shape: its shape is (3,) instead of (2,)"},
		"no columns":              {sparse(), "g.npz/attr_shape", v([]int64{4, 0}), "rows have 0 elements instead of 1 to"},
		"too many columns":        {sparse(), "g.npz/attr_shape", v([]int64{4, dataset.MaxDim + 1}), "rows have 16777217 elements instead of 1 to"},
		"features of other nodes": {sparse(), "g.npz/attr_shape", v([]int64{3, 2}), "attr_indptr: its shape is (5,) instead of (4,)"},
		"edges in a table":        {sparse(), "g.npz/adj_indices", npy("(2, 2)", make([]int32, 4)), "adj_indices: its shape is (2, 2) instead of one dimension"},
		"no edges":                {sparse(), "g.npz/adj_indices", nil, `has no array "adj_indices"`},
		"no offsets":              {sparse(), "g.npz/adj_indptr", nil, `has no array "adj_indptr"`},
		"no values":               {sparse(), "g.npz/attr_data", nil, `has no array "attr_data"`},
		"fewer values":            {sparse(), "g.npz/attr_data", v(make([]float32, 4)), "attr_data: its shape is (4,), but the matrix has 5 entries"},
		"values in a table":       {sparse(), "g.npz/attr_data", npy("(5, 1)", make([]float32, 5)), "attr_data: its shape is (5, 1), but the matrix has 5 entries"},
		"no columns of values":    {sparse(), "g.npz/attr_indices", nil, `has no array "attr_indices"`},
		"no offsets of values":    {sparse(), "g.npz/attr_indptr", nil, `has no array "attr_indptr"`},
		"a column beyond":         {sparse(), "g.npz/attr_indices", v([]int32{0, 0, 1, 0, 2}), "attr_shape: column 2 is out of range: there are 2 columns"},
		"an end beyond":           {sparse(), "g.npz/adj_indices", v([]int32{1, 2, 1, 4}), "adj_indices: the edge from 4 to 3 is out of range: the graph has 4 nodes"},
		"a matrix of other nodes": {dense(), "g.npz/attr_matrix", npy("(5, 1)", make([]float32, 5)), "attr_matrix: there are features of 5 nodes, but the graph has 4 nodes"},
		"a matrix by columns":     {dense(), "g.npz/attr_matrix", importertest.NPYOrder("(4, 2)", true, make([]float32, 8)), "attr_matrix: its elements are in column-major order"},
		"a matrix of no columns":  {dense(), "g.npz/attr_matrix", npy("(4, 0)", []float32{}), "attr_matrix: its shape is (4, 0)"},
		"no labels":               {sparse(), "g.npz/labels", nil, `has no array "labels"`},
		"fewer labels":            {sparse(), "g.npz/labels", v(make([]int64, 3)), "labels: there are labels of 3 nodes instead of 4"},
		"fewer rows of labels":    {sparse(), "g.npz/labels", npy("(3, 2)", make([]int64, 6)), "there are labels of 3 nodes instead of 4"},
		"labels by columns":       {sparse(), "g.npz/labels", importertest.NPYOrder("(4, 2)", true, make([]int64, 8)), "labels: its elements are in column-major order (fortran_order): save it row-major"},
		"no validation set":       {sparse(), "g_split.npz/valid", nil, `g_split.npz has no array "valid"`},
		"a set in a table":        {sparse(), "g_split.npz/valid", npy("(1, 2)", make([]int64, 2)), "valid: it is no set of nodes: a set is one column of integers"},
		"a node beyond":           {sparse(), "g_split.npz/valid", v([]int64{4}), "g_split.npz: valid: the valid set has node 4, but there are only 4 nodes"},
	} {
		t.Run(what, func(t *testing.T) {
			importertest.Refused(t, gnnbenchmark.Format, graph(t, with(c.of, importertest.Tree{c.member: c.by})), importer.Reading{}, c.says)
		})
	}
	table := with(sparse(), importertest.Tree{"g.npz/adj_indices": npy("(2, 2)", make([]int32, 4))})
	if _, err := gnnbenchmark.Format.Open(datasettest.FS, []string{graph(t, table)}, &importer.Reading{}); !errors.Is(err, fault.ErrInput) {
		t.Errorf("edges in a table, before they are read: %v", err)
	}
	widest := with(sparse(), importertest.Tree{"g.npz/attr_shape": v([]int64{4, dataset.MaxDim})})
	if s, err := gnnbenchmark.Format.Open(datasettest.FS, []string{graph(t, widest)}, &importer.Reading{}); err != nil || s.Shape().Dim != dataset.MaxDim {
		t.Errorf("the most columns: %v", err)
	}
	name := graph(t, sparse())
	importertest.Put("g.npz", []byte("text"))(t, filepath.Dir(name))
	importertest.Refused(t, gnnbenchmark.Format, name, importer.Reading{}, "g.npz is not a .npz archive, or is truncated:")
	name = graph(t, sparse())
	split := filepath.Join(filepath.Dir(name), "g_split.npz")
	importertest.Put("g_split.npz", []byte("text"))(t, filepath.Dir(name))
	importertest.Refused(t, gnnbenchmark.Format, name, importer.Reading{}, "g_split.npz is not a .npz archive, or is truncated:")
	if err := errors.Join(os.Remove(split), os.Symlink("g_split.npz", split)); err != nil {
		t.Fatal(err)
	}
	if _, err := gnnbenchmark.Format.Open(datasettest.FS, []string{name}, &importer.Reading{}); err == nil || !strings.Contains(err.Error(), "g_split.npz") {
		t.Errorf("a split that is a link to itself: %v", err)
	}
}

// TestChanged changes the archive after the source was opened: reading it fails, and leaves nothing
// open.
func TestChanged(t *testing.T) {
	v := importertest.Vector
	features := func(first int64) func(s importer.Source) error {
		return func(s importer.Source) error {
			rows, err := s.Features(first)
			if err == nil {
				err = errors.Join(rows.Next(make([]float32, 2*(4-first))), rows.Close())
			}
			return err
		}
	}
	edges := func(s importer.Source) error {
		return s.Edges(t.Context(), func(dst, src []int64) error { return nil })
	}
	short := func(left int) []byte {
		whole := v(make([]int32, 5))
		return whole[:len(whole)-4*(5-left)]
	}
	for what, c := range map[string]struct {
		change importertest.Tree
		read   func(s importer.Source) error
		says   string
	}{
		"features of a file that is gone": {nil, features(0), "g.npz is missing"},
		"edges of a file that is gone":    {nil, edges, "g.npz is missing"},
		"labels of a file that is gone":   {nil, func(s importer.Source) error { return s.Labels(t.Context(), nil) }, "g.npz is missing"},
		"no values":                       {importertest.Tree{"g.npz/attr_data": nil}, features(0), `has no array "attr_data"`},
		"no columns":                      {importertest.Tree{"g.npz/attr_indices": nil}, features(0), `has no array "attr_indices"`},
		"other values":                    {importertest.Tree{"g.npz/attr_data": v([]float32{1})}, features(0), "attr_data: its shape is (1,), but the matrix has 5 entries"},
		"no ends":                         {importertest.Tree{"g.npz/adj_indices": nil}, edges, `has no array "adj_indices"`},
		"offsets that descend":            {importertest.Tree{"g.npz/attr_indptr": v([]int32{0, 2, 1, 4, 5})}, features(3), "offset 1 follows offset 2, which is wrong for"},
		"offsets that descend, later":     {importertest.Tree{"g.npz/attr_indptr": v([]int32{0, 2, 1, 4, 5})}, features(0), "offset 1 follows offset 2, which is wrong for"},
		"columns that end":                {importertest.Tree{"g.npz/attr_indices": short(3)}, features(3), "attr_indices: truncated"},
		"values that end":                 {importertest.Tree{"g.npz/attr_data": short(3)}, features(3), "attr_data: truncated"},
		"columns that end later":          {importertest.Tree{"g.npz/attr_indices": short(4)}, features(3), "attr_indices: truncated"},
		"values that end later":           {importertest.Tree{"g.npz/attr_data": short(4)}, features(3), "attr_data: truncated"},
	} {
		t.Run(what, func(t *testing.T) {
			name := graph(t, sparse())
			files := importertest.NewFiles(datasettest.FS)
			s, err := gnnbenchmark.Format.Open(files, []string{name}, &importer.Reading{})
			if err == nil {
				err = os.Remove(name)
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				with(sparse(), c.change).Write(t, filepath.Dir(name))
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

// TestChecksums changes the checksum of an array: what ends with it is refused.
func TestChecksums(t *testing.T) {
	good, err := os.ReadFile(graph(t, sparse()))
	if err != nil {
		t.Fatal(err)
	}
	for _, array := range []string{"adj_shape", "adj_indptr", "adj_indices", "attr_shape", "attr_data", "attr_indptr", "attr_indices", "labels"} {
		// The name is at byte 46 of an entry of the archive's directory, the checksum at byte 16.
		bad := bytes.Clone(good)
		bad[bytes.LastIndex(good, []byte(array+".npy"))-30] ^= 1
		name := graph(t, sparse())
		importertest.Put("g.npz", bad)(t, filepath.Dir(name))
		importertest.Refused(t, gnnbenchmark.Format, name, importer.Reading{}, array+": cannot be unpacked")
	}
}
