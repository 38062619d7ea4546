package residency

import (
	"encoding/binary"

	"diskgnn/internal/binio"
)

// sieve evicts the first row, from the hand on towards newer rows, that was not used since the hand last
// passed it. After the newest row comes the oldest. Unlike in clock, rows that the hand passes keep their
// places, and the hand reaches new rows last.
type sieve struct {
	of    *online
	queue links // last inserted first
	hand  int32 // frame at which the next search begins, or Absent: at the oldest row
}

func (s *sieve) begin() {}

func (s *sieve) hit(f int32) { s.of.mark[f] |= used }

func (s *sieve) evict() int32 {
	f := s.hand
	for {
		if f == Absent {
			f = s.queue.last
		}
		if s.of.mark[f]&(used|inUse) == 0 {
			break
		}
		s.of.mark[f] &^= used
		f = s.queue.newer[f]
	}
	s.hand = s.queue.newer[f]
	s.queue.remove(f)
	s.of.leave(f)
	return f
}

func (s *sieve) insert(f int32, _ uint32) { s.queue.push(f) }

func (s *sieve) save(b []byte) []byte {
	b = s.queue.save(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.hand))
	return s.of.saveMarks(b, used)
}

func (s *sieve) load(d *binio.Decoder) {
	rows := len(s.of.nodeOf)
	s.queue.load(d, rows)
	s.hand = int32(d.U32())
	if s.hand < Absent || int(s.hand) >= rows {
		d.Fail("the hand is at frame %d of a cache with %d rows", s.hand, rows)
		return
	}
	copy(s.of.mark, flags(d, rows, used))
}

func (s *sieve) bytes() int64 { return s.queue.bytes() }
