package matrix

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/internal/npy"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// gzipped packs a text.
func gzipped(t *testing.T, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// writeParquet writes rows as Parquet, group of them to a row group.
func writeParquet[T any](t *testing.T, name string, group int64, rows []T) {
	t.Helper()
	if err := parquet.WriteFile(name, rows, parquet.MaxRowsPerRowGroup(group)); err != nil {
		t.Fatal(err)
	}
}

// numbers has a column of every kind that is read: flags, integers, floats, and lists of two.
type numbers struct {
	Flag   bool      `parquet:"a"`
	Short  int32     `parquet:"b"`
	Long   int64     `parquet:"c"`
	Single float32   `parquet:"d"`
	Double *float64  `parquet:"e,optional"`
	List   []float32 `parquet:"f"`
}

func half(x float64) *float64 { return &x }

// TestForms reads the same three rows of two columns from a file of every form.
func TestForms(t *testing.T) {
	dir := t.TempDir()
	importertest.Tree{
		"a.npy":    importertest.NPY("(3, 2)", []int32{1, 2, 3, 4, 5, 6}),
		"f.npy":    importertest.NPY("(3, 2)", []float64{1, 2, 3, 4, 5, 6}),
		"h.npy":    importertest.NPY("(3, 2)", []uint16{0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600}), // float16
		"z.npz/k":  importertest.NPY("(3, 2)", []int64{1, 2, 3, 4, 5, 6}),
		"r.bin":    {1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0},
		"t.csv":    []byte("a,b\n1,2\n3,4\n5,6\n"),
		"n.csv":    []byte("1,2\n3,4\n5,6"),
		"p.csv.gz": gzipped(t, "x,y\n1,2\n3,4\n5,6\n"),
		"t.tsv":    []byte("# from\n% to\n1\t2\n3 4\n5   6\n"),
		"t.txt":    []byte("u v\n1 2\n3 4\n5 6\n"),
	}.Write(t, dir)
	writeParquet(t, filepath.Join(dir, "i.parquet"), 2, []struct{ A, B int64 }{{1, 2}, {3, 4}, {5, 6}})
	for _, c := range []struct {
		name          string
		spec          Spec
		rows          int64
		integer, half bool
	}{
		{"a.npy", Spec{}, 3, true, false},
		{"f.npy", Spec{}, 3, false, false},
		{"h.npy", Spec{}, 3, false, true},
		{"z.npz", Spec{Key: "k"}, 3, true, false},
		{"r.bin", Spec{DType: "u2", Rows: 3, Cols: 2}, 3, true, false},
		{"t.csv", Spec{}, -1, true, false},
		{"n.csv", Spec{}, -1, true, false},
		{"p.csv.gz", Spec{}, -1, true, false},
		{"t.tsv", Spec{}, -1, true, false},
		{"t.txt", Spec{}, -1, true, false},
		{"i.parquet", Spec{}, 3, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Path = filepath.Join(dir, c.name)
			open := func() Matrix {
				m, err := Open(vfs.OS, c.spec)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := m.Close(); err != nil {
						t.Error(err)
					}
				})
				return m
			}
			m := open()
			if m.Rows() != c.rows || m.Columns() != 2 || m.Integer() != c.integer || m.Half() != c.half || m.Mask() || !strings.HasPrefix(m.Name(), c.spec.Path) {
				t.Errorf("%s: %d × %d, integer %v, half %v, mask %v", m.Name(), m.Rows(), m.Columns(), m.Integer(), m.Half(), m.Mask())
			}
			if c.integer {
				var got []string
				if err := EachInt(t.Context(), m, func(i int64, row []int64) error {
					got = append(got, fmt.Sprint(i, row))
					return nil
				}); err != nil || !slices.Equal(got, []string{"0 [1 2]", "1 [3 4]", "2 [5 6]"}) {
					t.Errorf("integers: %q, %v", got, err)
				}
			}
			var got []string
			if err := EachDouble(t.Context(), open(), func(i int64, row []float64) error {
				got = append(got, fmt.Sprint(i, row))
				return nil
			}); err != nil || !slices.Equal(got, []string{"0 [1 2]", "1 [3 4]", "2 [5 6]"}) {
				t.Errorf("doubles: %q, %v", got, err)
			}
			// The last two rows, one by one; nothing follows them.
			rows, err := NewRows(open(), 3, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range [][]float32{{3, 4}, {5, 6}} {
				row := []float32{-1, -1}
				if err := rows.Next(row); err != nil || !slices.Equal(row, want) {
					t.Errorf("%v, %v; want %v", row, err, want)
				}
			}
			if err := rows.Next(make([]float32, 2)); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "ends before the last node's row") {
				t.Errorf("a fourth row: %v", err)
			}
		})
	}
}

