// Package matrix reads matrices of numbers, row by row, from files of several forms: .npy
// arrays, members of .npz archives, arrays without a header, text, and Parquet.
package matrix

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/npy"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/text"
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
	Key   string // name of the array in a .npz archive
	// Columns are the columns to read, in this order; none: all. Except are columns that are not read.
	// Each is a name with * and ? as in path.Match, a number counted from 0, or a range such as 3-10.
	Columns, Except []string
}

// ParseSpec parses PATH, PATH:DTYPE[:ROWSxCOLS] (an array without a header) or ARCHIVE.npz:KEY. Errors
// are of kind fault.ErrUsage.
func ParseSpec(s string) (Spec, error) {
	if i := strings.LastIndex(s, ".npz:"); i >= 0 {
		return Spec{Path: s[:i+4], Key: s[i+5:]}, nil
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

// OpenArray opens a .npy file, an array of a .npz archive, or an array without a header. For other
// forms it returns nil without an error.
func OpenArray(fsys vfs.FS, s Spec) (a *npz.Array, err error) {
	switch {
	case s.DType != "":
		return openRaw(fsys, s)
	case s.Key != "":
		return npz.OpenMember(fsys, s.Path, s.Key)
	case filepath.Ext(s.Path) == ".npy":
		return npz.Open(fsys, s.Path)
	}
	return nil, nil
}

// Open opens a file of any form; the name and the other fields of s tell the form.
func Open(fsys vfs.FS, s Spec) (Matrix, error) {
	if a, err := OpenArray(fsys, s); a != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return FromArray(a)
	}
	switch ext := filepath.Ext(strings.TrimSuffix(s.Path, ".gz")); {
	case ext == ".parquet":
		return openParquet(fsys, s.Path)
	case ext == ".csv":
		return OpenText(fsys, s.Path, text.Format{})
	case ext == ".tsv" || ext == ".txt":
		return OpenText(fsys, s.Path, text.Format{Blanks: true, Comments: "#%"})
	}
	return nil, fault.New(fault.ErrInput, "%s: its name does not tell its form: needs .npy, .npz:KEY, .parquet, .csv, .tsv or .txt, text also as .gz, or FILE:DTYPE:ROWSxCOLS", s.Path)
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
	a    *npz.Array
	cols int
	left int64 // elements
}

// FromArray returns an array of one or two dimensions, row-major, as a Matrix. It takes ownership of
// a, and closes it if it fails.
func FromArray(a *npz.Array) (Matrix, error) {
	m := &array{a: a, cols: 1, left: a.Count()}
	var err error
	switch {
	case len(a.Shape) == 2:
		if a.Shape[1] < 1 || a.Shape[1] > maxColumns {
			err = a.Fail(fault.New(fault.ErrInput, "its shape is %s", a.ShapeString()))
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

func (m *array) Ints(dst []int64) (int, error) { n := m.take(len(dst)); return n, m.a.Ints(dst[:n]) }
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

// OpenText opens a text file. If f.Columns is 0, the fields of the first line are counted. A first
// line without numbers is a header.
func OpenText(fsys vfs.FS, name string, f text.Format) (Matrix, error) {
	n, first, err := text.CountFields(fsys, name, f)
	if err != nil {
		return nil, err
	}
	switch {
	case f.Columns == 0 && n == 0:
		return nil, fault.New(fault.ErrInput, "%s is empty", name)
	case n > maxColumns:
		return nil, fault.New(fault.ErrInput, "%s has %d columns, more than %d", name, n, maxColumns)
	case f.Columns == 0:
		f.Columns = n
	}
	var names []string
	if n > 0 && isHeader(first) {
		f.Header, names = true, first
	} else if f.Comments != "" {
		if names, err = namesInComment(fsys, name, f, n); err != nil {
			return nil, err
		}
	}
	t, err := text.OpenTable(fsys, name, f)
	if err != nil {
		return nil, err
	}
	return &table{t, name, f.Columns, names}, nil
}

// isHeader reports whether no field is a number, and no field is missing except the first of several,
// which pandas leaves empty above its index.
func isHeader(fields []string) bool {
	for i, f := range fields {
		if i == 0 && len(fields) > 1 && text.Missing([]byte(f)) {
			continue
		}
		if _, ok := text.ParseFloat([]byte(f)); ok {
			return false
		}
	}
	return true
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
