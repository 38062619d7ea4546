package matrix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"diskgnn/dataset/importer"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// A parquetFile is a Parquet file as a matrix. Its columns are the leaves of the schema, in order; a
// leaf that is a list makes a column for each element of its lists, which must all have the same
// length.
type parquetFile struct {
	columnar
	size    int64
	packed  []byte // a page as it lies in the file
	readers []*pageReader
	unpacker
}

// maxGroup bounds a column's bytes in a row group.
const maxGroup = 1 << 30

// columnsOf selects the columns of a file to read, beside the choice of a Spec.
type columnsOf struct {
	key   int  // number of the column that is not read, -1 for none
	words int  // unless 0: number of columns to read, which may have strings
	exact bool // other columns are an error
	none  bool // no column
}

// choose returns the numbers of the columns to read.
func (o columnsOf) choose(d *Description, s Spec) ([]int, error) {
	chosen, err := d.chosen(s, o.key)
	if err != nil || o.words == 0 {
		return chosen, err
	}
	isChosen := len(s.Columns) > 0 || s.numbers != nil
	if n := len(chosen); n < o.words || (o.exact || isChosen) && n > o.words {
		return nil, fault.New(fault.ErrInput, "%s: it has %d columns, but %d are needed", s.Path, n, o.words)
	}
	return chosen[:o.words], nil
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
	m := &parquetFile{columnar: columnar{name: name, f: f, scratch: new(scratch), guard: guard}}
	taken := false
	err = guard(name, func() error {
		st, err := f.Stat()
		if err != nil {
			return err
		}
		m.size = st.Size()
		if _, err := m.checkFooter(m.size); err != nil {
			return err
		}
		p, err := m.openLibrary(m.size)
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

func (m *parquetFile) Close() error {
	m.unpacker.close()
	return m.f.Close()
}

// guard calls do and turns a panic into an error of kind fault.ErrInput: the Parquet library's checks of
// malformed files are incomplete, and a flatbuffer is not checked before it is read.
func guard(name string, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.ErrInput, "%s: malformed: %v", name, p)
		}
	}()
	return do()
}

// leafElements returns the elements of the schema that are columns.
func leafElements(p *parquet.File) (leaves []*format.SchemaElement) {
	schema := p.Metadata().Schema
	for i := range schema {
		if e := &schema[i]; e.Type.Valid && e.NumChildren.V == 0 {
			leaves = append(leaves, e)
		}
	}
	return leaves
}

// parquetKind returns the kind of a column, or text for an error: its type, which is none of numbers or
// of words. The library does not tell the type of half-precision numbers.
func parquetKind(e *format.SchemaElement) (k kind, not string) {
	converted := deprecated.ConvertedType(-1)
	if e.ConvertedType.Valid {
		converted = e.ConvertedType.V
	}
	if _, is := e.LogicalType.Value.(*format.DecimalType); is || converted == deprecated.Decimal {
		return 0, "decimals: write it as float64 or int64"
	}
	unsigned := deprecated.Uint8 <= converted && converted <= deprecated.Uint64
	if i, is := e.LogicalType.Value.(*format.IntType); is {
		unsigned = !i.IsSigned
	}
	switch physical := parquet.Kind(e.Type.V); physical {
	case parquet.Boolean:
		return boolean, ""
	case parquet.Int32:
		if unsigned {
			return uint32s, ""
		}
		return int32s, ""
	case parquet.Int64:
		if unsigned {
			return uint64s, ""
		}
		return int64s, ""
	case parquet.Float:
		return singles, ""
	case parquet.Double:
		return doubles, ""
	case parquet.ByteArray:
		return words, ""
	case parquet.FixedLenByteArray:
		if _, is := e.LogicalType.Value.(*format.Float16Type); is && e.TypeLength.V == 2 {
			return halves, ""
		}
		return 0, fmt.Sprintf("values of type %v instead of numbers", physical)
	default:
		return 0, fmt.Sprintf("values of type %v instead of numbers", physical)
	}
}

// describe describes the columns of the file.
func (m *parquetFile) describe(p *parquet.File) Description {
	columns := p.Schema().Columns()
	n := len(columns)
	d := Description{n, make([]string, n), make([]bool, n), make([]bool, n), p.NumRows(), nil}
	leaves := leafElements(p)
	for i, path := range columns {
		d.Names[i] = path[0]
		if i < len(leaves) {
			k, not := parquetKind(leaves[i])
			d.Text[i], d.Integer[i] = k == words && not == "", k.integer() && not == ""
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

func (m *parquetFile) open(p *parquet.File, s Spec, which columnsOf) error {
	m.rows = p.NumRows()
	m.left = m.rows
	if m.rows < 0 {
		return m.bad("it has %d rows", m.rows)
	}
	d := m.describe(p)
	chosen, err := which.choose(&d, s)
	if err != nil {
		return err
	}
	columns, leaves := p.Schema().Columns(), leafElements(p)
	for _, i := range chosen {
		if err := m.openColumn(p, i, columns[i], leaves, which.words > 0); err != nil {
			return err
		}
	}
	return nil
}

// openColumn adds column i.
func (m *parquetFile) openColumn(p *parquet.File, i int, path []string, leaves []*format.SchemaElement, isWords bool) error {
	name := path[0]
	leaf, ok := p.Schema().Lookup(path...)
	if !ok || i >= len(leaves) {
		return m.bad("column %s cannot be read", name)
	}
	r := &pageReader{m: m, leaf: leaf}
	m.readers = append(m.readers, r)
	c := &typed{name: name, width: 1, next: r.next}
	var not string
	if c.kind, not = parquetKind(leaves[i]); c.kind == words && not == "" && !isWords {
		not = "values of type BYTE_ARRAY instead of numbers"
	}
	if not != "" {
		return m.bad("column %s has %s", name, not)
	}
	values := int64(0)
	for _, g := range p.Metadata().RowGroups {
		if i >= len(g.Columns) {
			return m.bad("a row group has %d columns", len(g.Columns))
		}
		chunk := &g.Columns[i].MetaData
		if err := m.checkGroup(name, chunk.TotalUncompressedSize); err != nil {
			return err
		}
		if chunk.NumValues < 0 || values+chunk.NumValues < values {
			return m.bad("column %s has %d values in a row group", name, chunk.NumValues)
		}
		if chunk.NumValues == 0 {
			continue // writers state no place for it, or one of a page without values
		}
		values += chunk.NumValues
		r.chunks = append(r.chunks, chunk)
	}
	if m.rows > 0 && leaf.MaxRepetitionLevel > 0 {
		if values%m.rows != 0 || values/m.rows < 1 || values/m.rows > maxColumns {
			return m.bad("column %s has %d values in %d lists, which must all have the same length", name, values, m.rows)
		}
		c.width = int(values / m.rows)
	} else if values != m.rows {
		return m.bad("column %s has %d values, but the file has %d rows", name, values, m.rows)
	}
	if isWords && c.width > 1 {
		return m.bad("column %s has lists of %d values", name, c.width)
	}
	return m.add(c)
}

// openLibrary has the library read the file's description, which checkFooter found well.
func (m *parquetFile) openLibrary(size int64) (*parquet.File, error) {
	p, err := parquet.OpenFile(m.f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, m.bad("not a Parquet file: %v", err)
	}
	return p, nil
}

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

// readAt fills b with bytes of the file.
func (m *columnar) readAt(b []byte, at int64) error {
	n, err := m.f.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return m.bad("truncated")
	}
	return readError{fmt.Errorf("%s: %w", m.name, err)}
}
