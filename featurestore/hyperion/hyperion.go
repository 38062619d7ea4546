// Package hyperion is the store that holds the rows which save most reads, chosen once before training
// from counts of batches that were drawn before, and reads the others from a DATASET one by one, as
// Hyperion does (Sun and others, ICDE 2025). There is no pack; graphs come from a featurestore.Source.
//
//	Fill       divide chooses the rows; they are read, on a GPU into its memory
//	LoadGraph  submit the reads of all rows that are not held, in micro-batches
//	Wait       one completion: check their pages, bring the rows to their places
//	Assemble   gather the rows, on the GPU from all three places at once
//
// The cached rows do not change while training, so batches may come in any order and evaluation uses
// the cache as well. A checkpoint holds nothing of the cache: its rows follow from the counts and the
// memory. With m(k) the input nodes of batch k that are not held, R the bytes of a row and P = 4096,
// batch k reads
//
//	Σ over v in m(k) of P·(⌈(v+1)·R/P⌉ − ⌊v·R/P⌋)  bytes
//
// (less the part of the last page beyond the end of the file), and its graph.
//
// Where the source can hold lists of neighbours (featurestore.Lists), the RAM is divided between these
// and rows, by the same counts and the draws from each list; the GPU has rows alone.
//
// A batch completes its reads at once where the memory for their pages suffices, and else in as few
// rounds as that allows; the layout's note says so. Where the storage stack lets a GPU read by itself
// (iostack.DeviceStack), kernels submit all of them and complete them when the batch is taken, as
// Hyperion's do, and check their pages; else the host does. It differs from Hyperion in this: a read is
// whole pages, which are checked; a row may have any size.
package hyperion

import (
	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/internal/stage"
	"diskgnn/iostack"
)

// Name is the store's in --store.
const Name = "hyperion"

// On returns the store of a source's batches, and of the dataset that they are drawn from. If single
// rows of the features cannot be read, the error is of kind fault.ErrUsage.
func On(s featurestore.Source, d *dataset.Dataset) (featurestore.Candidate, error) {
	if err := d.RowsReadable(); err != nil {
		return nil, err
	}
	return &candidate{s, d, s.Facts()}, nil
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

const (
	inFlight   = 512      // reads that a drive serves at the same time
	microBatch = 512      // reads that are submitted together
	longest    = 16 << 10 // bytes that the stack reads at a time: each has a bounce buffer
)

// Reads implements featurestore.Reads.
func (c *candidate) Reads() iostack.Options {
	return iostack.Options{Workers: inFlight, MaxIO: longest}
}

func (c *candidate) size() int64 { return c.facts.Nodes * int64(c.facts.RowBytes) }

// damaged adds to an error about the features how they are made again.
func (c *candidate) damaged(err error) error {
	return stage.Damaged(err, c.data.Dir(), c.data.Meta().Format)
}
