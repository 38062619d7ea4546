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
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/internal/binio"
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
	return &candidate{s, d, s.Facts()}, nil
}

// candidate implements featurestore.Candidate for a dataset and a source of batches.
type candidate struct {
	source featurestore.Source
	data   *dataset.Dataset
	facts  featurestore.Facts
}

func (c *candidate) Name() string                       { return Name }
func (c *candidate) Dir() string                        { return c.source.Dir() }
func (c *candidate) Facts() featurestore.Facts          { return c.facts }
func (c *candidate) Lineage() featurestore.Lineage      { return c.source.Lineage() }
func (c *candidate) Describe() featurestore.Description { return featurestore.Description{} }
func (c *candidate) InOrder() bool                      { return false }

func (c *candidate) Open(stack iostack.Stack, l featurestore.Layout) (_ featurestore.Store, err error) {
	s := &store{source: c.source, facts: &c.facts, reader: tableReader{c.data, &c.facts, stack}}
	s.table = c.table(&l)
	var errs [3]error
	s.ranks, errs[0] = device.NewHost(int(c.ranksBytes()))
	s.loaders, errs[1] = c.source.Open(stack)
	errs[2] = s.table.open()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// table has all rows, for matrices of the host or of a GPU.
type table interface {
	// count adds the memory of the table and its slots to a layout, without ranks and graphs.
	count(l *featurestore.Layout)
	// open allocates the memory. close releases it, also after an error of open.
	open() error
	close()
	// fill reads all rows, checked, and returns the bytes read.
	fill(ctx context.Context, r *tableReader, ranks []uint32, rep progress.Reporter) (int64, error)
	// matrix returns a slot's memory for matrices. After an error it is freed.
	matrix(eval bool) (matrix, error)
}

// matrix is a slot's memory for the matrices of its batches.
type matrix interface {
	// name copies the input nodes, and replaces them in input by their ranks. It returns the number of their
	// rows in the GPU's memory.
	name(input, ranks []uint32) (near int)
	// assemble completes the matrix of the given number of input nodes, or the inputs from which fill makes
	// it.
	assemble(rows int)
	// See featurestore.Slot.
	memory() []byte
	x(rows int) []float32
	fill(rows int, copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error)
	free()
}

// store is the store and its one view.
type store struct {
	source  featurestore.Source
	facts   *featurestore.Facts
	reader  tableReader
	table   table
	ranks   *device.Host // by node
	loaders featurestore.Loaders
}

func (s *store) View(int) featurestore.View { return s }
func (s *store) State() ([]byte, error)     { return nil, nil }
func (s *store) LoadState([]byte) error     { return nil }

// Fill reads the ranks and all rows. Both are the same for every batch.
func (s *store) Fill(ctx context.Context, _ int, rep progress.Reporter) (int64, error) {
	ranks := s.ranks.Uint32s()[:s.facts.Nodes]
	if err := s.source.Ranks(ranks); err != nil {
		return 0, err
	}
	return s.table.fill(ctx, &s.reader, ranks, rep)
}

func (s *store) Close() error {
	var err error
	if s.loaders != nil {
		err = s.loaders.Close()
	}
	s.table.close()
	if s.ranks != nil {
		s.ranks.Free()
	}
	return err
}

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	sl := &slot{store: s}
	var errs [2]error
	sl.Loader, errs[0] = s.loaders.NewLoader(eval)
	sl.matrix, errs[1] = s.table.matrix(eval)
	if err := errors.Join(errs[:]...); err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	return sl, nil
}

// slot implements featurestore.Slot.
type slot struct {
	featurestore.Loaded
	store  *store
	matrix matrix
}

func (sl *slot) LoadGraph(ctx context.Context) error {
	input, err := sl.Load(ctx)
	if err != nil {
		return err
	}
	sl.Rows.RAMRows, sl.Rows.GPURows = len(input), sl.matrix.name(input, sl.store.ranks.Uint32s())
	return nil
}

// Wait waits for the graph, if LoadGraph has not: then the batch was given up.
func (sl *slot) Wait(ctx context.Context) error { return sl.Loader.Wait(ctx) }

func (sl *slot) Assemble(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sl.matrix.assemble(len(sl.Batch().Input))
	return nil
}

