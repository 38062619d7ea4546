package phased

import (
	"context"
	"errors"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/copier"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// store is the store and its one view.
type store struct {
	*candidate
	single    featurestore.Store // its slots are those of evaluation
	loaders   featurestore.Loaders
	residents Residents
	copier    *copier.Copier
	next      int // the batch to assemble
}

// ranked is what the store of single rows has: the ranks of all nodes.
type ranked interface{ Ranks() []uint32 }

func (s *store) open(o own, stack iostack.Stack) (err error) {
	if s.single, err = s.candidate.single.Open(stack, o.single); err != nil {
		return err
	}
	if s.loaders, err = s.source.Open(stack); err != nil {
		return err
	}
	if s.residents, err = s.design.Open(stack, s.loaders, o.units); err != nil {
		return err
	}
	s.copier = copier.New(copier.Enough())
	s.copier.Start()
	return nil
}

func (s *store) View(int) featurestore.View { return s }
func (s *store) State() ([]byte, error)     { return nil, nil }
func (s *store) LoadState([]byte) error     { return nil }

// Fill fills the store of single rows, which reads the ranks, and makes the residents those
// before the given batch.
func (s *store) Fill(ctx context.Context, next int, rep progress.Reporter) (int64, error) {
	read, err := s.single.Fill(ctx, 0, rep)
	if err != nil {
		return 0, err
	}
	rows, err := s.residents.Seek(ctx, next, rep)
	s.next = next
	return read + rows, err
}

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	if eval {
		return s.single.View(0).NewSlot(true)
	}
	return s.newSlot()
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
