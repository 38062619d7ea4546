package kernel

import "fmt"

// Event happens at the time At. The model defines Kind, A and B.
type Event struct {
	At   Time
	seq  uint64 // number in the order of scheduling
	Kind int32
	A    int32
	B    int64
}

// Sim has the clock of a simulation and its scheduled events. The zero value is at time 0, without events.
type Sim struct {
	now    Time
	seq    uint64
	heap   []Event // 4-ary: four children share two lines of cache
	events int64
}

// Now returns the time of the last event of Next.
func (s *Sim) Now() Time { return s.now }

// Events returns the number of events of Next so far.
func (s *Sim) Events() int64 { return s.events }

// After schedules an event at the time Now plus d. d must not be negative.
func (s *Sim) After(d Time, e Event) { s.At(s.now+d, e) }

// At schedules an event at time t. It panics if t is before Now.
func (s *Sim) At(t Time, e Event) {
	if t < s.now {
		panic(fmt.Sprintf("simulate/kernel: an event of kind %d is scheduled at %d ps, which is before %d", e.Kind, t, s.now))
	}
	e.At, e.seq = t, s.seq
	s.seq++
	s.heap = append(s.heap, e)
	s.up(len(s.heap) - 1)
}

// Next removes the next event from the queue, stores it in e and sets the clock to its time. It returns
// false if the queue is empty.
func (s *Sim) Next(e *Event) bool {
	if len(s.heap) == 0 {
		return false
	}
	*e = s.heap[0]
	s.now = e.At
	s.events++
	last := len(s.heap) - 1
	moved := s.heap[last]
	if s.heap = s.heap[:last]; last > 0 {
		s.down(moved)
	}
	return true
}

// before is the order of events: by time, then by scheduling.
func (e *Event) before(o *Event) bool { return e.At < o.At || e.At == o.At && e.seq < o.seq }

// up moves the event at place i of the heap towards the root.
func (s *Sim) up(i int) {
	h := s.heap
	e := h[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

// down puts an event in the root's place of the heap and moves it towards the leaves.
func (s *Sim) down(e Event) {
	h := s.heap
	i := 0
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if !h[least].before(&e) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = e
}
