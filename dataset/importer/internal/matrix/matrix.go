// Package matrix reads matrices of numbers, row by row, from files of several forms: .npy
// arrays, members of .npz archives, arrays without a header, text, Parquet, Arrow and Feather; and from
// directories of such files.
package matrix

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/npy"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/text"
	"diskgnn/dataset/importer/internal/torchfile"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Matrix reads the rows of a matrix, in order. A vector is a matrix of one column. It is not safe for
// concurrent use.
type Matrix interface {
	// Name returns the name of the file, for messages.
	Name() string
	// Rows returns the number of rows, or -1 if it is known only after reading.
	Rows() int64
	Columns() int
	// Names returns the names of the columns, or nil if the file has none.
	Names() []string
	// Integer reports whether all elements are integers; for text it is always true, since that is not
	// known. Half reports whether all elements are float16.
	Integer() bool
	Half() bool
	// Mask reports whether all elements are booleans.
	Mask() bool
	// Ints, Floats and Doubles set dst to the next rows and return the number of elements set, less
	// than len(dst) only at the end. len(dst) must be a multiple of Columns. Ints requires integers;
	// the others return missing values as NaN.
	Ints(dst []int64) (int, error)
	Floats(dst []float32) (int, error)
	Doubles(dst []float64) (int, error)
	// Skip skips the given number of rows.
	Skip(rows int64) error
	// End returns an error if anything follows the last row.
	End() error
	Close() error
}

// A Spec is the path of a file, and the form in which it is read.
type Spec struct {
	Path  string
	DType string // element type of a file without a header; else ""
	Rows  int64  // rows of a file without a header; 0: by the size of the file
	Cols  int64
	Key   string // name of the array in a .npz archive, or of the tensor in a file of torch
	// Columns are the columns to read, in this order; none: all. Except are columns that are not read.
	// Each is a name with * and ? as in path.Match, a number counted from 0, or a range such as 3-10.
	Columns, Except []string
	numbers         []int  // the columns, if they are chosen already
	IDs             string // the column that OpenKeys reads and OpenKeyed leaves out; "": the first
}

// ParseSpec parses PATH, PATH:DTYPE[:ROWSxCOLS] (an array without a header), ARCHIVE.npz:KEY or
// FILE.pt:KEY. Errors are of kind fault.ErrUsage.
func ParseSpec(s string) (Spec, error) {
	for _, ext := range []string{".npz", ".pt", ".pth"} {
		if i := strings.LastIndex(s, ext+":"); i >= 0 {
			return Spec{Path: s[:i+len(ext)], Key: s[i+len(ext)+1:]}, nil
		}
	}
	parts := strings.Split(s, ":")
	sp := Spec{Path: parts[0], Cols: 1}
	switch {
	case sp.Path == "":
		return sp, fault.New(fault.ErrUsage, "%q does not name a file", s)
	case len(parts) == 1:
		return sp, nil
	case len(parts) > 3:
		return sp, fault.New(fault.ErrUsage, "%q: needs the form PATH:DTYPE[:ROWSxCOLS]", s)
	}
	sp.DType = parts[1]
	if _, err := npy.Describe(sp.DType, 1); err != nil {
		return sp, fault.New(fault.ErrUsage, "%q: unknown type %q; give a type of NumPy like float32 or int64", s, sp.DType)
	}
	if len(parts) == 2 {
		return sp, nil
	}
	rows, cols, two := strings.Cut(strings.ReplaceAll(parts[2], "×", "x"), "x")
	var err error
	if sp.Rows, err = strconv.ParseInt(rows, 10, 64); err == nil && two {
		sp.Cols, err = strconv.ParseInt(cols, 10, 64)
	}
	if err != nil || sp.Rows < 1 || sp.Cols < 1 {
		return sp, fault.New(fault.ErrUsage, "%q: needs a shape like 1000x128", s)
	}
	return sp, nil
}

// OpenArray opens a .npy file, an array of a .npz archive, a tensor of torch that is not sparse, or an
// array without a header. For other forms it returns nil without an error.
func OpenArray(fsys vfs.FS, s Spec) (a *npz.Array, err error) {
	switch {
	case s.DType != "":
		return openRaw(fsys, s)
	case isTorch(s.Path):
		if t, err := SparseTorch(fsys, s.Path, s.Key, pickKey(s.Key)); t != nil || err != nil {
			return nil, err
		}
		return torchfile.Array(fsys, s.Path, s.Key, pickKey(s.Key))
	case s.Key != "":
		return npz.OpenMember(fsys, s.Path, s.Key)
	case filepath.Ext(s.Path) == ".npy":
		if _, is, err := partsOf(fsys, s); is || err != nil {
			return nil, err
		}
		return npz.Open(fsys, s.Path)
	}
	return nil, nil
}

