package dgl

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"diskgnn/dataset/importer/internal/npy"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/internal/fault"
)

// Magic numbers at the beginning of parts of a file.
const (
	fileMagic  = 0xdd2e4ff046b4a13f
	graphMagic = 0xdd589fbe35224abf
	metaMagic  = 0xdd3c5ffe20046abf
	unitMagic  = 0xdd2e60f0f6b4a127
	csrMagic   = 0xdd6cd31205dff127
	cooMagic   = 0xdd61ffd305dff127
	arrayMagic = 0xdd5e40f096b4a13f
)

const (
	headerBytes = 4096 // before the position of the first graph
	version     = 2
	graphType   = 2 // of all graphs of version 2

	mostNames  = 1 << 10 // bytes of a name
	mostDims   = 8
	mostArrays = 1 << 12 // that are remembered of a list
	mostKept   = 1 << 16 // that are remembered of a file
	mostTypes  = 1 << 16 // of nodes, and relations
)

// forms are the forms in which the edges of a relation are stored, one or several of them.
type forms uint64

const (
	coo forms = 1 << iota // sources, destinations
	csr                   // a row per source
	csc                   // a row per destination
)

// array describes an array of a file. The elements begin at byte at.
type array struct {
	npy.Header
	dtype string // the type as the file has it, if Kind is 0: this program does not read its elements
	at    int64
}

// named is an array with a name.
type named struct {
	name string
	array
}

func find(list []named, name string) *named {
	if i := slices.IndexFunc(list, func(n named) bool { return n.name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

func names(list []named) (all []string) {
	for _, n := range list {
		all = append(all, n.name)
	}
	return all
}

// open returns a reader of the elements, given the file. Closing it closes f.
func (a *array) open(f io.ReaderAt, name string, c io.Closer) (*npz.Array, error) {
	if a.Kind == 0 {
		return nil, bad("%s: its elements have the type %s: only integers, floats and booleans can be read", name, a.dtype)
	}
	return npz.New(a.Header, io.NewSectionReader(f, a.at, a.Count()*int64(a.Size)), name, c), nil
}

// graph is the layout of a file with one graph.
type graph struct {
	labels    []named // that belong to the file
	kinds     []kind
	relations []relation
}

// kind is a type of nodes.
type kind struct {
	name string
	part
}

// part is the nodes of a type.
type part struct {
	nodes    int64
	nodeData []named
}

// relation is the edges of a type.
type relation struct {
	name     string
	from, to int // places among the types of nodes
	edges
}

// edges are the edges of a relation, in the first of the forms in which they are stored.
type edges struct {
	stored        forms
	rows, columns int64
	ends          [2]array // of coo: sources and destinations; else: offsets and columns
	edgeData      []string
}

// sparse is a matrix of a file.
type sparse struct {
	rows, columns int64
	arrays        [3]array
}

// reader reads the parts of a file one after the other. It holds a window of the file. After the first
// error, every method returns zero values, and err stays.
type reader struct {
	file   io.ReaderAt
	size   int64
	at     int64
	window []byte // the bytes from position from on
	from   int64
	kept   int // arrays that are remembered
	err    error
}

// windowBytes is more than any name or header of an array has.
const windowBytes = 4096

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = bad("it is damaged, or has another layout than dgl.save_graphs writes since DGL 0.5: at byte %d %s", r.at, fmt.Sprintf(format, args...))
	}
}

// skip passes over n bytes.
func (r *reader) skip(n int64) {
	switch {
	case r.err != nil:
	case n < 0:
		r.fail("something has %d bytes", n)
	case n > r.size-r.at:
		r.err = bad("truncated: it has %d bytes, and %d more are missing at least", r.size, n-(r.size-r.at))
	default:
		r.at += n
	}
}

// bytes returns the next n bytes, at most windowBytes. They are valid until the next call.
func (r *reader) bytes(n int64) []byte {
	begin := r.at
	if r.skip(n); r.err != nil {
		return make([]byte, n)
	}
	if begin < r.from || r.at > r.from+int64(len(r.window)) {
		r.window, r.from = r.window[:cap(r.window)], begin
		k, err := r.file.ReadAt(r.window[:min(windowBytes, r.size-begin)], begin)
		if r.window = r.window[:k]; int64(k) < n {
			if errors.Is(err, io.EOF) {
				err = bad("truncated")
			}
			r.err = err
			return make([]byte, n)
		}
	}
	return r.window[begin-r.from:][:n]
}

func (r *reader) u8() byte    { return r.bytes(1)[0] }
func (r *reader) u16() uint16 { return binary.LittleEndian.Uint16(r.bytes(2)) }
func (r *reader) i32() int32  { return int32(binary.LittleEndian.Uint32(r.bytes(4))) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.bytes(8)) }
func (r *reader) i64() int64  { return int64(r.u64()) }

