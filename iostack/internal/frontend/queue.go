package frontend

import (
	"sync"
	"sync/atomic"

	"diskgnn/device"
	"diskgnn/iostack"
)

// Queue holds the requests that are not completely taken, in order of submission, in a ring that grows when
// full. A piece is cut when the backend takes it, so a queued request takes the same memory for every
// length.
type Queue struct {
	stack *Stack
	wake  func() // see OnPush

	mu     sync.Mutex
	more   sync.Cond // there may be something to take, or the queue is closed
	ring   []request // a power of two long
	head   int       // where the oldest request lies
	count  int
	closed bool

	length atomic.Int64 // count, to be seen without the lock
}

// request is a queued request or the rest of one: the end of its destination.
type request struct {
	group  *iostack.Group
	file   *File
	index  int // in the group
	offset int64
	length int
	rest   []byte        // in host memory,
	more   [][]byte      // the rest of it there, which has
	later  int           // bytes; or
	device device.Buffer // in device memory
}

// left is the number of bytes not taken yet.
func (r *request) left() int { return len(r.rest) + r.later + int(r.device.Bytes()) }

// next is the file offset of the first byte not taken yet.
func (r *request) next() int64 { return r.offset + int64(r.length-r.left()) }

// skip removes the first n bytes of the rest.
func (r *request) skip(n int) {
	if r.device == (device.Buffer{}) {
		for n >= len(r.rest) && len(r.more) > 0 {
			n -= len(r.rest)
			r.rest, r.more = r.more[0], r.more[1:]
			r.later -= len(r.rest)
		}
		r.rest = r.rest[n:]
		return
	}
	r.device = r.device.Slice(int64(n), r.device.Bytes()-int64(n))
}

func (q *Queue) init(s *Stack) {
	q.stack = s
	q.more.L = &q.mu
	q.ring = make([]request, 256)
	q.wake = q.more.Signal
}

// OnPush sets the function that is called after requests were queued and when the queue is closed. The
// default function wakes a Take. OnPush must be called before the first Submit. wake must not block; the
// queue may be empty when it is called.
func (q *Queue) OnPush(wake func()) { q.wake = wake }

// push queues reqs for files of this stack as part of g: all of them, or none when the queue is
// closed.
func (q *Queue) push(g *iostack.Group, reqs []iostack.Request) error {
	if err := q.append(g, reqs); err != nil {
		return err
	}
	if len(reqs) > 0 {
		q.wake()
	}
	return nil
}

func (q *Queue) append(g *iostack.Group, reqs []iostack.Request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return iostack.ErrClosed
	}
	if len(reqs) == 0 {
		return nil
	}
	for q.count+len(reqs) > len(q.ring) {
		ring := make([]request, 2*len(q.ring))
		for i := range q.count {
			ring[i] = *q.at(i)
		}
		q.ring, q.head = ring, 0
	}
	first := g.Add(len(reqs))
	for i := range reqs {
		r := &reqs[i]
		if r.Len() == 0 {
			g.Done(nil)
			continue
		}
		queued := q.at(q.count)
		*queued = request{
			group: g, file: r.File.(*File), index: first + i,
			offset: r.Offset, length: r.Len(), rest: r.Buf, more: r.Scatter, device: r.Device,
		}
		if r.Scatter != nil {
			queued.later = queued.length
			queued.skip(0) // to the first piece that is not empty
		}
		q.setCount(q.count + 1)
	}
	return nil
}

// Take waits for a request and sets r to its next piece. bounce has BounceBytes bytes and belongs to r
// until r.End. Take returns false once the queue is closed.
func (q *Queue) Take(r *Read, bounce []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for q.count == 0 {
			if q.closed {
				return false
			}
			q.more.Wait()
		}
		if q.take(r, bounce) {
			if q.count > 0 {
				q.more.Signal()
			}
			return true
		}
	}
}

// TryTake is Take without waiting: it returns false if nothing is queued.
func (q *Queue) TryTake(r *Read, bounce []byte) bool {
	if q.Len() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.count > 0 {
		if q.take(r, bounce) {
			return true
		}
	}
	return false
}

// Len returns the number of requests that are not completely taken.
func (q *Queue) Len() int { return int(q.length.Load()) }

// take cuts the next piece of the oldest request. If the request's file is closed, it ends the request and
// returns false.
func (q *Queue) take(r *Read, bounce []byte) bool {
	oldest := q.at(0)
	n, err := r.begin(q.stack, oldest, bounce)
	whole := err != nil || n == oldest.left()
	if whole {
		*oldest = request{} // keeps neither buffer nor group alive
		q.head = (q.head + 1) & (len(q.ring) - 1)
		q.setCount(q.count - 1)
	} else {
		oldest.group.Split()
		oldest.skip(n)
	}
	if err != nil {
		group, failure := r.group, r.fail(err)
		*r = Read{}
		group.Done(failure)
		return false
	}
	return true
}

// drop ends g's queued requests without carrying them out.
func (q *Queue) drop(g *iostack.Group) {
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
	q.setCount(kept)
}

// Close ends all queued requests with ErrClosed. Take then returns false.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	for i := range q.count {
		r := q.at(i)
		r.group.Done(&iostack.ReadError{
			File: r.file.path, Offset: r.offset, Length: r.length, Index: r.index,
			At: r.next(), Err: iostack.ErrClosed,
		})
		*r = request{}
	}
	q.setCount(0)
	q.more.Broadcast()
	q.mu.Unlock()
	q.wake()
}

// Closed reports whether Close was called: nothing is queued any more.
func (q *Queue) Closed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

func (q *Queue) setCount(n int) {
	q.count = n
	q.length.Store(int64(n))
}

// at returns the place of the i-th oldest request.
func (q *Queue) at(i int) *request { return &q.ring[(q.head+i)&(len(q.ring)-1)] }
