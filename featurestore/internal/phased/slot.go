package phased

import (
	"context"
	"fmt"

	"diskgnn/featurestore"
)

// slot is a training batch on its way. From Assemble on its nodes are their frames.
type slot struct {
	featurestore.HostSlot
	store *store
}

func (s *store) newSlot() (featurestore.Slot, error) {
	sl := &slot{store: s}
	if err := sl.Open(s.loaders, &s.facts, false); err != nil {
		sl.Free()
		return nil, err
	}
	return sl, nil
}

func (sl *slot) LoadGraph(ctx context.Context) error {
	return sl.LoadRanked(ctx, sl.store.single.(ranked).Ranks())
}

// Wait has nothing to wait for but, of a batch that is given up, its graph.
func (sl *slot) Wait(ctx context.Context) error { return sl.Loader.Wait(ctx) }

// Assemble makes the rows resident, and gathers them. Batches come in the order of the samples.
func (sl *slot) Assemble(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := sl.store
	if sl.Ref.Index != s.next {
		return fmt.Errorf("batch %d is assembled when the rows are those of batch %d", sl.Ref.Index, s.next)
	}
	s.next = (s.next + 1) % s.facts.Train
	first, err := 0, s.residents.Turn(ctx, sl.Ref.Index, &sl.Rows)
	if err == nil {
		first, err = s.residents.Find(sl.Nodes())
	}
	if err != nil {
		return fmt.Errorf("rows of %v: %w", sl.Ref, err)
	}
	sl.Rows.UsefulBytes, sl.Rows.RAMRows = int64(first)*int64(s.facts.RowBytes), len(sl.Nodes())-first
	s.copier.Gather(sl.X(), s.residents.Rows(), sl.Nodes(), s.facts.DType, s.facts.Dim)
	return nil
}
