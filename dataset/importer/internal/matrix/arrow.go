package matrix

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"

	"diskgnn/dataset/importer"
	"diskgnn/internal/vfs"
)

// An arrowFile is a file of Arrow's IPC format, which is also Feather's second version, or a stream of
// the same messages, as a matrix. A list of a fixed size makes a column for each element. Every column
// walks through the messages by itself, and holds its part of one record batch. Arrow's own library for
// Go would make the program 6 MB larger, and hold record batches whole.
type arrowFile struct {
	columnar
	unpacker
	begin, end  int64 // of the messages
	fields      []arrowField
	last        message // that was read
	packed      []byte  // a buffer as it lies in the file
	description Description
}

// message is one of the messages of a file: a schema, a dictionary or a record batch.
type message struct {
	at, body, next int64 // places in the file
	meta           []byte
}

// kinds of messages
const (
	schemaMessage     = 1
	dictionaryMessage = 2
	recordMessage     = 3
)

// arrowField is a column of the schema.
type arrowField struct {
	name   string
	kind   kind
	not    string // unless "": the reason why it cannot be read
	width  int    // of a list
	list   bool
	node   int   // number of its first node, in record batches
	buffer int   // and of its first buffer, to which counts of views are added
	views  int   // number of columns of views before it
	offset int   // bytes of an offset to words: 4 or 8; 16: views
	coded  bool  // it has indexes into a dictionary
	id     int64 // of the dictionary
	index  kind
}

const (
	arrowMagic = "ARROW1"
	mostMeta   = maxFooter // bytes of a message's description
)

func openArrow(fsys vfs.FS, s Spec, which columnsOf) (*arrowFile, error) {
	f, err := importer.OpenFile(fsys, s.Path)
	if err != nil {
		return nil, err
	}
	m := &arrowFile{columnar: columnar{name: s.Path, f: f, scratch: new(scratch), guard: guard}}
	if err := guard(m.name, func() error { return m.open(s, which) }); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *arrowFile) Close() error {
	m.unpacker.close()
	return m.f.Close()
}

// limits finds where the messages are.
func (m *arrowFile) limits() error {
	st, err := m.f.Stat()
	if err != nil {
		return err
	}
	m.end = st.Size()
	var head [8]byte
	if m.end < int64(len(head)) {
		return m.bad("not an Arrow file: it has %d bytes", m.end)
	}
	if err := m.readAt(head[:], 0); err != nil {
		return err
	}
	switch {
	case string(head[:4]) == "FEA1":
		return m.bad("it is of Feather's first version: write it anew with a pyarrow of this decade")
	case string(head[:6]) != arrowMagic: // a stream
		return nil
	}
	var tail [10]byte
	if m.end < 8+int64(len(tail)) {
		return m.bad("truncated")
	}
	if err := m.readAt(tail[:], m.end-int64(len(tail))); err != nil {
		return err
	}
	footer := int64(binary.LittleEndian.Uint32(tail[:]))
	if string(tail[4:]) != arrowMagic || footer > m.end-18 {
		return m.bad("not an Arrow file, or truncated")
	}
	m.begin, m.end = 8, m.end-10-footer
	return nil
}

// message reads the message at a place, or returns io.EOF.
func (m *arrowFile) message(at int64) (*message, error) {
	if m.last.meta != nil && m.last.at == at {
		return &m.last, nil
	}
	var head [8]byte
	if m.end-at < 4 {
		return nil, io.EOF
	}
	n := min(8, m.end-at)
	if err := m.readAt(head[:n], at); err != nil {
		return nil, err
	}
	size, skip := int64(binary.LittleEndian.Uint32(head[:])), int64(4)
	if size == 1<<32-1 {
		size, skip = int64(binary.LittleEndian.Uint32(head[4:])), 8
	}
	if size == 0 {
		return nil, io.EOF
	}
	if size > m.end-at-skip || size > mostMeta || size < 8 {
		return nil, m.bad("malformed Arrow: a message has a description of %d bytes", size)
	}
	g := message{at: at, body: at + skip + size, meta: m.last.meta}
	m.last.meta = nil
	grow(&g.meta, int(size))
	if err := m.readAt(g.meta, at+skip); err != nil {
		return nil, err
	}
	body := flatRoot(g.meta).number(3, 8, 0)
	if body < 0 || body > m.end-g.body {
		return nil, m.bad("truncated: a message of %d bytes is not whole", body)
	}
	g.next = g.body + body
	m.last = g
	return &m.last, nil
}

