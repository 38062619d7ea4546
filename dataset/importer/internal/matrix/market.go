package matrix

import (
	"errors"
	"io"
	"strings"

	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/text"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Matrix Market's files are text: a line with the kind of the matrix, comments, a line with its rows,
// its columns and, of the coordinate format, the number of its entries; then a line for each entry,
// counted from 1, with its value unless the matrix is a pattern. Of a symmetric matrix, entries on one
// side of the diagonal stand for both.

// market is a matrix in coordinates.
type market struct {
	fs        vfs.FS
	name      string
	rows      int64
	entries   int64 // lines
	columns   int   // of a line
	symmetric bool
}

// marketLines is how Matrix Market writes numbers.
var marketLines = text.Format{Blanks: true, Comments: "%", Header: true}

// isMarket reports whether a name is of a file of Matrix Market.
func isMarket(name string) bool { return strings.HasSuffix(strings.TrimSuffix(name, ".gz"), ".mtx") }

// readMarket reads the kind and the sizes of a matrix. If it is an array and not in coordinates, the
// market in the result is nil.
func readMarket(fsys vfs.FS, name string) (*Sparse, error) {
	bad := func(format string, args ...any) error {
		return fault.New(fault.ErrInput, name+": "+format, args...)
	}
	first, err := text.Head(fsys, name, "", 1)
	if err != nil {
		return nil, err
	}
	_, sizes, err := text.CountFields(fsys, name, marketLines)
	if err != nil {
		return nil, err
	}
	kind := strings.Fields(strings.ToLower(strings.Join(first, "")))
	if len(kind) != 5 || kind[0] != "%%matrixmarket" || kind[1] != "matrix" {
		return nil, bad("it is not a file of Matrix Market: its first line is not like %%%%MatrixMarket matrix coordinate real general")
	}
	format, field, symmetry := kind[2], kind[3], kind[4]
	columns := map[string]int{"pattern": 2, "integer": 3, "real": 3, "double": 3}[field]
	if columns == 0 || format != "coordinate" && (format != "array" || columns == 2) {
		return nil, bad("a matrix of %.40s %.40s cannot be read: only coordinates or arrays of pattern, integer and real", format, field)
	}
	if symmetry != "general" && symmetry != "symmetric" && symmetry != "skew-symmetric" {
		return nil, bad("a matrix that is %.40s cannot be read: only general, symmetric and skew-symmetric", symmetry)
	}
	var n [3]int64
	for i, text := range sizes {
		if i < len(n) {
			n[i], _ = parseSize(text)
		}
	}
	s := &Sparse{Name: name, Rows: n[0], Columns: n[1], Layout: format}
	if want := map[string]int{"coordinate": 3, "array": 2}[format]; len(sizes) != want || min(n[0], n[1]) < 1 || n[2] < 0 {
		return nil, bad("its sizes are %.60q instead of %d numbers", strings.Join(sizes, " "), want)
	}
	if format == "coordinate" {
		s.market = &market{fs: fsys, name: name, rows: n[0], entries: n[2], columns: columns, symmetric: symmetry != "general"}
	} else if symmetry != "general" {
		return nil, bad("a symmetric array cannot be read: save it with numpy.save")
	}
	if s.market == nil {
		return s, nil
	}
	return s, s.check()
}

// parseSize returns -1 for a text that is no size.
func parseSize(s string) (int64, bool) {
	n, ok := text.ParseInt([]byte(s))
	if !ok {
		n = -1
	}
	return n, ok
}

// openColumn opens an array in a file of Matrix Market, which must have one column.
func openColumn(fsys vfs.FS, name string) (Matrix, error) {
	s, err := readMarket(fsys, name)
	if err != nil {
		return nil, err
	}
	if s.Columns != 1 {
		return nil, fault.New(fault.ErrInput, "%s: it is an array of %d columns, one behind the other: save it with numpy.save", name, s.Columns)
	}
	f := marketLines
	f.Columns = 1
	t, err := text.OpenTable(fsys, name, f)
	if err != nil {
		return nil, err
	}
	return &column{table{t, name, 1, nil}, s.Rows}, nil
}

// column is a table with a known number of rows.
type column struct {
	table
	rows int64
}

func (m *column) Rows() int64 { return m.rows }

// count returns the number of pairs, or an upper bound.
func (m *market) count() int64 {
	if m.symmetric {
		return 2 * m.entries
	}
	return m.entries
}

// open opens the places of the entries: see Sparse.Pairs.
func (m *market) open(in bool) (stream.Pairs, error) {
	f := marketLines
	f.Columns = m.columns
	t, err := text.OpenTable(m.fs, m.name, f)
	if err != nil {
		return nil, err
	}
	return &marketPairs{market: m, t: t, in: in, left: m.entries}, nil
}

// values returns the values of places that open opened.
func (m *market) values(p stream.Pairs) (values, error) {
	if m.symmetric {
		return nil, fault.New(fault.ErrInput, "%s: a symmetric matrix has no rows of features", m.name)
	}
	return marketValues{p.(*marketPairs)}, nil
}

// marketPairs reads lines as pairs.
type marketPairs struct {
	*market
	t      *text.Table
	in     bool
	left   int64 // lines
	fields [3 * chunk / 4]float64
	n      int // lines in fields
}

func (p *marketPairs) Next(dst, src []int64) (int, error) {
	rows, columns := src, dst
	if p.in {
		rows, columns = dst, src
	}
	lines := min(len(rows), chunk/4)
	if p.symmetric {
		lines = min(len(rows)/2, chunk/4)
	}
	k, err := p.t.Doubles(p.fields[:lines*p.columns])
	if err != nil {
		return 0, err
	}
	p.n = k / p.columns
	if p.left -= int64(p.n); p.left < 0 || p.n == 0 && p.left > 0 {
		return 0, fault.New(fault.ErrInput, "%s: it does not have the %d entries that its sizes say", p.name, p.entries)
	}
	n := 0
	for i := range p.n {
		line := p.fields[i*p.columns:]
		row, column := int64(line[0]), int64(line[1])
		if float64(row) != line[0] || float64(column) != line[1] || row < 1 || column < 1 {
			return 0, fault.New(fault.ErrInput, "%s: the entry %v, %v is none: rows and columns are counted from 1", p.name, line[0], line[1])
		}
		rows[n], columns[n] = row-1, column-1
		if n++; p.symmetric && row != column {
			rows[n], columns[n] = column-1, row-1
			n++
		}
	}
	return n, nil
}

func (p *marketPairs) Close() error { return p.t.Close() }

// marketValues are the values of the lines that were read last.
type marketValues struct{ p *marketPairs }

func (v marketValues) Close() error { return nil } // with the pairs

func (v marketValues) Doubles(dst []float64) error {
	for i := range dst {
		if dst[i] = 1; v.p.columns > 2 {
			dst[i] = v.p.fields[i*v.p.columns+2]
		}
	}
	return nil
}

// End implements values.
func (v marketValues) End() error {
	if _, err := v.p.t.Lines.Next(); !errors.Is(err, io.EOF) {
		return errors.Join(err, fault.New(fault.ErrInput, "%s: it has more than the %d entries that its sizes say", v.p.name, v.p.entries))
	}
	return nil
}
