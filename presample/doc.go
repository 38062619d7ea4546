// Package presample draws every mini-batch of a training run before training begins, so that all its
// reads are known before the first one happens.
//
// Run makes a SAMPLES directory from a DATASET; package mbfile defines the format, package sampler
// draws the batches. Workers sample and encode whole batches, and one writer appends them in order.
// The topology is mapped or cached, and everything else fits a memory budget. Different machines may
// draw different shards, which package shard merges.
package presample
