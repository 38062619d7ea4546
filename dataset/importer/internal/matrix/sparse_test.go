package matrix

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset/importer/internal/npy"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

func fixture(name string) string { return filepath.Join("testdata", name) }

// edgesOf returns the edges of a sparse matrix, "source destination", sorted.
func edgesOf(t testing.TB, s *Sparse, in bool) (text string, err error) {
	t.Helper()
	p, err := s.Pairs(in)
	if err != nil {
		return "", err
	}
	defer p.Close()
	var edges [][2]int64
	dst, src := make([]int64, 7), make([]int64, 7)
	for {
		n, err := p.Next(dst, src)
		if err != nil {
			return "", err
		}
		if n == 0 {
			break
		}
		for i := range n {
			edges = append(edges, [2]int64{src[i], dst[i]})
		}
	}
	slices.SortFunc(edges, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
	for _, e := range edges {
		text += fmt.Sprintln(e[0], e[1])
	}
	return text, nil
}

// TestSparseFixtures compares matrices in all forms with the numbers that NumPy has in them.
func TestSparseFixtures(t *testing.T) {
	for name, c := range map[string]struct {
		golden   string
		weighted bool
	}{
		"a_csr.npz": {"graph.txt", false}, "a_csc.npz": {"graph.txt", false}, "a_coo.npz": {"graph.txt", false}, "a_old_coo.npz": {"graph.txt", true},
		"graph.mtx": {"graph.txt", false}, "graph_real.mtx": {"graph.txt", true}, "undirected.mtx.gz": {"undirected.txt", true},
	} {
		want, err := os.ReadFile(fixture(c.golden))
		if err != nil {
			t.Fatal(err)
		}
		s, err := OpenSparse(vfs.OS, Spec{Path: fixture(name)})
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := edgesOf(t, s, false)
		if err != nil || got != string(want) {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
		nodes, errNodes := s.Nodes()
		n, errCount := s.Count()
		weighted, errWeights := s.Weighted()
		lines := int64(strings.Count(got, "\n"))
		if err := errors.Join(errNodes, errCount, errWeights); err != nil || nodes != 9 || weighted != c.weighted || n != lines && !(strings.HasPrefix(name, "undirected") && n > lines && n <= 2*lines) {
			t.Errorf("%s: %d nodes, %d edges, weighted %t; %v", name, nodes, n, weighted, err)
		}
	}
	want, err := os.ReadFile(fixture("rows.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x_csr.npz", "x_coo.npz", "x.mtx", "../../../pyg/testdata/x_csr.pt:"} {
		for _, skip := range []int64{0, 1, 5, 9} {
			if strings.HasSuffix(name, ":") {
				continue
			}
			m, err := Open(vfs.OS, Spec{Path: fixture(name)})
			if err != nil {
				t.Fatal(err)
			}
			if m.Rows() != 9 || m.Columns() != 4 || m.Integer() || m.Mask() || m.Half() || m.Names() != nil || DType(m) != dtype.Float32 {
				t.Errorf("%s: %d × %d of %v", name, m.Rows(), m.Columns(), DType(m))
			}
			if err := m.Skip(skip); err != nil {
				t.Fatal(name, err)
			}
			got := ""
			err = EachDouble(t.Context(), m, func(_ int64, row []float64) error {
				got += strings.Trim(fmt.Sprint(row), "[]") + "\n"
				return nil
			})
			if err := errors.Join(err, m.Close()); err != nil || got != strings.Join(strings.SplitAfter(string(want), "\n")[skip:], "") {
				t.Errorf("%s from row %d on: %s, %v; want %s", name, skip, got, err, want)
			}
		}
	}
	m, err := Open(vfs.OS, Spec{Path: fixture("column.mtx")})
	if err != nil || m.Rows() != 9 || m.Columns() != 1 {
		t.Fatal(m, err)
	}
	values := make([]float32, 10)
	if n, err := m.Floats(values); n != 9 || err != nil || m.Close() != nil {
		t.Error(n, err)
	}
}

// TestSparseRefuses gives matrices that cannot be edges, or rows of features.
func TestSparseRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ content, says string }{
		fixture("a_dia.npz"): {"", `a_dia.npz: the matrix has the format "dia"; only csr, csc and coo can be read: save its .tocsr()`},
		fixture("x_csc.npz"): {"", "x_csc.npz: the entries of the sparse matrix are not in the order of rows: save it in compressed rows, SciPy's .tocsr()"},
		fixture("dense.mtx"): {"", "dense.mtx: it is an array of 4 columns, one behind the other: save it with numpy.save"},
		"none.mtx":           {"", "none.mtx is missing"},
		"text.mtx":           {"1 2\n", "text.mtx: it is not a file of Matrix Market: its first line is not like %%MatrixMarket"},
		"empty.mtx":          {" ", "it is not a file of Matrix Market"},
		"vector.mtx":         {"%%MatrixMarket vector coordinate real general\n1 1 1\n1 1 1\n", "it is not a file of Matrix Market"},
		"complex.mtx":        {"%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 1\n", "a matrix of coordinate complex cannot be read"},
		"parray.mtx":         {"%%MatrixMarket matrix array pattern general\n1 1\n", "a matrix of array pattern cannot be read"},
		"other.mtx":          {"%%MatrixMarket matrix elemental real general\n1 1\n", "a matrix of elemental real cannot be read"},
		"hermitian.mtx":      {"%%MatrixMarket matrix coordinate real hermitian\n1 1 1\n1 1 1\n", "a matrix that is hermitian cannot be read"},
		"sarray.mtx":         {"%%MatrixMarket matrix array real symmetric\n1 1\n1\n", "a symmetric array cannot be read"},
		"sizes.mtx":          {"%%MatrixMarket matrix coordinate real general\n3 3\n1 1 1\n", `its sizes are "3 3" instead of 3 numbers`},
		"nosizes.mtx":        {"%%MatrixMarket matrix coordinate real general\n", `its sizes are "" instead of 3 numbers`},
		"wordsizes.mtx":      {"%%MatrixMarket matrix coordinate real general\n3 x 1\n1 1 1\n", `its sizes are "3 x 1" instead of 3 numbers`},
		"negative.mtx":       {"%%MatrixMarket matrix coordinate real general\n3 3 -1\n", `its sizes are "3 3 -1" instead of 3 numbers`},
		"huge.mtx":           {"%%MatrixMarket matrix coordinate real general\n281474976710657 1 1\n1 1 1\n", "a matrix of 281474976710657 × 1 is impossible"},
		"short.mtx":          {"%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1\n", "it does not have the 2 entries that its sizes say"},
		"long.mtx":           {"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 1 1\n2 2 1\n", "it does not have the 1 entries that its sizes say"},
		"zero.mtx":           {"%%MatrixMarket matrix coordinate real general\n3 3 1\n0 1 1\n", "the entry 0, 1 is none: rows and columns are counted from 1"},
		"half.mtx":           {"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 1.5 1\n", "the entry 1, 1.5 is none"},
		"beyond.mtx":         {"%%MatrixMarket matrix coordinate real general\n3 3 1\n4 1 1\n", "row 3 is out of range: there are 3 rows"},
		"right.mtx":          {"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 4 1\n", "column 3 is out of range: there are 3 columns"},
		"unsorted.mtx":       {"%%MatrixMarket matrix coordinate real general\n3 3 2\n2 1 1\n1 1 1\n", "the entries of the sparse matrix are not in the order of rows"},
		"symmetric.mtx":      {"%%MatrixMarket matrix coordinate real symmetric\n3 3 1\n1 1 1\n", "a symmetric matrix has no rows of features"},
		"pattern.mtx":        {"%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 1 1\n", `pattern.mtx: line 3 is "1 1 1" instead of 2 numbers`},
		"words.mtx":          {"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 1 x\n", `words.mtx: line 3 is "1 1 x" instead of 3 numbers`},
		"torn.mtx.gz":        {"\x1f\x8b\x08", "torn.mtx.gz: cannot be unpacked: truncated"},
	} {
		path := name
		if filepath.Dir(name) == "." {
			path = filepath.Join(dir, name)
			if c.content != "" {
				if err := os.WriteFile(path, []byte(c.content), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
		m, err := Open(vfs.OS, Spec{Path: path})
		if err == nil {
			err = errors.Join(EachFloat(t.Context(), m, func(int64, []float32) error { return nil }), m.Close())
		}
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", name, err, c.says)
		}
	}
	for name, says := range map[string]string{"x_csr.npz": "x_csr.npz: the adjacency matrix is 9 × 4, not square", "a_dia.npz": `the matrix has the format "dia"`} {
		s, err := OpenSparse(vfs.OS, Spec{Path: fixture(name)})
		if err == nil {
			_, err = s.Nodes()
			_, errCount := s.Count()
			err = errors.Join(err, errCount)
		}
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", name, err, says)
		}
	}
}

// arrayOf is an array of the given elements.
func arrayOf[T int64 | float32](kind byte, name string, v []T) *npz.Array {
	b := binio.Bytes(v)
	size := 8
	if kind == 'f' {
		size = 4
	}
	return npz.New(npy.Header{Kind: kind, Size: size, Shape: []int64{int64(len(v))}}, bytes.NewReader(b), name, io.NopCloser(nil))
}

// TestSparseRows compares the rows of random matrices, read in portions, with the dense matrices.
func TestSparseRows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows, columns := rapid.IntRange(1, 12).Draw(rt, "rows"), rapid.IntRange(1, 6).Draw(rt, "columns")
		dense := make([]float32, rows*columns)
		var row, col []int64
		var data []float32
		indptr := []int64{0}
		for i := range rows {
			for range rapid.IntRange(0, 2*columns).Draw(rt, "entries") {
				j, x := rapid.IntRange(0, columns-1).Draw(rt, "column"), float32(rapid.IntRange(-8, 8).Draw(rt, "value"))
				row, col, data = append(row, int64(i)), append(col, int64(j)), append(data, x)
				dense[i*columns+j] += x
			}
			indptr = append(indptr, int64(len(col)))
		}
		s := &Sparse{Name: "m", Layout: rapid.SampledFrom([]string{"csr", "coo"}).Draw(rt, "layout"), Rows: int64(rows), Columns: int64(columns), Data: true, Array: func(part string) (*npz.Array, error) {
			if part == "data" {
				return arrayOf('f', part, data), nil
			}
			return arrayOf('i', part, map[string][]int64{"row": row, "col": col, "indptr": indptr, "indices": col}[part]), nil
		}}
		m, err := s.Matrix()
		if err != nil {
			rt.Fatal(err)
		}
		skip := rapid.IntRange(0, rows).Draw(rt, "skip")
		if err := m.Skip(int64(skip)); err != nil {
			rt.Fatal(err)
		}
		var got []float32
		for {
			part := make([]float32, columns*rapid.IntRange(1, 5).Draw(rt, "portion"))
			n, err := m.Floats(part)
			if err != nil {
				rt.Fatal(err)
			}
			if n == 0 {
				break
			}
			got = append(got, part[:n]...)
		}
		if err := errors.Join(m.End(), m.Close()); err != nil || !slices.Equal(got, dense[skip*columns:]) {
			rt.Fatalf("%v, %v; want %v", got, err, dense[skip*columns:])
		}
	})
}