// header returns the kind and the content of a message.
func (g *message) header() (kind int64, t flat) {
	root := flatRoot(g.meta)
	return root.number(1, 1, 0), root.table(2)
}

// eachMessage calls do for all messages behind the schema.
func (m *arrowFile) eachMessage(do func(g *message) error) error {
	for at := m.begin; ; {
		g, err := m.message(at)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at = g.next
		if err := do(g); err != nil {
			return err
		}
	}
}

// describe reads the schema, and counts the rows.
func (m *arrowFile) describe() (d Description, err error) {
	if err := m.limits(); err != nil {
		return d, err
	}
	first, err := m.message(m.begin)
	if errors.Is(err, io.EOF) {
		return d, m.bad("not an Arrow file: it has no schema")
	}
	if err != nil {
		return d, err
	}
	kind, schema := first.header()
	if kind != schemaMessage {
		return d, m.bad("not an Arrow file: it has no schema")
	}
	if schema.number(0, 2, 0) != 0 {
		return d, m.bad("its numbers are big-endian")
	}
	if err := m.readSchema(schema); err != nil {
		return d, err
	}
	m.begin = first.next
	err = m.eachMessage(func(g *message) error {
		if kind, t := g.header(); kind == recordMessage {
			n := t.number(0, 8, 0)
			if n < 0 || m.rows+n < 0 {
				return m.bad("a record batch has %d rows", n)
			}
			m.rows += n
		}
		return nil
	})
	m.left = m.rows
	d = Description{Columns: len(m.fields), Rows: m.rows}
	for _, f := range m.fields {
		d.Names = append(d.Names, f.name)
		d.Text = append(d.Text, f.not == "" && f.kind == words)
		d.Integer = append(d.Integer, f.not == "" && f.kind.integer())
	}
	return d, err
}

// readSchema sets fields to the columns of a schema.
func (m *arrowFile) readSchema(schema flat) error {
	var node, buffer, views int
	for _, t := range schema.tables(1) {
		f := arrowField{name: t.text(0), width: 1, node: node, buffer: buffer, views: views}
		f.setType(t)
		m.fields = append(m.fields, f)
		if !countParts(t, &node, &buffer, &views, 0) {
			return m.bad("column %s is of a type of Arrow behind which columns cannot be found: drop it from the file", f.name)
		}
	}
	return nil
}

// types of Arrow
const (
	nullType = iota + 1
	intType
	floatType
	binaryType
	utf8Type
	boolType
	decimalType
	dateType
	timeType
	timestampType
	intervalType
	listType
	structType
	unionType
	fixedBinaryType
	fixedListType
	mapType
	durationType
	largeBinaryType
	largeUTF8Type
	largeListType
	runsType
	binaryViewType
	utf8ViewType
	listViewType
	largeListViewType
)

// countParts adds the nodes and buffers of a field and its children in a record batch. It returns false
// for types of which the number differs.
func countParts(t flat, node, buffer, views *int, depth int) bool {
	*node++
	if t.table(4).at != 0 {
		*buffer += 2
		return true
	}
	switch t.number(2, 1, 0) {
	case nullType:
	case structType, fixedListType:
		*buffer++
	case binaryType, utf8Type, largeBinaryType, largeUTF8Type, listViewType, largeListViewType:
		*buffer += 3
	case binaryViewType, utf8ViewType:
		*buffer += 2
		*views++
	case unionType, runsType:
		return false
	default:
		*buffer += 2
	}
	for _, child := range t.tables(5) {
		if depth > 64 || *node > len(t.b) || !countParts(child, node, buffer, views, depth+1) {
			return false
		}
	}
	return true
}

