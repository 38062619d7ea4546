package train

import (
	"errors"
	"strings"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/internal/fault"
)

// sliced is a candidate that has one rank's batches.
type sliced struct {
	featurestore.Candidate
	has featurestore.Slice
}

func (s sliced) Dir() string                       { return "PACK" }
func (s sliced) Slice() (featurestore.Slice, bool) { return s.has, s.has.World > 0 }

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
		{featurestore.Slice{Rank: 1, World: 2, Accumulate: 2}, featurestore.Slice{Rank: 0, World: 2, Accumulate: 2}, false, "PACK is the slice of rank 1 of 2, this is rank 0 of 2"},
		{featurestore.Slice{Rank: 0, World: 2, Accumulate: 2}, featurestore.Slice{World: 1, Accumulate: 2}, false, "PACK is the slice of rank 0 of 2, this is rank 0 of 1"},
		{featurestore.Slice{World: 1, Accumulate: 1}, featurestore.Slice{World: 1, Accumulate: 6}, true, ""},
	} {
		o := Options{}
		o.ShuffleBatches = c.shuffle
		err := o.checkSlice(sliced{has: c.has}, c.run)
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
