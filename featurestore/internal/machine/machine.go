// Package machine is the common part of the stores that read the rows of a DATASET. A store is a Design: the
// flags that it takes, and Levels, which divide the memory and hold rows.
//
//	New   refuse features that the levels cannot read
//	Plan  refuse flags without a use; choose who reads, the GPU or the host; let the levels divide the Room
//	Open  open the levels of a layout
//
// A store of single rows is a FrameStore: a Cache of frames, in RAM or on a GPU, a Decider of hits, and a Reader of
// misses. Slot is the common part of all slots.
//
// Room has the refusals for lack of memory, Planner cuts rows into reads, Table has the dataset and the source.
package machine

import (
	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
	"diskgnn/iostack"
)

// LongestRead is the longest read of the storage stack of a store that reads rows or pages one by one, in
// bytes. It is small, since such reads are short and each read in flight has a bounce buffer. Reads of graphs
// are split.
const LongestRead = 16 << 10

// Tables names the memory of the smallest layout of most stores, for Room.Smallest.
const Tables = "the tables of nodes and checksums"

// Design is a store: the facts by which flags are refused, and its levels.
type Design struct {
	featurestore.Design
	// InOrder reports whether training batches are started in the order of the samples: see
	// featurestore.Candidate.
	InOrder bool
	// Sequential reports whether the store reads the table from its beginning to its end, so features may be
	// compressed.
	Sequential bool
	// Reads are the options of the storage stack; zero: its default.
	Reads iostack.Options
	// Levels returns the levels of a store of a table.
	Levels func(t *Table) Levels
}

// Levels hold rows for a store.
type Levels interface {
	// Plan divides the room. reads is for reads of training batches by the room's GPU; nil: the host reads.
	Plan(r Room, reads *gpureads.Plan) (featurestore.Layout, error)
	// PlanEval and Open are a Candidate's.
	PlanEval(hold int64) (featurestore.Layout, error)
	Open(stack iostack.Stack, l featurestore.Layout) (featurestore.Store, error)
}

// ReadByGPU is Levels with reads that a GPU can submit.
type ReadByGPU interface {
	Levels
	// Shape returns the sizes of the training batches' reads.
	Shape() gpureads.Shape
}

// New returns a store of the given design, for a dataset and the batches of a source. If the store cannot
// read the features, the error is of kind fault.ErrUsage.
func New(d Design, source featurestore.Source, data *dataset.Dataset) (featurestore.Candidate, error) {
	if err := data.RowsReadable(); err != nil && !d.Sequential {
		return nil, err
	}
	t := &Table{Source: source, Data: data, Facts: source.Facts()}
	c := &candidate{Levels: d.Levels(t), design: d, table: t}
	if confined, ok := c.Levels.(featurestore.Confinable); ok {
		return paged{c, confined}, nil
	}
	return c, nil
}

// candidate implements featurestore.Candidate and featurestore.Reads.
type candidate struct {
	Levels
	design Design
	table  *Table
}

// paged is a candidate with rows in the page cache.
type paged struct {
	*candidate
	featurestore.Confinable
}

func (c *candidate) Name() string                       { return c.design.Name }
func (c *candidate) Dir() string                        { return c.table.Source.Dir() }
func (c *candidate) Facts() featurestore.Facts          { return c.table.Facts }
func (c *candidate) Lineage() featurestore.Lineage      { return c.table.Source.Lineage() }
func (c *candidate) Describe() featurestore.Description { return featurestore.Description{} }
func (c *candidate) InOrder() bool                      { return c.design.InOrder }
func (c *candidate) Reads() iostack.Options             { return c.design.Reads }

// Plan implements featurestore.Candidate.
func (c *candidate) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	plan := func(reads *gpureads.Plan) (featurestore.Layout, error) {
		o := o
		if reads == nil {
			o.Reads = nil
		}
		if err := c.design.Refuse(&o); err != nil {
			return featurestore.Layout{}, err
		}
		if o.Policy == "" && len(c.design.Policies) > 0 {
			o.Policy = c.design.Policies[0]
		}
		return c.Levels.Plan(Room{PlanOptions: &o, table: c.table}, reads)
	}
	if by, ok := c.Levels.(ReadByGPU); ok {
		return gpureads.Planned(o, by.Shape(), plan)
	}
	return plan(nil)
}
