package exact

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"diskgnn/internal/binio"
	"diskgnn/internal/vfs"
	"diskgnn/train/score"
)

// Suffixes in place of .npy for the file of ids: an array, or a text with one id a line.
const (
	nodesSuffix = ".nodes.npy"
	namesSuffix = ".nodes.txt"
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

// each calls do for one computed row after the other, until the context ends.
func (v *values) each(ctx context.Context, rows []float32, do func(i int, row []float32) error) error {
	for i := 0; i*v.width < len(rows); i++ {
		if i%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := do(i, rows[i*v.width:][:v.width]); err != nil {
			return err
		}
	}
	return nil
}

// of calls one of the functions for each value of a computed row.
func (v *values) of(row []float32, float func(float32), integer func(int32)) {
	switch {
	case v.kind != Classes:
		for _, x := range row {
			float(x)
		}
	case v.multi: // one for a class that its logit speaks for
		for _, x := range row {
			if x > 0 {
				integer(1)
			} else {
				integer(0)
			}
		}
	default:
		integer(int32(score.Largest(row)))
	}
}

// sink takes the rows of a prediction, in the order of its nodes, and makes a file of them.
type sink interface {
	// add takes the computed rows of the nodes from the given one on.
	add(ctx context.Context, first int, rows []float32) error
	beside(do func(sum string, size int64) error)
	finish() error
	abandon() error
}

// newSink begins the file that the name's suffix says, of predictions for the nodes.
func newSink(fsys vfs.FS, name string, v values, t *targets) (sink, error) {
	switch filepath.Ext(name) {
	case suffixCSV:
		return newCSV(fsys, name, v, t)
	case suffixParquet:
		return newParquet(fsys, name, v, t)
	}
	return newArray(fsys, name, v, t)
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
	v     values
	ids   *newFile // nil: all nodes
	cells []byte   // of a row
}

func newArray(fsys vfs.FS, name string, v values, t *targets) (_ *array, err error) {
	a := &array{v: v}
	n := int64(t.len())
	shape := []int64{n, int64(v.columns)}
	if v.kind == Classes && !v.multi {
		shape = shape[:1]
	}
	descr := map[string]string{"float32": "<f4", "int32": "<i4", "uint8": "|u1"}[v.dtype()]
	if a.newFile, err = createNPY(fsys, name, descr, shape); err != nil {
		return nil, err
	}
	ids := t.idsFile(name)
	switch {
	case ids == "":
		return a, nil
	case t.named:
		a.ids, err = createFile(fsys, ids)
	default:
		a.ids, err = createNPY(fsys, ids, map[bool]string{false: "<u4", true: "<i8"}[t.own != nil], []int64{n})
	}
	if err != nil {
		return nil, errors.Join(err, a.newFile.abandon())
	}
	if err := t.writeIDs(a.ids); err != nil {
		return nil, errors.Join(err, a.abandon())
	}
	return a, nil
}

// idsFile returns the name of the file of ids beside an array's, or "" if there is none.
func (t *targets) idsFile(name string) string {
	name = strings.TrimSuffix(name, suffixNPY)
	switch {
	case t.named:
		return name + namesSuffix
	case t.own != nil || t.ids != nil:
		return name + nodesSuffix
	}
	return ""
}

// writeIDs writes the ids of all targets in the format of the file of ids.
func (t *targets) writeIDs(f *newFile) error {
	if t.own == nil {
		_, err := f.buf.Write(binio.Bytes(t.ids))
		return err
	}
	var line []byte
	for i := range t.len() {
		var err error
		if t.named {
			line, err = t.appendID(line[:0], i)
			line = append(line, '\n')
		} else {
			var id int64
			id, err = t.number(i)
			line = binary.LittleEndian.AppendUint64(line[:0], uint64(id))
		}
		if err == nil {
			_, err = f.buf.Write(line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *array) add(ctx context.Context, _ int, rows []float32) error {
	if a.v.kind != Classes {
		return a.write(ctx, binio.Bytes(rows))
	}
	return a.v.each(ctx, rows, func(_ int, row []float32) error {
		a.cells = a.cells[:0]
		a.v.of(row, nil, func(x int32) {
			if a.v.multi {
				a.cells = append(a.cells, byte(x))
			} else {
				a.cells = binary.LittleEndian.AppendUint32(a.cells, uint32(x))
			}
		})
		_, err := a.buf.Write(a.cells)
		return err
	})
}

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
	t    *targets
	line []byte
}

func newCSV(fsys vfs.FS, name string, v values, t *targets) (*csv, error) {
	f, err := createFile(fsys, name)
	if err != nil {
		return nil, err
	}
	c := &csv{newFile: f, v: v, t: t, line: []byte("node")}
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

func (c *csv) add(ctx context.Context, first int, rows []float32) error {
	return c.v.each(ctx, rows, func(i int, row []float32) (err error) {
		if c.line, err = c.t.appendID(c.line[:0], first+i); err != nil {
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
	t    *targets
	w    *parquet.GenericWriter[any]
	row  parquet.Row
	held int // bytes of the row group
}

func newParquet(fsys vfs.FS, name string, v values, t *targets) (*tableFile, error) {
	f, err := createFile(fsys, name)
	if err != nil {
		return nil, err
	}
	// A struct keeps the order of its fields, a group would sort them by name.
	id := reflect.TypeFor[int64]()
	if t.named {
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
	return &tableFile{newFile: f, v: v, t: t, w: parquet.NewGenericWriter[any](f.buf, schema, parquet.PageBufferSize(32<<10)), row: make(parquet.Row, 2+v.columns)}, nil
}

func (p *tableFile) add(ctx context.Context, first int, rows []float32) error {
	return p.v.each(ctx, rows, func(i int, row []float32) error {
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

// id returns the id of a target, and its bytes.
func (p *tableFile) id(i int) (parquet.Value, int, error) {
	if !p.t.named {
		id, err := p.t.number(i)
		return parquet.Int64Value(id), 8, err
	}
	err := p.t.own.To(int64(p.t.at(i)))
	name := p.t.own.Append(nil) // the writer keeps it for a while
	return parquet.ByteArrayValue(name), 16 + len(name), err
}

func (p *tableFile) finish() error {
	if err := p.w.Close(); err != nil {
		return errors.Join(err, p.abandon())
	}
	return p.newFile.finish()
}
