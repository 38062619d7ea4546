package decide

import (
	"diskgnn/featurestore"
	"diskgnn/internal/fault"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

func usage(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }

// Resolve returns the recipe with every auto that the store decides replaced. It refuses a store
// that cannot serve the run, or that differs from the resumed run's.
func Resolve(o Options, s *Store, was *rundir.File) (recipe.Recipe, error) {
	if was != nil {
		if err := SameSamples(was, o.Out, s); err != nil {
			return o.Recipe, err
		}
	}
	if o.Accumulate == 0 {
		o.Accumulate = o.Ranks
	}
	if o.Accumulate%o.Ranks != 0 {
		return o.Recipe, usage("--accumulate %d: %d ranks cannot divide a step equally; give a multiple of the number of ranks, or another number of ranks", o.Accumulate, o.Ranks)
	}
	data := recipe.Data{Name: o.Source(), Dim: s.Dim, Classes: s.Classes, MultiLabel: s.MultiLabel(), Metric: s.Metric, Layers: len(s.Fanout), Types: s.Types, SeedType: s.SeedType}
	if err := o.Recipe.Resolve(data); err != nil {
		return o.Recipe, err
	}
	for _, check := range []func(*Store) error{o.checkOrder, o.checkPatience, o.checkCounts, o.checkSlice} {
		if err := check(s); err != nil {
			return o.Recipe, err
		}
	}
	return o.Recipe, nil
}

// checkOrder refuses to change the order of the batches, or to omit some, if the cache depends on
// it.
func (o *Options) checkOrder(s *Store) error {
	switch {
	case !s.InOrder:
	case o.Ranks > 1 && o.Pack != "":
		return usage("%d ranks: %s has the policy min, and its cache needs all batches in order; pack with the policy static", o.Ranks, o.Source())
	case o.Ranks > 1:
		return usage("%d ranks: the cache of the store %s needs all batches in order", o.Ranks, s.Name)
	case o.ShuffleBatches && o.Pack != "":
		return usage("--shuffle-batches: %s has the policy min, and its cache needs the batches in order", o.Source())
	case o.ShuffleBatches:
		return usage("--shuffle-batches: the cache of the store %s needs the batches in order", s.Name)
	}
	return nil
}

// checkPatience refuses patience without validation scores.
func (o *Options) checkPatience(s *Store) error {
	switch {
	case o.Patience > 0 && o.Engine == EngineNone:
		return usage("--patience %d: with --engine none there are no scores to wait for", o.Patience)
	case o.Patience > 0 && s.Valid == 0:
		return usage("--patience %d: %s has no validation batches, and so no scores to wait for", o.Patience, o.Source())
	}
	return nil
}

// checkCounts refuses numbers of batches that are not whole epochs.
func (o *Options) checkCounts(s *Store) error {
	if s.Train == 0 || s.BatchesPerEpoch < 1 || s.Epochs < 1 || s.Train != s.BatchesPerEpoch*s.Epochs {
		return fault.New(fault.ErrCorrupt, "%s has %d training batches, but %d epochs of %d batches", o.Source(), s.Train, s.Epochs, s.BatchesPerEpoch)
	}
	return nil
}

// checkSlice refuses a store that lacks batches of the run: a slice is for one rank, and has its
// batches for a number of ranks and a number of batches a step.
func (o *Options) checkSlice(s *Store) error {
	has := s.Slice
	run := featurestore.Slice{Rank: o.Rank, World: o.Ranks, Accumulate: o.Accumulate}
	switch {
	case has == nil:
		return nil
	case has.World != run.World || has.Rank != run.Rank:
		return usage("%s is the slice of rank %d of %d, but this is rank %d of %d: give this rank its own slice, or the whole pack", s.Dir, has.Rank, has.World, run.Rank, run.World)
	case has.Accumulate != run.Accumulate && has.World > 1:
		return usage("%s is a slice for steps of %d batches (--accumulate %d), but a step has %d here: slice the pack anew with --accumulate %d", s.Dir, has.Accumulate, has.Accumulate, run.Accumulate, run.Accumulate)
	case o.ShuffleBatches && has.World > 1:
		return usage("--shuffle-batches: %s is a slice: it has only the batches that rank %d computes in the order of the samples", s.Dir, has.Rank)
	}
	return nil
}
