// Package online is the common part of stores that read rows of a DATASET while training: a cache of
// frames with a policy that decides batch by batch, and reads of the rows that the cache lacks. Where
// the host computes, the frames are in RAM. Where a GPU computes, the first of them are in its memory,
// and the others in RAM: a hit in one of the first frames is served on the GPU. One policy decides for
// all frames alike, so the reads depend on the number of frames, not on their place.
//
//	LoadGraph  decode the graph; in the order of the batches, let the policy decide which
//	           rows are hits and which misses go into which frames; submit the first reads
//	Wait       check the pages of each round of reads, copy the rows out, submit the next
//	Assemble   gather the hits from their frames, then copy the admitted misses into theirs
//	Fill       with a GPU that is done here, by kernels: Assemble names the rows
//
// Decisions and data are apart. The policy decides for batch k after it has decided for batch k-1,
// whichever of them is decoded first: package residency has it, and course the order. Frames change in
// Assemble alone, which comes in the same order, so a hit lies in its frame when its batch is
// assembled, and there are no locks on frames and no rows that are in use by two batches. Hits and
// reads are a function of the batches in their order, not of time.
//
// Batches of evaluation read all of their rows, and change nothing.
//
// A store is a Design: its policies, a Planner that cuts misses into reads, and whether the accesses
// are recorded before the policy decides.
package online

import (
	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/devrows"
	"diskgnn/internal/binio"
	"diskgnn/internal/stage"
	"diskgnn/iostack"
)

// Design is the part in which one online store differs from another.
type Design struct {
	Name     string
	Policies []string // that package residency knows, the default first
	Planner  Planner
	InFlight int // reads of a batch at the same time, at most; at least 2
	Reading  int // batches that read at the same time; 0: one
	// Recorded says that the accesses of superbatches are recorded before they begin. The
	// policy is Belady's, and no other.
	Recorded bool
}

// New returns the store of that design, of a dataset and the batches of a source. If single rows of the
// features cannot be read, the error is of kind fault.ErrUsage.
func New(source featurestore.Source, data *dataset.Dataset, d Design) (featurestore.Candidate, error) {
	if err := data.RowsReadable(); err != nil {
		return nil, err
	}
	return &candidate{design: d, source: source, data: data, facts: source.Facts()}, nil
}

type candidate struct {
	design Design
	source featurestore.Source
	data   *dataset.Dataset
	facts  featurestore.Facts
}

func (c *candidate) Name() string                       { return c.design.Name }
func (c *candidate) Dir() string                        { return c.source.Dir() }
func (c *candidate) Facts() featurestore.Facts          { return c.facts }
func (c *candidate) Lineage() featurestore.Lineage      { return c.source.Lineage() }
func (c *candidate) Describe() featurestore.Description { return featurestore.Description{} }
func (c *candidate) InOrder() bool                      { return true }

// Reads implements featurestore.Reads.
func (c *candidate) Reads() iostack.Options {
	return iostack.Options{Workers: c.design.InFlight * max(1, c.design.Reading), MaxIO: longestRead}
}

// longestRead is the most bytes that the stack reads at a time: rows are short, and each read
// under way has a bounce buffer.
const longestRead = 16 << 10

// grid cuts an epoch into the given number of superbatches.
func (c *candidate) grid(parts int) grid {
	return grid{train: c.facts.Train, perEpoch: c.facts.BatchesPerEpoch, parts: parts}
}

// own has the further parameters of a layout for Open.
type own struct {
	policy string
	frames int
	near   int           // frames on the GPU, the first
	gpu    *cuda.Device  // that the matrices are for; nil: the host
	reads  *devrows.Plan // of training batches by it; nil: by the host
	grid   grid
}

func (c *candidate) ranksBytes() int64 { return binio.AlignUp(4*c.facts.Nodes, device.PageSize) }

// damaged adds to an error about the features how they are made again.
func (c *candidate) damaged(err error) error {
	return stage.Damaged(err, c.data.Dir(), c.data.Meta().Format)
}

func (c *candidate) size() int64 { return c.facts.Nodes * int64(c.facts.RowBytes) }
