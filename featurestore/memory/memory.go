// Package memory is the store that holds all rows of a dataset in memory. Graphs come from a
// featurestore.Source, such as the samples of that dataset; there is no pack.
//
//	Fill       the nodes' ranks and the feature table, into the table of rows
//	Start      submit the read of the graph
//	LoadGraph  wait for it, decode it, replace the input nodes by their ranks
//	Assemble   gather the input nodes' rows, widened to float32
//
// Training reads only graphs from disk, or nothing if they are drawn. If the host computes, the table is in
// RAM as in the dataset, and the CPU gathers. If a GPU computes, the rows are in the order of their ranks:
// the hottest are in the GPU's memory, the others in RAM, and the GPU gathers from both.
package memory

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// Name is the value of --store for this store.
const Name = "memory"

// Design describes the store.
func Design() featurestore.Design {
	return featurestore.Design{Name: Name, On: on, HoldsAll: true}
}

func on(s featurestore.Source, d *dataset.Dataset) (featurestore.Candidate, error) {
	return machine.New(machine.Design{Design: Design(), Sequential: true,
		Levels: func(t *machine.Table) machine.Levels { return &levels{t} }}, s, d)
}

// levels implements machine.Levels.
type levels struct{ *machine.Table }

// Open implements machine.Levels.
func (v *levels) Open(stack iostack.Stack, l featurestore.Layout) (_ featurestore.Store, err error) {
	s := &store{reader: tableReader{v.Table, stack}, table: v.table(&l)}
	if err := errors.Join(s.OpenBatches(v.Table, stack), s.table.open()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// store is the store and its one view.
type store struct {
	machine.Files
	machine.Stateless
	reader tableReader
	table  table
}

func (s *store) View(int) featurestore.View { return s }

// Fill reads the ranks and all rows. Both are the same for every batch.
func (s *store) Fill(ctx context.Context, _ int, rep progress.Reporter) (int64, error) {
	if err := s.ReadRanks(); err != nil {
		return 0, err
	}
	return s.table.fill(ctx, &s.reader, s.Ranks(), rep)
}

func (s *store) Close() error {
	err := s.Files.Close()
	s.table.close()
	return err
}

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	sl := &slot{table: s.table}
	sl.Files = &s.Files
	var errs [2]error
	sl.Loader, errs[0] = s.Loaders.NewLoader(eval)
	if sl.matrix, errs[1] = s.table.matrix(eval); errs[1] == nil {
		sl.Of = sl.matrix
	}
	if err := errors.Join(errs[:]...); err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	return sl, nil
}

// slot implements featurestore.Slot.
type slot struct {
	machine.Slot
	table  table
	matrix machine.Entries
}

func (sl *slot) LoadGraph(ctx context.Context) error {
	input, err := sl.Load(ctx)
	if err != nil {
		return err
	}
	sl.Rows.RAMRows, sl.Rows.GPURows = len(input), sl.table.name(sl.matrix.List(), input, sl.Files.Ranks())
	return nil
}

// Plan counts the memory of the store for all rows. A GPU has the rows that the options ask for, or all that
// fit.
func (v *levels) Plan(r machine.Room, _ *gpureads.Plan) (featurestore.Layout, error) {
	near, err := r.OnGPU(v.layout(r.GPU, 0), v.Facts.Nodes)
	if err != nil {
		return featurestore.Layout{}, err
	}
	if r.Cache != nil {
		rows, err := r.Wanted()
		if err != nil {
			return featurestore.Layout{}, err
		}
		if rows+near < v.Facts.Nodes {
			return featurestore.Layout{}, fault.New(fault.ErrUsage, "--ram-cache %s: the store %s holds all rows, %s; leave the flag out, read rows while training (--store rows), or train on a pack",
				r.Cache, Name, budget.FormatBytes(v.Size()))
		}
	}
	l := v.layout(r.GPU, near)
	if !r.Fits(l) {
		return l, fault.New(fault.ErrBudget, "all rows (%s) and %d slots need %s of memory, but only %s is left; give more --memory, read rows while training (--store rows), or train on a pack",
			budget.FormatBytes(l.RAMBytes), r.Slots, budget.FormatBytes(r.Need(l)), budget.FormatBytes(max(r.Memory, 0)))
	}
	return l, nil
}

// PlanEval returns the layout for the host: all rows, which Fill reads.
func (v *levels) PlanEval(int64) (featurestore.Layout, error) { return v.layout(nil, 0), nil }

// layout counts the memory of a store that computes on a GPU with near rows, or with nil on the host.
func (v *levels) layout(gpu device.GPU, near int64) featurestore.Layout {
	f := &v.Facts
	pieces := v.Size()/dataset.Granule + 1
	l := featurestore.Layout{
		CacheRows: f.Nodes, GPU: gpu, GPURows: near,
		TableBytes: v.Source.TableBytes() + 12*pieces, // and the table's checksums
	}
	v.table(&l).count(&l)
	l.RAMBytes += v.RanksBytes()
	l.KeepBytes = max(v.Source.RanksBytes(), l.KeepBytes+compressedBytes(v.Data))
	if len(f.TrainSizes.Src) > 0 {
		l.SlotBytes = machine.EntriesBytes(f.Inputs(false), f.Dim, gpu != nil) + v.Source.LoaderBytes(false)
	}
	if len(f.EvalSizes.Src) > 0 {
		l.EvalSlotBytes = machine.EntriesBytes(f.Inputs(true), f.Dim, gpu != nil) + v.Source.LoaderBytes(true)
	}
	return l
}

// table returns the table of a layout, without opening it or allocating memory.
func (v *levels) table(l *featurestore.Layout) table {
	if l.GPU == nil {
		return &hostTable{facts: &v.Facts}
	}
	return newGPUTable(&v.Facts, l)
}
