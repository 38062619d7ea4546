// Package memory is the store that holds all rows of a dataset in RAM. Graphs come from a
// featurestore.Source, such as the samples of that dataset; there is no pack.
//
//	Fill       the feature table, in the order of the nodes, and the nodes' ranks
//	Start      submit the read of the graph
//	LoadGraph  wait for it, decode it, name the input nodes by their ranks
//	Assemble   gather the input nodes' rows, widened to float32
//
// Training reads graphs alone from disk, and nothing where they are drawn. Where a GPU computes, the host assembles the
// matrix all the same, and Fill copies it.
package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/sampled"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
)

// Name is the store's in --store.
const Name = "memory"

// Find reads the metadata of a dataset and of its samples.
func Find(fsys vfs.FS, data, samples string) (featurestore.Candidate, error) {
	s, err := sampled.Find(fsys, data, samples)
	if err != nil {
		return nil, err
	}
	return On(s, s.Dataset()), nil
}

// On returns the store of a dataset's rows, with batches of another source than its samples.
func On(s featurestore.Source, d *dataset.Dataset) featurestore.Candidate {
	return &candidate{s, d, s.Facts()}
}

// candidate is a dataset that was found, with a source of batches.
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

// Plan counts what the store holds. There is one layout: all rows.
func (c *candidate) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	if g := o.GPUCache; o.GPU != nil && g != nil && g.Value != 0 {
		return featurestore.Layout{}, fault.New(fault.ErrUsage, "--gpu-cache %s: the store %s holds its rows in RAM", g, Name)
	}
	if o.Cache != nil {
		rows, err := o.Cache.Rows(c.facts.Nodes, c.facts.RowBytes)
		if err != nil {
			return featurestore.Layout{}, err
		}
		if rows < c.facts.Nodes {
			return featurestore.Layout{}, fault.New(fault.ErrUsage, "--ram-cache %s: the store %s holds all rows, %s; leave the flag out, or train on a pack",
				o.Cache, Name, budget.FormatBytes(c.facts.Nodes*int64(c.facts.RowBytes)))
		}
	}
	l := c.layout()
	need := l.TableBytes + l.RAMBytes + l.KeepBytes + int64(o.Slots)*l.SlotBytes + int64(o.EvalSlots)*l.EvalSlotBytes
	if need > o.Memory {
		return l, fault.New(fault.ErrBudget, "all rows (%s) and %d slots need %s of memory, %s is left for them; give more --memory, or train on a pack",
			budget.FormatBytes(l.RAMBytes), o.Slots, budget.FormatBytes(need), budget.FormatBytes(max(o.Memory, 0)))
	}
	return l, nil
}

// PlanEval refuses: a store that loads each evaluation batch once does not read all rows
// for it.
func (c *candidate) PlanEval() (featurestore.Layout, error) {
	return featurestore.Layout{}, fault.New(fault.ErrUsage, "the store %s is for training; score on a pack", Name)
}

func (c *candidate) layout() featurestore.Layout {
	f := &c.facts
	rows, ranks := c.tableBytes()
	l := featurestore.Layout{
		CacheRows: f.Nodes, RAMBytes: rows + ranks,
		TableBytes: c.source.TableBytes() + 12*(rows/dataset.Granule+1), // and the table's checksums
		KeepBytes:  max(c.source.RanksBytes(), stagingBytes(c.data)),
	}
	if len(f.TrainSizes.Src) > 0 {
		l.SlotBytes = c.source.LoaderBytes(false) + slotBytes(f, false)
	}
	if len(f.EvalSizes.Src) > 0 {
		l.EvalSlotBytes = c.source.LoaderBytes(true) + slotBytes(f, true)
	}
	return l
}

// tableBytes returns the bytes of all rows and of all ranks, whole pages.
func (c *candidate) tableBytes() (rows, ranks int64) {
	return binio.AlignUp(c.facts.Nodes*int64(c.facts.RowBytes), device.PageSize), binio.AlignUp(4*c.facts.Nodes, device.PageSize)
}

// inputs returns the most input nodes of a batch.
func inputs(f *featurestore.Facts, eval bool) int {
	s := f.TrainSizes.Src
	if eval {
		s = f.EvalSizes.Src
	}
	if len(s) == 0 {
		return 0
	}
	return s[0]
}