// setType sets the kind and the form of a field by its type.
func (f *arrowField) setType(t flat) {
	if d := t.table(4); d.at != 0 {
		f.coded, f.id, f.index = true, d.number(0, 8, 0), int32s
		if i := d.table(1); i.at != 0 {
			f.index, _ = intKind(i)
		}
	}
	of := t.table(3)
	switch t.number(2, 1, 0) {
	case intType:
		f.kind, f.not = intKind(of)
	case floatType:
		f.kind = []kind{halves, singles, doubles, doubles}[of.number(0, 2, 0)&3]
	case boolType:
		f.kind = boolean
	case dateType:
		f.kind = []kind{int32s, int64s}[of.number(0, 2, 1)&1]
	case timestampType, durationType:
		f.kind = int64s
	case binaryType, utf8Type:
		f.kind, f.offset = words, 4
	case largeBinaryType, largeUTF8Type:
		f.kind, f.offset = words, 8
	case binaryViewType, utf8ViewType:
		f.kind, f.offset = words, 16
	case decimalType:
		f.not = "decimals: write it as float64 or int64"
	case listType, largeListType:
		f.not = "lists of any length: write lists of a fixed size, or a Parquet file"
	case fixedListType:
		children := t.tables(5)
		if f.list || f.coded || len(children) != 1 {
			f.not = "lists that are not of numbers"
			return
		}
		f.width, f.list = int(of.number(0, 4, 0)), true
		if f.setType(children[0]); f.kind == words || f.coded {
			f.not = "lists that are not of numbers"
		}
		if f.width < 1 || f.width > maxColumns {
			f.not = "lists without elements"
		}
	default:
		f.not = "values that are neither numbers nor words"
	}
}

// intKind returns the kind of integers, or text for an error.
func intKind(t flat) (kind, string) {
	k, is := map[int64]kind{8: int8s, 16: int16s, 32: int32s, 64: int64s}[t.number(0, 4, 0)]
	if !is {
		return 0, "integers of an unknown width"
	}
	if t.number(1, 1, 0) == 0 {
		k += uint8s - int8s
	}
	return k, ""
}

func (m *arrowFile) open(s Spec, which columnsOf) error {
	d, err := m.describe()
	if m.description = d; err != nil || which.none {
		return err
	}
	chosen, err := which.choose(&d, s)
	if err != nil {
		return err
	}
	for _, i := range chosen {
		f := m.fields[i]
		if f.not == "" && f.kind == words && which.words == 0 {
			f.not = "words instead of numbers"
		}
		if f.not != "" {
			return m.bad("column %s has %s", f.name, f.not)
		}
		if which.words > 0 && f.width > 1 {
			return m.bad("column %s has lists of %d values", f.name, f.width)
		}
		r := &arrowReader{m: m, f: f, at: m.begin}
		if err := m.add(&typed{name: f.name, kind: f.kind, width: f.width, next: r.next}); err != nil {
			return err
		}
	}
	return nil
}

// arrowReader reads a column, a record batch at a time.
type arrowReader struct {
	m    *arrowFile
	f    arrowField
	at   int64      // of the next message
	bufs [][]byte   // of the record batch
	dict arrowWords // values of the dictionary
	has  bool       // the dictionary was seen
}

// arrowWords are the values of an array.
type arrowWords struct {
	bufs [][]byte
	data []byte
	word func(int) ([]byte, bool)
}

// next sets the batch of a column to the next record batch.
func (r *arrowReader) next(c *typed) error {
	for {
		g, err := r.m.message(r.at)
		if errors.Is(err, io.EOF) {
			c.batch = batch{}
			return err
		}
		if err != nil {
			return err
		}
		r.at = g.next
		switch kind, t := g.header(); {
		case kind == dictionaryMessage && r.f.coded && t.number(0, 8, 0) == r.f.id:
			if err := r.readDictionary(g, t); err != nil {
				return err
			}
		case kind == recordMessage:
			if err := r.read(c, g, t); err != nil {
				return err
			}
			if c.left > 0 {
				return nil
			}
		}
	}
}

