// Package gnndrive is the store that reads rows one by one from a DATASET and holds some of them in a
// buffer, in RAM and on the GPU, as GNNDrive does (Jiang and others, ICPP 2024): batches under way
// refer to the rows of the buffer, and rows that none refers to any more are on a standby list, which
// the rows of later batches are taken from or take the place of. There is no pack; graphs come from a
// featurestore.Source.
//
// A row that an earlier batch is still reading is not read again: the batch joins that read, and finds
// the row in its frame, as batches are assembled in their order. By the policy standby of package
// residency, let m(k) be the nodes of batch k with rows that no frame holds or will hold when the batch
// comes. With R the bytes of a row and P = 4096, the batch reads
//
//	Σ over v in m(k) of P·(⌈(v+1)·R/P⌉ − ⌊v·R/P⌋)  bytes
//
// (less the part of the last page beyond the end of the file), and its graph.
//
// It differs from GNNDrive in this: batches keep their order, see below; a batch is released when the
// third batch after it comes, whatever the pipeline has finished, so that reads follow from the batches
// alone; the buffer may be smaller than the batches under way, and then rows pass by; reads are whole
// pages with checksums, not blocks of 512 bytes.
//
// # Order
//
// GNNDrive trains whichever batch is complete, so that a batch with late reads holds up no other. Here
// batches keep their order, and nothing lets them overtake each other:
//
//   - The weights would follow from when the drive answers. Checkpoints count the batches of an
//     order that is known: weights, metrics and the state of the policy at a step are those
//     after all batches before it. With another order every run, no run could go on from one,
//     nor be compared with another bit for bit.
//   - A batch could overtake only those with which it shares no frame. A row whose read it joins
//     is in its frame once the earlier batch is assembled; and a frame that it puts a row into
//     may have one that the earlier batch is still to take, as decisions are ahead of frames.
//   - A slot serves every n-th batch, and its next batch begins when this one was trained:
//     see package pipeline. A late batch would hold up the others all the same, n batches later.
//
// The batches between make up for late reads: batches under way read while the pipeline waits for a
// late one, and the engine trains on the assembled batches.
package gnndrive

import (
	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/online"
	"diskgnn/featurestore/residency"
)

// Name is the store's in --store.
const Name = "gnndrive"

// Policies returns the values of --cache-policy.
func Policies() []string { return []string{residency.Standby} }

// On returns the store of a source's batches, and of the dataset that they are drawn from.
func On(s featurestore.Source, d *dataset.Dataset) (featurestore.Candidate, error) {
	return online.New(s, d, online.Design{
		Name: Name, Policies: Policies(), Planner: online.Single{}, InFlight: inFlight, Reading: extractors,
	})
}

const (
	inFlight   = 80 // reads of a batch: GNNDrive's ring has as many entries
	extractors = 2  // batches that read at the same time
)