func (r *reader) magic(want uint64, what string) {
	begin := r.at
	if got := r.u64(); got != want && r.err == nil {
		r.at = begin
		r.fail("%s does not begin with %x", what, want)
	}
}

// count reads the length of a list with elements of the given least size.
func (r *reader) count(most, least int64, what string) int64 {
	n := r.i64()
	if n < 0 || n > most {
		r.fail("there are %d %s", uint64(n), what)
		return 0
	}
	if need := n * least; need > r.size-r.at {
		r.skip(need)
		return 0
	}
	return n
}

func (r *reader) name() string {
	n := r.count(mostNames, 1, "bytes in a name")
	s := string(r.bytes(n))
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		r.fail("the name %q has control characters, or is not UTF-8", s)
	}
	return s
}

// array reads the header of an array and passes over its elements.
func (r *reader) array() (a array) {
	r.magic(arrayMagic, "an array")
	r.skip(8 + 8) // zero; the device
	dims := r.i32()
	code, bits, lanes := r.u8(), r.u8(), r.u16()
	if dims < 0 || dims > mostDims {
		r.fail("an array has %d dimensions", dims)
		return a
	}
	size := (int64(bits)*int64(lanes) + 7) / 8
	total := size
	for range dims {
		d := r.i64()
		// An array without elements has no bytes: only its dimensions bound it.
		if d < 0 || d > r.size || d > 0 && total > r.size/d {
			r.fail("an array has a dimension of %d, more than the file has", d)
			return a
		}
		total *= d
		a.Shape = append(a.Shape, d)
	}
	if n := r.i64(); n != total || size == 0 {
		r.fail("an array of shape %s has %d bytes instead of %d", a.ShapeString(), n, total)
	}
	a.at = r.at
	r.skip(total)
	a.setType(code, bits, lanes)
	return a
}

// setType translates the type of DLPack.
func (a *array) setType(code, bits byte, lanes uint16) {
	a.Size = int(bits) / 8
	kinds := map[byte]struct {
		kind  byte
		sizes []byte
	}{0: {'i', []byte{8, 16, 32, 64}}, 1: {'u', []byte{8, 16, 32, 64}}, 2: {'f', []byte{16, 32, 64}}, 4: {'B', []byte{16}}, 6: {'b', []byte{8}}}
	if k := kinds[code]; lanes == 1 && slices.Contains(k.sizes, bits) {
		a.Kind = k.kind
		return
	}
	a.dtype = fmt.Sprintf("%d of DLPack, with %d × %d bits", code, lanes, bits)
}

// arrays reads a list of arrays with names. It returns the first ones, and fails for more than
// mostArrays.
func (r *reader) arrays() (list []named) {
	const least = 8 + 8 // much less than an array needs
	for range r.count(mostArrays, least, "arrays in a list") {
		n := named{name: r.name()}
		n.array = r.array()
		if r.err != nil {
			return nil
		}
		if find(list, n.name) != nil {
			r.fail("two arrays have the name %q", n.name)
			return nil
		}
		if r.kept++; r.kept > mostKept {
			r.fail("there are more than %d arrays with names", mostKept)
			return nil
		}
		list = append(list, n)
	}
	return list
}

