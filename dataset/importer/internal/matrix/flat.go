package matrix

import "encoding/binary"

// flat is a table of a flatbuffer, the encoding of Arrow's messages. A place outside of b panics: see
// guard.
type flat struct {
	b  []byte
	at int // 0: there is no such table
}

// flatRoot returns the root table of a flatbuffer.
func flatRoot(b []byte) flat { return flat{b, int(binary.LittleEndian.Uint32(b))} }

// field returns the place of a field's value, 0 if the table does not have it.
func (t flat) field(i int) int {
	if t.at == 0 {
		return 0
	}
	offsets := t.at - int(int32(binary.LittleEndian.Uint32(t.b[t.at:])))
	size := int(binary.LittleEndian.Uint16(t.b[offsets:]))
	if 4+2*i+2 > size {
		return 0
	}
	if o := int(binary.LittleEndian.Uint16(t.b[offsets+4+2*i:])); o != 0 {
		return t.at + o
	}
	return 0
}

// refers returns the place to which a field refers.
func (t flat) refers(i int) int {
	p := t.field(i)
	if p == 0 {
		return 0
	}
	return p + int(binary.LittleEndian.Uint32(t.b[p:]))
}

func (t flat) table(i int) flat { return flat{t.b, t.refers(i)} }

// vector returns the bytes of a field of structs or references, and their number.
func (t flat) vector(i, size int) (b []byte, n int) {
	p := t.refers(i)
	if p == 0 {
		return nil, 0
	}
	n = int(binary.LittleEndian.Uint32(t.b[p:]))
	return t.b[p+4 : p+4+n*size], n
}

// tables returns the tables of a field.
func (t flat) tables(i int) []flat {
	p := t.refers(i)
	b, n := t.vector(i, 4)
	tables := make([]flat, n)
	for k := range tables {
		tables[k] = flat{t.b, p + 4 + 4*k + int(binary.LittleEndian.Uint32(b[4*k:]))}
	}
	return tables
}

func (t flat) text(i int) string { b, _ := t.vector(i, 1); return string(b) }

// number returns an integer of some bytes, or else.
func (t flat) number(i, size int, or int64) int64 {
	p := t.field(i)
	if p == 0 {
		return or
	}
	switch b := t.b[p:]; size {
	case 1:
		return int64(int8(b[0]))
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	default:
		return int64(binary.LittleEndian.Uint64(b))
	}
}
