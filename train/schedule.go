package train

import (
	"fmt"
	"sync"

	"diskgnn/featurestore"
	"diskgnn/internal/rng"
)

// shuffleKey keeps the shuffle's random stream apart from those of other purposes.
const shuffleKey = 0x7368_7566_666C_6521

// schedule says which batch each step trains on. Steps count through the whole run,
// or from the one that it goes on with;
// epoch e visits the batches of sample epoch e mod the number of those. Safe for
// concurrent use.
type schedule struct {
	epochs, perEpoch, sampled int
	shuffle                   bool
	seed                      uint64
	first                     int // the step that at calls 0: where a resumed run goes on

	mu    sync.Mutex
	kept  int // the epoch that order belongs to
	order []int
}

func newSchedule(epochs, perEpoch, sampled int, shuffle bool, seed uint64) *schedule {
	return &schedule{epochs: epochs, perEpoch: perEpoch, sampled: sampled, shuffle: shuffle, seed: seed, kept: -1}
}

// steps returns how many there are to do.
func (s *schedule) steps() int { return s.epochs*s.perEpoch - s.first }

// next returns the batch that comes first, 0 when no step is left.
func (s *schedule) next() int {
	if s.steps() == 0 {
		return 0
	}
	_, batch := s.at(0)
	return batch
}

// at returns a step's epoch and its batch's number among those of training.
func (s *schedule) at(step int) (epoch, batch int) {
	step += s.first
	epoch = step / s.perEpoch
	return epoch, epoch%s.sampled*s.perEpoch + s.place(epoch, step%s.perEpoch)
}

// ref names the batch of a step.
func (s *schedule) ref(step int) featurestore.Ref {
	_, batch := s.at(step)
	return featurestore.Ref{Split: featurestore.Train, Index: batch}
}

// place returns which of an epoch's batches comes at a position.
func (s *schedule) place(epoch, position int) int {
	if !s.shuffle {
		return position
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept != epoch {
		if s.order == nil {
			s.order = make([]int, s.perEpoch)
		}
		for i := range s.order {
			s.order[i] = i
		}
		stream := rng.New(rng.Key(s.seed, uint64(epoch), shuffleKey))
		rng.Shuffle(&stream, s.order)
		s.kept = epoch
	}
	return s.order[position]
}

// label names a step in errors.
func (s *schedule) label(step int) string {
	epoch, batch := s.at(step)
	return fmt.Sprintf("epoch %d, batch %d", epoch, batch)
}
