package decide

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/internal/fault"
	"diskgnn/train/recipe"
)

// TestCheckSlice: a run refuses a slice that lacks batches which it computes.
func TestCheckSlice(t *testing.T) {
	for _, c := range []struct {
		has, run featurestore.Slice
		shuffle  bool
		says     string // "": it is taken
	}{
		{featurestore.Slice{}, featurestore.Slice{Rank: 1, World: 2, Accumulate: 2}, true, ""},
		{featurestore.Slice{Rank: 1, World: 2, Accumulate: 4}, featurestore.Slice{Rank: 1, World: 2, Accumulate: 4}, false, ""},
		{featurestore.Slice{Rank: 1, World: 2, Accumulate: 4}, featurestore.Slice{Rank: 1, World: 2, Accumulate: 4}, true, "--shuffle-batches: PACK is a slice"},
		{featurestore.Slice{Rank: 1, World: 2, Accumulate: 4}, featurestore.Slice{Rank: 1, World: 2, Accumulate: 2}, false, "slice the pack anew with --accumulate 2"},
		{featurestore.Slice{Rank: 1, World: 2, Accumulate: 2}, featurestore.Slice{Rank: 0, World: 2, Accumulate: 2}, false, "PACK is the slice of rank 1 of 2, but this is rank 0 of 2"},
		{featurestore.Slice{Rank: 0, World: 2, Accumulate: 2}, featurestore.Slice{World: 1, Accumulate: 2}, false, "PACK is the slice of rank 0 of 2, but this is rank 0 of 1"},
		{featurestore.Slice{World: 1, Accumulate: 1}, featurestore.Slice{World: 1, Accumulate: 6}, true, ""},
	} {
		o := Options{Rank: c.run.Rank, Ranks: c.run.World}
		o.ShuffleBatches, o.Accumulate = c.shuffle, c.run.Accumulate
		s := Store{Dir: "PACK"}
		if c.has.World > 0 {
			s.Slice = &c.has
		}
		err := o.checkSlice(&s)
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestResolve: a store that cannot serve the run is refused by a sentence that says what can.
func TestResolve(t *testing.T) {
	facts := featurestore.Facts{Dim: 8, Classes: 3, Train: 20, Valid: 2, Epochs: 2, BatchesPerEpoch: 10, Fanout: []int{3, 4}}
	for name, c := range map[string]struct {
		change func(o *Options, s *Store)
		kind   error
		says   string // "": it serves
	}{
		"plain":                   {func(*Options, *Store) {}, nil, ""},
		"ranks share a step":      {func(o *Options, _ *Store) { o.Ranks, o.Accumulate = 2, 6 }, nil, ""},
		"ranks that cannot":       {func(o *Options, _ *Store) { o.Ranks, o.Accumulate = 4, 6 }, fault.ErrUsage, "--accumulate 6: 4 ranks cannot divide a step equally"},
		"min, ranks":              {func(o *Options, s *Store) { o.Ranks, o.Pack, s.InOrder = 2, "pack", true }, fault.ErrUsage, "2 ranks: pack has the policy min"},
		"a window, ranks":         {func(o *Options, s *Store) { o.Ranks, s.InOrder = 2, true }, fault.ErrUsage, "2 ranks: the cache of the store ginex needs all batches"},
		"min, shuffled":           {func(o *Options, s *Store) { o.ShuffleBatches, o.Pack, s.InOrder = true, "pack", true }, fault.ErrUsage, "--shuffle-batches: pack has the policy min"},
		"a window, shuffled":      {func(o *Options, s *Store) { o.ShuffleBatches, s.InOrder = true, true }, fault.ErrUsage, "--shuffle-batches: the cache of the store ginex needs"},
		"patience, no engine":     {func(o *Options, _ *Store) { o.Patience, o.Engine = 3, EngineNone }, fault.ErrUsage, "--patience 3: with --engine none"},
		"patience, no scores":     {func(o *Options, s *Store) { o.Patience, s.Valid = 3, 0 }, fault.ErrUsage, "--patience 3: pack has no validation batches"},
		"half an epoch":           {func(_ *Options, s *Store) { s.Train = 15 }, fault.ErrCorrupt, "pack has 15 training batches, but 2 epochs of 10 batches"},
		"patience of one epoch":   {func(o *Options, s *Store) { o.Patience, s.Valid = 1, 0 }, fault.ErrUsage, "--patience 1: pack has no validation batches"},
		"one epoch, no engine":    {func(o *Options, _ *Store) { o.Patience, o.Engine = 1, EngineNone }, fault.ErrUsage, "--patience 1: with --engine none"},
		"patience, scores":        {func(o *Options, s *Store) { o.Patience, s.Valid = 1, 1 }, nil, ""},
		"no patience, no engine":  {func(o *Options, s *Store) { o.Engine, s.Valid = EngineNone, 0 }, nil, ""},
		"epochs of one batch":     {func(_ *Options, s *Store) { s.Epochs, s.BatchesPerEpoch = 20, 1 }, nil, ""},
		"an epoch of all":         {func(_ *Options, s *Store) { s.Epochs, s.BatchesPerEpoch = 1, 20 }, nil, ""},
		"less than an epoch":      {func(_ *Options, s *Store) { s.Epochs, s.BatchesPerEpoch = -2, -10 }, fault.ErrCorrupt, "pack has 20 training batches, but -2 epochs of -10 batches"},
		"no batches":              {func(_ *Options, s *Store) { s.Train, s.BatchesPerEpoch = 0, 0 }, fault.ErrCorrupt, "pack has 0 training batches"},
		"auc of two classes":      {func(o *Options, s *Store) { o.Metric, s.Classes = recipe.MetricAUC, 3 }, fault.ErrUsage, "--metric auc needs two classes, but pack has 3"},
		"a metric of two classes": {func(o *Options, _ *Store) { o.Metric = recipe.MetricAUC }, fault.ErrUsage, "--metric auc"},
		"another rank's slice":    {func(_ *Options, s *Store) { s.Slice = &featurestore.Slice{Rank: 1, World: 2, Accumulate: 2} }, fault.ErrUsage, "the slice of rank 1 of 2"},
	} {
		o := Options{Recipe: recipe.Defaults(), Engine: EngineCPU, Ranks: 1, Samples: "pack"}
		s := Store{Facts: facts, Name: "ginex", Dir: "pack"}
		c.change(&o, &s)
		r, err := Resolve(o, &s, nil)
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
		if want := max(1, o.Accumulate); err == nil && r.Accumulate != want {
			t.Errorf("%s: steps of %d batches, not %d", name, r.Accumulate, want)
		}
		if err == nil && (r.Accumulate%o.Ranks != 0 || r.Accumulate == 0 || r.Metric != recipe.MetricAccuracy) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Steps have a batch of each rank where nothing else is said, and layers the widths of the store.
func TestResolveByTheStore(t *testing.T) {
	o := Options{Recipe: recipe.Defaults(), Engine: EngineCPU, Ranks: 4, Samples: "pack"}
	s := Store{Facts: featurestore.Facts{Dim: 8, Classes: 3, Train: 20, Epochs: 2, BatchesPerEpoch: 10, Fanout: []int{3, 4}, TargetBytes: 1, Metric: recipe.MetricAUC}, Name: "ginex"}
	r, err := Resolve(o, &s, nil)
	if err != nil || r.Accumulate != 4 || fmt.Sprint(r.Dims) != "[8 256 3]" || r.Metric != recipe.MetricAUC || r.Loss != recipe.LossBinary {
		t.Errorf("%+v, %v", r, err)
	}
}
