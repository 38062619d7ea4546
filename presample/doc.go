// Package presample draws every mini-batch of a training run before training begins, so that all its
// reads are known before the first one happens.
//
// Run makes a SAMPLES directory from a DATASET; package mbfile defines the format, package sampler draws
// the batches. Workers sample and encode whole batches, one writer appends them in order. The topology
// stays mapped, and everything else fits a budget. Machines may each draw a shard, for package shard to
// merge.
package presample
