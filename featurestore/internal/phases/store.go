package phases

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// store is the store and its one view.
type store struct {
	*levels
	single    featurestore.Store // of the slots for evaluation
	files     *machine.Files     // the single store's
	frames    *Frames
	residents Residents
	order     machine.Order
	machine.Stateless
}

func (s *store) open(o own, stack iostack.Stack) (err error) {
	if s.single, err = s.levels.single.Open(stack, o.single); err != nil {
		return err
	}
	s.files = s.single.(interface{ Opened() *machine.Files }).Opened()
	s.order = machine.Order{Train: s.Facts.Train, What: "the rows in frames are"}
	if err = s.frames.open(); err != nil {
		return err
	}
	s.residents, err = s.design.Open(stack, s.files.Loaders, s.frames, o.units)
	return err
}

func (s *store) View(int) featurestore.View { return s }

// Fill fills the store of single rows, which reads the ranks, and brings the residents to their state before
// the given batch.
func (s *store) Fill(ctx context.Context, next int, rep progress.Reporter) (int64, error) {
	read, err := s.single.Fill(ctx, 0, rep)
	if err != nil {
		return 0, err
	}
	if err := s.frames.giveUp(ctx); err != nil {
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
	sl.Files = s.files
	var errs [2]error
	sl.Loader, errs[0] = s.files.Loaders.NewLoader(false)
	if sl.entries, errs[1] = s.frames.entries(); errs[1] == nil {
		sl.Of = sl.entries
	}
	if err := errors.Join(errs[:]...); err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	return sl, nil
}

// Close releases files and memory.
func (s *store) Close() error {
	var errs []error
	if s.residents != nil {
		errs = append(errs, s.residents.Close())
	}
	s.frames.close()
	if s.single != nil {
		errs = append(errs, s.single.Close())
	}
	return errors.Join(errs...)
}

// slot implements featurestore.Slot for training batches.
type slot struct {
	machine.Slot
	store   *store
	entries machine.Entries // input nodes; after Assemble, frames
}

func (sl *slot) LoadGraph(ctx context.Context) error {
	return sl.LoadRanked(ctx, sl.entries.List(), sl.Files.Ranks())
}

// Assemble makes the rows resident, and gathers them, or lets Fill gather them. Batches come in the order of the
// samples.
func (sl *slot) Assemble(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, n := sl.store, len(sl.Batch().Input)
	if err := s.order.Take(sl.Ref); err != nil {
		return err
	}
	list := sl.entries.List()[:n]
	err := s.residents.Turn(ctx, sl.Ref.Index, &sl.Rows)
	if err == nil {
		err = s.residents.Find(list)
	}
	if err != nil {
		return fmt.Errorf("rows of %v: %w", sl.Ref, err)
	}
	first, near := s.frames.Uses(list)
	sl.Rows.UsefulBytes, sl.Rows.RAMRows, sl.Rows.GPURows = int64(first)*int64(s.Facts.RowBytes), n-first, near
	return sl.Slot.Assemble(ctx)
}

// Open opens the store. With a layout of PlanEval it opens the store of single rows.
func (v *levels) Open(stack iostack.Stack, l featurestore.Layout) (featurestore.Store, error) {
	o, ok := l.Own.(own)
	if !ok {
		return v.single.Open(stack, l)
	}
	s := &store{levels: v, frames: newFrames(&v.Facts, l.GPU, l.GPURows, o.units*v.design.Units().Frames)}
	if err := s.open(o, stack); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