// FuzzMarket compares files of Matrix Market with a plain reader.
func FuzzMarket(f *testing.F) {
	for _, name := range []string{"graph.mtx", "graph_real.mtx", "x.mtx", "column.mtx"} {
		b, err := os.ReadFile(fixture(name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add("%%MatrixMarket matrix coordinate integer symmetric\n% a comment\n3 3 2\n2 1 7\n3 3 -1\n")
	f.Fuzz(func(t *testing.T, content string) {
		dir := t.TempDir()
		path := filepath.Join(dir, "m.mtx")
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := OpenSparse(vfs.OS, Spec{Path: path})
		plain := ""
		if err == nil && s != nil {
			plain, err = edgesOf(t, s, false)
		}
		if err != nil && (!errors.Is(err, fault.ErrInput) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%v", err)
		}
		if s == nil {
			return
		}
		if want, ok := plainMarket(content); ok && (err != nil || plain != want) {
			t.Errorf("%q, %v; want %q", plain, err, want)
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(content))
		_ = z.Close()
		if err := os.WriteFile(path+".gz", b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		packed, err2 := OpenSparse(vfs.OS, Spec{Path: path + ".gz"})
		if err2 != nil {
			t.Fatal(err2)
		}
		if got, err2 := edgesOf(t, packed, false); got != plain || (err == nil) != (err2 == nil) {
			t.Errorf("packed: %q, %v; plain %q, %v", got, err2, plain, err)
		}
	})
}

// plainMarket reads a file that is written as mmwrite writes it: ok is false for others.
func plainMarket(content string) (edges string, ok bool) {
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	if len(lines) < 2 {
		return "", false
	}
	columns, symmetric := 3, strings.HasSuffix(lines[0], " symmetric")
	switch strings.TrimSuffix(strings.TrimSuffix(lines[0], " symmetric"), " general") {
	case "%%MatrixMarket matrix coordinate pattern":
		columns = 2
	case "%%MatrixMarket matrix coordinate integer":
	default:
		return "", false
	}
	var rows, cols, n int
	if k, err := fmt.Sscanf(lines[1], "%d %d %d", &rows, &cols, &n); k != 3 || err != nil || lines[1] != fmt.Sprintf("%d %d %d", rows, cols, n) || rows < 1 || cols < 1 || n != len(lines)-2 || max(rows, cols) > 1<<30 {
		return "", false
	}
	var all [][2]int
	for _, line := range lines[2:] {
		var i, j, x int
		k, _ := fmt.Sscanf(line+" 0"[:2*(3-columns)], "%d %d %d", &i, &j, &x)
		want := fmt.Sprintf("%d %d %d", i, j, x)
		if columns == 2 {
			want = fmt.Sprintf("%d %d", i, j)
		}
		if k != 3 || line != want || i < 1 || j < 1 {
			return "", false
		}
		if all = append(all, [2]int{i - 1, j - 1}); symmetric && i != j {
			all = append(all, [2]int{j - 1, i - 1})
		}
	}
	slices.SortFunc(all, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	for _, e := range all {
		edges += fmt.Sprintln(e[0], e[1])
	}
	return edges, true
}
