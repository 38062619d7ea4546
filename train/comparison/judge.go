package comparison

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"diskgnn/internal/units"
)

// What a round's epochs that count must have and take at least, all together, for a store to be
// called the fastest: fewer batches never fill the pipeline, and shorter times are the machine's
// whims.
const (
	leastBatches = 20
	leastSeconds = 1
)

// whole returns the rows that have figures and from which nothing was taken away, or all that have
// figures.
func (r *Result) whole() []*Store {
	list := r.ran()
	if whole := slices.DeleteFunc(slices.Clone(list), func(s *Store) bool { return s.Ablation != "" }); len(whole) > 0 {
		return whole
	}
	return list
}

// ends returns the rows of the shortest and of the longest epochs.
func (r *Result) ends() (shortest, longest *Store) {
	list := r.whole()
	if len(list) == 0 {
		return nil, nil
	}
	by := func(a, b *Store) int { return int(math.Copysign(1, float64(a.EpochSeconds-b.EpochSeconds))) }
	return slices.MinFunc(list, by), slices.MaxFunc(list, by)
}

// judge names the fastest row, or says why none is: there are two rounds and more of each, none too
// short, and its slowest round is faster than every other row's fastest.
func (r *Result) judge() {
	list := r.whole()
	best, _ := r.ends()
	short := slices.IndexFunc(list, func(s *Store) bool { return s.batches < leastBatches || s.seconds < leastSeconds })
	switch {
	case len(list) < 2:
		r.Undecided = "it takes two stores to compare"
	case slices.ContainsFunc(list, func(s *Store) bool { return s.Rounds < 2 }):
		r.Undecided = "it takes two rounds of each store to see how much they vary (--rounds 2)"
	case short >= 0:
		s := list[short]
		r.Undecided = fmt.Sprintf("in a round of %s, the epochs that are compared have %s and take %s; %d batches and %s are the least (--epochs)",
			s.Name(), units.Of(s.batches, "batch"), units.Seconds(s.seconds), leastBatches, units.Seconds(leastSeconds))
	default:
		if i := slices.IndexFunc(list, func(s *Store) bool { return s != best && !apart(best, s) }); i >= 0 {
			r.Undecided = fmt.Sprintf("rounds of %s and of %s take as long as each other", best.Name(), list[i].Name())
			return
		}
		r.Fastest = best.Name()
	}
}

// apart reports whether all rounds of a store are faster than all of another one.
func apart(fast, slow *Store) bool {
	return cmp.Less(slices.Max(fast.RoundSeconds), slices.Min(slow.RoundSeconds))
}
