package sampler

import (
	"sync"

	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/walk"
)

// Orders of visiting the training batches.
const (
	Random  = "random"
	Overlap = "overlap" // neighbouring batches share input nodes
	// Orders with batches from the partitions in a buffer, which changes during an epoch (Dispersed)
	// or has one content for each epoch (Sequential).
	Dispersed  = mbfile.Dispersed
	Sequential = mbfile.Sequential
)

// Purposes of randomness: the word of a key that keeps them apart.
const (
	forSubset     = 1
	forOrder      = 2
	forDraws      = 3
	forLocality   = 4
	forLots       = 5
	forNormals    = 6
	forPartitions = 7
	forWalk       = 8
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
	// mixedBlocks is the number of parts of the graph that a batch mixes. Fewer make it smaller, and
	// its gradient less like the whole training set's.
	mixedBlocks = 64
	// groupBatches is how many batches, about, follow the same runs.
	groupBatches = 8
)

// cutting describes the cutting of the training nodes.
type cutting struct {
	n      int // training nodes
	groups int
	runs   int // of a group, equal to the blocks of a batch
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

func (c cutting) bounds(run int64) (lo, hi int) {
	n, runs := int64(c.n), int64(c.groups*c.runs)
	return int(run * n / runs), int((run + 1) * n / runs)
}

// visit is the visiting order of one epoch: positions in the training split.
type visit struct {
	order []uint32
	// The next two are of orders with partitions.
	cuts []cut // of every batch
	walk *walk.Walk
}

func (v *visit) span(index, size int) []uint32 {
	if v.walk == nil {
		return v.order[index*size : min((index+1)*size, len(v.order))]
	}
	lo := uint32(0)
	if index > 0 {
		lo = v.cuts[index-1].end
	}
	return v.order[lo:v.cuts[index].end]
}

// orders holds the visits of the epochs in use.
type orders struct {
	seed  uint64
	n     int
	mixed bool // overlap: arranged by cut from local
	// ascending: the nodes are visited in the order in which they are listed.
	ascending bool
	cut       cutting
	local     []uint32    // positions by locality
	parts     *partitions // nil: of other orders than dispersed and sequential

	mu      sync.RWMutex // a visit is read under it, since drop uses its memory again
	of      map[int]*visit
	free    []*visit
	scratch []uint32
}

func (o *orders) init(n int, p *mbfile.Params) {
	o.seed, o.n, o.of = p.Seed, n, map[int]*visit{}
	if o.mixed = p.Order == Overlap; o.mixed {
		o.cut = newCutting(n, p.BatchSize)
	}
}

// memory returns the bytes that are held beside the visits.
func (o *orders) memory() int64 {
	switch {
	case o.mixed:
		return o.cut.memory()
	case o.parts != nil:
		return o.parts.memory()
	}
	return 0
}

func (o *orders) visitMemory() int64 {
	n := 4 * int64(o.n)
	if o.parts != nil {
		n += o.parts.visitMemory()
	}
	return n
}

// with calls do with the visit of an epoch, which is made if it is not there. The visit is
// valid during the call.
func (o *orders) with(epoch int, do func(v *visit)) {
	for !o.read(epoch, do) {
		o.make(epoch) // it may be dropped again before it is read
	}
}

// read calls do with the visit of an epoch, if it is there.
func (o *orders) read(epoch int, do func(v *visit)) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	v := o.of[epoch]
	if v != nil {
		do(v)
	}
	return v != nil
}

// make makes the visit of an epoch, unless it is there.
func (o *orders) make(epoch int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of[epoch] != nil {
		return
	}
	var v *visit
	if n := len(o.free); n > 0 {
		v, o.free = o.free[n-1], o.free[:n-1]
	} else {
		v = &visit{order: make([]uint32, o.n)}
	}
	o.fill(v, epoch)
	o.of[epoch] = v
}

func (o *orders) fill(v *visit, epoch int) {
	key := rng.Key(o.seed, forOrder, uint64(epoch))
	switch {
	case o.mixed:
		o.cut.arrange(v.order, o.local, o.scratch, key)
	case o.parts != nil:
		o.parts.arrange(v, epoch, key)
	default:
		identity(v.order)
		if !o.ascending {
			src := rng.New(key)
			rng.Shuffle(&src, v.order)
		}
	}
}

// drop forgets the epochs before the given one; their memory is used again.
func (o *orders) drop(before int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for e, v := range o.of {
		if e < before {
			o.free = append(o.free, v)
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
