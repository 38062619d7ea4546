// Package sampler draws mini-batches: it knows the seed nodes of every batch of every epoch
// (Seeds), and draws their neighbours (Sampler), in any order and on any number of
// goroutines.
//
//	seeds, err := sampler.Load(ctx, dataset, params, rep)
//	err = seeds.Localize(ctx, topology, workers, rep)
//	s := sampler.New(&topology.CSC, params.Fanout, sampler.Options{}) // one per goroutine
//	batch, err := s.Draw(ctx, seeds, sampler.ID{Split: sampler.Train, Epoch: e, Index: i})
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
// visiting order are rng.Shuffle's; drawer says how a destination draws. The order Overlap
// shuffles pieces of the training set instead of nodes, as order.go describes; it depends
// on the graph and the seed, never on what is drawn.
package sampler