// part is a field's part of a record batch.
type part struct {
	g       *message
	t       flat
	buffers []byte
	n       int64 // values
	nulls   int64
}

// part finds node number node, which must have n values.
func (r *arrowReader) part(g *message, t flat, node int, n int64) (part, error) {
	nodes, count := t.vector(1, 16)
	if node >= count {
		return part{}, r.m.bad("column %s is not in a record batch", r.f.name)
	}
	p := part{g: g, t: t, n: int64(binary.LittleEndian.Uint64(nodes[16*node:])), nulls: int64(binary.LittleEndian.Uint64(nodes[16*node+8:]))}
	p.buffers, _ = t.vector(2, 16)
	if p.n != n || n < 0 {
		return p, r.m.bad("column %s has %d values instead of %d in a record batch", r.f.name, p.n, n)
	}
	return p, nil
}

// where returns the place of a buffer, its length in the file, and in memory.
func (m *arrowFile) where(p part, i int) (at, packed, size int64, code codec, err error) {
	if i < 0 || 16*i+16 > len(p.buffers) {
		return 0, 0, 0, 0, m.bad("malformed Arrow: a record batch lacks buffers")
	}
	at, packed = int64(binary.LittleEndian.Uint64(p.buffers[16*i:])), int64(binary.LittleEndian.Uint64(p.buffers[16*i+8:]))
	room := p.g.next - p.g.body
	if at < 0 || packed < 0 || at > room || packed > room-at {
		return 0, 0, 0, 0, m.bad("malformed Arrow: a buffer is outside of its message")
	}
	at, size = at+p.g.body, packed
	if c := p.t.table(3); c.at != 0 && packed > 0 {
		var head [8]byte
		if packed < int64(len(head)) {
			return 0, 0, 0, 0, m.bad("malformed Arrow: a buffer has %d bytes", packed)
		}
		if err := m.readAt(head[:], at); err != nil {
			return 0, 0, 0, 0, err
		}
		at, packed = at+8, packed-8
		if size = int64(binary.LittleEndian.Uint64(head[:])); size == -1 { // as it is
			return at, packed, packed, noCodec, nil
		}
		if code = lz4Frame; c.number(0, 1, 0) == 1 {
			code = zstdCodec
		}
		if err := checkRatio(code, packed, size); err != nil {
			return 0, 0, 0, 0, m.bad("malformed Arrow: in a buffer %v", err)
		}
	}
	return at, packed, size, code, nil
}

// load reads buffer i of a part into *b, which grows.
func (m *arrowFile) load(p part, i int, b *[]byte) error {
	at, packed, size, code, err := m.where(p, i)
	if err != nil {
		return err
	}
	grow(b, int(size))
	if code == noCodec {
		return m.readAt(*b, at)
	}
	grow(&m.packed, int(packed))
	if err := m.readAt(m.packed, at); err != nil {
		return err
	}
	if err := m.unpack(*b, m.packed, code); err != nil {
		return m.bad("a buffer cannot be unpacked: %v", err)
	}
	return nil
}

// first returns the number of the field's first buffer: the buffers of views before it are counted in
// the record batch.
func (r *arrowReader) first(t flat) int {
	counts, n := t.vector(4, 8)
	at := r.f.buffer
	for i := range min(n, r.f.views) {
		at += int(binary.LittleEndian.Uint32(counts[8*i:]))
	}
	return at
}

