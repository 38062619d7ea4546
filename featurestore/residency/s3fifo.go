package residency

import (
	"encoding/binary"

	"diskgnn/internal/binio"
)

// s3fifo has two queues of rows, first in, first out, and one of nodes without rows:
//
//	        ┌─ used ──────────────► main ─┐ used: to the end again
//	► small ┤                       ▲     └ not used: evicted
//	        └─ not used: evicted, ghost ─ node comes back
//
// A new row goes to the small queue. If the small queue is longer than a tenth of the frames, its first
// row is evicted, and its node goes to the ghost queue; but a row that was used since it came in goes to
// the main queue instead. Otherwise the first row of the main queue is evicted; but a row with uses since
// it came in goes to the end of the main queue instead, once for each use, up to three times. A node in
// the ghost queue goes to the main queue at once.
//
// Rows in use count as used: they move on and are not evicted. A node that came back keeps its place in
// the ghost queue. When this place is reused, the node is forgotten, even if it has been evicted a second
// time. This is as in GraphBolt.
type s3fifo struct {
	of          *online
	next        []int32 // by frame: the next one in its queue
	small, main fifo
	mainInUse   int // rows of the main queue that the batch uses

	ghosts []uint32 // the ghost queue; when it is full, a ring that begins at oldest
	oldest int
}

const (
	uses   = 3      // mask in a frame's mark: number of uses since the row was moved
	inMain = 1 << 6 // bit in a frame's mark: it is in the main queue

	// ghost is the frame of nodes in the ghost queue.
	ghost = int32(-2)
)

// fifo is a queue of frames, linked by s3fifo.next.
type fifo struct {
	first, last int32 // undefined where n is 0
	n           int
}

// ghostPlaces is the length of the ghost queue.
func ghostPlaces(frames int) int { return frames - frames/10 }

func (s *s3fifo) push(q *fifo, f int32) {
	if q.n == 0 {
		q.first = f
	} else {
		s.next[q.last] = f
	}
	q.last = f
	q.n++
}

func (s *s3fifo) pop(q *fifo) int32 {
	f := q.first
	q.first = s.next[f]
	q.n--
	return f
}

func (s *s3fifo) begin() { s.mainInUse = 0 }

func (s *s3fifo) hit(f int32) {
	m := &s.of.mark[f]
	if *m&uses < uses {
		*m++
	}
	if *m&inMain != 0 {
		s.mainInUse++
	}
}

func (s *s3fifo) insert(f int32, v uint32) {
	if s.of.frameOf[v] == ghost {
		s.mainInUse++
		s.enterMain(f)
		return
	}
	s.of.mark[f] = 0
	s.push(&s.small, f)
}

// enterMain puts a frame at the end of the main queue, as one that was not used.
func (s *s3fifo) enterMain(f int32) {
	s.of.mark[f] = s.of.mark[f]&inUse | inMain
	s.push(&s.main, f)
}

func (s *s3fifo) evict() int32 {
	f := s.evictSmall(len(s.next) / 10)
	if f == Absent && s.mainInUse == s.main.n {
		f = s.evictSmall(0)
	}
	if f == Absent {
		f = s.evictMain()
	}
	return f
}

// evictSmall evicts a row of the small queue and returns its frame, or Absent if the queue has at most `most`
// rows.
func (s *s3fifo) evictSmall(most int) int32 {
	for s.small.n > most {
		f := s.pop(&s.small)
		m := s.of.mark[f]
		if m&(uses|inUse) == 0 {
			s.remember(s.of.nodeOf[f])
			return f
		}
		if m&inUse != 0 {
			s.mainInUse++
		}
		s.enterMain(f)
	}
	return Absent
}

// evictMain evicts a row of the main queue, which must have a row that is not in use.
func (s *s3fifo) evictMain() int32 {
	for {
		f := s.pop(&s.main)
		m := &s.of.mark[f]
		if *m&(uses|inUse) == 0 {
			s.of.leave(f)
			return f
		}
		if *m&uses > 0 {
			*m--
		}
		s.push(&s.main, f)
	}
}

