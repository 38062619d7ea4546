// Package hyperion is the store that holds the rows that save most reads, and reads the other rows from a
// DATASET one by one, as Hyperion does (Sun and others, ICDE 2025). It chooses the rows once before
// training, from the hotness of the nodes. There is no pack; graphs come from a featurestore.Source.
//
//	Fill       choose the rows by divide, and read them into RAM and the GPU's memory
//	LoadGraph  submit the reads of all rows that are not held, in micro-batches
//	Wait       complete the reads at once, check their pages, copy the rows to their places
//	Assemble   gather the rows; a GPU gathers held and read rows by one kernel
//
// The cached rows do not change while training, so batches may come in any order, and evaluation uses the
// cache as well. A checkpoint does not contain the cache: its rows follow from the hotness and the
// memory. With m(k) the input nodes of batch k without a held row, R the bytes of a row and P = 4096,
// batch k reads
//
//	Σ over v in m(k) of P·(⌈(v+1)·R/P⌉ − ⌊v·R/P⌋)  bytes
//
// (less the part of the last page beyond the end of the file), and its graph.
//
// If the source can hold lists of neighbours (featurestore.Lists), the RAM is divided between lists and
// rows, by the hotness and the number of draws from each list. Where the GPU draws, all lists are in memory, and
// package onthefly places the lists with most draws in the GPU's, for every store.
//
// A batch completes its reads at once if the memory for their pages suffices, otherwise in as few rounds
// as the memory allows; the layout's note says so. If the storage stack allows it (iostack.DeviceStack),
// kernels submit the reads and complete them when the batch is taken, as in Hyperion, and compute the
// checksums of the pages; otherwise the host does. Two things differ from Hyperion: reads are whole pages
// with checksums, and a row may have any size.
package hyperion

import (
	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/iostack"
)

// Name is the value of --store for this store.
const Name = "hyperion"

// Design describes the store.
func Design() featurestore.Design {
	return featurestore.Design{Name: Name, On: on, HoldsLists: true}
}

// on returns the store for the batches of a source, with rows of the dataset that they are drawn from. If
// single rows of the features cannot be read, the error is of kind fault.ErrUsage.
func on(s featurestore.Source, d *dataset.Dataset) (featurestore.Candidate, error) {
	return machine.New(machine.Design{Design: Design(), Reads: iostack.Options{Workers: inFlight, MaxIO: machine.LongestRead},
		Levels: func(t *machine.Table) machine.Levels { return &levels{t} }}, s, d)
}

// levels implements machine.ReadByGPU.
type levels struct{ *machine.Table }

const (
	inFlight   = 512 // reads that a drive serves at the same time
	microBatch = 512 // reads that are submitted together
)
