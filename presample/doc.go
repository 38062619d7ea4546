// Package presample draws every mini-batch of a training run before training
// begins, so that all its reads are known before the first one happens.
//
// Package sampler says how batches are drawn. Run makes a SAMPLES directory, whose format is
// package mbfile's, from a DATASET. Workers sample and encode whole batches, one writer
// appends them in order; the topology stays mapped, and everything else fits a budget.
// Machines may draw a shard of it each, for package shard to merge.
package presample
