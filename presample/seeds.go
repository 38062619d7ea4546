package presample

import (
	"context"
	"math"
	"sync"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
)

// Purposes of randomness, as keys tell them apart.
const (
	forSubset   = 1
	forOrder    = 2
	forDraws    = 3
	forLocality = 4
)

// Validation and test batches draw as epochs that no training reaches.
const (
	validEpoch = math.MaxUint64
	testEpoch  = math.MaxUint64 - 1
)

// split is the labelled nodes of a split with their classes.
type split struct {
	nodes   []uint32
	labels  []int32
	targets []byte // row bytes a node, of multi-label graphs
	row     int
}

func (s *split) batches(size int) int { return (len(s.nodes) + size - 1) / size }

// seeds knows the seed nodes of every batch. Its methods are safe for concurrent
// use.
type seeds struct {
	params             mbfile.Params
	train, valid, test split
	orders             orders
}

// loadSeeds reads the splits. Nodes without a label are left out, then the
// training set is cut down to its ratio.
func loadSeeds(ctx context.Context, d *dataset.Dataset, p mbfile.Params, rep progress.Reporter) (*seeds, error) {
	labels, err := d.Labels()
	if err != nil {
		return nil, err
	}
	s := &seeds{params: p}
	for _, part := range []struct {
		name string
		to   *split
	}{{dataset.Train, &s.train}, {dataset.Valid, &s.valid}, {dataset.Test, &s.test}} {
		ids, err := d.Split(part.name)
		if err != nil {
			return nil, err
		}
		*part.to = labelled(ids, labels)
		part.to.row = d.TargetBytes()
		if part.to.targets, err = d.Targets(ctx, part.to.nodes); err != nil {
			return nil, err
		}
		if dropped := len(ids) - len(part.to.nodes); dropped > 0 {
			rep.Logf("%d of the %d nodes to %s have no label and are left out", dropped, len(ids), part.name)
		}
	}
	if len(s.train.nodes) == 0 {
		return nil, fault.New(fault.ErrInput, "%s has no labelled node to train on", d.Dir())
	}
	s.train.keep(p.TrainRatio, rng.Key(p.Seed, forSubset))
	s.orders.init(len(s.train.nodes), p)
	return s, nil
}

// labelled returns the nodes that have a label.
func labelled(ids []uint32, labels []int32) split {
	s := split{nodes: ids[:0]}
	for _, v := range ids {
		if labels[v] != graph.Unlabelled {
			s.nodes, s.labels = append(s.nodes, v), append(s.labels, labels[v])
		}
	}
	return s
}

// keep cuts the split down to a share of its nodes, at least one.
func (s *split) keep(ratio float64, key uint64) {
	n := max(int(math.Round(ratio*float64(len(s.nodes)))), 1)
	if n >= len(s.nodes) {
		return
	}
	at := identity(make([]uint32, len(s.nodes)))
	src := rng.New(key)
	rng.Shuffle(&src, at)
	kept := split{make([]uint32, n), make([]int32, n), make([]byte, n*s.row), s.row}
	for i, j := range at[:n] {
		kept.nodes[i], kept.labels[i] = s.nodes[j], s.labels[j]
		copy(kept.targets[i*s.row:(i+1)*s.row], s.targetsOf(int(j)))
	}
	*s = kept
}

// targetsOf returns the classes of the i-th node of a multi-label graph; of others it
// is empty.
func (s *split) targetsOf(i int) []byte { return s.targets[i*s.row : (i+1)*s.row] }

func identity(at []uint32) []uint32 {
	for i := range at {
		at[i] = uint32(i)
	}
	return at
}

// layout returns the numbers of batches.
func (s *seeds) layout(nodes int64, perFile int) mbfile.Layout {
	size := s.params.BatchSize
	return mbfile.Layout{
		Nodes: nodes, Layers: len(s.params.Fanout),
		Train: s.params.Epochs * s.perEpoch(), Valid: s.valid.batches(size), Test: s.test.batches(size),
		BatchesPerFile: perFile, TargetBytes: s.train.row,
	}
}

// perEpoch returns the training batches of an epoch.
func (s *seeds) perEpoch() int { return s.train.batches(s.params.BatchSize) }

// memory returns the bytes held while batches of the given number are under way.
func (s *seeds) memory(underWay int) int64 {
	epochs := 2 + underWay/s.perEpoch()
	return 4*int64(min(epochs, s.params.Epochs+1))*int64(len(s.train.nodes)) +
		int64(8+s.train.row)*int64(len(s.train.nodes)+len(s.valid.nodes)+len(s.test.nodes)) + s.orders.memory() +
		2*int64(s.train.row)*int64(s.params.BatchSize)*int64(underWay) // in slots, and encoded
}

// batch puts the seed nodes of batch i and their classes into t, and returns the key
// of the batch's draws.
func (s *seeds) batch(i int, t *slot) uint64 {
	t.nodes, t.labels, t.targets = t.nodes[:0], t.labels[:0], t.targets[:0]
	size := s.params.BatchSize
	key := func(epoch uint64, b int) uint64 { return rng.Key(s.params.Seed, forDraws, epoch, uint64(b)) }
	trained := s.params.Epochs * s.perEpoch()
	if i < trained {
		e, b := i/s.perEpoch(), i%s.perEpoch()
		order := s.orders.get(e)
		for _, at := range order[b*size : min((b+1)*size, len(order))] {
			t.nodes, t.labels = append(t.nodes, s.train.nodes[at]), append(t.labels, s.train.labels[at])
			t.targets = append(t.targets, s.train.targetsOf(int(at))...)
		}
		return key(uint64(e), b)
	}
	i -= trained
	part, epoch := &s.valid, uint64(validEpoch)
	if n := s.valid.batches(size); i >= n {
		part, epoch, i = &s.test, testEpoch, i-n
	}
	lo, hi := i*size, min((i+1)*size, len(part.nodes))
	t.nodes, t.labels = append(t.nodes, part.nodes[lo:hi]...), append(t.labels, part.labels[lo:hi]...)
	t.targets = append(t.targets, part.targets[lo*part.row:hi*part.row]...)
	return key(epoch, i)
}

// done says that all batches up to i are sampled: orders of epochs before the
// one of batch i are needed no more.
func (s *seeds) done(i int) { s.orders.drop(i / s.perEpoch()) }

// orders holds the visiting orders of the epochs under way: positions in the
// training split.
type orders struct {
	seed  uint64
	n     int
	mixed bool // overlap: arranged by cut from local
	cut   cutting
	local []uint32 // positions by locality

	mu      sync.Mutex
	of      map[int][]uint32
	free    [][]uint32
	scratch []uint32
}

func (o *orders) init(n int, p mbfile.Params) {
	o.seed, o.n, o.of = p.Seed, n, map[int][]uint32{}
	if o.mixed = p.Order == OrderOverlap; o.mixed {
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

// get returns the order of an epoch, making it when it is asked for first.
func (o *orders) get(epoch int) []uint32 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if order := o.of[epoch]; order != nil {
		return order
	}
	var order []uint32
	if n := len(o.free); n > 0 {
		order, o.free = o.free[n-1], o.free[:n-1]
	} else {
		order = make([]uint32, o.n)
	}
	o.fill(order, rng.Key(o.seed, forOrder, uint64(epoch)))
	o.of[epoch] = order
	return order
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