// A form is a form of files.
type form int

const (
	unknownForm form = iota
	arrayForm        // .npy, a member of .npz, or without a header
	parquetForm
	arrowForm // also Feather's second version
	textForm
	sparseForm // SciPy's .npz, Matrix Market, and files of torch, which may be sparse
)

// formOf tells the form of a file by its name.
func formOf(s Spec) form {
	switch {
	case s.DType == "" && (isTorch(s.Path) || isMarket(s.Path) || s.Key == "" && filepath.Ext(s.Path) == ".npz"):
		return sparseForm
	case s.DType != "" || s.Key != "":
		return arrayForm
	}
	switch ext := filepath.Ext(strings.TrimSuffix(s.Path, ".gz")); ext {
	case ".csv", ".tsv", ".txt", ".el", ".edges", ".edgelist", ".ungraph":
		return textForm
	case filepath.Ext(s.Path): // others are not packed
		return map[string]form{".npy": arrayForm, ".parquet": parquetForm, ".feather": arrowForm, ".arrow": arrowForm, ".ipc": arrowForm, ".arrows": arrowForm}[ext]
	}
	return unknownForm
}

// textFormat returns how text is written by the name of its file.
func textFormat(s Spec) text.Format {
	if filepath.Ext(strings.TrimSuffix(s.Path, ".gz")) == ".csv" {
		return text.Format{}
	}
	return text.Format{Blanks: true, Comments: "#%"}
}

// Open opens a file of any form; the name and the other fields of s tell the form.
func Open(fsys vfs.FS, s Spec) (Matrix, error) {
	if m, is, err := openParts(fsys, s, Open); is || err != nil {
		return m, err
	}
	switch formOf(s) {
	case arrayForm:
		a, err := OpenArray(fsys, s)
		if err != nil {
			return nil, err
		}
		m, err := FromArray(a)
		if err != nil {
			return nil, err
		}
		return pick(m, s)
	case sparseForm:
		m, err := openSparse(fsys, s)
		if err != nil {
			return nil, err
		}
		return pick(m, s)
	case parquetForm, arrowForm:
		return openTyped(fsys, s, columnsOf{key: -1})
	case textForm:
		return openText(fsys, s, textFormat(s), lookOptions{guess: true, key: -1, columns: s.Columns})
	}
	if ext := filepath.Ext(s.Path); ext == ".h5" || ext == ".hdf5" {
		return nil, fault.New(fault.ErrInput, "%s: HDF5 is not read: in Python, write its arrays with numpy.save", s.Path)
	}
	return nil, fault.New(fault.ErrInput, "%s: its name does not tell its form: needs .npy, .npz:KEY, .npz of SciPy, .pt:KEY, .parquet, .feather, .csv, .tsv, .txt or .mtx, text also as .gz, or FILE:DTYPE:ROWSxCOLS", s.Path)
}

func openRaw(fsys vfs.FS, s Spec) (*npz.Array, error) {
	rows := s.Rows
	if rows == 0 {
		st, err := importer.StatFile(fsys, s.Path)
		if err != nil {
			return nil, err
		}
		h, err := npy.Describe(s.DType, 1)
		if err != nil {
			return nil, err
		}
		rows = st.Size() / int64(h.Size)
	}
	h, err := npy.Describe(s.DType, rows, s.Cols)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Path, err)
	}
	return npz.OpenRaw(fsys, s.Path, h)
}

// array is a matrix in memory order.
type array struct {
	a     *npz.Array
	cols  int
	left  int64     // elements
	whole []float64 // that are read as integers
}