// read sets the batch to a record batch.
func (r *arrowReader) read(c *typed, g *message, t flat) error {
	rows := t.number(0, 8, 0)
	node, buffer := r.f.node, r.first(t)
	p, err := r.part(g, t, node, rows)
	if err != nil {
		return err
	}
	if r.f.list {
		if p.nulls != 0 {
			return r.m.bad("column %s has a row without a list", r.f.name)
		}
		if rows > math.MaxInt64/int64(r.f.width) {
			return r.short()
		}
		if p, err = r.part(g, t, node+1, rows*int64(r.f.width)); err != nil {
			return err
		}
		buffer++
	}
	b := batch{left: int(p.n), sparse: true}
	if b.left == 0 {
		c.batch = b
		return nil
	}
	for len(r.bufs) < 3 {
		r.bufs = append(r.bufs, nil)
	}
	if p.nulls != 0 {
		if err := r.m.load(p, buffer, &r.bufs[0]); err != nil {
			return err
		}
		b.present = bitmap(r.bufs[0], 0)
	}
	kind := r.f.kind
	if r.f.coded {
		if !r.has {
			return r.m.bad("column %s has no dictionary before its values", r.f.name)
		}
		kind = r.f.index
	}
	a := arrowWords{bufs: r.bufs}
	if b.index, err = r.values(&a, p, kind, buffer); err != nil {
		return err
	}
	b.data, b.word, r.bufs = a.data, a.word, a.bufs
	if r.f.coded {
		b.index, b.data, b.word = indexes(a.data, kind), r.dict.data, r.dict.word
	}
	c.batch = b
	return nil
}

// values loads the values of a part. For booleans it returns the index to their data.
func (r *arrowReader) values(a *arrowWords, p part, k kind, buffer int) (index func([]int32) error, err error) {
	if err := r.m.load(p, buffer+1, &a.bufs[1]); err != nil {
		return nil, err
	}
	a.data = a.bufs[1]
	if k == boolean {
		a.data = noOrYes
		if p.n > 8*int64(len(a.bufs[1])) {
			return nil, r.short()
		}
		return byBits(bitmap(a.bufs[1], 0)), nil
	}
	if k != words {
		if p.n > int64(len(a.data)/k.size()) {
			return nil, r.short()
		}
		return nil, nil
	}
	size := int64(r.f.offset)
	if n := int64(len(a.data)) / size; p.n > n || size < 16 && p.n > n-1 {
		return nil, r.short()
	}
	if r.f.offset == 16 {
		return nil, r.readViews(a, p, buffer)
	}
	if err := r.m.load(p, buffer+2, &a.bufs[2]); err != nil {
		return nil, err
	}
	offsets, text := a.data, a.bufs[2]
	a.word = func(i int) ([]byte, bool) {
		if uint64(i) >= uint64(p.n) {
			return nil, false
		}
		var from, to uint64
		if size == 4 {
			from, to = uint64(binary.LittleEndian.Uint32(offsets[4*i:])), uint64(binary.LittleEndian.Uint32(offsets[4*i+4:]))
		} else {
			from, to = binary.LittleEndian.Uint64(offsets[8*i:]), binary.LittleEndian.Uint64(offsets[8*i+8:])
		}
		if from > to || to > uint64(len(text)) {
			return nil, false
		}
		return text[from:to], true
	}
	return nil, nil
}

// readViews sets the words of an array of views: a length, then a short word itself or a place in one
// of several buffers.
func (r *arrowReader) readViews(a *arrowWords, p part, buffer int) error {
	counts, n := p.t.vector(4, 8)
	if r.f.views >= n && !r.f.coded || n == 0 {
		return r.short()
	}
	at := r.f.views
	if r.f.coded { // a dictionary has one field
		at = 0
	}
	texts := int(binary.LittleEndian.Uint32(counts[8*at:]))
	if texts > len(p.buffers)/16 {
		return r.short()
	}
	for i := range texts {
		if 2+i >= len(a.bufs) {
			a.bufs = append(a.bufs, nil)
		}
		if err := r.m.load(p, buffer+2+i, &a.bufs[2+i]); err != nil {
			return err
		}
	}
	views, bufs := a.data, a.bufs[2:]
	a.word = func(i int) ([]byte, bool) {
		if uint64(i) >= uint64(p.n) {
			return nil, false
		}
		v := views[16*i : 16*i+16]
		size := uint64(binary.LittleEndian.Uint32(v))
		if size <= 12 {
			return v[4 : 4+size], true
		}
		k, from := int(binary.LittleEndian.Uint32(v[8:])), uint64(binary.LittleEndian.Uint32(v[12:]))
		if k >= texts || from+size > uint64(len(bufs[k])) {
			return nil, false
		}
		return bufs[k][from : from+size], true
	}
	return nil
}

