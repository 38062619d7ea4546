package exact

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"diskgnn/internal/binio"
	"diskgnn/internal/vfs"
	"diskgnn/train/score"
)

// values describe a prediction's columns, which have one type.
type values struct {
	kind    string // Logits, Classes or Embeddings
	multi   bool   // Classes: a column per class, one or zero
	columns int
	width   int      // elements of a computed row
	names   []string // of the classes, in tables with the class of a node; nil: they have none
}

// classNameColumn is the last column of a table of classes that have names.
const classNameColumn = "class_name"

// dtype names the elements' type.
func (v *values) dtype() string {
	switch {
	case v.kind != Classes:
		return "float32"
	case v.multi:
		return "uint8"
	}
	return "int32"
}

// name returns a column's.
func (v *values) name(i int) string {
	switch {
	case v.kind == Embeddings:
		return "embedding_" + strconv.Itoa(i)
	case v.kind == Logits:
		return "logit_" + strconv.Itoa(i)
	case v.multi:
		return "class_" + strconv.Itoa(i)
	}
	return "class"
}

// stored returns the number of columns of a table, without the ids.
func (v *values) stored() int {
	if v.names != nil {
		return v.columns + 1
	}
	return v.columns
}

// cellBytes returns the bytes of a cell.
func (v *values) cellBytes() int {
	if v.dtype() == "uint8" {
		return 1
	}
	return 4
}

// rowBytes returns the bytes of the cells of a row.
func (v *values) rowBytes() int { return v.columns * v.cellBytes() }

// cellsRoom bounds the bytes of cells that are made at a time, except that a row is made whole.
const cellsRoom = 64 << 10

// converter makes cells of computed rows.
type converter struct {
	values
	threads int
	cells   []byte
}

