package kernel

// Pool lends k equal units. Events that find no free unit wait in order of arrival.
type Pool struct {
	free    int
	size    int
	waiters fifo[Event]
}

// NewPool returns a pool of k units; k must be positive.
func NewPool(k int) *Pool { return &Pool{free: k, size: k} }

// Acquire borrows a unit now, and reports whether one was free. If not, the event e waits: when a unit is
// given back, e is scheduled for that moment and has the unit.
func (p *Pool) Acquire(s *Sim, e Event) bool {
	if p.free == 0 {
		p.waiters.push(e)
		return false
	}
	p.free--
	return true
}

// Release gives a unit back, or passes it to the first waiting event.
func (p *Pool) Release(s *Sim) {
	if p.waiters.len() > 0 {
		s.After(0, *p.waiters.front())
		p.waiters.pop()
		return
	}
	if p.free == p.size {
		panic("simulate/kernel: a unit is given back that was not lent")
	}
	p.free++
}

// Lent returns the number of lent units.
func (p *Pool) Lent() int { return p.size - p.free }

// Waiting returns the number of waiting events.
func (p *Pool) Waiting() int { return p.waiters.len() }

// fifo is a queue in a ring. Its memory grows with the longest queue, and does not shrink.
type fifo[T any] struct {
	ring []T // its length is a power of two
	head int
	n    int
}

func (q *fifo[T]) len() int { return q.n }

// front returns the oldest element. The queue must not be empty.
func (q *fifo[T]) front() *T { return &q.ring[q.head] }

func (q *fifo[T]) push(v T) {
	if q.n == len(q.ring) {
		ring := make([]T, max(16, 2*len(q.ring)))
		k := copy(ring, q.ring[q.head:])
		copy(ring[k:], q.ring[:q.head])
		q.ring, q.head = ring, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = v
	q.n++
}

func (q *fifo[T]) pop() {
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
}