// remember puts the node of an evicted row into the ghost queue.
func (s *s3fifo) remember(v uint32) {
	if len(s.ghosts) < cap(s.ghosts) {
		s.ghosts = append(s.ghosts, v)
	} else {
		if u := s.ghosts[s.oldest]; s.of.frameOf[u] == ghost {
			s.of.frameOf[u] = Absent
		}
		s.ghosts[s.oldest] = v
		if s.oldest++; s.oldest == len(s.ghosts) {
			s.oldest = 0
		}
	}
	s.of.frameOf[v] = ghost
}

func (s *s3fifo) save(b []byte) []byte {
	for _, q := range []*fifo{&s.small, &s.main} {
		b = binary.LittleEndian.AppendUint32(b, uint32(q.n))
		for f, n := q.first, q.n; n > 0; f, n = s.next[f], n-1 {
			b = binary.LittleEndian.AppendUint32(b, uint32(f))
		}
	}
	b = s.of.saveMarks(b, uses)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.ghosts)))
	for i := range s.ghosts {
		b = binary.LittleEndian.AppendUint32(b, s.ghostAt(i))
	}
	for i := range s.ghosts {
		remembered := byte(0)
		if s.of.frameOf[s.ghostAt(i)] == ghost {
			remembered = 1
		}
		b = append(b, remembered)
	}
	return b
}

// ghostAt returns the node at a place of the ghost queue, counted from the oldest.
func (s *s3fifo) ghostAt(i int) uint32 { return s.ghosts[(s.oldest+i)%len(s.ghosts)] }

func (s *s3fifo) load(d *binio.Decoder) {
	s.small, s.main = fifo{}, fifo{}
	s.ghosts, s.oldest = s.ghosts[:0], 0
	rows := len(s.of.nodeOf)
	const queued = 1 << 5 // in a frame's mark, until the marks are read
	for _, q := range []*fifo{&s.small, &s.main} {
		for _, f := range list(d, rows) {
			if int64(f) >= int64(rows) || s.of.mark[f] != 0 {
				d.Fail("the queues of a cache with %[2]d rows have frame %[1]d twice, or beyond its end", f, rows)
				return
			}
			s.of.mark[f] = queued
			s.push(q, int32(f))
		}
	}
	if s.small.n+s.main.n != rows && d.Err() == nil {
		d.Fail("the queues have %d of %d rows", s.small.n+s.main.n, rows)
	}
	marks := flags(d, rows, uses)
	if d.Err() != nil {
		return
	}
	copy(s.of.mark, marks)
	for f, n := s.main.first, s.main.n; n > 0; f, n = s.next[f], n-1 {
		s.of.mark[f] |= inMain
	}
	s.loadGhosts(d)
}

func (s *s3fifo) loadGhosts(d *binio.Decoder) {
	ghosts := list(d, cap(s.ghosts))
	remembered := flags(d, len(ghosts), 1)
	if d.Err() != nil {
		return
	}
	frameOf := s.of.frameOf
	for i, v := range ghosts {
		switch {
		case int64(v) >= int64(len(frameOf)):
			d.Fail("the ghost queue has node %d, but there are %d nodes", v, len(frameOf))
			return
		case remembered[i] == 0:
		case frameOf[v] >= 0:
			d.Fail("node %d has a row and is in the ghost queue", v)
			return
		default:
			frameOf[v] = ghost
		}
	}
	for i, v := range ghosts {
		if remembered[i] == 0 && frameOf[v] == ghost {
			d.Fail("node %d is both remembered and forgotten in the ghost queue", v)
			return
		}
	}
	s.ghosts = append(s.ghosts, ghosts...)
}

func (s *s3fifo) bytes() int64 { return 4*int64(len(s.next)) + 4*int64(cap(s.ghosts)) }
