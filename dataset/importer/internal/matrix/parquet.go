package matrix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go"

	"diskgnn/dataset/importer"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// A parquetFile is a Parquet file as a matrix. Its columns are the leaves of the schema, in order; a
// leaf that is a list makes a column for each element of its lists, which must all have the same
// length.
type parquetFile struct {
	name    string
	f       vfs.File
	rows    int64
	cols    int
	integer bool
	mask    bool
	leaves  []*leaf
}

// leaf is one column, as a stream of values.
type leaf struct {
	name   string
	file   string
	width  int // values a row
	groups []parquet.ColumnChunk
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	buf    []parquet.Value
	ahead  []parquet.Value
	left   int64 // values, as the file's description says
}

// maxGroup bounds a column's bytes in a row group: the library holds pages of it.
const maxGroup = 1 << 30

// openParquet opens the columns that s chooses, but not the one with ids, of which key is the number or
// -1.
func openParquet(fsys vfs.FS, s Spec, key int) (Matrix, error) {
	m, err := openParquetColumns(fsys, s, columnsOf{key: key})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// columnsOf selects the columns of a file to read, beside the choice of a Spec.
type columnsOf struct {
	key   int  // number of the column that is not read, -1 for none
	words int  // unless 0: number of columns to read, which may have strings
	exact bool // other columns are an error
}

func openParquetColumns(fsys vfs.FS, s Spec, which columnsOf) (*parquetFile, error) {
	var m *parquetFile
	err := withParquet(fsys, s.Path, func(f *parquetFile, p *parquet.File) error {
		m = f
		return f.open(p, s, which)
	})
	if err != nil && m != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, err
}

// withParquet opens a file and calls do, which closes it later. If the file is not one of Parquet,
// do is not called.
func withParquet(fsys vfs.FS, name string, do func(*parquetFile, *parquet.File) error) error {
	f, err := importer.OpenFile(fsys, name)
	if err != nil {
		return err
	}
	m := &parquetFile{name: name, f: f, integer: true, mask: true}
	taken := false
	err = guard(name, func() error {
		st, err := f.Stat()
		if err != nil {
			return err
		}
		if _, err := m.checkFooter(st.Size()); err != nil {
			return err
		}
		p, err := m.openLibrary(st.Size())
		if err != nil {
			return err
		}
		taken = true
		return do(m, p)
	})
	if !taken {
		err = errors.Join(err, f.Close())
	}
	return err
}

// describe describes the columns of the file.
func (m *parquetFile) describe(p *parquet.File) Description {
	columns := p.Schema().Columns()
	n := len(columns)
	d := Description{n, make([]string, n), make([]bool, n), make([]bool, n), p.NumRows(), nil}
	for i, path := range columns {
		d.Names[i] = path[0]
		if column, ok := p.Schema().Lookup(path...); ok {
			kind := column.Node.Type().Kind()
			d.Text[i] = kind == parquet.ByteArray
			d.Integer[i] = kind == parquet.Int32 || kind == parquet.Int64 || kind == parquet.Boolean
		}
	}
	return d
}

func describeParquet(fsys vfs.FS, s Spec) (d Description, err error) {
	err = withParquet(fsys, s.Path, func(m *parquetFile, p *parquet.File) error {
		d = m.describe(p)
		return m.Close()
	})
	return d, err
}

// guard calls do and turns a panic into an error of kind fault.ErrInput, since the library's checks of
// malformed files are incomplete.
func guard(name string, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.ErrInput, "%s: malformed Parquet: %v", name, p)
		}
	}()
	return do()
}

func (m *parquetFile) bad(format string, args ...any) error {
	return fault.New(fault.ErrInput, "%s: %s", m.name, fmt.Sprintf(format, args...))
}

