package residency

import (
	"fmt"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// Superbatch is Belady's policy over one recorded trace after the other, as Ginex has it. The
// cache is empty when a trace begins, and rows that were missed take its free frames. Ginex
// reads the first distinct nodes of the trace into the cache before it begins, as many as there
// are frames; a row of these is here a miss at its first access, and what the cache holds from
// the first eviction on is the same: until then nothing leaves, and by then all of these have
// been accessed. So the misses are Ginex's and the rows that it begins with.
type Superbatch struct{ belady }

// NewSuperbatch returns a policy for traces that are no longer than the size says. It holds
// Size.Bytes of Belady's policy less the trace, and no trace yet. A trace and nodes that are
// together more than 2³² are an error of kind fault.ErrUsage.
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

// Begin empties the cache, and takes a trace over until the next Begin: the nodes of each
// batch are ascending. Other traces are an error of kind fault.ErrCorrupt, longer ones than the
// policy was made for a bug of the caller's, which panics.
func (s *Superbatch) Begin(t Trace) error {
	if err := t.divided(); err != nil {
		return err
	}
	for i := range t.Batches() {
		nodes := t.Batch(i)
		for j, v := range nodes {
			if int64(v) >= int64(len(s.frameOf)) || j > 0 && v <= nodes[j-1] {
				return fault.New(fault.ErrCorrupt, "residency: batch %d of the trace uses node %d, of %d, and not in ascending order", i, v, len(s.frameOf))
			}
		}
	}
	if len(t.Nodes) > cap(s.next) {
		panic(fmt.Sprintf("residency: a trace of %d accesses, there may be %d", len(t.Nodes), cap(s.next)))
	}
	s.clear()
	s.trace, s.next = t, s.next[:len(t.Nodes)]
	s.crc = t.sum()
	s.seek(0)
	return nil
}

// Batch implements Policy. Which frame takes which row does not depend on the order of nodes.
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

// divided checks that the batches of a trace divide it.
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

// sum returns the checksum of a trace.
func (t *Trace) sum() uint32 {
	return binio.UpdateCRC(binio.CRC(binio.Bytes(t.Start)), binio.Bytes(t.Nodes))
}
