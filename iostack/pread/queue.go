package pread

import (
	"sync"

	"diskgnn/iostack"
	"diskgnn/iostack/internal/split"
)

// queue holds the requests that have not been handed out whole, first come
// first served, in a ring that grows when full. Pieces are cut when a worker
// asks for one, so that a queued request costs the same whatever its length.
type queue struct {
	mu     sync.Mutex
	more   sync.Cond // there may be something to take, or the queue is closed
	ring   []request // a power of two long
	head   int       // where the oldest request lies
	count  int
	closed bool
}

// request is a queued request or what is left of it: the last len(rest) bytes.
type request struct {
	group  *iostack.Group
	file   *file
	index  int // in the group
	offset int64
	length int
	rest   []byte
}

// next is the file offset of the first byte not handed out.
func (r *request) next() int64 { return r.offset + int64(r.length-len(r.rest)) }

// fail describes a failure of the part of r that begins at the given offset.
func (r *request) fail(at int64, err error) *iostack.ReadError {
	return &iostack.ReadError{File: r.file.path, Offset: r.offset, Length: r.length, Index: r.index, At: at, Err: err}
}

func (q *queue) init() {
	q.more.L = &q.mu
	q.ring = make([]request, 256)
}

// push queues reqs, whose files are this package's, as part of g: all of them,
// or none when the queue is closed.
func (q *queue) push(g *iostack.Group, reqs []iostack.Request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return iostack.ErrClosed
	}
	if len(reqs) == 0 {
		return nil
	}
	for q.count+len(reqs) > len(q.ring) {
		q.grow()
	}
	first := g.Add(len(reqs))
	for i := range reqs {
		r := &reqs[i]
		if len(r.Buf) == 0 {
			g.Done(nil)
			continue
		}
		*q.at(q.count) = request{
			group: g, file: r.File.(*file), index: first + i,
			offset: r.Offset, length: len(r.Buf), rest: r.Buf,
		}
		q.count++
	}
	q.more.Signal() // one worker is enough: it wakes the next if there is more
	return nil
}

// take waits for a request and returns it with the next piece of it; ok is
// false once the queue is closed. Whoever took a piece owes its group one Done.
func (q *queue) take() (r request, p split.Piece, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.count == 0 {
		if q.closed {
			return request{}, split.Piece{}, false
		}
		q.more.Wait()
	}
	oldest := q.at(0)
	r = *oldest
	p = r.file.splits.Next(r.next(), r.rest)
	if len(p.Dst) < len(r.rest) {
		r.group.Split()
		oldest.rest = r.rest[len(p.Dst):]
	} else {
		*oldest = request{} // keeps neither buffer nor group alive
		q.head = (q.head + 1) & (len(q.ring) - 1)
		q.count--
	}
	if q.count > 0 {
		q.more.Signal()
	}
	return r, p, true
}

// drop ends g's queued requests without carrying them out.
func (q *queue) drop(g *iostack.Group) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := 0
	for i := range q.count {
		r := *q.at(i)
		*q.at(i) = request{}
		if r.group == g {
			g.Done(nil)
			continue
		}
		*q.at(kept) = r
		kept++
	}
	q.count = kept
}

// close ends all queued requests with ErrClosed and lets the workers go.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for i := range q.count {
		r := q.at(i)
		r.group.Done(r.fail(r.next(), iostack.ErrClosed))
		*r = request{}
	}
	q.count = 0
	q.more.Broadcast()
}

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// at returns the place of the i-th oldest request.
func (q *queue) at(i int) *request { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *queue) grow() {
	ring := make([]request, 2*len(q.ring))
	for i := range q.count {
		ring[i] = *q.at(i)
	}
	q.ring, q.head = ring, 0
}