// none is no choice of columns.
var none = columnsOf{key: -1}

// TestParquetKinds reads a value of each kind, in three row groups, as numbers of every type.
func TestParquetKinds(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.parquet")
	writeParquet(t, name, 1, []numbers{
		{true, -1, 1 << 40, 1.5, half(2.5), []float32{7, 8}},
		{false, 2, -3, 0.25, nil, []float32{9, 10}},
		{true, 0, 4, -8, half(-1), []float32{11, 12}},
	})
	open := func(which columnsOf) *parquetFile {
		m, err := openParquetColumns(vfs.OS, Spec{Path: name}, which)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
		return m
	}
	m := open(none)
	if m.Rows() != 3 || m.Columns() != 7 || m.Integer() || m.Mask() || m.Half() {
		t.Errorf("%d × %d, integer %v, mask %v", m.Rows(), m.Columns(), m.Integer(), m.Mask())
	}
	doubles := make([]float64, 3*7+6) // a row is not begun that does not fit
	n, err := m.Doubles(doubles)
	if got := fmt.Sprint(doubles[:n]); err != nil || got != "[1 -1 1.099511627776e+12 1.5 2.5 7 8 0 2 -3 0.25 NaN 9 10 1 0 4 -8 -1 11 12]" {
		t.Errorf("%s, %v", got, err)
	}
	if n, err := m.Doubles(doubles); n != 0 || err != nil {
		t.Errorf("after the last row: %d, %v", n, err)
	}
	floats := make([]float32, 7+6)
	m = open(none)
	for _, want := range []string{"[1 -1 1.0995116e+12 1.5 2.5 7 8]", "[0 2 -3 0.25 NaN 9 10]", "[1 0 4 -8 -1 11 12]", "[]"} {
		n, err := m.Floats(floats)
		if got := fmt.Sprint(floats[:n]); err != nil || got != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	m = open(none)
	if err := m.Skip(2); err != nil {
		t.Error(err)
	}
	if n, err := m.Floats(floats); n != 7 || err != nil || floats[6] != 12 {
		t.Errorf("after two rows: %v, %v", floats[:n], err)
	}
	if _, err := open(none).Ints(make([]int64, 7)); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "row 0: column d has the number 1.5, which is not an integer") {
		t.Errorf("floats as integers: %v", err)
	}
}

// TestParquetIntegers reads flags and integers as integers, and refuses a row without a value.
func TestParquetIntegers(t *testing.T) {
	type row struct {
		Flag  bool   `parquet:"a"`
		Short int32  `parquet:"b"`
		Long  *int64 `parquet:"c,optional"`
	}
	name := filepath.Join(t.TempDir(), "x.parquet")
	long := int64(-1 << 40)
	writeParquet(t, name, 10, []row{{true, -7, &long}, {false, 5, &long}, {true, 0, nil}})
	m, err := Open(vfs.OS, Spec{Path: name})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if !m.Integer() || m.Mask() {
		t.Errorf("integer %v, mask %v", m.Integer(), m.Mask())
	}
	dst := make([]int64, 6)
	if n, err := m.Ints(dst); err != nil || n != 6 || !slices.Equal(dst, []int64{1, -7, long, 0, 5, long}) {
		t.Errorf("%d, %v", dst[:n], err)
	}
	if _, err := m.Ints(dst); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "column c has a row without a value") {
		t.Errorf("a row without a value: %v", err)
	}
	writeParquet(t, name, 10, []struct{ A, B bool }{{true, false}})
	mask, err := Open(vfs.OS, Spec{Path: name})
	if err != nil {
		t.Fatal(err)
	}
	defer mask.Close()
	if !mask.Integer() || !mask.Mask() {
		t.Errorf("flags: integer %v, mask %v", mask.Integer(), mask.Mask())
	}
}

