// Package marius is the store that holds whole partitions of a graph in memory, as MariusGNN does (EuroSys
// 2023). It takes samples that were drawn from a buffer of partitions, by `diskgnn presample --order
// dispersed` or `sequential`, and no others: a batch needs rows of the partitions in the buffer alone.
// There is no pack; the batches' graphs come from the samples.
//
//	state      the partitions that a batch was drawn from: see packages presample/walk and sampler
//	phase      successive batches of one state
//	partition  n/P nodes from anywhere; their rows lie together in the file features.partitioned
//
// With H(k) the partitions of batch k (equal for all batches of a phase), R the bytes of a row and n(p) the
// nodes of a partition, the batches of the circle read
//
//	Σ over k of Σ over p in H(k) \ H(k−1) of 4096·⌈n(p)·R/4096⌉  bytes
//
// of rows: each partition whole when it comes into the buffer, and nothing while the state stays. Under
// sequential a state stays for an epoch. Partitions of states without batches are not read.
//
// If memory has room for more than the buffer, partitions of the next state are read during the batches of
// the present one, in the order of the file, in equal shares for each batch. Partitions without room are
// read when the state changes, and count for the first batch of the new state. Rows of partitions that came
// into the buffer with a state are misses for the first batch of the phase that uses them; all other
// accesses are hits.
//
// If a GPU computes, a part of the buffer is in its memory. The state changes when the GPU has gathered all batches of
// the state before. The part of the hits on the GPU depends on the batch with which a run begins, too.
//
// # The file
//
// Partitions are random, so the rows of a partition are scattered over the feature table. The first run
// writes them by partition, in one pass over the table, to a file in the directory of the samples:
//
//	features.partitioned        partition after partition, each from a multiple of 4096 on, its
//	                            rows by ascending node, zeros behind them
//	features.partitioned.sums   fingerprint of the samples, 64 characters; then the table of
//	                            checksums of every 4096 bytes, as package binio has it
//
// The files are a copy of the features, which later runs on the same samples use again. They are no part of
// the samples' fingerprint: a run makes files again that do not match it, or that were removed. Reading the
// table counts as preload.
//
// The store lacks two features of MariusGNN: training on the edges of partitions on disk (link prediction),
// and writing back updates of embeddings.
package marius

import (
	"fmt"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/phases"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/presample/sampler"
)

// Name is the value of --store for this store.
const Name = "marius"

// Design describes the store.
func Design() featurestore.Design {
	return featurestore.Design{Name: Name, On: on, OwnSamples: true}
}

// on returns the store of samples, and of the dataset that they are drawn from. Samples of another order,
// and batches drawn while training, are an error of kind fault.ErrUsage. If the file of rows by partition
// has to be made, and the directory of the samples is not writable, on returns an error.
func on(s featurestore.Source, d *dataset.Dataset) (featurestore.Candidate, error) {
	const how = "draw samples by `diskgnn presample --order dispersed --partitions P --buffer B`, or --order sequential"
	drawn, ok := s.(Samples)
	if !ok {
		return nil, fault.New(fault.ErrUsage, "--store %s takes samples, not batches drawn while training: %s", Name, how)
	}
	p := drawn.Params()
	switch {
	case p.Partitions == 0:
		return nil, fault.New(fault.ErrUsage, "--store %s holds some partitions of the graph, but %s was drawn from the whole graph, in the order %s: %s", Name, s.Dir(), p.Order, how)
	case p.Sampler != sampler.Version:
		return nil, fault.New(fault.ErrUsage, "--store %s: %s was drawn by version %d of the sampling, with other partitions than this program's: %s", Name, s.Dir(), p.Sampler, how)
	}
	design := newDesign(drawn, d, p)
	if _, err := design.readSums(); err != nil {
		if err := vfs.CheckWritable(s.Dir()); err != nil {
			return nil, fmt.Errorf("--store %s writes the rows to %s, once for these samples: %w: train once where this file can be written, or with another --store", Name, design.file(), err)
		}
	}
	return phases.New(Design(), s, d, design)
}
