// Package presample draws every mini-batch of a training run before training
// begins, so that all its reads are known before the first one happens.
//
// Sampling is uniform and without replacement: of a destination's in-neighbours
// as many as the fanout says, or all of them when there are no more than that;
// parallel edges count one by one. The semantics are those of DGL's message-flow
// graphs: at each hop every node of the frontier, seed nodes included, draws
// afresh; a block's sources are its destinations, then the nodes that the hop
// discovered, in the order of their discovery.
//
// # Randomness
//
// Every draw is a function of (seed, epoch, batch, hop, node) alone, so that any
// number of workers, in any order, makes the same batches. With key = rng.Key
// over the words listed:
//
//	subset of the training nodes   (seed, 1)
//	visiting order of epoch e      (seed, 2, e)
//	draws for one destination      (seed, 3, e, b, hop, node)
//	order of locality              (seed, 4)
//
// b counts the batches of the epoch and hops count from 0 at the seed nodes.
// Validation and test batches draw as epochs 2⁶⁴-1 and 2⁶⁴-2. The subset and the
// visiting order are rng.Shuffle's; how a destination draws is told at drawer.
// The order "overlap" shuffles pieces of the training set instead of nodes, as told
// at mixedBlocks; it depends on the graph and the seed, never on what is drawn.
//
// # Stage
//
// Run makes a SAMPLES directory, whose format is package mbfile's, from a
// DATASET. Workers sample and encode whole batches, one writer appends them in
// order; the topology stays mapped, and everything else fits a budget. Machines
// may draw a shard of it each, for package shard to merge.
package presample
