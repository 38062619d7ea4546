package mmap

import (
	"context"
	"fmt"

	"diskgnn/featurestore"
)

// slot is a batch on its way.
type slot struct {
	featurestore.HostSlot
	store   *store
	waiting bool // for Wait to gather
}

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	sl := &slot{store: s}
	if err := sl.Open(s.loaders, &s.facts, eval); err != nil {
		sl.Free()
		return nil, err
	}
	return sl, nil
}

// Start submits the read of the graph: which rows are touched follows from it.
func (sl *slot) Start(r featurestore.Ref) error {
	sl.waiting = false
	return sl.HostSlot.Start(r)
}

func (sl *slot) LoadGraph(ctx context.Context) error {
	if err := sl.LoadRanked(ctx, sl.store.ranks.Uint32s()); err != nil {
		return err
	}
	sl.waiting = true
	return nil
}

// Wait gathers the rows. One batch is gathered at a time: the pages that one leaves in the
// page cache serve the next, so the counts follow from the order of the calls.
func (sl *slot) Wait(ctx context.Context) error {
	if err := sl.Loader.Wait(ctx); err != nil || !sl.waiting {
		return err
	}
	sl.waiting = false
	if err := sl.store.gather(ctx, sl.Nodes(), sl.X(), &sl.Rows); err != nil {
		return fmt.Errorf("rows of %v: %w", sl.Ref, err)
	}
	return nil
}

// Assemble has nothing left to do.
func (sl *slot) Assemble(ctx context.Context) error { return ctx.Err() }