func (m *parquetFile) open(p *parquet.File, s Spec, which columnsOf) error {
	m.rows = p.NumRows()
	columns := p.Schema().Columns()
	d := m.describe(p)
	chosen, err := d.chosen(s, which.key)
	if err != nil {
		return err
	}
	isChosen := len(s.Columns) > 0 || s.numbers != nil
	if n := len(chosen); n < which.words || (which.exact || isChosen) && which.words > 0 && n > which.words {
		return m.bad("it has %d columns, but %d are needed", n, which.words)
	}
	if which.words > 0 {
		chosen = chosen[:which.words]
	}
	for _, i := range chosen {
		path := columns[i]
		l := &leaf{name: path[0], file: m.name, width: 1, buf: make([]parquet.Value, valuesOf(len(chosen)))}
		column, ok := p.Schema().Lookup(path...)
		if !ok {
			return m.bad("column %s cannot be read", path[0])
		}
		switch kind := column.Node.Type().Kind(); kind {
		case parquet.ByteArray:
			if which.words == 0 {
				return m.bad("column %s has values of type %v instead of numbers", path[0], kind)
			}
		case parquet.Boolean:
		case parquet.Int32, parquet.Int64:
			m.mask = false
		case parquet.Float, parquet.Double:
			m.integer, m.mask = false, false
		default:
			return m.bad("column %s has values of type %v instead of numbers", path[0], kind)
		}
		values := int64(0)
		for _, g := range p.RowGroups() {
			c := g.ColumnChunks()[i]
			values += c.NumValues()
			l.groups = append(l.groups, c)
		}
		l.left = values
		for _, g := range p.Metadata().RowGroups {
			if err := m.checkGroup(path[0], g.Columns[i].MetaData.TotalUncompressedSize); err != nil {
				return err
			}
		}
		if m.rows > 0 && column.MaxRepetitionLevel > 0 {
			if values%m.rows != 0 || values/m.rows < 1 || values/m.rows > maxColumns {
				return m.bad("column %s has %d values in %d lists, which must all have the same length", path[0], values, m.rows)
			}
			l.width = int(values / m.rows)
		} else if values != m.rows {
			return m.bad("column %s has %d values, but the file has %d rows", path[0], values, m.rows)
		}
		m.cols += l.width
		m.leaves = append(m.leaves, l)
	}
	if m.cols < 1 || m.cols > maxColumns {
		return m.bad("it has %d columns instead of 1 to %d", m.cols, maxColumns)
	}
	return nil
}

// openLibrary has the library read the file's description, which checkFooter found well.
func (m *parquetFile) openLibrary(size int64) (*parquet.File, error) {
	p, err := parquet.OpenFile(m.f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, m.bad("not a Parquet file: %v", err)
	}
	return p, nil
}

// valuesOf returns the number of values to take of a column's page at a time, if the file has this
// number of columns: about a chunk of all columns together.
func valuesOf(columns int) int { return max(chunk/columns, 16) }

// checkGroup looks at the bytes of a column in a row group.
func (m *parquetFile) checkGroup(column string, n int64) error {
	if n < 0 || n > maxGroup {
		return m.bad("column %s has %d bytes in a row group, more than %d", column, n, int64(maxGroup))
	}
	return nil
}

// maxFooter bounds the description of a file, which the library reads whole: a few kilobytes for
// every row group.
const maxFooter = 64 << 20

// checkFooter returns the length of the description, before the library takes memory for it.
func (m *parquetFile) checkFooter(size int64) (int64, error) {
	const ends = 4 + 8 // magic; length and magic
	tail := make([]byte, 8)
	if size < ends {
		return 0, m.bad("not a Parquet file: it has %d bytes", size)
	}
	if _, err := m.f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return 0, fmt.Errorf("%s: %w", m.name, err)
	}
	n := int64(binary.LittleEndian.Uint32(tail))
	if string(tail[4:]) != "PAR1" || n > size-ends || n > maxFooter {
		return 0, m.bad("not a Parquet file, or truncated")
	}
	return n, nil
}

func (m *parquetFile) Name() string  { return m.name }
func (m *parquetFile) Rows() int64   { return m.rows }
func (m *parquetFile) Columns() int  { return m.cols }
func (m *parquetFile) Integer() bool { return m.integer }
func (m *parquetFile) Half() bool    { return false }
func (m *parquetFile) Mask() bool    { return m.mask }
func (m *parquetFile) End() error    { return nil }

// Names has the name of a list for each of its elements.
func (m *parquetFile) Names() []string {
	var names []string
	for _, l := range m.leaves {
		names = append(names, slices.Repeat([]string{l.name}, l.width)...)
	}
	return names
}

func (m *parquetFile) Close() error {
	var errs []error
	for _, l := range m.leaves {
		if l.pages != nil {
			errs = append(errs, l.pages.Close())
		}
	}
	return errors.Join(append(errs, m.f.Close())...)
}

