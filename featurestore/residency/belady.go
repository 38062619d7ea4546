package residency

import (
	"encoding/binary"
	"fmt"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// belady keeps, after every batch, the rows with the nearest next uses in the trace: of the rows in the
// cache and the rows of the batch, ties by ascending node id. Rows that are not kept pass by. The cache
// begins with the first nodes of the trace, in the order of accesses, one for each frame. No policy has
// fewer misses on the trace.
//
// The key of a row is the place of its next access in the trace, with each batch's nodes ascending. Nodes
// without a next use have the keys after all accesses, ascending. The row with the largest key leaves.
type belady struct {
	table
	trace Trace    // each batch's nodes ascending
	crc   uint32   // of the trace
	rows  int      // number of frames with a row, which is constant, or anyRows
	next  []uint32 // by access: the node's key after this access
	key   []uint32 // by node
	held  keys     // keys of the rows in the cache
	at    int      // batches done
}

// anyRows is the number of rows of a cache that begins empty.
const anyRows = -1

// newBelady takes over the trace, and sorts the nodes of its batches.
func newBelady(c Config) (Policy, error) {
	if len(c.Trace.Start) == 0 {
		c.Trace.Start = []int64{0}
	}
	accesses := int64(len(c.Trace.Nodes))
	if err := numbered(accesses, c.Nodes); err != nil {
		return nil, err
	}
	b := &belady{table: newTable(c.Nodes, c.Frames), trace: c.Trace}
	if err := b.begin(); err != nil {
		return nil, err
	}
	b.crc = b.trace.sum()
	b.next, b.key, b.held = make([]uint32, accesses), make([]uint32, c.Nodes), newKeys(accesses+int64(c.Nodes))
	b.seek(0)
	return b, nil
}

// numbered checks that there is a key for every access and every node.
func numbered(accesses int64, nodes int) error {
	if accesses+int64(nodes) > MaxKeys {
		return fault.New(fault.ErrUsage, "residency: a trace of %d accesses to %d nodes is too long: the sum of both is at most %d", accesses, nodes, int64(MaxKeys))
	}
	return nil
}

// begin checks and sorts the trace, and gives frames to its first nodes.
func (b *belady) begin() error {
	t := &b.trace
	if err := t.divided(); err != nil {
		return err
	}
	for i := range t.Batches() {
		nodes := t.Batch(i)
		for _, v := range nodes {
			if int64(v) >= int64(len(b.frameOf)) {
				return fault.New(fault.ErrCorrupt, "residency: batch %d of the trace uses node %d, but there are %d nodes", i, v, len(b.frameOf))
			}
			if b.frameOf[v] == Absent && !b.full() {
				b.add(v)
			}
		}
		slices.Sort(nodes)
		for j := 1; j < len(nodes); j++ {
			if nodes[j] == nodes[j-1] {
				return fault.New(fault.ErrCorrupt, "residency: batch %d of the trace uses node %d twice", i, nodes[j])
			}
		}
	}
	b.rows = len(b.nodeOf)
	return nil
}

// seek computes the keys before a batch, and after every access from there on.
func (b *belady) seek(batch int) {
	b.at = batch
	never := len(b.trace.Nodes)
	for v := range b.key {
		b.key[v] = uint32(never + v)
	}
	for a := never - 1; a >= int(b.trace.Start[batch]); a-- {
		v := b.trace.Nodes[a]
		b.next[a], b.key[v] = b.key[v], uint32(a)
	}
	b.held.clear()
	for _, v := range b.nodeOf {
		b.held.add(b.key[v])
	}
}

// node returns the node of a key.
func (b *belady) node(key uint32) uint32 {
	if never := uint64(len(b.trace.Nodes)); uint64(key) >= never {
		return uint32(uint64(key) - never)
	}
	return b.trace.Nodes[key]
}

// Batch implements Policy.
func (b *belady) Batch(nodes []uint32, held, into []int32) {
	held, into = held[:len(nodes)], into[:len(nodes)]
	free := b.begun(nodes, held)
	for i, v := range nodes {
		if into[i] = Absent; held[i] == Absent && b.held.has(b.key[v]) {
			into[i], free = b.take(v, free)
		}
	}
}

// begun finds the batch's rows, and evicts rows that are not kept. It returns the result of evict.
func (b *belady) begun(nodes []uint32, held []int32) (free int32) {
	misses := b.access(nodes, held)
	return b.evict(max(0, len(b.nodeOf)+misses-cap(b.nodeOf)))
}

// take gives a node the frame free, or if that is Absent, a frame that was never taken. It returns this
// frame and the next free one.
func (b *belady) take(v uint32, free int32) (frame, next int32) {
	if free == Absent {
		return b.add(v), Absent
	}
	next = int32(b.nodeOf[free])
	b.replace(free, v)
	return free, next
}

// access finds the batch's rows, and sets their keys to their next uses. Misses are in held too, until evict.
func (b *belady) access(nodes []uint32, held []int32) (misses int) {
	if b.at == b.trace.Batches() || len(nodes) != len(b.trace.Batch(b.at)) {
		panic(fmt.Sprintf("residency: batch %d with %d nodes is not in the trace", b.at, len(nodes)))
	}
	from, to := b.trace.Start[b.at], b.trace.Start[b.at+1]
	for i, v := range nodes {
		k := b.key[v]
		if int64(k) < from || int64(k) >= to {
			panic(fmt.Sprintf("residency: node %d is not in batch %d of the trace", v, b.at))
		}
		if held[i] = b.frameOf[v]; held[i] == Absent {
			misses++
		} else {
			b.held.remove(k)
		}
		b.key[v] = b.next[k]
		b.held.add(b.next[k])
	}
	b.at++
	return misses
}

// evict evicts the n rows with the largest keys. It returns the first of their frames, or Absent. In the
// table, the entry of each of these frames is the next one.
func (b *belady) evict(n int) int32 {
	free := Absent
	for range n {
		k := b.held.largest()
		b.held.remove(k)
		v := b.node(k)
		if f := b.frameOf[v]; f != Absent {
			b.frameOf[v] = Absent
			b.nodeOf[f] = uint32(free)
			free = f
		}
	}
	return free
}

// State implements Policy.
func (b *belady) State() []byte {
	s := binary.LittleEndian.AppendUint32(b.save(Belady), uint32(b.at))
	return binary.LittleEndian.AppendUint32(s, b.crc)
}

// LoadState implements Policy: the state must be of the same trace.
func (b *belady) LoadState(state []byte) error {
	b.clear()
	d := binio.NewDecoder(state)
	b.load(d, Belady)
	if d.Err() == nil && b.rows != anyRows && len(b.nodeOf) != b.rows {
		d.Fail("the cache has %d rows instead of %d", len(b.nodeOf), b.rows)
	}
	at := d.U32()
	if int64(at) > int64(b.trace.Batches()) {
		d.Fail("the position is batch %d of a trace of %d batches", at, b.trace.Batches())
	}
	if crc := d.U32(); d.Err() == nil && crc != b.crc {
		d.Fail("it belongs to another trace")
	}
	if err := end(d); err != nil {
		return fmt.Errorf("residency: state of %s: %w", Belady, err)
	}
	b.seek(int(at))
	return nil
}

// Bytes implements Policy.
func (b *belady) Bytes() int64 {
	return b.table.bytes() + 8*int64(len(b.trace.Start)) + 4*int64(len(b.trace.Nodes)+len(b.next)+len(b.key)) + b.held.bytes()
}

// Superbatch is Belady's policy over one recorded trace after the other, as in Ginex. The cache is
// empty when a trace begins, and missed rows take its free frames. Ginex instead reads the first
// distinct nodes of the trace, one for each frame, into the cache before the trace begins. Here such a
// row is a miss at its first access. From the first eviction on the cache holds the same rows: until
// then no row leaves, and by then all of these nodes have been accessed. So the misses equal Ginex's
// misses plus the number of rows that Ginex begins with.
type Superbatch struct{ belady }

// NewSuperbatch returns a policy for traces up to the given size, without a trace. It holds
// Size.Bytes(Belady) without the memory of the trace. If accesses and nodes together exceed MaxKeys, the
// error is of kind fault.ErrUsage.
func NewSuperbatch(s Size) (*Superbatch, error) {
	if err := numbered(s.Accesses, s.Nodes); err != nil {
		return nil, err
	}
	b := &Superbatch{belady{table: newTable(s.Nodes, s.Frames), rows: anyRows}}
	b.next, b.key, b.held = make([]uint32, s.Accesses), make([]uint32, s.Nodes), newKeys(s.Accesses+int64(s.Nodes))
	b.trace.Start = []int64{0}
	b.seek(0)
	return b, nil
}

// Begin empties the cache, and begins a trace. The policy owns the trace until the next Begin. The nodes
// of each batch must be ascending and below the number of nodes; otherwise the error is of kind
// fault.ErrCorrupt. Begin panics if the trace has more accesses than the policy was made for.
func (s *Superbatch) Begin(t Trace) error {
	if err := t.divided(); err != nil {
		return err
	}
	for i := range t.Batches() {
		nodes := t.Batch(i)
		for j, v := range nodes {
			if int64(v) >= int64(len(s.frameOf)) || j > 0 && v <= nodes[j-1] {
				return fault.New(fault.ErrCorrupt, "residency: batch %d of the trace uses node %d out of ascending order, or beyond the %d nodes", i, v, len(s.frameOf))
			}
		}
	}
	if len(t.Nodes) > cap(s.next) {
		panic(fmt.Sprintf("residency: a trace of %d accesses, but there is room for %d", len(t.Nodes), cap(s.next)))
	}
	s.clear()
	s.trace, s.next = t, s.next[:len(t.Nodes)]
	s.crc = t.sum()
	s.seek(0)
	return nil
}

// Batch implements Policy. The frames of rows do not depend on the order of nodes.
func (s *Superbatch) Batch(nodes []uint32, held, into []int32) {
	held, into = held[:len(nodes)], into[:len(nodes)]
	free := s.begun(nodes, held)
	for _, v := range s.trace.Batch(s.at - 1) {
		if s.frameOf[v] == Absent && s.held.has(s.key[v]) {
			_, free = s.take(v, free)
		}
	}
	for i, v := range nodes {
		if into[i] = Absent; held[i] == Absent {
			into[i] = s.frameOf[v]
		}
	}
}

// divided checks that Start divides the trace into batches.
func (t *Trace) divided() error {
	if len(t.Start) == 0 || t.Start[0] != 0 || t.Start[t.Batches()] != int64(len(t.Nodes)) {
		return fault.New(fault.ErrCorrupt, "residency: batches that do not divide a trace of %d accesses", len(t.Nodes))
	}
	for i := range t.Batches() {
		if t.Start[i] > t.Start[i+1] {
			return fault.New(fault.ErrCorrupt, "residency: batches that do not divide a trace of %d accesses", len(t.Nodes))
		}
	}
	return nil
}

func (t *Trace) sum() uint32 {
	return binio.UpdateCRC(binio.CRC(binio.Bytes(t.Start)), binio.Bytes(t.Nodes))
}
