// Package sampler draws mini-batches: Seeds determines the seed nodes of every batch of every epoch,
// and Sampler draws their neighbours, in any order and on any number of goroutines.
//
//	seeds, err := sampler.Load(ctx, dataset, params, rep)
//	err = seeds.Localize(ctx, topology, workers, rep)
//	s := sampler.New(&topology.CSC, params.Fanout, sampler.Options{}) // one per goroutine
//	batch, err := s.Draw(ctx, seeds, sampler.ID{Split: sampler.Train, Epoch: e, Index: i})
//
// Sampling is without replacement: a destination draws fanout in-neighbours, or all of them if it has
// no more; parallel edges count one by one. It is uniform, each destination by itself, or by LABOR-0:
// all destinations of a hop prefer the same neighbours, so that a batch has fewer input nodes (see
// type labor). The parameters choose the method, also for evaluation batches. Batches are message-flow
// graphs as in DGL: at each hop every node of the frontier, seed nodes included, draws again; the
// sources of a block are its destinations, then the nodes that the hop discovered, in the order of
// their discovery.
//
// # Randomness
//
// Every draw is a function of (seed, epoch, batch, hop, node) only, so that any number of workers, in
// any order, makes the same batches. With key = rng.Key over the listed words:
//
//	subset of the training nodes   (seed, 1)
//	visiting order of epoch e      (seed, 2, e)
//	draws for one destination      (seed, 3, e, b, hop, node)
//	order of locality              (seed, 4)
//	LABOR's lot of a node          (seed, 5, e, b, hop, node)
//	parts of a lot that depends    (seed, 6, split, group, hop, node)
//	  on the batches before
//	a lot of the edge behind n     (…, node, n)
//	  parallel ones
//	partitions of the graph        (seed, 7)
//	states of epoch e              (seed, 8, e)
//
// b is the number of the batch in the epoch; hops count from 0 at the seed nodes. Validation and test
// batches draw as epochs 2⁶⁴-1 and 2⁶⁴-2. The subset and the visiting order are made by rng.Shuffle;
// type drawer draws for a destination, type chooser does by LABOR. Under a layer dependency, all hops
// use the lots of hop 0. A group is a run of batches that depend on each other, counted over all
// epochs of the split. The split is 0 for training; for evaluation it is the epoch that the split
// draws as. The order Overlap shuffles pieces of the training set instead of nodes (order.go); it
// depends on the graph and the seed, never on the drawn batches. Under the orders Dispersed and
// Sequential the graph is divided into partitions, and a buffer holds some of them: partitions.go
// determines the visits of seed nodes, within.go draws their neighbours.
package sampler