func (r *arrowReader) short() error {
	return r.m.bad("column %s has fewer values than it should have", r.f.name)
}

// readDictionary keeps the values of a dictionary.
func (r *arrowReader) readDictionary(g *message, t flat) error {
	if t.number(2, 1, 0) != 0 {
		return r.m.bad("column %s has a dictionary that grows: write the file anew, or without dictionaries", r.f.name)
	}
	data := t.table(1)
	n := data.number(0, 8, 0)
	p, err := r.part(g, data, 0, n)
	if err != nil {
		return err
	}
	if p.nulls != 0 {
		return r.m.bad("column %s has a dictionary with a missing value", r.f.name)
	}
	if r.f.kind == boolean {
		return r.m.bad("column %s has a dictionary of booleans", r.f.name)
	}
	for len(r.dict.bufs) < 3 {
		r.dict.bufs = append(r.dict.bufs, nil)
	}
	r.has = true
	if n == 0 {
		r.dict.data, r.dict.word = nil, func(int) ([]byte, bool) { return nil, false }
		return nil
	}
	_, err = r.values(&r.dict, p, r.f.kind, 0)
	return err
}

// indexes returns a function that sets the next indexes into a dictionary. The caller has checked that
// there are enough.
func indexes(b []byte, k kind) func(dst []int32) error {
	at, size := 0, k.size()
	return func(dst []int32) error {
		if len(b) < at+size*len(dst) {
			return errRuns
		}
		for i := range dst {
			v := uint64(0)
			switch size {
			case 1:
				v = uint64(b[at])
			case 2:
				v = uint64(binary.LittleEndian.Uint16(b[at:]))
			case 4:
				v = uint64(binary.LittleEndian.Uint32(b[at:]))
			case 8:
				v = binary.LittleEndian.Uint64(b[at:])
			}
			dst[i] = int32(min(v, 1<<31-1))
			at += size
		}
		return nil
	}
}

// arrowHeld is Held of a file of Arrow: the buffers of the chosen columns, in the record batch in which
// they are largest.
func arrowHeld(fsys vfs.FS, s Spec) (sum int64, err error) {
	f, err := importer.OpenFile(fsys, s.Path)
	if err != nil {
		return 0, err
	}
	m := &arrowFile{columnar: columnar{name: s.Path, f: f, guard: guard}}
	defer func() { err = errors.Join(err, m.Close()) }()
	err = guard(m.name, func() error {
		d, err := m.describe()
		if err != nil {
			return err
		}
		schema := m.begin
		chosen, err := d.Select(s)
		if err != nil {
			return err
		}
		chosen = append(slices.Clone(chosen), d.keys(s)...)
		most, packed, meta := make([]int64, len(chosen)), int64(0), int64(0)
		dictionaries := make([]int64, len(chosen))
		err = m.eachMessage(func(g *message) error {
			meta = max(meta, int64(len(g.meta)))
			kind, t := g.header()
			for k, i := range chosen {
				f := m.fields[i]
				r := &arrowReader{m: m, f: f}
				to, first, last := &most[k], 0, 0
				switch {
				case kind == recordMessage:
					first = r.first(t)
					last = first + 3
				case kind == dictionaryMessage && f.coded && t.number(0, 8, 0) == f.id:
					t, to, last = t.table(1), &dictionaries[k], 3
				default:
					continue
				}
				p := part{g: g, t: t}
				p.buffers, _ = t.vector(2, 16)
				if f.offset == 16 {
					last = len(p.buffers) / 16
				}
				here := int64(0)
				for b := first; b < min(last, len(p.buffers)/16); b++ {
					_, n, size, _, err := m.where(p, b)
					if err != nil {
						return err
					}
					here, packed = here+size, max(packed, n)
				}
				*to = max(*to, here)
			}
			return nil
		})
		sum = packed + 2*meta + describedBy*schema
		for k := range chosen {
			sum += most[k] + dictionaries[k]
		}
		return err
	})
	return sum, err
}
