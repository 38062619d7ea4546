package kernel

// Pool lends k equal units. Those who find none wait in order of arrival.
type Pool struct {
	free    int
	size    int
	waiters fifo[Event]
}

// NewPool returns a pool of k units; k must be positive.
func NewPool(k int) *Pool { return &Pool{free: k, size: k} }

// Acquire borrows a unit now, and reports whether there was one. Otherwise the event waits,
// and is scheduled for the moment when a unit is given back, which it then has.
func (p *Pool) Acquire(s *Sim, e Event) bool {
	if p.free == 0 {
		p.waiters.push(e)
		return false
	}
	p.free--
	return true
}

// Release gives a unit back, or hands it to the first that waits.
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

// Lent returns the units that are lent.
func (p *Pool) Lent() int { return p.size - p.free }

// Waiting returns how many wait.
func (p *Pool) Waiting() int { return p.waiters.len() }

// fifo is a queue in a ring that grows to the most it ever held.
type fifo[T any] struct {
	ring []T // of a power of two
	head int
	n    int
}

func (q *fifo[T]) len() int { return q.n }

// front is the oldest element; the queue must not be empty.
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
