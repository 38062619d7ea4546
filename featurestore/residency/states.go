package residency

import (
	"encoding/binary"

	"diskgnn/internal/binio"
)

// MostStates is the most states in memory at a time: the base, a later one, and a new one.
const MostStates = 3

// StateHeadBytes is the size of the head between a saved state's kind and its content: the batch after
// the base, and the number of batches decided since, 8 bytes each.
const StateHeadBytes = 16

// States keeps earlier states of a policy that decides for batches ahead of a run. It belongs to one
// goroutine at a time.
//
// A run's position is the batch trained last. Decisions are ahead of the position by up to the number of
// slots. So a checkpoint has an earlier state, the base, and a resumed run decides again for the batches
// from the base to the position. States keeps the base and a later state. The later state replaces the
// base at the first checkpoint at which the position must be beyond it. Batches are numbered in a circle
// through all sample epochs.
type States struct {
	Circle int // batches of the circle
	Kind   int // length of the kind at the beginning of a saved state, in bytes

	slots       int // slots for training batches: the most batches in flight
	base, later kept
}

// kept is a state and its position.
type kept struct {
	bytes []byte // kind and head, which Save fills in, and the content
	next  int    // the next batch to decide for
	since int    // batches decided since
}

// nowhere is the next batch of a base that belongs to no run.
const nowhere = -1

// New returns the beginning of a state, with capacity to append room bytes of content.
func (s *States) New(room int) []byte {
	return make([]byte, s.Kind+StateHeadBytes, s.Kind+StateHeadBytes+room)
}

// AddSlots adds n to the number of slots for training batches, which bounds the batches in flight.
func (s *States) AddSlots(n int) { s.slots += n }

// Begin makes b the base: a result of New with its content, for the state before batch next, with since
// batches decided after it. States owns b afterwards.
func (s *States) Begin(b []byte, next, since int) {
	s.base = kept{b, next, since}
	s.later = s.base
}

// Step counts a decision for one more batch.
func (s *States) Step() {
	s.base.since++
	s.later.since++
}

// Save returns the base for a checkpoint, valid until the next call. It may replace the base by the later
// state; then it calls take, which returns the present state, before batch next.
func (s *States) Save(kind []byte, next int, take func() []byte) []byte {
	if s.later.since >= s.slots {
		s.base = kept{} // release its memory before take allocates
		s.base, s.later = s.later, kept{take(), next, 0}
	}
	b := s.base.bytes
	copy(b[:s.Kind], kind)
	binary.LittleEndian.PutUint64(b[s.Kind:], uint64(s.base.next))
	binary.LittleEndian.PutUint64(b[s.Kind+8:], uint64(s.base.since))
	return b
}

// maxSince bounds the batches since a base, far above the number of any run.
const maxSince = 1 << 40

// Parse splits a result of Save, without its kind, into the content of the base, the batch after it, and the
// number of batches decided since. Impossible numbers are an error of kind fault.ErrCorrupt.
func (s *States) Parse(b []byte) (content []byte, next, since int, err error) {
	d := binio.NewDecoder(b)
	n, ago := d.U64(), d.U64()
	if d.Err() == nil && (n >= uint64(s.Circle) || ago > maxSince) {
		d.Fail("a state before batch %d of %d, with %d batches since, is impossible", n, s.Circle, ago)
	}
	content = d.Raw(d.Rest())
	return content, int(n), int(ago), d.Err()
}

// Base returns the content of the base state, and the first batch to decide for after it.
func (s *States) Base() (content []byte, next int) {
	return s.base.bytes[s.Kind+StateHeadBytes:], s.base.next
}

// Forget marks the base as belonging to no run: Behind returns -1 until the next Begin.
func (s *States) Forget() { s.base.next = nowhere }

// Behind returns the number of batches to decide again from the base to the state before batch next, at
// most the number decided since. It is -1 if the base does not belong to a run at this batch. If the
// circle is shorter than the number of slots, decisions may have passed the batch once more than the run.
func (s *States) Behind(next int) int {
	if s.base.next == nowhere {
		return -1
	}
	n := (next - s.base.next + s.Circle) % s.Circle
	if n > s.base.since {
		return -1
	}
	return n + (s.base.since-n)/s.Circle*s.Circle
}