// each calls do with the cells of computed rows, some rows at a time, until the context ends. at is the number of
// the first of them. The cells are valid during the call.
func (c *converter) each(ctx context.Context, rows []float32, do func(at int, cells []byte) error) error {
	if c.kind != Classes {
		return do(0, binio.Bytes(rows))
	}
	size := c.rowBytes()
	some := max(1, cellsRoom/size)
	for at := 0; at*c.width < len(rows); at += some {
		of := rows[at*c.width : min((at+some)*c.width, len(rows))]
		c.cells = binio.Grow(c.cells, len(of)/c.width*size)
		err := divide(ctx, c.threads, len(of)/c.width, func(from, to int) error {
			for i := from; i < to; i++ {
				c.put(c.cells[i*size:(i+1)*size], of[i*c.width:(i+1)*c.width])
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := do(at, c.cells); err != nil {
			return err
		}
	}
	return nil
}

// put stores the classes of a computed row.
func (c *converter) put(cells []byte, row []float32) {
	if !c.multi {
		binary.LittleEndian.PutUint32(cells, uint32(score.Largest(row)))
		return
	}
	for i, x := range row { // one for a class that its logit speaks for
		if cells[i] = 0; x > 0 {
			cells[i] = 1
		}
	}
}

// each calls do for the cells of one row after the other, until the context ends.
func (v *values) each(ctx context.Context, cells []byte, do func(i int, row []byte) error) error {
	size := v.rowBytes()
	for i := 0; i*size < len(cells); i++ {
		if i%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := do(i, cells[i*size:][:size]); err != nil {
			return err
		}
	}
	return nil
}

// of calls one of the functions for each cell of a row.
func (v *values) of(row []byte, float func(float32), integer func(int32)) {
	for at := 0; at < len(row); at += v.cellBytes() {
		switch {
		case v.kind != Classes:
			float(math.Float32frombits(binary.LittleEndian.Uint32(row[at:])))
		case v.multi:
			integer(int32(row[at]))
		default:
			integer(int32(binary.LittleEndian.Uint32(row[at:])))
		}
	}
}

// sink takes the rows of a prediction, in their order, as the cells of an array: little-endian, row after row.
// It makes a file of them.
type sink interface {
	// add takes the cells of whole rows, from the given row on.
	add(ctx context.Context, first int, cells []byte) error
	beside(do func(sum string, size int64) error)
	finish() error
	abandon() error
}

// newSink begins the file that the name's suffix says, of rows with the ids.
func newSink(fsys vfs.FS, name string, v values, ids rowIDs) (sink, error) {
	switch filepath.Ext(name) {
	case suffixCSV:
		return newCSV(fsys, name, v, ids)
	case suffixParquet:
		return newParquet(fsys, name, v, ids)
	}
	return newArray(fsys, name, v, ids)
}

// sinkBytes bounds the memory of a sink in bytes.
func sinkBytes(name string, columns int) int64 {
	if filepath.Ext(name) == suffixParquet {
		return fileBuffer + 4*parquetGroup + int64(columns)*(64<<10)
	}
	return fileBuffer + 1<<20
}

// array writes a NumPy array.
type array struct {
	*newFile
	ids *newFile // nil: the rows are all nodes, called by their numbers
}

func newArray(fsys vfs.FS, name string, v values, ids rowIDs) (_ *array, err error) {
	a := &array{}
	n := int64(ids.len())
	shape := []int64{n, int64(v.columns)}
	if v.kind == Classes && !v.multi {
		shape = shape[:1]
	}
	descr := map[string]string{"float32": "<f4", "int32": "<i4", "uint8": "|u1"}[v.dtype()]
	if a.newFile, err = createNPY(fsys, name, descr, shape); err != nil {
		return nil, err
	}
	beside := idsFile(name, ids.kind())
	switch ids.kind() {
	case idsNone:
		return a, nil
	case idsNames:
		a.ids, err = createFile(fsys, beside)
	case idsNodes:
		a.ids, err = createNPY(fsys, beside, "<u4", []int64{n})
	default:
		a.ids, err = createNPY(fsys, beside, "<i8", []int64{n})
	}
	if err != nil {
		return nil, errors.Join(err, a.newFile.abandon())
	}
	if err := writeIDs(a.ids.buf, ids, true); err != nil {
		return nil, errors.Join(err, a.abandon())
	}
	return a, nil
}

func (a *array) add(ctx context.Context, _ int, cells []byte) error { return a.write(ctx, cells) }

func (a *array) finish() error {
	if a.ids != nil {
		if err := a.ids.finish(); err != nil {
			return errors.Join(err, a.newFile.abandon())
		}
	}
	return a.newFile.finish()
}

func (a *array) abandon() error {
	err := a.newFile.abandon()
	if a.ids != nil {
		err = errors.Join(err, a.ids.abandon())
	}
	return err
}

// csv writes a line per node. Floats have enough digits to be read back exactly.
type csv struct {
	*newFile
	v    values
	ids  rowIDs
	line []byte
}

func newCSV(fsys vfs.FS, name string, v values, ids rowIDs) (*csv, error) {
	f, err := createFile(fsys, name)
	if err != nil {
		return nil, err
	}
	c := &csv{newFile: f, v: v, ids: ids, line: []byte("node")}
	for i := range v.columns {
		c.line = append(append(c.line, ','), v.name(i)...)
	}
	if v.names != nil {
		c.line = append(c.line, ","+classNameColumn...)
	}
	if _, err := f.buf.Write(append(c.line, '\n')); err != nil {
		return nil, errors.Join(err, f.abandon())
	}
	return c, nil
}

func (c *csv) add(ctx context.Context, first int, cells []byte) error {
	return c.v.each(ctx, cells, func(i int, row []byte) (err error) {
		if c.line, err = appendID(c.line[:0], c.ids, first+i); err != nil {
			return err
		}
		c.v.of(row, func(x float32) { c.line = strconv.AppendFloat(append(c.line, ','), float64(x), 'g', -1, 32) },
			func(x int32) {
				c.line = strconv.AppendInt(append(c.line, ','), int64(x), 10)
				if c.v.names != nil {
					c.line = quoted(append(c.line, ','), c.v.names[x])
				}
			})
		_, err = c.buf.Write(append(c.line, '\n'))
		return err
	})
}

// parquetGroup bounds the bytes of a row group, which is held until it is written.
const parquetGroup = 4 << 20

// tableFile writes a column of node ids and one a value.
type tableFile struct {
	*newFile
	v    values
	ids  rowIDs
	w    *parquet.GenericWriter[any]
	row  parquet.Row
	held int // bytes of the row group
}

func newParquet(fsys vfs.FS, name string, v values, ids rowIDs) (*tableFile, error) {
	f, err := createFile(fsys, name)
	if err != nil {
		return nil, err
	}
	// A struct keeps the order of its fields, a group would sort them by name.
	id := reflect.TypeFor[int64]()
	if ids.kind() == idsNames {
		id = reflect.TypeFor[string]()
	}
	fields := []reflect.StructField{{Name: "Node", Type: id, Tag: `parquet:"node"`}}
	of := reflect.TypeFor[float32]()
	if v.kind == Classes {
		of = reflect.TypeFor[int32]()
	}
	for i := range v.columns {
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("V%d", i), Type: of, Tag: reflect.StructTag(fmt.Sprintf(`parquet:"%s"`, v.name(i)))})
	}
	if v.names != nil {
		fields = append(fields, reflect.StructField{Name: "ClassName", Type: reflect.TypeFor[string](), Tag: `parquet:"` + classNameColumn + `"`})
	}
	schema := parquet.SchemaOf(reflect.New(reflect.StructOf(fields)).Interface())
	return &tableFile{newFile: f, v: v, ids: ids, w: parquet.NewGenericWriter[any](f.buf, schema, parquet.PageBufferSize(32<<10)), row: make(parquet.Row, 2+v.columns)}, nil
}

func (p *tableFile) add(ctx context.Context, first int, cells []byte) error {
	return p.v.each(ctx, cells, func(i int, row []byte) error {
		id, n, err := p.id(first + i)
		if err != nil {
			return err
		}
		p.row = append(p.row[:0], id.Level(0, 0, 0))
		put := func(x parquet.Value) { p.row = append(p.row, x.Level(0, 0, len(p.row))) }
		p.v.of(row, func(x float32) { put(parquet.FloatValue(x)) }, func(x int32) {
			put(parquet.Int32Value(x))
			if p.v.names != nil {
				put(parquet.ByteArrayValue([]byte(p.v.names[x])))
				p.held += 16 + len(p.v.names[x])
			}
		})
		if _, err := p.w.WriteRows([]parquet.Row{p.row}); err != nil {
			return err
		}
		if p.held += n + 4*p.v.columns; p.held < parquetGroup {
			return nil
		}
		p.held = 0
		return p.w.Flush()
	})
}

// id returns the id of a row, and its bytes.
func (p *tableFile) id(i int) (parquet.Value, int, error) {
	if p.ids.kind() != idsNames {
		id, err := p.ids.number(i)
		return parquet.Int64Value(id), 8, err
	}
	name, err := p.ids.name(nil, i) // the writer keeps it for a while
	return parquet.ByteArrayValue(name), 16 + len(name), err
}

func (p *tableFile) finish() error {
	if err := p.w.Close(); err != nil {
		return errors.Join(err, p.abandon())
	}
	return p.newFile.finish()
}
