package kernel

// fifo is a queue in a ring that grows to the most it ever held.
type fifo[T any] struct {
	ring []T // of a power of two
	head int
	n    int
}

func (q *fifo[T]) len() int { return q.n }

// front is what was pushed first; there must be something.
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
