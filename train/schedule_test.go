package train

import (
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func visited(s *schedule) (batches []int) {
	for step := range s.items() {
		_, b := s.at(step)
		batches = append(batches, b)
	}
	return batches
}

func TestEpochsGoRoundTheSampledOnes(t *testing.T) {
	s := newSchedule(5, 3, 2, false, 7)
	want := []int{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2}
	if got := visited(s); !slices.Equal(got, want) {
		t.Errorf("visited %v, want %v", got, want)
	}
	if e, b := s.at(10); e != 3 || b != 4 || s.label(10) != "epoch 3, batch 4" {
		t.Errorf("step 10: epoch %d, batch %d, %q", e, b, s.label(10))
	}
}

// Shuffled or not, an epoch visits the batches of its sample epoch once each, in an
// order that only seed and epoch decide, whoever asks and in whatever sequence.
func TestShuffle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		epochs, per, sampled := rapid.IntRange(1, 6).Draw(t, "epochs"), rapid.IntRange(1, 20).Draw(t, "batches"), rapid.IntRange(1, 4).Draw(t, "sampled")
		seed := rapid.Uint64().Draw(t, "seed")
		got := visited(newSchedule(epochs, per, sampled, true, seed))
		for e := range epochs {
			part := slices.Sorted(slices.Values(got[e*per : (e+1)*per]))
			for i, b := range part {
				if b != e%sampled*per+i {
					t.Fatalf("epoch %d visits %v", e, part)
				}
			}
		}
		again := newSchedule(epochs, per, sampled, true, seed)
		var wg sync.WaitGroup
		for w := range 3 {
			wg.Go(func() {
				for step := again.items() - 1 - w; step >= 0; step -= 3 {
					if _, b := again.at(step); b != got[step] {
						t.Errorf("step %d: batch %d, then %d", step, got[step], b)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestShufflesDiffer(t *testing.T) {
	s := newSchedule(2, 10, 1, true, 1)
	a, b := visited(s)[:10], visited(s)[10:]
	if slices.Equal(a, b) || slices.IsSorted(a) {
		t.Errorf("epochs are visited as %v and %v", a, b)
	}
	if other := visited(newSchedule(1, 10, 1, true, 2)); slices.Equal(a, other) {
		t.Errorf("two seeds give %v", a)
	}
}
