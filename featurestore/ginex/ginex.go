// Package ginex is the store that reads rows one by one from a DATASET and holds some of them in a
// cache, in RAM and on the GPU, as Ginex does (Park, Min and Lee, VLDB 2022): the batches of a sample
// epoch are cut into superbatches. The accesses of a superbatch are recorded before it begins, so that
// Belady's policy can decide which rows the cache holds. Rows may bypass the cache. There is no pack;
// graphs come from a featurestore.Source.
//
// With C frames, superbatch s, and B the accesses of Belady's policy with bypass that miss, s reads the
// following. The policy begins with the first C distinct nodes of the superbatch, and between rows with
// equally near next uses keeps the lowest node ids.
//
//	min(C, distinct nodes of s) + B(s)  rows
//
// Each row is one read of the 4 KiB pages that cover it, as in package rows. Ginex reads the first C rows
// before the superbatch begins, this store when a batch first uses them; no row leaves the cache before
// then, see residency.Superbatch. Rows of one superbatch are not kept for the next.
//
// A superbatch is recorded while the previous one is trained, one batch for each trained batch. Recording
// reads the graph of each batch once more. Superbatches are as long as memory allows, an epoch at most;
// within an epoch their lengths differ by one batch at most. The rows in the cache follow from the
// position of the run and the lengths of superbatches, so checkpoints do not contain the cache.
//
// The store has no cache of neighbours, as Ginex has, since batches are drawn in advance.
package ginex

import (
	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/internal/rowcache"
	"diskgnn/featurestore/residency"
	"diskgnn/presample/sampler/topology"
)

// Name is the value of --store for this store.
const Name = "ginex"

// Design describes the store.
func Design() featurestore.Design {
	return featurestore.Design{Name: Name, On: on, Policies: []string{residency.Belady}, ListOrder: topology.ByGinex}
}

func on(s featurestore.Source, d *dataset.Dataset) (featurestore.Candidate, error) {
	return rowcache.New(s, d, rowcache.Design{Design: Design(), Planner: machine.Single{}, InFlight: inFlight, Recorded: true})
}

// inFlight is the most reads of a batch in flight.
const inFlight = 512
