// Package phased is the common part of stores that train in phases. A phase is a run of successive
// training batches with all their rows in RAM. Rows come in large reads, when the phase begins or during the
// previous phase.
//
//	LoadGraph  decode the graph
//	Assemble   at the beginning of a phase, replace rows; read ahead the batch's share; gather
//
// Training batches are assembled in their order, so a row is replaced without locks when no batch needs it
// any more. Earlier batches compute while a batch is assembled. The time of reads of rows counts for the
// link assemble.
//
// The rows in RAM and the reads of a batch follow from its place in the circle of sample epochs, so
// checkpoints hold neither. A row is a miss for the first batch that uses it after it was read, and a hit
// for later batches, regardless of the batch that read it.
//
// A store is a Design; its Residents hold the rows. Batches of evaluation read all of their rows one by
// one, as package online does, and change nothing.
package phased

import (
	"context"
	"sort"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/online"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// Design is the part of a phased store that differs between stores.
type Design interface {
	Name() string
	// Units returns the rows of a unit, and the least and the most useful number of units in RAM.
	Units() (rows, least, most int64)
	// Count adds to a layout the memory of residents with the given number of units: TableBytes,
	// RAMBytes, KeepBytes, Ahead, WindowBytes, and the Note. More units never need less memory.
	Count(l *featurestore.Layout, units int64)
	// Open allocates residents with the given number of units, which read through the stack and the loaders.
	Open(stack iostack.Stack, loaders featurestore.Loaders, units int64) (Residents, error)
}

// Residents hold the rows of a phase, in frames of one row each, in the dataset's type. They belong to one
// goroutine at a time. After an error, call Seek before anything else.
type Residents interface {
	// Seek brings the residents to their state before a training batch, and returns the bytes read.
	Seek(ctx context.Context, batch int, rep progress.Reporter) (read int64, err error)
	// Turn makes the rows of a batch resident, replacing rows that the batch does not need, and reads
	// ahead the batch's share. batch is the batch of Seek, or the one after the batch of the last Turn. Turn
	// adds its reads to counts, without useful bytes.
	Turn(ctx context.Context, batch int, counts *featurestore.Counts) error
	// Find replaces the input nodes of the batch of the last Turn by their frames. It returns the number of
	// rows that no batch has used since they were read.
	Find(nodes []uint32) (first int, err error)
	// Rows returns the memory of the frames.
	Rows() []byte
	Close() error
}

// New returns a store of the given design, for a dataset and the batches of a source. If the features do not
// allow reads of single rows, the error is of kind fault.ErrUsage.
func New(source featurestore.Source, data *dataset.Dataset, d Design) (featurestore.Candidate, error) {
	single, err := online.New(source, data, online.Design{Name: d.Name(), Policies: []string{residency.LRU}, Planner: online.Single{}, InFlight: singles})
	if err != nil {
		return nil, err
	}
	return &candidate{design: d, source: source, facts: source.Facts(), single: single}, nil
}

// singles is the number of reads of single rows in flight, for a batch of evaluation.
const singles = 512

type candidate struct {
	design Design
	source featurestore.Source
	facts  featurestore.Facts
	single featurestore.Candidate // for batches of evaluation
}

func (c *candidate) Name() string                       { return c.design.Name() }
func (c *candidate) Dir() string                        { return c.source.Dir() }
func (c *candidate) Facts() featurestore.Facts          { return c.facts }
func (c *candidate) Lineage() featurestore.Lineage      { return c.source.Lineage() }
func (c *candidate) Describe() featurestore.Description { return featurestore.Description{} }
func (c *candidate) InOrder() bool                      { return true }

// Reads implements featurestore.Reads: large reads, and single rows for evaluation, within the memory of the
// default options.
func (c *candidate) Reads() iostack.Options {
	return iostack.Options{Workers: 64, MaxIO: 256 << 10}
}

// own has the further parameters of a layout for Open.
type own struct {
	units  int64
	single featurestore.Layout // of the store for batches of evaluation
}

// PlanEval returns the layout of the store that reads single rows.
func (c *candidate) PlanEval(hold int64) (featurestore.Layout, error) {
	return c.single.PlanEval(hold)
}

// Plan takes the units that the options ask for, or all that the memory allows.
func (c *candidate) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	none := featurestore.Layout{}
	if err := o.NoGPURows("the store " + c.Name() + " holds rows in RAM"); err != nil {
		return none, err
	}
	single, err := c.single.PlanEval(0)
	if err != nil {
		return none, err
	}
	rows, least, most := c.design.Units()
	need := func(units int64) int64 { l := c.layout(single, units); return l.Bytes(o.Slots, o.EvalSlots) }
	l := c.layout(single, least)
	if n := l.Bytes(o.Slots, o.EvalSlots); n > o.Memory {
		return l, fault.New(fault.ErrBudget, "the smallest buffer (%d rows) and %d slots need %s of memory, but only %s is left; give more --memory",
			l.CacheRows, o.Slots, budget.FormatBytes(n), budget.FormatBytes(max(o.Memory, 0)))
	}
	switch {
	case o.Least:
		return l, nil
	case o.Cache == nil:
		more := sort.Search(int(most-least), func(i int) bool { return need(least+int64(i)+1) > o.Memory })
		return c.layout(single, least+int64(more)), nil
	}
	wanted, err := o.Cache.Rows(c.facts.Nodes, c.facts.RowBytes)
	if err != nil {
		return none, err
	}
	if wanted < l.CacheRows {
		return none, fault.New(fault.ErrUsage, "--ram-cache %s (%d rows) is too small: the store %s needs at least %d rows in RAM", o.Cache, wanted, c.Name(), l.CacheRows)
	}
	l = c.layout(single, min(max(least, wanted/rows), most))
	if n := l.Bytes(o.Slots, o.EvalSlots); n > o.Memory {
		return l, fault.New(fault.ErrBudget, "--ram-cache %s (%d rows) and %d slots need %s of memory, but only %s is left; give more --memory, or a smaller cache",
			o.Cache, l.CacheRows, o.Slots, budget.FormatBytes(n), budget.FormatBytes(o.Memory))
	}
	return l, nil
}

// layout counts the memory of a store with the given number of units, and of the store of single rows.
func (c *candidate) layout(single featurestore.Layout, units int64) featurestore.Layout {
	rows, _, _ := c.design.Units()
	l := featurestore.Layout{
		CacheRows:     min(units*rows, c.facts.Nodes),
		ByUse:         true,
		TableBytes:    single.TableBytes,
		RAMBytes:      single.RAMBytes,
		KeepBytes:     single.KeepBytes,
		SlotBytes:     c.slotBytes(),
		EvalSlotBytes: single.EvalSlotBytes,
		Own:           own{units, single},
	}
	c.design.Count(&l, units)
	return l
}

// slotBytes returns the memory of a slot for training batches, in bytes; 0 if there are none.
func (c *candidate) slotBytes() int64 {
	n := int64(c.facts.Inputs(false))
	if n == 0 {
		return 0
	}
	return pages(4*n*int64(c.facts.Dim)) + pages(4*n) + c.source.LoaderBytes(false)
}

// pages rounds the bytes of a buffer up to whole pages.
func pages(bytes int64) int64 { return binio.AlignUp(bytes, device.PageSize) }