// FromArray returns an array of one or two dimensions, row-major, as a Matrix. It takes ownership of
// a, and closes it if it fails.
func FromArray(a *npz.Array) (Matrix, error) {
	m := &array{a: a, cols: 1, left: a.Count()}
	var err error
	switch {
	case len(a.Shape) == 2:
		if a.Shape[1] < 1 || a.Shape[1] > maxColumns {
			err = a.Fail(fault.New(fault.ErrInput, "its shape is %s, but a row has 1 to %d elements", a.ShapeString(), maxColumns))
			break
		}
		if m.cols = int(a.Shape[1]); a.Fortran && m.cols > 1 && a.Shape[0] > 1 {
			err = a.Fail(fault.New(fault.ErrInput, "its elements are in column-major order (fortran_order): save it row-major"))
		}
	case len(a.Shape) != 1:
		err = a.Fail(fault.New(fault.ErrInput, "its shape is %s instead of a matrix or a vector", a.ShapeString()))
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// maxColumns is the largest number of columns: both features and labels of datasets may have it.
const maxColumns = min(dataset.MaxDim, dataset.MaxTargets)

func (m *array) Name() string  { return m.a.Name() }
func (m *array) Rows() int64   { return m.a.Shape[0] }
func (m *array) Columns() int  { return m.cols }
func (*array) Names() []string { return nil }
func (m *array) Integer() bool { return m.a.Integer() }
func (m *array) Mask() bool    { return m.a.Kind == 'b' }
func (m *array) Half() bool    { return m.a.Kind == 'f' && m.a.Size == 2 }
func (m *array) End() error    { return m.a.End() }

// Ints also takes numbers like 3.0 of a floating-point array.
func (m *array) Ints(dst []int64) (int, error) {
	if m.a.Integer() {
		n := m.take(len(dst))
		return n, m.a.Ints(dst[:n])
	}
	if m.whole == nil {
		m.whole = make([]float64, chunk)
	}
	for n := 0; ; {
		first := m.a.Count() - m.left
		x := m.whole[:m.take(min(len(dst)-n, chunk))]
		if len(x) == 0 {
			return n, nil
		}
		if err := m.a.Doubles(x); err != nil {
			return n, err
		}
		for i, x := range x {
			if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
				return n, m.a.Fail(fault.New(fault.ErrInput, "row %d has %v, which is not an integer", (first+int64(i))/int64(m.cols), x))
			}
			dst[n] = int64(x)
			n++
		}
	}
}

func (m *array) Floats(dst []float32) (int, error) {
	n := m.take(len(dst))
	return n, m.a.Floats(dst[:n])
}
func (m *array) Doubles(dst []float64) (int, error) {
	n := m.take(len(dst))
	return n, m.a.Doubles(dst[:n])
}

// take returns n, or the number of elements left if that is less, and subtracts it from them.
func (m *array) take(n int) int {
	n = int(min(int64(n), m.left))
	m.left -= int64(n)
	return n
}

func (m *array) Skip(rows int64) error {
	m.left -= rows * int64(m.cols)
	return m.a.Skip(rows * int64(m.cols))
}

func (m *array) Close() error { return m.a.Close() }

// table is a matrix of text.
type table struct {
	*text.Table
	name  string
	cols  int
	names []string
}

// OpenText opens a text file of the format f. If f.Columns is 0, the fields of the first line are
// counted. A first line with a word above a number, or without numbers, is a header.
func OpenText(fsys vfs.FS, name string, f text.Format) (Matrix, error) {
	return openText(fsys, Spec{Path: name}, f, lookOptions{key: -1})
}

// openText opens the columns of a text file that s chooses, but not the one with ids.
func openText(fsys vfs.FS, s Spec, f text.Format, o lookOptions) (Matrix, error) {
	l, err := look(fsys, s.Path, f, o)
	if err != nil {
		return nil, err
	}
	columns, err := l.chosen(s, o.key)
	if err != nil {
		return nil, err
	}
	l.f.Columns = len(columns)
	if !l.isAll(columns) {
		l.f.Take, l.f.Fields = columns, l.Columns
	}
	if f.Columns > 0 {
		l.f.Columns = f.Columns // other lines are errors
	}
	t, err := text.OpenTable(fsys, s.Path, l.f)
	if err != nil {
		return nil, err
	}
	m := &table{Table: t, name: s.Path, cols: l.f.Columns}
	if l.Names != nil {
		for _, i := range columns {
			m.names = append(m.names, l.Names[i])
		}
	}
	return m, nil
}

// chosen is Select without the column of ids, of which key is the number or -1.
func (d *Description) chosen(s Spec, key int) ([]int, error) {
	columns, err := d.Select(s)
	if err != nil {
		return nil, err
	}
	if key >= 0 {
		columns = slices.DeleteFunc(columns, func(i int) bool { return i == key })
	}
	if len(columns) == 0 {
		return nil, fault.New(fault.ErrInput, "%s: it has %s, and none beside the ids", s.Path, d.list())
	}
	return columns, nil
}

func (t *table) Name() string                      { return t.name }
func (t *table) Rows() int64                       { return -1 }
func (t *table) Columns() int                      { return t.cols }
func (t *table) Names() []string                   { return t.names }
func (t *table) Integer() bool                     { return true }
func (t *table) Half() bool                        { return false }
func (t *table) Mask() bool                        { return false }
func (t *table) Ints(dst []int64) (int, error)     { return t.Table.Next(dst) }
func (t *table) Floats(dst []float32) (int, error) { return t.Table.Floats(dst) }

func (t *table) Skip(rows int64) error {
	if err := t.Table.Skip(rows); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// End checks that no line follows.
func (t *table) End() error {
	line, err := t.Lines.Next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		err = t.Fail(line, "the end of the file")
	}
	return err
}
