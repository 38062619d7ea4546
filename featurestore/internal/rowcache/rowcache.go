// Package rowcache is the common part of stores that read rows of a DATASET while training: a cache of frames
// with a policy that decides batch by batch, and reads of the missed rows. If the host computes, the frames
// are in RAM. If a GPU computes, the first frames are in its memory, and the others in RAM. One policy
// decides for all frames, so the reads depend on the number of frames, not on their place.
//
//	LoadGraph  decode the graph; in the order of the batches, let the policy decide which
//	           rows are hits and which misses go into which frames; submit the first reads
//	Wait       check the pages of each round of reads, copy the rows out, submit the next
//	Assemble   gather the hits from their frames, then copy the admitted misses into theirs
//	Fill       with a GPU that is done here, by kernels: Assemble names the rows
//
// Decisions and data are apart. The policy, of package residency, decides for batch k after it has decided
// for batch k-1, even if batch k is decoded first; course keeps this order. Frames change in Assemble
// alone, which runs in the same order. So a hit is in its frame when its batch is assembled, frames need no
// locks, and no row is in use by two batches. Hits and reads are a function of the batches in their order,
// not of time.
//
// Batches of evaluation read all of their rows, and change nothing.
//
// A store is a Design: its policies, a Planner that cuts misses into reads, and whether the accesses
// are recorded before the policy decides.
package rowcache

import (
	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/iostack"
)

// Design is the part of an online store that differs between stores.
type Design struct {
	featurestore.Design
	Planner  machine.Planner
	InFlight int // the most reads of a batch in flight, at least 2
	Reading  int // batches that read at the same time; 0: one
	// Recorded reports whether the accesses of superbatches are recorded before they begin. The only policy
	// is then residency.Belady.
	Recorded bool
}

// New returns a store of the given design, for a dataset and the batches of a source. If the features do not
// allow reads of single rows, the error is of kind fault.ErrUsage.
func New(source featurestore.Source, data *dataset.Dataset, d Design) (featurestore.Candidate, error) {
	return machine.New(machine.Design{Design: d.Design, InOrder: true,
		Reads:  iostack.Options{Workers: d.InFlight * max(1, d.Reading), MaxIO: machine.LongestRead},
		Levels: func(t *machine.Table) machine.Levels { return NewLevels(t, d) },
	}, source, data)
}

// NewLevels returns the levels of a store of the given design, for a store that has further levels.
func NewLevels(t *machine.Table, d Design) machine.Levels { return &levels{t, d} }

// levels implements machine.ReadByGPU.
type levels struct {
	*machine.Table
	design Design
}

// grid cuts an epoch into the given number of superbatches.
func (v *levels) grid(parts int) grid {
	return grid{train: v.Facts.Train, perEpoch: v.Facts.BatchesPerEpoch, parts: parts}
}

// reads returns the way in which the host reads misses.
func (v *levels) reads() machine.Reading {
	return machine.Alternate(v.design.Planner, v.Facts.RowBytes, v.design.InFlight)
}

// own has the further parameters of a layout for Open.
type own struct {
	policy string
	frames machine.Frames
	grid   grid
}
