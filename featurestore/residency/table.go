package residency

import (
	"encoding/binary"
	"slices"

	"diskgnn/internal/binio"
)

// table maps frames to nodes and nodes to frames. Frames are taken in ascending order, and a taken frame
// gets a new row as soon as it loses one, so the frames with rows are always the frames below len(nodeOf).
type table struct {
	frameOf []int32  // by node: its frame, or Absent, or under s3fifo ghost
	nodeOf  []uint32 // by taken frame
}

func newTable(nodes, frames int) table {
	t := table{frameOf: make([]int32, nodes), nodeOf: make([]uint32, 0, frames)}
	t.clear()
	return t
}

func tableBytes(nodes, frames int) int64 { return 4*int64(nodes) + 4*int64(frames) }

func (t *table) bytes() int64 { return tableBytes(len(t.frameOf), cap(t.nodeOf)) }

func (t *table) clear() {
	for v := range t.frameOf {
		t.frameOf[v] = Absent
	}
	t.nodeOf = t.nodeOf[:0]
}

// full reports whether every frame has a row.
func (t *table) full() bool { return len(t.nodeOf) == cap(t.nodeOf) }

// add gives a node the next free frame.
func (t *table) add(v uint32) int32 {
	f := int32(len(t.nodeOf))
	t.nodeOf = append(t.nodeOf, v)
	t.frameOf[v] = f
	return f
}

// replace gives a node a frame that has lost its row.
func (t *table) replace(f int32, v uint32) { t.nodeOf[f], t.frameOf[v] = v, f }

// Rows implements Policy.
func (t *table) Rows() []uint32 { return t.nodeOf }

// nameBytes is the length of a policy's name in its state, with zeros behind it.
const nameBytes = 8

// save returns the common beginning of all policies' states.
func (t *table) save(name string) []byte {
	var head [nameBytes]byte
	copy(head[:], name)
	b := slices.Clip(head[:])
	b = binary.LittleEndian.AppendUint64(b, uint64(len(t.frameOf)))
	b = binary.LittleEndian.AppendUint64(b, uint64(cap(t.nodeOf)))
	return appendList(b, t.nodeOf)
}

// load reads the result of save into a table without rows. Errors are in d.
func (t *table) load(d *binio.Decoder, name string) {
	var head [nameBytes]byte
	copy(head[:], name)
	if got := d.Raw(nameBytes); got != nil && [nameBytes]byte(got) != head {
		d.Fail("it is the state of a policy named %q", got)
	}
	if n := d.U64(); d.Err() == nil && n != uint64(len(t.frameOf)) {
		d.Fail("it is the state of a cache for %d nodes instead of %d", n, len(t.frameOf))
	}
	if n := d.U64(); d.Err() == nil && n != uint64(cap(t.nodeOf)) {
		d.Fail("it is the state of a cache with %d frames instead of %d", n, cap(t.nodeOf))
	}
	for _, v := range list(d, cap(t.nodeOf)) {
		switch {
		case int64(v) >= int64(len(t.frameOf)):
			d.Fail("a frame has the row of node %d, but there are %d nodes", v, len(t.frameOf))
			return
		case t.frameOf[v] != Absent:
			d.Fail("two frames have the row of node %d", v)
			return
		}
		t.add(v)
	}
}

// end checks that no bytes are left, and returns the error of d.
func end(d *binio.Decoder) error {
	if d.Err() == nil && d.Rest() > 0 {
		d.Fail("%d bytes follow the state", d.Rest())
	}
	return d.Err()
}

func appendList(b []byte, s []uint32) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	return binio.AppendUints(b, s, 4)
}

// list reads a result of appendList, of at most `most` entries.
func list(d *binio.Decoder, most int) []uint32 {
	n := d.Count(4)
	if n > most {
		d.Fail("a list has %d entries, more than %d", n, most)
	}
	return d.Uints(nil, n, 4)
}

// flags reads n bytes, each at most `most`.
func flags(d *binio.Decoder, n int, most byte) []byte {
	b := d.Raw(n)
	if i := slices.IndexFunc(b, func(x byte) bool { return x > most }); i >= 0 {
		d.Fail("a flag is %d, not between 0 and %d", b[i], most)
		return nil
	}
	return b
}
