package dgl_test

import (
	"bytes"
	"encoding/binary"
	"reflect"
)

// written is a file for the tests, written as DGL does. Its zero values are the usual ones.
type written struct {
	version, kind uint64 // 0: 2
	labels        []datum
	graphs        []writtenGraph
	positionOff   uint64 // added to the position of the first graph
	magicOff      [7]uint64
	tail          []byte
}

type datum struct {
	name   string
	values any // a slice of numbers
	shape  []int64
	odd    *[4]byte // the type in place of the right one: code, bits, lanes
}

type writtenGraph struct {
	types      []string
	counts     []int64
	relations  []relation
	data       [][]datum // by type
	edgeData   [][]datum // by relation
	fewerNames bool
}

type relation struct {
	name       string
	from, to   int // types
	forms      []string
	early      bool  // the form is written as early releases do
	narrow     bool  // int32
	code       int64 // of the forms, in place of the right one
	rows, cols int64
	edges      [][2]int64
	change     func(row, col, ids []int64) (r, c, i []int64)
}

// Indices of magicOff.
const (
	inFile = iota
	inGraph
	inMeta
	inUnit
	inCSR
	inCOO
	inArray
)

type buffer struct {
	bytes.Buffer
	off [7]uint64
}

func (b *buffer) put(values ...any) {
	for _, v := range values {
		if err := binary.Write(b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
}

func (b *buffer) magic(which int) {
	b.put([]uint64{0xDD2E4FF046B4A13F, 0xDD589FBE35224ABF, 0xDD3C5FFE20046ABF, 0xDD2E60F0F6B4A127, 0xDD6CD31205DFF127, 0xDD61FFD305DFF127, 0xDD5E40F096B4A13F}[which] + b.off[which])
}

func (b *buffer) text(s string) { b.put(uint64(len(s)), []byte(s)) }

func (b *buffer) array(d datum) {
	v := reflect.ValueOf(d.values)
	code := map[reflect.Kind][2]byte{
		reflect.Int8: {0, 8}, reflect.Int16: {0, 16}, reflect.Int32: {0, 32}, reflect.Int64: {0, 64}, reflect.Uint8: {1, 8}, reflect.Uint16: {4, 16},
		reflect.Uint32: {1, 32}, reflect.Uint64: {1, 64}, reflect.Float32: {2, 32}, reflect.Float64: {2, 64}, reflect.Bool: {6, 8},
	}[v.Type().Elem().Kind()]
	kind := [4]byte{code[0], code[1], 1, 0}
	if d.odd != nil {
		kind = *d.odd
	}
	shape := d.shape
	if shape == nil {
		shape = []int64{int64(v.Len())}
	}
	b.magic(inArray)
	b.put(uint64(0), int32(1), int32(0), int32(len(shape)), kind, shape, int64(binary.Size(d.values)), d.values)
}

func (b *buffer) data(list []datum) {
	b.put(uint64(len(list)))
	for _, d := range list {
		b.text(d.name)
		b.array(d)
	}
}

func ints(v []int64, narrow bool) datum {
	if !narrow {
		return datum{values: append([]int64{}, v...)}
	}
	n := make([]int32, len(v))
	for i, x := range v {
		n[i] = int32(x)
	}
	return datum{values: n}
}

// rowsOf returns compressed rows of entries, in the order of the rows and, in a row, of the entries,
// and the number of each entry in the list.
func rowsOf(rows int64, entries [][2]int64) (indptr, columns, ids []int64) {
	indptr = append(indptr, 0)
	for r := range rows {
		for i, e := range entries {
			if e[0] == r {
				columns, ids = append(columns, e[1]), append(ids, int64(i))
			}
		}
		indptr = append(indptr, int64(len(columns)))
	}
	return indptr, columns, ids
}

// matrix writes the entries from .. to as rows, after the graph of types.
func (b *buffer) matrix(form string, r relation) {
	entries := r.edges
	rows, cols := r.rows, r.cols
	if form == "csc" {
		entries = nil
		for _, e := range r.edges {
			entries = append(entries, [2]int64{e[1], e[0]})
		}
		rows, cols = cols, rows
	}
	var first, second, ids []int64
	if form == "coo" {
		for _, e := range entries {
			first, second = append(first, e[0]), append(second, e[1])
		}
		b.magic(inCOO)
	} else {
		first, second, ids = rowsOf(rows, entries)
		b.magic(inCSR)
	}
	if r.change != nil {
		first, second, ids = r.change(first, second, ids)
	}
	b.put(cols, rows)
	for _, v := range [][]int64{first, second, ids} {
		b.array(ints(v, r.narrow))
	}
	b.put(false)
	if form == "coo" {
		b.put(false)
	}
}

// meta writes the graph of types.
func (b *buffer) meta(types int, relations []relation) {
	var ends [][2]int64
	for _, r := range relations {
		ends = append(ends, [2]int64{int64(r.from), int64(r.to)})
	}
	b.magic(inMeta)
	b.matrix("csr", relation{rows: int64(types), cols: int64(types), edges: ends})
}

func (b *buffer) graph(g writtenGraph) {
	b.magic(inGraph)
	b.meta(len(g.types), g.relations)
	b.put(uint64(len(g.relations)))
	for _, r := range g.relations {
		b.magic(inUnit)
		code := int64(1 << 32)
		for _, form := range r.forms {
			code |= map[string]int64{"coo": 1, "csr": 2, "csc": 4}[form]
			if r.early {
				code = map[string]int64{"coo": 1, "csr": 2, "csc": 3}[form]
			}
		}
		if r.code != 0 {
			code = r.code
		}
		b.put(code, int64(7|1<<32))
		for _, form := range r.forms {
			b.meta(1+max(r.from, r.to)-min(r.from, r.to), []relation{r})
			b.matrix(form, r)
		}
	}
	b.put(uint64(len(g.counts)), g.counts)
	for _, lists := range [][][]datum{g.data, g.edgeData} {
		b.put(uint64(len(lists)))
		for _, list := range lists {
			b.data(list)
		}
	}
	b.put(uint64(len(g.types)))
	for _, name := range g.types {
		b.text(name)
	}
	if g.fewerNames {
		b.put(uint64(0))
		return
	}
	b.put(uint64(len(g.relations)))
	for _, r := range g.relations {
		b.text(r.name)
	}
}

func (f written) bytes() []byte {
	b := &buffer{off: f.magicOff}
	version, kind := f.version, f.kind
	if version == 0 {
		version = 2
	}
	if kind == 0 {
		kind = 2
	}
	b.magic(inFile)
	b.put(version, kind, uint64(len(f.graphs)))
	b.put(bytes.Repeat([]byte{0xA5}, 4096-b.Len()))
	labels := &buffer{off: f.magicOff}
	labels.data(f.labels)
	b.put(uint64(b.Len()+8+labels.Len())+f.positionOff, labels.Bytes())
	var at []uint64
	for _, g := range f.graphs {
		at = append(at, uint64(b.Len()))
		b.graph(g)
	}
	size := uint64(8 + 8*len(at))
	b.put(size, uint64(len(at)), at, size, f.tail)
	return b.Bytes()
}

// tiny is a file with a graph of three nodes, in the given forms.
func tiny(forms ...string) written {
	edges := [][2]int64{{0, 1}, {1, 2}, {2, 0}, {2, 1}, {1, 1}}
	return written{graphs: []writtenGraph{{
		types: []string{"_N"}, counts: []int64{3},
		relations: []relation{{name: "_E", rows: 3, cols: 3, edges: edges, forms: forms}},
		data: [][]datum{{
			{name: "feat", values: []float32{1, 2, 3, 4, 5, 6}, shape: []int64{3, 2}},
			{name: "label", values: []int64{1, 0, 1}},
			{name: "train_mask", values: []bool{true, false, false}},
			{name: "val_mask", values: []uint8{0, 1, 0}},
			{name: "test_mask", values: []int64{0, 0, 1}},
		}},
		edgeData: [][]datum{{{name: "w", values: []float32{1, 2, 3, 4, 5}}}},
	}}}
}
