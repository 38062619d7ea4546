package residency

import (
	"encoding/binary"

	"diskgnn/internal/binio"
)

// MostStates is how many states are held at most: the base, a later one, and one that is made.
const MostStates = 3

// StateHeadBytes is the size of the head between a saved state's kind and its content: the batch after
// the base, and the number of batches decided since, 8 bytes each.
const StateHeadBytes = 16

// States are earlier states of a policy that decides for batches ahead of a run. The methods are for
// one goroutine at a time.
//
// A run's position is the batch trained last. Decisions are ahead of it by the number of slots. So a
// checkpoint holds an earlier state, the base, and a resumed run decides the batches from there to the
// position once more. Two states are kept: the base, and a later one which takes its place at the first
// checkpoint when the position must be beyond it. Batches are numbered in a circle through all sample
// epochs.
type States struct {
	Circle int // batches of the circle
	Kind   int // bytes at the beginning of a saved state that say what it is of

	slots       int // for training batches: no more are under way
	base, later kept
}

// kept is a state, and where it was made.
type kept struct {
	bytes []byte // kind and head, which Save fills, and the content
	next  int    // the batch to decide for
	since int    // how many were decided since
}

// nowhere is the batch of a base that was not a run's.
const nowhere = -1

// New returns the beginning of a state, to which up to room bytes are to be appended.
func (s *States) New(room int) []byte {
	return make([]byte, s.Kind+StateHeadBytes, s.Kind+StateHeadBytes+room)
}

// AddSlots adds n slots for training batches.
func (s *States) AddSlots(n int) { s.slots += n }

// Begin makes b the base: a state before batch next, with since batches decided after it. It keeps b,
// which New has begun.
func (s *States) Begin(b []byte, next, since int) {
	s.base = kept{b, next, since}
	s.later = s.base
}

// Step says that one more batch was decided for.
func (s *States) Step() {
	s.base.since++
	s.later.since++
}

// Save returns the base for a checkpoint, valid until the next call. take returns the present state,
// before batch next.
func (s *States) Save(kind []byte, next int, take func() []byte) []byte {
	if s.later.since >= s.slots {
		s.base = kept{} // for the memory
		s.base, s.later = s.later, kept{take(), next, 0}
	}
	b := s.base.bytes
	copy(b[:s.Kind], kind)
	binary.LittleEndian.PutUint64(b[s.Kind:], uint64(s.base.next))
	binary.LittleEndian.PutUint64(b[s.Kind+8:], uint64(s.base.since))
	return b
}

// maxSince bounds the batches since a base, far above any run's.
const maxSince = 1 << 40

// Parse takes apart a result of Save without its kind. Impossible numbers are an error of kind
// fault.ErrCorrupt.
func (s *States) Parse(b []byte) (content []byte, next, since int, err error) {
	d := binio.NewDecoder(b)
	n, ago := d.U64(), d.U64()
	if d.Err() == nil && (n >= uint64(s.Circle) || ago > maxSince) {
		d.Fail("a state before batch %d of %d, with %d batches since, is impossible", n, s.Circle, ago)
	}
	content = d.Raw(d.Rest())
	return content, int(n), int(ago), d.Err()
}

// Base returns the content of the base, and the batch after it.
func (s *States) Base() (content []byte, next int) {
	return s.base.bytes[s.Kind+StateHeadBytes:], s.base.next
}

// Forget makes the base one of no run.
func (s *States) Forget() { s.base.next = nowhere }

// Behind returns the number of batches to decide once more from the base to stand before batch next, at
// most the number decided since. It is -1 if the base does not belong to a run at this batch. A circle
// that is shorter than the number of slots may have passed the batch once more than the run had.
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