// next returns the leaf's next value, or io.EOF after the number of values that the footer says.
func (l *leaf) next() (parquet.Value, error) {
	for len(l.ahead) == 0 {
		if l.values != nil {
			n, err := l.values.ReadValues(l.buf)
			if err != nil && !errors.Is(err, io.EOF) {
				return parquet.Value{}, fault.New(fault.ErrInput, "%s: column %s: %v", l.file, l.name, err)
			}
			if l.ahead = l.buf[:n]; err != nil || n == 0 {
				l.values = nil
			}
			continue
		}
		if l.page != nil { // all its values were taken
			parquet.Release(l.page)
			l.page = nil
		}
		if l.pages == nil {
			if len(l.groups) == 0 {
				if l.left != 0 {
					return parquet.Value{}, fault.New(fault.ErrInput, "%s: column %s ends %d values early", l.file, l.name, l.left)
				}
				return parquet.Value{}, io.EOF
			}
			l.pages, l.groups = l.groups[0].Pages(), l.groups[1:]
		}
		page, err := l.pages.ReadPage()
		if errors.Is(err, io.EOF) {
			if err := l.pages.Close(); err != nil {
				return parquet.Value{}, err
			}
			l.pages = nil
			continue
		}
		if err != nil {
			return parquet.Value{}, fault.New(fault.ErrInput, "%s: column %s: %v", l.file, l.name, err)
		}
		l.page, l.values = page, page.Values()
	}
	v := l.ahead[0]
	l.ahead = l.ahead[1:]
	if l.left--; l.left < 0 {
		return parquet.Value{}, fault.New(fault.ErrInput, "%s: column %s has more values than its description says", l.file, l.name)
	}
	return v, nil
}

// fill fills dst row by row.
func fill[T any](m *parquetFile, dst []T, number func(l *leaf, v parquet.Value) (T, error)) (n int, err error) {
	err = guard(m.name, func() error {
		for n+m.cols <= len(dst) {
			for _, l := range m.leaves {
				for range l.width {
					v, err := l.next()
					if errors.Is(err, io.EOF) { // of all columns, which are equally long
						return nil
					}
					if err != nil {
						return err
					}
					if dst[n], err = number(l, v); err != nil {
						return err
					}
					n++
				}
			}
		}
		return nil
	})
	return n / m.cols * m.cols, err
}

func (m *parquetFile) Ints(dst []int64) (int, error) {
	return fill(m, dst, func(l *leaf, v parquet.Value) (int64, error) {
		switch {
		case v.IsNull():
			return 0, m.bad("column %s has a row without a value", l.name)
		case v.Kind() == parquet.Boolean:
			if v.Boolean() {
				return 1, nil
			}
			return 0, nil
		case v.Kind() == parquet.Int32:
			return int64(v.Int32()), nil
		case v.Kind() == parquet.Int64:
			return v.Int64(), nil
		}
		return 0, m.bad("column %s has numbers that are not integers", l.name)
	})
}

func (m *parquetFile) Doubles(dst []float64) (int, error) {
	return fill(m, dst, func(l *leaf, v parquet.Value) (float64, error) {
		switch {
		case v.IsNull():
			return math.NaN(), nil
		case v.Kind() == parquet.Boolean:
			if v.Boolean() {
				return 1, nil
			}
			return 0, nil
		case v.Kind() == parquet.Int32:
			return float64(v.Int32()), nil
		case v.Kind() == parquet.Int64:
			return float64(v.Int64()), nil
		case v.Kind() == parquet.Float:
			return float64(v.Float()), nil
		}
		return v.Double(), nil
	})
}

func (m *parquetFile) Floats(dst []float32) (int, error) {
	return fill(m, dst, func(l *leaf, v parquet.Value) (float32, error) {
		switch {
		case v.IsNull():
			return float32(math.NaN()), nil
		case v.Kind() == parquet.Float:
			return v.Float(), nil
		case v.Kind() == parquet.Double:
			return float32(v.Double()), nil
		case v.Kind() == parquet.Int32:
			return float32(v.Int32()), nil
		case v.Kind() == parquet.Int64:
			return float32(v.Int64()), nil
		}
		if v.Boolean() {
			return 1, nil
		}
		return 0, nil
	})
}

func (m *parquetFile) Skip(rows int64) error {
	row := make([]float64, m.cols)
	for range rows {
		if _, err := m.Doubles(row); err != nil {
			return err
		}
	}
	return nil
}
