// Package rows is the store that reads rows one by one from a DATASET, as the disk store of DGL's
// GraphBolt does, and holds some of them in a cache, in RAM and on the GPU, by a policy that decides from
// past accesses. There is no pack; graphs come from a featurestore.Source.
//
// A row that the cache does not hold costs one read of the 4 KiB pages that cover it, of which up to
// 512 are in flight for each slot. With m(k) the nodes that batch k misses, R the bytes of a row and P
// = 4096, batch k reads
//
//	Σ over v in m(k) of P·(⌈(v+1)·R/P⌉ − ⌊v·R/P⌋)  bytes
//
// (less the part of the last page beyond the end of the file), and its graph. A page with several missed rows
// is read once for each of them. The misses follow from the policy and the order of the batches alone: see
// package featurestore/internal/rowcache.
package rows

import (
	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/internal/rowcache"
	"diskgnn/featurestore/residency"
)

// Name is the value of --store for this store.
const Name = "rows"

// Design describes the store.
func Design() featurestore.Design {
	return featurestore.Design{Name: Name, On: on,
		Policies: []string{residency.S3FIFO, residency.LRU, residency.Clock, residency.Sieve}} // first GraphBolt's default
}

func on(s featurestore.Source, d *dataset.Dataset) (featurestore.Candidate, error) {
	return rowcache.New(s, d, rowcache.Design{Design: Design(), Planner: machine.Single{}, InFlight: inFlight})
}

// inFlight is the number of reads in flight of a batch: the size of GraphBolt's rings.
const inFlight = 512