// TestParquetRefuses opens tables whose columns are not what is needed.
func TestParquetRefuses(t *testing.T) {
	dir := t.TempDir()
	words, lists, others := filepath.Join(dir, "words.parquet"), filepath.Join(dir, "lists.parquet"), filepath.Join(dir, "others.parquet")
	writeParquet(t, words, 10, []struct {
		ID string  `parquet:"id"`
		X  float32 `parquet:"x"`
	}{{"a", 1}, {"b", 2}})
	writeParquet(t, lists, 10, []struct {
		L []int64 `parquet:"l"`
	}{{[]int64{1, 2}}, {[]int64{3}}})
	writeParquet(t, others, 10, []struct {
		F [4]byte `parquet:"f"`
	}{{}})
	for _, c := range []struct {
		name  string
		which columnsOf
		says  string
	}{
		{words, none, "column id has values of type BYTE_ARRAY instead of numbers"},
		{words, columnsOf{key: 0}, ""},
		{words, columnsOf{words: 2, exact: true, key: -1}, ""},
		{words, columnsOf{words: 1, exact: true, key: -1}, "it has 2 columns, but 1 are needed"},
		{words, columnsOf{words: 1, key: -1}, ""},
		{words, columnsOf{words: 3, key: -1}, "it has 2 columns, but 3 are needed"},
		{lists, none, "column l has 3 values in 2 lists, which must all have the same length"},
		{others, none, "column f has values of type FIXED_LEN_BYTE_ARRAY instead of numbers"},
		{others, columnsOf{words: 1, key: -1}, "column f has values of type FIXED_LEN_BYTE_ARRAY instead of numbers"},
	} {
		m, err := openParquetColumns(vfs.OS, Spec{Path: c.name}, c.which)
		if c.says != "" {
			if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.name+": "+c.says) {
				t.Errorf("%+v: %v; want %q", c.which, err, c.says)
			}
			continue
		}
		if err != nil || m.Columns() != max(1, c.which.words) {
			t.Errorf("%+v: %v", c.which, err)
			continue
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestParquetCounts refuses columns with more or fewer values than the description says, and values
// that cannot be read.
func TestParquetCounts(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.parquet")
	writeParquet(t, name, 10, []struct{ A, B int64 }{{1, 2}, {3, 4}})
	for _, c := range []struct {
		change func(m *parquetFile)
		says   string
	}{
		{func(m *parquetFile) {}, ""},
		{func(m *parquetFile) { m.rows, m.left = 3, 3 }, "column A ends 1 values early"},
		{func(m *parquetFile) { m.left-- }, "column A has more values than its description says"},
		{func(m *parquetFile) { *reader(m, 0) -= 1 }, "column A has more values than its description says"},
		{func(m *parquetFile) { *reader(m, 1)++ }, "column B ends 1 values early"},
		{func(m *parquetFile) { m.columns[1].next = func(*typed) error { return m.bad("boom") } }, "x.parquet: boom"},
	} {
		m, err := openParquetColumns(vfs.OS, Spec{Path: name}, none)
		if err != nil {
			t.Fatal(err)
		}
		c.change(m)
		dst := make([]int64, 2)
		for n := 2; n > 0 && err == nil; {
			n, err = m.Ints(dst)
		}
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v; want %q", err, c.says)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// reader returns the number of values that a file's description says of the only row group of column i.
func reader(m *parquetFile, i int) *int64 {
	r := m.readers[i]
	return &r.chunks[0].NumValues
}

// TestParquetManyLists has a list of one in each of 5000 rows.
func TestParquetManyLists(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.parquet")
	rows := make([]struct{ L []int32 }, 5000)
	for i := range rows {
		rows[i].L = []int32{int32(i)}
	}
	writeParquet(t, name, 5000, rows)
	m, err := Open(vfs.OS, Spec{Path: name})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	dst := make([]int64, 5001)
	if n, err := m.Ints(dst); err != nil || m.Columns() != 1 || n != 5000 || dst[4999] != 4999 {
		t.Errorf("%d × %d, %v", n, m.Columns(), err)
	}
}

// TestParquetFooter looks at the ends of files that are not as long as they say.
func TestParquetFooter(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct {
		content, says string
	}{
		{"PAR1\x00\x00\x00\x00PAR", "not a Parquet file: it has 11 bytes"},
		{"PAR1\x00\x00\x00\x00PAR1", "not a Parquet file: "}, // as long as it must be: the library looks at it
		{"PAR1\x01\x00\x00\x00PAR1", "not a Parquet file, or truncated"},
		{"PAR1\x00\x00\x00\x00PAR2", "not a Parquet file, or truncated"},
		{"PAR1" + strings.Repeat("x", 100) + "\x65\x00\x00\x00PAR1", "not a Parquet file, or truncated"},
	} {
		name := filepath.Join(dir, fmt.Sprint(i, ".parquet"))
		importertest.Save(t, name, []byte(c.content))
		if _, err := Open(vfs.OS, Spec{Path: name}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v; want %q", c.content, err, c.says)
		}
	}
}

// TestParquetEmpty has no rows: nothing is before the description. One of 64 MiB is still read.
func TestParquetEmpty(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.parquet")
	writeParquet(t, name, 10, []struct{ A int64 }{})
	m, err := Open(vfs.OS, Spec{Path: name})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := m.Ints(make([]int64, 3)); err != nil || n != 0 || m.Rows() != 0 || m.Columns() != 1 {
		t.Errorf("%d of %d rows, %v", n, m.Rows(), err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	writeParquet(t, name, 10, []struct{ L []int64 }{})
	if got, err := numbersOf(Open(vfs.OS, Spec{Path: name})); got != "" || err != nil {
		t.Errorf("lists of no rows: %s, %v", got, err)
	}
	// pyarrow writes a row group without rows, with a page that it does not place.
	for file, want := range map[string]string{"none": "", "groups": "[1 2]"} {
		s := Spec{Path: filepath.Join("testdata", file+".parquet")}
		if got, err := numbersOf(Open(vfs.OS, s)); got != want || err != nil {
			t.Errorf("%s: %s, want %s; %v", file, got, want, err)
		}
		if n, err := Held(vfs.OS, s, 0); err != nil || n.Bytes < 1 {
			t.Errorf("%s: %+v, %v", file, n, err)
		}
	}
	f, err := vfs.OS.Create(name) // with holes
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 65 << 20
	for n, bad := range map[uint32]bool{64 << 20: false, 64<<20 + 1: true} {
		if _, err := f.WriteAt(append(binary.LittleEndian.AppendUint32(nil, n), "PAR1"...), size-8); err != nil {
			t.Fatal(err)
		}
		if _, err := (&parquetFile{columnar: columnar{f: f}}).checkFooter(size); errors.Is(err, fault.ErrInput) != bad || !bad && err != nil {
			t.Errorf("a description of %d bytes: %v", n, err)
		}
	}
}

// TestParquetGroups refuses what the library would hold too much of.
func TestParquetGroups(t *testing.T) {
	m := &parquetFile{columnar: columnar{name: "x"}}
	for n, bad := range map[int64]bool{-1: true, 0: false, 1 << 30: false, 1<<30 + 1: true} {
		if err := m.checkGroup("a", n); errors.Is(err, fault.ErrInput) != bad || !bad && err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// closes counts what is closed.
type closes int

func (c *closes) Close() error { *c++; return nil }

// TestFromArray takes matrices whose rows lie in order, and closes all others.
func TestFromArray(t *testing.T) {
	for _, c := range []struct {
		shape   []int64
		fortran bool
		columns int // 0: refused
		says    string
	}{
		{[]int64{6}, false, 1, ""}, {[]int64{6}, true, 1, ""},
		{[]int64{3, 2}, false, 2, ""}, {[]int64{3, 2}, true, 0, "are in column-major order"},
		{[]int64{6, 1}, true, 1, ""}, {[]int64{1, 6}, true, 6, ""}, // one column, one row: either order
		{[]int64{0, 2}, true, 2, ""},
		{[]int64{6, 0}, false, 0, "its shape is (6, 0)"},
		{[]int64{0, maxColumns}, false, maxColumns, ""}, {[]int64{0, maxColumns + 1}, false, 0, "its shape is (0, 16777217)"},
		{[]int64{}, false, 0, "instead of a matrix or a vector"}, {[]int64{1, 2, 3}, false, 0, "instead of a matrix or a vector"},
	} {
		var closed closes
		h, err := npy.Describe("i8", c.shape...)
		if err != nil {
			t.Fatal(err)
		}
		h.Fortran = c.fortran
		m, err := FromArray(npz.New(h, bytes.NewReader(binio.Bytes([]int64{1, 2, 3, 4, 5, 6})), "x", &closed))
		if c.columns == 0 {
			if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) || closed != 1 {
				t.Errorf("%v: %v, closed %d times", c.shape, err, closed)
			}
			continue
		}
		if err != nil || m.Columns() != c.columns || m.Rows() != c.shape[0] {
			t.Errorf("%v: %v", c.shape, err)
			continue
		}
		if err := m.Close(); err != nil || closed != 1 {
			t.Errorf("%v: closed %d times, %v", c.shape, closed, err)
		}
	}
}

// TestEachStops ends with the context, with what do returns, and with a row that is none.
func TestEachStops(t *testing.T) {
	name := filepath.Join(t.TempDir(), "t.csv")
	importertest.Save(t, name, []byte("1,2\n3,x\n"))
	each := func(ctx context.Context, do func(int64, []int64) error) error {
		m, err := Open(vfs.OS, Spec{Path: name})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		return EachInt(ctx, m, do)
	}
	none := func(int64, []int64) error { return nil }
	if err := each(t.Context(), none); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a word: %v", err)
	}
	importertest.Save(t, name, []byte("1,2\n3,4\n"))
	stop := errors.New("stop")
	seen := 0
	if err := each(t.Context(), func(int64, []int64) error { seen++; return stop }); !errors.Is(err, stop) || seen != 1 {
		t.Errorf("%v after %d rows", err, seen)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := each(ctx, none); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestManyColumns reads rows that are longer than what is looked at at a time, and streams rows
// into a part that holds one and a half.
func TestManyColumns(t *testing.T) {
	const cols = chunk + 1
	values := make([]int64, 2*cols)
	for i := range values {
		values[i] = int64(i)
	}
	name := filepath.Join(t.TempDir(), "a.npy")
	importertest.Save(t, name, importertest.NPY(fmt.Sprintf("(2, %d)", cols), values))
	open := func() Matrix {
		m, err := Open(vfs.OS, Spec{Path: name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		return m
	}
	n := int64(0)
	if err := EachInt(t.Context(), open(), func(i int64, row []int64) error {
		if n++; !slices.Equal(row, values[i*cols:][:cols]) {
			t.Errorf("row %d begins with %d", i, row[0])
		}
		return nil
	}); err != nil || n != 2 {
		t.Errorf("%d rows, %v", n, err)
	}
	s, dst := Stream{open()}, make([]int64, cols+cols/2)
	for i := range 2 {
		if n, err := s.Next(dst); err != nil || n != cols || !slices.Equal(dst[:n], values[i*cols:][:cols]) {
			t.Errorf("row %d: %d elements, %v", i, n, err)
		}
	}
	if n, err := s.Next(dst); err != nil || n != 0 {
		t.Errorf("after the last row: %d, %v", n, err)
	}
}

// TestRowsEnd refuses lines behind the last row, once that was read.
func TestRowsEnd(t *testing.T) {
	name := filepath.Join(t.TempDir(), "t.csv")
	importertest.Save(t, name, []byte("1\n2\n3\n"))
	for _, c := range []struct {
		rows, first int64
		takes       []int
		says        string
	}{
		{3, 0, []int{1, 2}, ""}, {3, 3, nil, ""}, {2, 0, []int{1}, ""}, {2, 0, []int{1, 1}, "line 3"}, {2, 1, []int{1}, "line 3"}, {4, 0, []int{4}, "ends before the last node's row"},
		{4, 3, []int{1}, "ends before the last node's row"}, {5, 5, nil, ""},
	} {
		m, err := Open(vfs.OS, Spec{Path: name})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := NewRows(m, c.rows, c.first)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		for _, n := range c.takes {
			if err == nil {
				err = rows.Next(make([]float32, n))
			}
		}
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v", c, err)
		}
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOpenRefuses names files of no known form, of no line, and of too many columns.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	importertest.Tree{"empty.csv": {}, "x.json": []byte("{}"), "comments.txt": []byte("# a\n")}.Write(t, dir)
	for name, says := range map[string]string{"empty.csv": "is empty", "comments.txt": "is empty", "x.h5": "x.h5: HDF5 is not read: in Python, write its arrays with numpy.save", "x.json": "its name does not tell its form: needs .npy, .npz:KEY, .npz of SciPy, .pt:KEY, .parquet, .feather, .csv, .tsv, .txt or .mtx, text also as .gz, or FILE:DTYPE:ROWSxCOLS", "none.csv": "is missing", "none.parquet": "is missing", "none.npy": "is missing"} {
		if _, err := Open(vfs.OS, Spec{Path: filepath.Join(dir, name)}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", name, err, says)
		}
	}
	for _, s := range []Spec{{DType: "i4", Cols: 1}, {DType: "f3", Cols: 1}, {DType: "f3", Rows: 1, Cols: 1}} {
		s.Path = filepath.Join(dir, "none.bin")
		if s.DType == "f3" {
			s.Path = filepath.Join(dir, "x.json")
		}
		if _, err := Open(vfs.OS, s); !errors.Is(err, fault.ErrInput) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// all returns the words of a table, columns by blanks, rows by semicolons.
func all(w Words, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var rows []string
	for {
		words, err := w.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(rows, ";"), w.Close()
		}
		if err != nil {
			return "", errors.Join(err, w.Close())
		}
		rows = append(rows, string(bytes.Join(words, []byte(" "))))
	}
}

// TestWords reads the first columns of tables of every form as text.
func TestWords(t *testing.T) {
	dir := t.TempDir()
	importertest.Tree{
		"a.npy":    importertest.NPY("(2, 2)", []int64{1, -2, 3, 4}),
		"f.npy":    importertest.Vector([]float32{1}),
		"half.npy": importertest.Vector([]float64{1, 1.5}),
		"z.npz/k":  importertest.Vector([]int64{5, 6}),
		"r.bin":    {1, 2, 3, 4},
		"t.csv":    []byte("id,name\n\"a b\",c\nd,e\n"),
		"t.txt":    []byte("# u\nSource x\na c\nd e\n"),
		"p.tsv.gz": gzipped(t, "% u\nsource target\na c\nd e\n"),
	}.Write(t, dir)
	writeParquet(t, filepath.Join(dir, "w.parquet"), 1, []struct {
		A string `parquet:"a"`
		B int32  `parquet:"b"`
		C int64  `parquet:"c"`
	}{{"x", -1, 1 << 40}, {"", 2, 3}})
	one := "y"
	writeParquet(t, filepath.Join(dir, "n.parquet"), 2, []struct {
		A *string `parquet:"a,optional"`
		B float32 `parquet:"b"`
	}{{&one, 1}, {nil, 2}})
	for _, c := range []struct {
		spec    Spec
		columns int
		exact   bool
		want    string
		says    string // of the error
	}{
		{Spec{Path: "a.npy"}, 2, true, "1 -2;3 4", ""},
		{Spec{Path: "a.npy"}, 1, false, "1;3", ""},
		{Spec{Path: "a.npy"}, 1, true, "", "ids must be text or integers in 1 columns; the file has 2 columns"},
		{Spec{Path: "a.npy"}, 3, false, "", "ids must be text or integers in 3 columns; the file has"},
		{Spec{Path: "f.npy"}, 1, false, "1", ""},
		{Spec{Path: "half.npy"}, 1, false, "", "half.npy: row 1 has 1.5, which is not an integer"},
		{Spec{Path: "z.npz", Key: "k"}, 1, true, "5;6", ""},
		{Spec{Path: "r.bin", DType: "u1", Rows: 2, Cols: 2}, 2, true, "1 2;3 4", ""},
		{Spec{Path: "t.csv"}, 2, true, "a b c;d e", ""}, // names of columns alone are a header
		{Spec{Path: "t.csv"}, 1, false, "a b;d", ""},
		{Spec{Path: "t.csv"}, 1, true, "", "instead of 1 names"},
		{Spec{Path: "t.txt"}, 2, true, "Source x;a c;d e", ""},
		{Spec{Path: "t.txt"}, 1, false, "a;d", ""},
		{Spec{Path: "p.tsv.gz"}, 2, true, "a c;d e", ""},
		{Spec{Path: "w.parquet"}, 3, true, "x -1 1099511627776; 2 3", ""},
		{Spec{Path: "w.parquet"}, 2, false, "x -1; 2", ""},
		{Spec{Path: "n.parquet"}, 1, false, "", "column a has a row without a value"},
		{Spec{Path: "n.parquet"}, 2, true, "", "column a has a row without a value"},
	} {
		c.spec.Path = filepath.Join(dir, c.spec.Path)
		got, err := all(OpenWords(vfs.OS, c.spec, c.columns, c.exact))
		if c.says == "" && (err != nil || got != c.want) || c.says != "" && (!errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v, %d columns: %q, %v; want %q %q", c.spec, c.columns, got, err, c.want, c.says)
		}
	}
}

// TestKeyed reads tables whose first column has the ids of the rows, and that column.
func TestKeyed(t *testing.T) {
	dir := t.TempDir()
	importertest.Tree{
		"t.csv":    []byte("\"a, b\",1,2\nc,3,4\n"),
		"h.csv":    []byte("who,x,y\na,1,2\nc,3,4\n"),
		"p.csv.gz": gzipped(t, "a,1,2\nc,3,4\n"),
		"t.tsv":    []byte("# ids\na 1 2\nc\t3\t4\n"),
		"h.txt":    []byte("% ids\nwho x y\na 1 2\nc 3 4\n"),
		"a.npy":    importertest.NPY("(2, 3)", []int64{0, 1, 2, 1, 3, 4}),
		"a.bin":    {1},
	}.Write(t, dir)
	writeParquet(t, filepath.Join(dir, "k.parquet"), 10, []struct {
		A string  `parquet:"a"`
		B int32   `parquet:"b"`
		C float32 `parquet:"c"`
	}{{"a", 1, 2}, {"c", 3, 4}})
	for _, c := range []struct{ name, keys string }{
		{"t.csv", "a, b;c"}, {"h.csv", "a;c"}, {"p.csv.gz", "a;c"}, {"t.tsv", "a;c"}, {"h.txt", "a;c"}, {"k.parquet", "a;c"},
	} {
		s := Spec{Path: filepath.Join(dir, c.name)}
		if keys, err := all(OpenKeys(vfs.OS, s)); err != nil || keys != c.keys {
			t.Errorf("%s: %q, %v; want %q", c.name, keys, err, c.keys)
		}
		m, err := OpenKeyed(vfs.OS, s)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		row := make([]float64, 4)
		if n, err := m.Doubles(row); err != nil || n != 4 || m.Columns() != 2 || !slices.Equal(row, []float64{1, 2, 3, 4}) {
			t.Errorf("%s: %v, %v", c.name, row[:n], err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	one := Spec{Path: filepath.Join(dir, "one.csv")} // beside the ids
	importertest.Save(t, one.Path, []byte("who,x\na,1\n"))
	if keys, err := all(OpenKeys(vfs.OS, one)); err != nil || keys != "a" {
		t.Errorf("one column: %q, %v", keys, err)
	}
	for _, s := range []Spec{{Path: "a.npy"}, {Path: "a.bin", DType: "u1", Cols: 1}, {Path: "t.csv", Key: "k"}, {Path: "t.csv", DType: "u1"}} {
		s.Path = filepath.Join(dir, s.Path)
		if _, err := OpenKeyed(vfs.OS, s); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "a table with ids in its first column must be") {
			t.Errorf("%+v: %v", s, err)
		}
		if _, err := OpenKeys(vfs.OS, s); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "a table with ids in its first column must be") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
