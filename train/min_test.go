package train

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/train/rundir"
)

func policyMin(o *pack.Options) { o.Policy = packfile.PolicyMin }

// TestMinChangesNoBit trains under both policies, more epochs than were sampled: the
// rows come from other places, the weights are the same.
func TestMinChangesNoBit(t *testing.T) {
	w := newWorld(t, worldParams{fanout: []int{3, 3, 4}})
	options := func(p string) Options {
		return w.options(p, func(o *Options) { o.LayerOrder, o.Epochs = "aggregate", 5 })
	}
	o := options(w.pack(20))
	want, wantLosses := w.mustRun(o, nil)
	weights := w.file(o.Out, rundir.FinalFile)
	for _, cache := range []float64{0, 20, 70} {
		o := options(w.pack(cache, policyMin))
		got, losses := w.mustRun(o, nil)
		if !sameBits(losses, wantLosses) || !bytes.Equal(w.file(o.Out, rundir.FinalFile), weights) || got.TestAccuracy != want.TestAccuracy {
			t.Errorf("cache of %v %%: other losses than under static", cache)
		}
		a, b := got.Epochs[1].UsefulBytes, got.Epochs[3].UsefulBytes
		if a != b {
			t.Errorf("cache of %v %%: the second epoch reads %d bytes, the fourth, of the same sample, %d", cache, a, b)
		}
	}
}

func TestMinRefusals(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(20, policyMin)
	for _, c := range []struct {
		change func(o *Options)
		kind   error
		says   string
	}{
		{func(o *Options) { o.ShuffleBatches = true }, fault.ErrUsage, "--shuffle-batches"},
		{func(o *Options) { o.RAMCache = percent(10) }, fault.ErrBudget, "exactly"},
		{func(o *Options) { o.RAMCache = percent(30) }, fault.ErrUsage, "--ram-cache"},
	} {
		_, err := Run(context.Background(), disk, w.options(p, c.change), progress.Discard)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v; want a %q error that says %q", err, c.kind, c.says)
		}
	}
}
