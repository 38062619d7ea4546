package residency

import (
	"fmt"

	"diskgnn/internal/binio"
)

// StandbyBatches is the number of batches for which a row stays in use under the policy standby:
// GNNDrive's two extractors and its trainer have one batch each.
const StandbyBatches = 3

// standby evicts the row that was released first, as GNNDrive's standby list does. A row is in use during
// its batch and the next StandbyBatches-1 batches, which are loaded before the batch has been trained;
// then it is released. Rows of one batch are released in the order of its nodes. Rows in use are not
// evicted; if no others are left, the other misses pass by.
//
// So rows are released in the order of their last uses, and the newest rows are in use.
type standby struct {
	table
	queue links    // last used first
	last  []uint32 // by frame: at of the batch that last used its row
	at    uint32   // batches done
}

// Batch implements Policy.
func (s *standby) Batch(nodes []uint32, held, into []int32) {
	held, into = held[:len(nodes)], into[:len(nodes)]
	s.at++
	for i, v := range nodes {
		held[i], into[i] = s.frameOf[v], Absent
		if held[i] != Absent && s.queue.has(held[i]) { // a damaged batch may have a node twice
			s.queue.remove(held[i])
		}
	}
	for i, v := range nodes {
		if held[i] == Absent {
			into[i] = s.take(v)
		}
	}
	for i := range nodes {
		if f := max(held[i], into[i]); f != Absent && !s.queue.has(f) {
			s.queue.push(f)
			s.last[f] = s.at
		}
	}
}

// take gives a node the frame of a released row, or returns Absent.
func (s *standby) take(v uint32) int32 {
	if !s.full() {
		return s.add(v)
	}
	f := s.queue.last
	if f == Absent || s.at-s.last[f] < StandbyBatches {
		return Absent
	}
	s.queue.remove(f)
	s.frameOf[s.nodeOf[f]] = Absent
	s.replace(f, v)
	return f
}

// left returns the number of coming batches for which a frame's row is still in use.
func (s *standby) left(f int32) uint8 {
	return uint8(StandbyBatches - 1 - min(s.at-s.last[f], StandbyBatches-1))
}

// State implements Policy.
func (s *standby) State() []byte {
	b := s.queue.save(s.save(Standby))
	for f := range s.nodeOf {
		b = append(b, s.left(int32(f)))
	}
	return b
}

// LoadState implements Policy.
func (s *standby) LoadState(b []byte) error {
	s.clear()
	s.queue.clear()
	d := binio.NewDecoder(b)
	if s.load(d, Standby); d.Err() == nil {
		s.queue.load(d, len(s.nodeOf))
	}
	s.at = StandbyBatches
	for f, n := range flags(d, len(s.nodeOf), StandbyBatches-1) {
		s.last[f] = s.at - (StandbyBatches - 1 - uint32(n))
	}
	if d.Err() == nil {
		for f := s.queue.first; f != Absent; f = s.queue.older[f] {
			if o := s.queue.older[f]; o != Absent && s.left(o) > s.left(f) {
				d.Fail("frame %d is older than frame %d in the queue, but was used later", o, f)
				break
			}
		}
	}
	if err := end(d); err != nil {
		return fmt.Errorf("residency: state of %s: %w", Standby, err)
	}
	return nil
}

// Bytes implements Policy.
func (s *standby) Bytes() int64 { return s.table.bytes() + s.queue.bytes() + 4*int64(len(s.last)) }
