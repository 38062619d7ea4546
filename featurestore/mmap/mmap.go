// Package mmap is the store that maps the features of a DATASET and gathers rows from the mapping, as
// DGL does with features that do not fit in memory: the kernel reads a page when a thread touches it,
// and the thread waits. There is no pack; graphs come from a featurestore.Source.
//
//	LoadGraph  decode the graph, name the input nodes by their ranks
//	Wait       gather the input nodes' rows on locked threads, each of which a page fault stops
//	Assemble   nothing
//
// A page fault stops a thread of the operating system and the goroutine on it, so each thread reads one
// page at a time. The threads are locked, and Go's scheduler keeps its own. The kernel is advised that
// reads are random: it reads single pages, without their neighbours.
//
// The page cache of the features is held to a number of pages, which is part of the memory that is
// planned: when the rows to come would make them more, all are dropped from the page cache, and
// gathering goes on. That replaces pages less well than the kernel's own lists do, and needs no right
// that a program does not have. With a budget of one batch this drops the pages after every batch; with
// one of all pages it never does.
//
// A batch reads the pages of its rows that no batch has touched since pages were dropped. With B pages
// as the budget, H = {} the pages held, and P bytes in a page, for the nodes of a batch in their order,
// rows of R bytes:
//
//	p(v) = {⌊v·R/P⌋, …, ⌈(v+1)·R/P⌉ − 1}
//	if |H ∪ p(v)| > B:  H ← {}
//	read  Σ over p(v) \ H of P bytes  (the file's last page: less),  H ← H ∪ p(v)
//
// The kernel reads this unless it evicts pages by itself, for want of memory, or other processes use
// the file: then it reads more, or less. Batches of evaluation take part.
//
// Where a memory cgroup around the process holds the page cache to the same memory (see Confine), the
// kernel evicts pages by itself, one by one and those that were used least, and none are dropped. Then
// a batch's reads are the page faults that waited for one, a page each; rows with such faults are those
// that were not in memory. Some in a hundred may be missed, as threadFaults says.
//
// Nothing checks rows that are read so: the kernel hands a page to the thread that touches it. A file
// that was truncated or written to since it was opened, or that a disk fails to read, is an error of
// kind fault.ErrCorrupt.
package mmap

import (
	"os"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
)

// Name is the store's in --store.
const Name = "mmap"

// DefaultFaultThreads is the number of threads where none is given.
const DefaultFaultThreads = 16

// On returns the store of a source's batches, and of the dataset that they are drawn from.
// Compressed features are an error of kind fault.ErrUsage.
func On(s featurestore.Source, d *dataset.Dataset) (featurestore.Candidate, error) {
	if err := d.RowsReadable(); err != nil {
		return nil, err
	}
	return &candidate{source: s, data: d, facts: s.Facts(), page: int64(os.Getpagesize())}, nil
}

// candidate is a dataset that was found, with a source of batches.
type candidate struct {
	source featurestore.Source
	data   *dataset.Dataset
	facts  featurestore.Facts
	page   int64 // bytes of one of the machine's
}

func (c *candidate) Name() string                       { return Name }
func (c *candidate) Dir() string                        { return c.source.Dir() }
func (c *candidate) Facts() featurestore.Facts          { return c.facts }
func (c *candidate) Lineage() featurestore.Lineage      { return c.source.Lineage() }
func (c *candidate) Describe() featurestore.Description { return featurestore.Description{} }
func (c *candidate) InOrder() bool                      { return false }

func (c *candidate) size() int64 { return c.facts.Nodes * int64(c.facts.RowBytes) }

// damaged adds to an error about the features how they are made again.
func (c *candidate) damaged(err error) error {
	return stage.Damaged(err, c.data.Dir(), c.data.Meta().Format)
}

// truncated is the error of a feature file that has so many bytes.
func (c *candidate) truncated(bytes int64) error {
	return c.damaged(fault.New(fault.ErrCorrupt, "%s has %d bytes instead of %d: it was truncated", c.data.FeaturesPath(), bytes, c.size()))
}
