package epoch

import (
	"fmt"
	"sync"

	"diskgnn/featurestore"
	"diskgnn/internal/rng"
	"diskgnn/train/decide"
)

// shuffleKey keeps the shuffle's random stream apart from those of other purposes.
const shuffleKey = 0x7368_7566_666C_6521

// schedule says which batches a replica trains on, by counting items: a replica's own batches,
// through the whole run, or from the step that it goes on with. Safe for concurrent use.
type schedule struct {
	decide.Schedule
	first int // the item that position calls 0: where a resumed run goes on

	mu    sync.Mutex
	kept  int // the epoch that order belongs to
	order []int
}

func newSchedule(s decide.Schedule) *schedule { return &schedule{Schedule: s, kept: -1} }

// begin makes the run go on after so many epochs and batches of the next, a whole number of
// steps.
func (s *schedule) begin(epoch, batches int) { s.first = epoch*s.own() + s.before(batches) }

// before returns how many of an epoch's first batches are the replica's.
func (s *schedule) before(batches int) int {
	each := s.Accumulate / s.World
	return batches/s.Accumulate*each + min(max(batches%s.Accumulate-s.Rank*each, 0), each)
}

// own returns how many of an epoch's batches are the replica's.
func (s *schedule) own() int { return s.before(s.PerEpoch) }

// items returns how many there are to do.
func (s *schedule) items() int { return s.Epochs*s.own() - s.first }

// left returns how many items of its epoch there are from an item on.
func (s *schedule) left(item int) int { return s.own() - (item+s.first)%s.own() }

// begun returns how many of an epoch's batches were done before the step that ended with so
// many.
func (s *schedule) begun(done int) int { return max(0, done-1) / s.Accumulate * s.Accumulate }

// after returns how many of an epoch's batches are done after the step with the given one.
func (s *schedule) after(batch int) int {
	return min((batch/s.Accumulate+1)*s.Accumulate, s.PerEpoch)
}

// last reports whether of a step's batches no later one is the replica's.
func (s *schedule) last(batch int) bool { return s.before(s.after(batch)) == s.before(batch+1) }

// next returns the batch that comes first, 0 when none is left.
func (s *schedule) next() int {
	if s.items() == 0 {
		return 0
	}
	_, batch := s.at(0)
	return batch
}

// position returns an item's epoch, and the how manieth of its batches it is.
func (s *schedule) position(item int) (epoch, batch int) {
	item += s.first
	each, k := s.Accumulate/s.World, item%s.own()
	return item / s.own(), k/each*s.Accumulate + s.Rank*each + k%each
}

// at returns an item's epoch and its batch's number among those of training.
func (s *schedule) at(item int) (epoch, batch int) {
	epoch, batch = s.position(item)
	return epoch, epoch%s.Sampled*s.PerEpoch + s.place(epoch, batch)
}

// ref names the batch of an item.
func (s *schedule) ref(item int) featurestore.Ref {
	_, batch := s.at(item)
	return featurestore.Ref{Split: featurestore.Train, Index: batch}
}

// place returns which of an epoch's batches comes at a position.
func (s *schedule) place(epoch, position int) int {
	if !s.Shuffle {
		return position
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept != epoch {
		if s.order == nil {
			s.order = make([]int, s.PerEpoch)
		}
		for i := range s.order {
			s.order[i] = i
		}
		stream := rng.New(rng.Key(s.Seed, uint64(epoch), shuffleKey))
		rng.Shuffle(&stream, s.order)
		s.kept = epoch
	}
	return s.order[position]
}

// label names an item in errors.
func (s *schedule) label(item int) string {
	epoch, batch := s.at(item)
	return fmt.Sprintf("epoch %d, batch %d", epoch, batch)
}
