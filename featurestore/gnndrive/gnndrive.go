// Package gnndrive is the store that reads rows one by one from a DATASET and holds some of them in a
// buffer, in RAM and on the GPU, as GNNDrive does (Jiang and others, ICPP 2024). Batches in flight refer
// to rows of the buffer. Rows without a reference are on a standby list: a later batch may use them again,
// or replace them. There is no pack; graphs come from a featurestore.Source.
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
// Four things differ from GNNDrive. Batches keep their order, see below. A batch is released when the
// third batch after it comes, regardless of the progress of the pipeline, so the reads follow from the
// batches alone. The buffer may be smaller than the batches in flight; then rows pass by. Reads are whole
// pages with checksums, not blocks of 512 bytes.
//
// # Order
//
// GNNDrive trains on the batch that is complete first, so a batch with late reads delays no other. Here
// batches keep their order, for three reasons:
//
//   - With another order, the weights would depend on the timing of the drive. A checkpoint counts
//     batches of a fixed order: its weights, metrics and policy state are the results of all earlier
//     batches. If every run had its own order, no run could continue from a checkpoint, and no two runs
//     could be compared bit for bit.
//   - A batch could overtake only batches with which it shares no frame. If it joins the read of an
//     earlier batch, the row is in its frame only after the earlier batch is assembled. If it replaces
//     the row of a frame, an earlier batch may still need the old row, as decisions are ahead of frames.
//   - A slot serves every n-th batch, and its next batch begins after the present one is trained: see
//     package pipeline. A late batch would still delay the others, n batches later.
//
// The batches in flight hide late reads: they read while the pipeline waits for a late batch, and the
// engine trains on the assembled batches.
package gnndrive

import (
	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/internal/rowcache"
	"diskgnn/featurestore/residency"
)

// Name is the value of --store for this store.
const Name = "gnndrive"

// Design describes the store.
func Design() featurestore.Design {
	return featurestore.Design{Name: Name, On: on, Policies: []string{residency.Standby}}
}

func on(s featurestore.Source, d *dataset.Dataset) (featurestore.Candidate, error) {
	return rowcache.New(s, d, rowcache.Design{Design: Design(), Planner: machine.Single{}, InFlight: inFlight, Reading: extractors})
}

const (
	inFlight   = 80 // reads of a batch: the number of entries in GNNDrive's ring
	extractors = 2  // batches that read at the same time
)
