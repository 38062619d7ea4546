package epoch

import (
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/train/decide"
)

// plain is the schedule of the only rank, with a step for every batch.
func plain(epochs, per, sampled int, shuffle bool, seed uint64) *schedule {
	return newSchedule(decide.Schedule{Epochs: epochs, PerEpoch: per, Sampled: sampled, Shuffle: shuffle, Seed: seed, Accumulate: 1, World: 1})
}

func visited(s *schedule) (batches []int) {
	for step := range s.items() {
		_, b := s.at(step)
		batches = append(batches, b)
	}
	return batches
}

func TestEpochsGoRoundTheSampledOnes(t *testing.T) {
	s := plain(5, 3, 2, false, 7)
	want := []int{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2}
	if got := visited(s); !slices.Equal(got, want) {
		t.Errorf("visited %v, want %v", got, want)
	}
	if e, b := s.at(10); e != 3 || b != 4 || s.label(10) != "epoch 3, batch 4" {
		t.Errorf("step 10: epoch %d, batch %d, %q", e, b, s.label(10))
	}
}

// Of a run that begins after the first epoch and two batches, epochs of three batches end with items
// 1 and 4.
func TestLeft(t *testing.T) {
	s := plain(5, 3, 2, false, 7)
	s.begin(1, 2)
	for item, want := range []int{1, 3, 2, 1, 3} {
		if got := s.left(item); got != want {
			t.Errorf("item %d: %d are left of its epoch, want %d", item, got, want)
		}
	}
}

// Shuffled or not, an epoch visits the batches of its sample epoch once each, in an
// order that only seed and epoch decide, whoever asks and in whatever sequence.
func TestShuffle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		epochs, per, sampled := rapid.IntRange(1, 6).Draw(t, "epochs"), rapid.IntRange(1, 20).Draw(t, "batches"), rapid.IntRange(1, 4).Draw(t, "sampled")
		seed := rapid.Uint64().Draw(t, "seed")
		got := visited(plain(epochs, per, sampled, true, seed))
		for e := range epochs {
			part := slices.Sorted(slices.Values(got[e*per : (e+1)*per]))
			for i, b := range part {
				if b != e%sampled*per+i {
					t.Fatalf("epoch %d visits %v", e, part)
				}
			}
		}
		again := plain(epochs, per, sampled, true, seed)
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
	s := plain(2, 10, 1, true, 1)
	a, b := visited(s)[:10], visited(s)[10:]
	if slices.Equal(a, b) || slices.IsSorted(a) {
		t.Errorf("epochs are visited as %v and %v", a, b)
	}
	if other := visited(plain(1, 10, 1, true, 2)); slices.Equal(a, other) {
		t.Errorf("two seeds give %v", a)
	}
}

// The ranks' items are all batches of every epoch, once each; of every step, which ends where
// the plain count says, each rank has its equal part in turn, and what is left of an epoch goes
// to the first ranks. A run that goes on after any step goes on with the same items.
func TestDividedSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world, each := rapid.IntRange(1, 5).Draw(t, "world"), rapid.IntRange(1, 4).Draw(t, "each")
		epochs, per := rapid.IntRange(1, 3).Draw(t, "epochs"), rapid.IntRange(1, 30).Draw(t, "batches")
		g := world * each
		var want [][]int // by rank: epoch·per + batch
		for range world {
			want = append(want, nil)
		}
		for e := range epochs {
			for step := 0; step*g < per; step++ {
				for k := range min(g, per-step*g) {
					want[k/each] = append(want[k/each], e*per+step*g+k)
				}
			}
		}
		for rank := range world {
			s := newSchedule(decide.Schedule{Epochs: epochs, PerEpoch: per, Sampled: epochs, Accumulate: g, Rank: rank, World: world})
			var got []int
			for item := range s.items() {
				e, b := s.position(item)
				got = append(got, e*per+b)
				if end := min((b/g+1)*g, per); s.after(b) != end || s.begun(end) != b/g*g {
					t.Fatalf("batch %d of steps of %d: ends at %d, begins at %d", b, g, s.after(b), s.begun(end))
				}
				next := slices.Index(want[rank], e*per+b) + 1
				if last := next == len(want[rank]) || want[rank][next]/per > e || want[rank][next]%per/g > b/g; s.last(b) != last {
					t.Fatalf("rank %d, batch %d: last %t", rank, b, !last)
				}
			}
			if !slices.Equal(got, want[rank]) {
				t.Fatalf("rank %d of %d, steps of %d: %v, want %v", rank, world, g, got, want[rank])
			}
			epoch, step := rapid.IntRange(0, epochs-1).Draw(t, "epoch"), rapid.IntRange(0, per/g).Draw(t, "step")
			s.begin(epoch, step*g)
			from := 0
			for from < len(want[rank]) && want[rank][from] < epoch*per+step*g {
				from++
			}
			if s.items() != len(want[rank])-from {
				t.Fatalf("%d items from epoch %d, step %d on, want %d", s.items(), epoch, step, len(want[rank])-from)
			}
			if s.items() > 0 {
				if e, b := s.position(0); e*per+b != want[rank][from] {
					t.Fatalf("goes on with %d of epoch %d, want %d", b, e, want[rank][from])
				}
			}
		}
	})
}

// A rank may have no batch at all.
func TestNoBatchOfItsOwn(t *testing.T) {
	s := newSchedule(decide.Schedule{Epochs: 2, PerEpoch: 1, Sampled: 1, Accumulate: 2, Rank: 1, World: 2})
	if s.items() != 0 || s.next() != 0 {
		t.Errorf("%d items, from batch %d", s.items(), s.next())
	}
}
