package epoch

import (
	"fmt"
	"sync"

	"diskgnn/featurestore"
	"diskgnn/internal/rng"
	"diskgnn/train/decide"
)

// shuffleKey keeps the shuffle's random stream apart from other random streams.
const shuffleKey = 0x7368_7566_666C_6521

// schedule maps items to batches. A replica's items are its own batches, through the whole run, or
// from the step at which it resumes. Safe for concurrent use.
type schedule struct {
	decide.Schedule
	first int // the item at position 0: the first one after the checkpoint of a resumed run

	mu    sync.Mutex
	kept  int // the epoch that order belongs to
	order []int
}

func newSchedule(s decide.Schedule) *schedule { return &schedule{Schedule: s, kept: -1} }

// begin makes the run resume after epochs and batches of the next epoch, a whole number of steps.
func (s *schedule) begin(epoch, batches int) { s.first = epoch*s.own() + s.before(batches) }

// before returns the number of the replica's batches among an epoch's first batches.
func (s *schedule) before(batches int) int {
	each := s.Accumulate / s.World
	return batches/s.Accumulate*each + min(max(batches%s.Accumulate-s.Rank*each, 0), each)
}

// own returns the number of the replica's batches in an epoch.
func (s *schedule) own() int { return s.before(s.PerEpoch) }

// items returns the number of items.
func (s *schedule) items() int { return s.Epochs*s.own() - s.first }

// left returns the number of items from an item to the end of its epoch.
func (s *schedule) left(item int) int { return s.own() - (item+s.first)%s.own() }

// begun returns the number of an epoch's batches before the step that ended with done.
func (s *schedule) begun(done int) int { return max(0, done-1) / s.Accumulate * s.Accumulate }

// after returns the number of an epoch's batches that are done after the step with the given one.
func (s *schedule) after(batch int) int {
	return min((batch/s.Accumulate+1)*s.Accumulate, s.PerEpoch)
}

// last reports whether a batch is the replica's last of its step.
func (s *schedule) last(batch int) bool { return s.before(s.after(batch)) == s.before(batch+1) }

// next returns the batch that comes first, 0 when none is left.
func (s *schedule) next() int {
	if s.items() == 0 {
		return 0
	}
	_, batch := s.at(0)
	return batch
}

// position returns an item's epoch, and the position of its batch in the epoch, from 0.
func (s *schedule) position(item int) (epoch, batch int) {
	item += s.first
	each, k := s.Accumulate/s.World, item%s.own()
	return item / s.own(), k/each*s.Accumulate + s.Rank*each + k%each
}

// at returns an item's epoch, and the number of its batch among all training batches.
func (s *schedule) at(item int) (epoch, batch int) {
	epoch, position := s.position(item)
	return epoch, s.number(epoch, position)
}

// number returns the number of the batch at a position of an epoch among all training batches.
func (s *schedule) number(epoch, position int) int {
	return epoch%s.Sampled*s.PerEpoch + s.place(epoch, position)
}

// ref names the batch of an item.
func (s *schedule) ref(item int) featurestore.Ref {
	_, batch := s.at(item)
	return featurestore.Ref{Split: featurestore.Train, Index: batch}
}

// place returns the batch at a position of an epoch.
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