// slotBytes returns the bytes of a slot's matrix and of its input nodes, whole pages.
func slotBytes(f *featurestore.Facts, eval bool) int64 {
	n := int64(inputs(f, eval))
	return binio.AlignUp(4*n*int64(f.Dim), device.PageSize) + binio.AlignUp(4*n, device.PageSize)
}

func (c *candidate) Open(stack iostack.Stack, l featurestore.Layout) (featurestore.Store, error) {
	s := &store{source: c.source, data: c.data, facts: c.facts, stack: stack}
	rows, ranks := c.tableBytes()
	var errs [3]error
	s.rows, errs[0] = device.NewHost(int(rows))
	s.ranks, errs[1] = device.NewHost(int(ranks))
	s.loaders, errs[2] = c.source.Open(stack)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.gather = newGatherer()
	return s, nil
}

// store is the store and its one view.
type store struct {
	source  featurestore.Source
	data    *dataset.Dataset
	facts   featurestore.Facts
	stack   iostack.Stack
	rows    *device.Host // by node, as the dataset has them
	ranks   *device.Host // by node
	loaders featurestore.Loaders
	gather  *gatherer
}

func (s *store) View(int) featurestore.View { return s }
func (s *store) State() ([]byte, error)     { return nil, nil }
func (s *store) LoadState([]byte) error     { return nil }

// Fill reads the ranks and all rows. Both are the same for every batch.
func (s *store) Fill(ctx context.Context, _ int, rep progress.Reporter) (int64, error) {
	if err := s.source.Ranks(s.ranks.Uint32s()[:s.facts.Nodes]); err != nil {
		return 0, err
	}
	return s.fillRows(ctx, rep)
}

func (s *store) Close() error {
	var err error
	if s.loaders != nil {
		err = s.loaders.Close()
	}
	if s.gather != nil {
		s.gather.close()
	}
	for _, h := range []*device.Host{s.rows, s.ranks} {
		if h != nil {
			h.Free()
		}
	}
	return err
}

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	sl := &slot{store: s}
	n := inputs(&s.facts, eval)
	var errs [3]error
	sl.loader, errs[0] = s.loaders.NewLoader(eval)
	sl.matrix, errs[1] = device.NewHost(4 * n * s.facts.Dim)
	sl.nodes, errs[2] = device.NewHost(4 * n)
	if err := errors.Join(errs[:]...); err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	return sl, nil
}

// slot is a batch on its way.
type slot struct {
	store  *store
	loader featurestore.Loader
	batch  *graph.Batch
	nodes  *device.Host // the input nodes, which the batch names by their ranks
	matrix *device.Host

	gathered sync.WaitGroup
}

func (sl *slot) Start(r featurestore.Ref) error { return sl.loader.Start(r) }

func (sl *slot) LoadGraph(ctx context.Context) (err error) {
	if err := sl.loader.Wait(ctx); err != nil {
		return err
	}
	if sl.batch, err = sl.loader.Decode(); err != nil {
		return err
	}
	ranks := sl.store.ranks.Uint32s()
	copy(sl.nodes.Uint32s(), sl.batch.Input)
	for i, v := range sl.batch.Input {
		sl.batch.Input[i] = ranks[v]
	}
	return nil
}

// Wait has nothing to wait for but, of a batch that is given up, its graph.
func (sl *slot) Wait(ctx context.Context) error { return sl.loader.Wait(ctx) }

func (sl *slot) Assemble(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f := &sl.store.facts
	sl.store.gather.rows(job{sl.X(), sl.store.rows.Bytes(), sl.nodes.Uint32s()[:len(sl.batch.Input)], f.DType, f.Dim, &sl.gathered})
	return nil
}

func (sl *slot) Batch() *graph.Batch { return sl.batch }

func (sl *slot) Counts() featurestore.Counts {
	c := sl.loader.Counts()
	if sl.batch != nil {
		c.RAMRows = len(sl.batch.Input)
	}
	return c
}

func (sl *slot) X() []float32 {
	return sl.matrix.Float32s()[:len(sl.batch.Input)*sl.store.facts.Dim]
}

func (sl *slot) Matrix() []byte { return sl.matrix.Bytes() }

func (sl *slot) Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
	return nil, copies.CopyIn(x, binio.Bytes(sl.X()))
}

func (sl *slot) Free() {
	if sl.loader != nil {
		sl.loader.Free()
	}
	for _, h := range []*device.Host{sl.matrix, sl.nodes} {
		if h != nil {
			h.Free()
		}
	}
}