// matrix reads a matrix that begins with the given magic number: csrMagic or cooMagic.
func (r *reader) matrix(magic uint64) (m sparse) {
	r.magic(magic, "a matrix")
	m.columns, m.rows = r.i64(), r.i64()
	for i := range m.arrays {
		m.arrays[i] = r.array()
	}
	r.skip(1) // whether it is sorted
	if magic == cooMagic {
		r.skip(1)
	}
	return m
}

// meta reads a graph of which each node is a type of nodes and each edge a relation.
func (r *reader) meta() sparse {
	r.magic(metaMagic, "a graph of types")
	return r.matrix(csrMagic)
}

// unit reads the edges of a relation, and returns the first form of them.
func (r *reader) unit() (first forms, m sparse) {
	r.magic(unitMagic, "a relation")
	begin := r.at
	stored := r.forms()
	r.skip(8) // the forms in which DGL may hold the edges
	if stored == 0 || stored > coo|csr|csc {
		r.at = begin
		r.fail("edges are stored in the forms %d", stored)
		return 0, m
	}
	for _, form := range []forms{coo, csr, csc} {
		if stored&form == 0 {
			continue
		}
		r.meta()
		magic := uint64(csrMagic)
		if form == coo {
			magic = cooMagic
		}
		if n := r.matrix(magic); first == 0 {
			first, m = form, n
		}
	}
	return first, m
}

// forms reads a set of forms. Early releases of DGL wrote the number of one, counted from 1.
func (r *reader) forms() forms {
	const set = 1 << 32
	n := r.u64()
	if n&set == 0 {
		if n < 1 || n > 3 {
			return 0
		}
		return 1 << (n - 1)
	}
	return forms(n &^ set)
}

// header reads the beginning, and returns the number of graphs.
func (r *reader) header() uint64 {
	r.magic(fileMagic, "the file")
	v, kind, n := r.u64(), r.u64(), r.u64()
	switch {
	case r.err != nil:
	case v == 1:
		r.err = bad("it has version 1 of DGL's format, which releases before 0.5 wrote: save it again, with `dgl.save_graphs(path, dgl.load_graphs(path)[0])` of a later release")
	case v != version || kind != graphType:
		r.err = bad("it has version %d of DGL's format, with graphs of the kind %d: this program reads version %d, with the kind %d", v, kind, version, graphType)
	}
	r.skip(headerBytes - r.at)
	return n
}

// layout reads the whole layout.
func (r *reader) layout() (*graph, error) {
	g, n := &graph{}, r.header()
	if r.err == nil && n != 1 {
		r.err = bad("it has %d graphs instead of one: save one of them, with `dgl.save_graphs(path, [g])`", n)
	}
	first := r.u64()
	g.labels = r.arrays()
	if r.err == nil && uint64(r.at) != first {
		r.fail("the first graph begins, but the file says that it begins at byte %d", first)
	}
	r.graph(g)
	r.end(first)
	return g, r.err
}

// end reads the positions of the graphs, which end the file.
func (r *reader) end(first uint64) {
	const list = 8 + 8 // the number of graphs and the position of one
	for _, want := range []uint64{list, 1, first, list} {
		if got := r.u64(); got != want {
			r.fail("follows %d, but %d was expected", got, want)
		}
	}
	if r.err == nil && r.at != r.size {
		r.fail("the graph has its end, but the file has %d bytes", r.size)
	}
}

// graph reads a graph.
func (r *reader) graph(g *graph) {
	r.magic(graphMagic, "a graph")
	meta := r.meta()
	const leastUnit = 8 + 8 + 8 // which is far too little
	for range r.count(mostTypes, leastUnit, "relations") {
		stored, m := r.unit()
		if r.err != nil {
			return
		}
		g.relations = append(g.relations, relation{edges: edges{stored: stored, rows: m.rows, columns: m.columns, ends: [2]array(m.arrays[:2])}})
	}
	g.kinds = make([]kind, r.count(mostTypes, 8, "types of nodes"))
	for i := range g.kinds {
		if g.kinds[i].nodes = r.i64(); g.kinds[i].nodes < 0 {
			r.fail("the graph has %d nodes", g.kinds[i].nodes)
		}
	}
	r.each(len(g.kinds), "lists of node data", func(i int) { g.kinds[i].nodeData = r.arrays() })
	r.each(len(g.relations), "lists of edge data", func(i int) { g.relations[i].edgeData = names(r.arrays()) })
	r.each(len(g.kinds), "names of types", func(i int) { g.kinds[i].name = r.name() })
	r.each(len(g.relations), "names of types", func(i int) { g.relations[i].name = r.name() })
	switch {
	case r.err != nil:
	case !g.one():
		r.findEnds(g, meta)
	case g.relations[0].rows != g.kinds[0].nodes || g.relations[0].columns != g.kinds[0].nodes:
		r.fail("the graph has %d nodes, but its matrix has the shape (%d, %d)", g.kinds[0].nodes, g.relations[0].rows, g.relations[0].columns)
	}
}

