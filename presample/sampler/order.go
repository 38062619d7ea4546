package sampler

import (
	"sync"

	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
)

// Orders of visiting the training batches.
const (
	Random  = "random"
	Overlap = "overlap" // neighbouring batches share input nodes
)

// Purposes of randomness: the word of a key that keeps them apart.
const (
	forSubset   = 1
	forOrder    = 2
	forDraws    = 3
	forLocality = 4
	forLots     = 5
	forNormals  = 6
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

// orders holds the visiting orders of the epochs under way: positions in the
// training split.
type orders struct {
	seed  uint64
	n     int
	mixed bool // overlap: arranged by cut from local
	cut   cutting
	local []uint32 // positions by locality

	mu      sync.RWMutex // an order is read under it, since drop uses its memory again
	of      map[int][]uint32
	free    [][]uint32
	scratch []uint32
}

func (o *orders) init(n int, p *mbfile.Params) {
	o.seed, o.n, o.of = p.Seed, n, map[int][]uint32{}
	if o.mixed = p.Order == Overlap; o.mixed {
		o.cut = newCutting(n, p.BatchSize)
	}
}

// memory returns the bytes held beside the orders under way.
func (o *orders) memory() int64 {
	if !o.mixed {
		return 0
	}
	return o.cut.memory()
}

// with calls do with the order of an epoch, which is made if it is not there. The order is
// valid during the call.
func (o *orders) with(epoch int, do func(order []uint32)) {
	for !o.read(epoch, do) {
		o.make(epoch) // it may be dropped again before it is read
	}
}

// read calls do with the order of an epoch, if it is there.
func (o *orders) read(epoch int, do func(order []uint32)) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	order := o.of[epoch]
	if order != nil {
		do(order)
	}
	return order != nil
}

// make makes the order of an epoch, unless it is there.
func (o *orders) make(epoch int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of[epoch] != nil {
		return
	}
	var order []uint32
	if n := len(o.free); n > 0 {
		order, o.free = o.free[n-1], o.free[:n-1]
	} else {
		order = make([]uint32, o.n)
	}
	o.fill(order, rng.Key(o.seed, forOrder, uint64(epoch)))
	o.of[epoch] = order
}

// fill writes the order that a key gives.
func (o *orders) fill(order []uint32, key uint64) {
	if o.mixed {
		o.cut.arrange(order, o.local, o.scratch, key)
		return
	}
	identity(order)
	src := rng.New(key)
	rng.Shuffle(&src, order)
}

// drop forgets the epochs before the given one; their memory is used again.
func (o *orders) drop(before int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for e, order := range o.of {
		if e < before {
			o.free = append(o.free, order)
			delete(o.of, e)
		}
	}
}

// identity makes at[i] = i.
func identity(at []uint32) []uint32 {
	for i := range at {
		at[i] = uint32(i)
	}
	return at
}
