package phases

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/copier"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// store is the store and its one view.
type store struct {
	*levels
	single    featurestore.Store // of the slots for evaluation
	loaders   featurestore.Loaders
	residents Residents
	copier    *copier.Copier
	order     machine.Order
	machine.Stateless
}

// ranked is a store with the ranks of all nodes.
type ranked interface{ Ranks() []uint32 }

func (s *store) open(o own, stack iostack.Stack) (err error) {
	if s.single, err = s.levels.single.Open(stack, o.single); err != nil {
		return err
	}
	if s.loaders, err = s.Source.Open(stack); err != nil {
		return err
	}
	if s.residents, err = s.design.Open(stack, s.loaders, o.units); err != nil {
		return err
	}
	s.order = machine.Order{Train: s.Facts.Train, What: "the rows in RAM are"}
	s.copier = copier.New(copier.Enough())
	s.copier.Start()
	return nil
}

func (s *store) View(int) featurestore.View { return s }

// Fill fills the store of single rows, which reads the ranks, and brings the residents to their state before
// the given batch.
func (s *store) Fill(ctx context.Context, next int, rep progress.Reporter) (int64, error) {
	read, err := s.single.Fill(ctx, 0, rep)
	if err != nil {
		return 0, err
	}
	rows, err := s.residents.Seek(ctx, next, rep)
	s.order.Next = next
	return read + rows, err
}

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	if eval {
		return s.single.View(0).NewSlot(true)
	}
	sl := &slot{store: s}
	if err := sl.Open(s.loaders, &s.Facts, false); err != nil {
		sl.Free()
		return nil, err
	}
	return sl, nil
}

// Close releases files and memory.
func (s *store) Close() error {
	var errs []error
	if s.copier != nil {
		s.copier.Close()
	}
	if s.residents != nil {
		errs = append(errs, s.residents.Close())
	}
	if s.loaders != nil {
		errs = append(errs, s.loaders.Close())
	}
	if s.single != nil {
		errs = append(errs, s.single.Close())
	}
	return errors.Join(errs...)
}

// slot implements featurestore.Slot for training batches. After Assemble, its nodes are frames.
type slot struct {
	featurestore.HostSlot
	store *store
}

func (sl *slot) LoadGraph(ctx context.Context) error {
	return sl.LoadRanked(ctx, sl.store.single.(ranked).Ranks())
}

// Wait waits for the graph, if LoadGraph has not: then the batch was given up.
func (sl *slot) Wait(ctx context.Context) error { return sl.Loader.Wait(ctx) }

// Assemble makes the rows resident, and gathers them. Batches come in the order of the samples.
func (sl *slot) Assemble(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := sl.store
	if err := s.order.Take(sl.Ref); err != nil {
		return err
	}
	first, err := 0, s.residents.Turn(ctx, sl.Ref.Index, &sl.Rows)
	if err == nil {
		first, err = s.residents.Find(sl.Nodes())
	}
	if err != nil {
		return fmt.Errorf("rows of %v: %w", sl.Ref, err)
	}
	sl.Rows.UsefulBytes, sl.Rows.RAMRows = int64(first)*int64(s.Facts.RowBytes), len(sl.Nodes())-first
	s.copier.Gather(sl.X(), s.residents.Rows(), sl.Nodes(), s.Facts.DType, s.Facts.Dim)
	return nil
}

// Open opens the store. With a layout of PlanEval it opens the store of single rows.
func (v *levels) Open(stack iostack.Stack, l featurestore.Layout) (featurestore.Store, error) {
	o, ok := l.Own.(own)
	if !ok {
		return v.single.Open(stack, l)
	}
	s := &store{levels: v}
	if err := s.open(o, stack); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
