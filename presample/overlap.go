package presample

import (
	"context"
	"fmt"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/rng"
)

// Batches in the order "overlap" are mixtures. Training nodes lie in an order of
// locality, in which neighbours need the same input nodes. It is cut into runs,
// runs into blocks: a batch is one block of each of a group's runs, the next
// batch their next blocks.
//
//	locality  ──── run 0 ────│──── run 1 ────│──── run 2 ────│ …
//	           b0 b1 b2 b3 … │ b0 b1 b2 b3 … │ b0 b1 b2 b3 …
//	batch 0:   b0 of the group's runs; batch 1: b1 of them; …
//
// A block's nodes share input nodes inside the batch, which makes it smaller; the
// blocks of a run share them from batch to batch. Every epoch cuts elsewhere,
// groups other runs, and shuffles each: blocks of nodes that are next to each other
// would share more, but a batch would then have too many nodes alike to learn from.
const (
	// mixedBlocks is how many parts of the graph a batch is a mixture of. Fewer
	// make it smaller, and its gradient less like that of the whole training set.
	mixedBlocks = 64
	// groupBatches is how many batches, about, follow the same runs.
	groupBatches = 8
)

// cutting says how the training nodes are cut.
type cutting struct {
	n      int // training nodes
	groups int
	runs   int // of a group: as many as blocks of a batch
	block  int // nodes
}

func newCutting(n, batchSize int) cutting {
	runs := min(mixedBlocks, batchSize)
	batches := (n + batchSize - 1) / batchSize
	return cutting{n: n, groups: max((batches+groupBatches/2)/groupBatches, 1), runs: runs, block: batchSize / runs}
}

// memory returns the bytes held for making orders.
func (c cutting) memory() int64 { return 4 * (2*int64(c.n) + int64(c.groups)*int64(c.runs)) }

// arrange writes the visiting order of an epoch. local is the order of locality,
// taken as a circle that begins somewhere else in every epoch; scratch is as long.
func (c cutting) arrange(order, local, scratch []uint32, key uint64) {
	src := rng.New(key)
	shift := int(src.Uint64n(uint64(c.n)))
	copy(scratch[copy(scratch, local[shift:]):], local)
	runs := identity(make([]uint32, c.groups*c.runs))
	for r := range runs {
		lo, hi := c.bounds(int64(r))
		rng.Shuffle(&src, scratch[lo:hi])
	}
	rng.Shuffle(&src, runs)
	longest := (c.n + len(runs) - 1) / len(runs)
	filled := order[:0]
	for g := range c.groups {
		group := runs[g*c.runs : (g+1)*c.runs]
		for at := 0; at < longest; at += c.block {
			for _, r := range group {
				lo, hi := c.bounds(int64(r))
				filled = append(filled, scratch[min(lo+at, hi):min(lo+at+c.block, hi)]...)
			}
		}
	}
}

// bounds returns where a run lies on the circle.
func (c cutting) bounds(run int64) (lo, hi int) {
	n, runs := int64(c.n), int64(c.groups*c.runs)
	return int(run * n / runs), int((run + 1) * n / runs)
}

// localize finds the order of locality where one is asked for. It comes before
// the first batch of training.
func (s *seeds) localize(ctx context.Context, t *dataset.Topology, workers int, rep progress.Reporter) error {
	if s.params.Order != OrderOverlap {
		return nil
	}
	began := time.Now()
	var err error
	if s.orders.local, err = locality(ctx, t, s.train.nodes, rng.Key(s.params.Seed, forLocality), workers); err != nil {
		return fmt.Errorf("order the training nodes: %w", err)
	}
	s.orders.scratch = make([]uint32, len(s.orders.local))
	rep.Logf("ordered %d training nodes by locality in %.1f s", len(s.train.nodes), time.Since(began).Seconds())
	return nil
}

// checkMemory refuses what localize cannot do within memory.
func (s *seeds) checkMemory(nodes, memory int64) error {
	if s.params.Order != OrderOverlap {
		return nil
	}
	return budget.Check("--order overlap", baseMemory+s.memory(0)+localityMemory(nodes, int64(len(s.train.nodes))), memory)
}