func (sl *slot) X() []float32 { return sl.matrix.x(len(sl.Batch().Input)) }

func (sl *slot) Matrix() []byte { return sl.matrix.memory() }

func (sl *slot) Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
	return sl.matrix.fill(len(sl.Batch().Input), copies, x)
}

func (sl *slot) Free() {
	sl.Loaded.Free()
	if sl.matrix != nil {
		sl.matrix.free()
	}
}

// Plan counts the memory of the store for all rows. A GPU has the rows that the options ask for, or all that
// fit.
func (c *candidate) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	near, err := c.mostOnGPU(&o)
	if err != nil {
		return featurestore.Layout{}, err
	}
	if o.Cache != nil {
		rows, err := o.Cache.Rows(c.facts.Nodes, c.facts.RowBytes)
		if err != nil {
			return featurestore.Layout{}, err
		}
		if rows+near < c.facts.Nodes {
			return featurestore.Layout{}, fault.New(fault.ErrUsage, "--ram-cache %s: the store %s holds all rows, %s; leave the flag out, read rows while training (--store rows), or train on a pack",
				o.Cache, Name, budget.FormatBytes(c.facts.Nodes*int64(c.facts.RowBytes)))
		}
	}
	l := c.layout(o.GPU, near)
	if need := l.Bytes(o.Slots, o.EvalSlots); need > o.Memory {
		return l, fault.New(fault.ErrBudget, "all rows (%s) and %d slots need %s of memory, but only %s is left; give more --memory, read rows while training (--store rows), or train on a pack",
			budget.FormatBytes(l.RAMBytes), o.Slots, budget.FormatBytes(need), budget.FormatBytes(max(o.Memory, 0)))
	}
	return l, nil
}

// PlanEval returns the layout for the host: all rows, which Fill reads.
func (c *candidate) PlanEval(int64) (featurestore.Layout, error) { return c.layout(nil, 0), nil }

// mostOnGPU returns the number of rows on the GPU; 0 without a GPU.
func (c *candidate) mostOnGPU(o *featurestore.PlanOptions) (int64, error) {
	if o.GPU == nil {
		return 0, nil
	}
	l := c.layout(o.GPU, 0)
	if l.GPUBytes > o.GPUMemory {
		return 0, fault.New(fault.ErrBudget, "batches in flight need %s of GPU memory, but only %s is left; give more --gpu-memory, or sample smaller batches",
			budget.FormatBytes(l.GPUBytes), budget.FormatBytes(max(o.GPUMemory, 0)))
	}
	return gpurows.Fit(o, o.GPUMemory-l.GPUBytes, c.facts.Nodes, c.facts.Nodes, c.facts.RowBytes)
}

// layout counts the memory of a store that computes on a GPU with near rows, or with nil on the host.
func (c *candidate) layout(gpu *cuda.Device, near int64) featurestore.Layout {
	f := &c.facts
	pieces := f.Nodes*int64(f.RowBytes)/dataset.Granule + 1
	l := featurestore.Layout{
		CacheRows: f.Nodes, GPU: gpu, GPURows: near,
		TableBytes: c.source.TableBytes() + 12*pieces, // and the table's checksums
	}
	c.table(&l).count(&l)
	l.RAMBytes += c.ranksBytes()
	l.KeepBytes = max(c.source.RanksBytes(), l.KeepBytes+compressedBytes(c.data))
	if len(f.TrainSizes.Src) > 0 {
		l.SlotBytes += c.source.LoaderBytes(false)
	}
	if len(f.EvalSizes.Src) > 0 {
		l.EvalSlotBytes += c.source.LoaderBytes(true)
	}
	return l
}

// table returns the table of a layout, without opening it or allocating memory.
func (c *candidate) table(l *featurestore.Layout) table {
	if l.GPU == nil {
		return &hostTable{facts: &c.facts}
	}
	return newGPUTable(&c.facts, l)
}

// ranksBytes returns the memory of all ranks, in bytes.
func (c *candidate) ranksBytes() int64 { return pages(4 * c.facts.Nodes) }

// pages rounds bytes up to whole pages.
func pages(bytes int64) int64 { return binio.AlignUp(bytes, device.PageSize) }