// one reports whether the graph has one type of nodes and one of edges.
func (g *graph) one() bool { return len(g.kinds) == 1 && len(g.relations) == 1 }

// findEnds finds the types of nodes that relations lead from and to: each is an edge of the graph of types. It
// compares the sizes of the matrices with the numbers of nodes.
func (r *reader) findEnds(g *graph, meta sparse) {
	kinds, relations := int64(len(g.kinds)), int64(len(g.relations))
	ends, err := r.vector(&meta.arrays[0])
	to, err2 := r.vector(&meta.arrays[1])
	ids, err3 := r.vector(&meta.arrays[2])
	if err := errors.Join(err, err2, err3); err != nil {
		r.err = err
		return
	}
	if int64(len(ends)) != kinds+1 || int64(len(to)) != relations || len(ids) > 0 && int64(len(ids)) != relations {
		r.fail("its graph of types does not have %d nodes and %d edges", kinds, relations)
		return
	}
	seen := make([]bool, relations)
	row := int64(0)
	for i, d := range to {
		for row < kinds && ends[row+1] <= int64(i) {
			row++
		}
		id := int64(i)
		if len(ids) > 0 {
			id = ids[i]
		}
		if uint64(id) >= uint64(relations) || uint64(d) >= uint64(kinds) || row >= kinds || seen[id] {
			r.fail("its graph of types has the edge %d from %d to %d", id, row, d)
			return
		}
		seen[id] = true
		k := &g.relations[id]
		k.from, k.to = int(row), int(d)
		rows, columns := g.kinds[row].nodes, g.kinds[d].nodes
		if k.stored == csc {
			rows, columns = columns, rows
		}
		if k.rows != rows || k.columns != columns {
			r.fail("the relation %.100s is between %d and %d nodes, but its matrix has the shape (%d, %d)", g.triple(int(id)), rows, columns, k.rows, k.columns)
			return
		}
	}
}

// each calls do for all elements of a list, of which there must be n.
func (r *reader) each(n int, what string, do func(i int)) {
	if got := r.count(mostTypes, 8, what); got != int64(n) {
		r.fail("there are %d %s instead of %d", got, what, n)
	}
	for i := range n {
		if r.err != nil {
			return
		}
		do(i)
	}
}

func bad(format string, args ...any) error { return fault.New(fault.ErrInput, format, args...) }

// describe lists the types of nodes and the relations.
func (g *graph) describe() (kinds, relations string) {
	var k, l []string
	for _, kind := range g.kinds {
		k = append(k, kind.name)
	}
	for i := range g.relations {
		l = append(l, g.triple(i))
	}
	return cmp.Or(strings.Join(k, ", "), "none"), cmp.Or(strings.Join(l, ", "), "none")
}

// triple returns the names of a relation and its ends.
func (g *graph) triple(i int) string {
	k := g.relations[i]
	return g.kinds[k.from].name + ":" + k.name + ":" + g.kinds[k.to].name
}

// vector returns the integers of a vector of at most mostTypes + 1.
func (r *reader) vector(a *array) ([]int64, error) {
	v, err := a.open(r.file, "graph of types", nil)
	if err != nil {
		return nil, err
	}
	if v.Count() > mostTypes+1 {
		return nil, bad("it has more than %d numbers", mostTypes+1)
	}
	list := make([]int64, v.Count())
	return list, v.Ints(list)
}
