package sampler

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/rng"
	"diskgnn/internal/units"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/walk"
)

// Validation and test batches draw with epoch numbers that training never reaches.
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

// Split is one of the sets Train, Valid and Test.
type Split int

// The splits.
const (
	Train Split = iota
	Valid
	Test
)

// ID identifies a batch: its split, for Train its epoch, and its number from 0 in the epoch or the
// split.
type ID struct {
	Split        Split
	Epoch, Index int
}

// drawnAs returns the epoch that the batch's draws are a function of.
func (id ID) drawnAs() uint64 {
	switch id.Split {
	case Valid:
		return validEpoch
	case Test:
		return testEpoch
	}
	return uint64(id.Epoch)
}

// Picked has the seed nodes of a batch with their labels and, in a multi-label graph, their rows of
// classes.
type Picked struct {
	Nodes   []uint32
	Labels  []int32
	Targets []byte
}

// Seeds determines the seed nodes of every batch of any number of epochs. Its methods are safe for
// concurrent use, except Localize, which must come before the first Pick.
type Seeds struct {
	params mbfile.Params // Epochs is used by Nth and Memory only
	split  [3]split
	orders orders
}

// Load reads the splits of a dataset, leaves out nodes without a label, and keeps the share
// p.TrainRatio of the training nodes.
func Load(ctx context.Context, d *dataset.Dataset, p mbfile.Params, rep progress.Reporter) (*Seeds, error) {
	labels, err := d.Labels()
	if err != nil {
		return nil, err
	}
	s := &Seeds{params: p}
	for i, name := range []string{Train: dataset.Train, Valid: dataset.Valid, Test: dataset.Test} {
		to := &s.split[i]
		ids, err := d.Split(name)
		if err != nil {
			return nil, err
		}
		*to = labelled(ids, labels)
		to.row = d.TargetBytes()
		if to.targets, err = d.Targets(ctx, to.nodes); err != nil {
			return nil, err
		}
		if dropped := len(ids) - len(to.nodes); dropped > 0 {
			rep.Logf("left out %d of the %d nodes of the %s set: they have no label", dropped, len(ids), name)
		}
	}
	train := &s.split[Train]
	if len(train.nodes) == 0 {
		return nil, fault.New(fault.ErrInput, "%s has no labelled node to train on", d.Dir())
	}
	train.keep(p.TrainRatio, rng.Key(p.Seed, forSubset))
	s.orders.init(len(train.nodes), &p)
	if p.Partitions > 0 {
		if s.orders.parts, err = partition(p, int64(len(labels)), train.nodes); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// LoadAll returns Seeds with all nodes of a dataset as the training nodes, in ascending order in every epoch, and without
// validation and test nodes. Nodes without a label have graph.Unlabelled.
func LoadAll(ctx context.Context, d *dataset.Dataset, p mbfile.Params) (_ *Seeds, err error) {
	s := &Seeds{params: p}
	nodes := identity(make([]uint32, d.Facts().Nodes))
	all := &s.split[Train]
	*all = split{nodes: nodes, labels: slices.Repeat([]int32{graph.Unlabelled}, len(nodes)), row: d.TargetBytes()}
	if facts := d.Facts(); facts.Labelled() {
		if all.labels, err = d.Labels(); err != nil {
			return nil, err
		}
	}
	if all.targets, err = d.Targets(ctx, nodes); err != nil {
		return nil, err
	}
	s.orders.init(len(nodes), &p)
	s.orders.ascending = true
	return s, nil
}

// Localize computes the order of training nodes by locality, if the order of the batches is Overlap;
// else it does nothing. t is the topology of the dataset.
func (s *Seeds) Localize(ctx context.Context, t *dataset.Topology, workers int, rep progress.Reporter) error {
	if s.params.Order != Overlap {
		return nil
	}
	began := time.Now()
	nodes := s.split[Train].nodes
	var err error
	if s.orders.local, err = locality(ctx, t, nodes, rng.Key(s.params.Seed, forLocality), workers); err != nil {
		return fmt.Errorf("order the training nodes: %w", err)
	}
	s.orders.scratch = make([]uint32, len(nodes))
	rep.Logf("ordered %s by locality in %s", units.Of(len(nodes), "training node"), units.Duration(time.Since(began)))
	return nil
}

func labelled(ids []uint32, labels []int32) split {
	s := split{nodes: ids[:0], labels: make([]int32, 0, len(ids))}
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

// Batches returns the number of batches of a split; for Train, of one epoch.
func (s *Seeds) Batches(of Split) int {
	if of == Train && s.orders.parts != nil {
		return s.orders.parts.batches()
	}
	return s.split[of].batches(s.params.BatchSize)
}

// Nodes returns the number of labelled nodes of a split; for Train, of the nodes that TrainRatio
// keeps. They are the seed nodes of every epoch.
func (s *Seeds) Nodes(of Split) int { return len(s.split[of].nodes) }

// List returns the labelled nodes of a split in ascending order. Of Train, it returns the nodes that TrainRatio
// keeps; below 1, they are in random order. The caller must not change the result. Training batches visit the nodes in another order.
func (s *Seeds) List(of Split) []uint32 { return s.split[of].nodes }

// TargetBytes returns the length in bytes of a node's row of classes, or 0 if the graph is not
// multi-label.
func (s *Seeds) TargetBytes() int { return s.split[Train].row }

// Nth returns the batch with number i in a SAMPLES directory: first the training batches of all
// epochs, then validation, then test.
func (s *Seeds) Nth(i int) ID {
	per := s.Batches(Train)
	if trained := s.params.Epochs * per; i < trained {
		return ID{Train, i / per, i % per}
	} else if i -= trained; i < s.Batches(Valid) {
		return ID{Split: Valid, Index: i}
	}
	return ID{Split: Test, Index: i - s.Batches(Valid)}
}

// Memory returns the bytes of memory that the Seeds hold while the given number of successive batches
// are in use.
func (s *Seeds) Memory(underWay int) int64 {
	epochs := 2 + underWay/s.Batches(Train)
	n := int64(min(epochs, s.params.Epochs+1))*s.orders.visitMemory() + s.orders.memory()
	for i := range s.split {
		n += int64(8+s.split[i].row) * int64(len(s.split[i].nodes))
	}
	return n
}

// MostMemory returns an upper bound of Seeds.Memory for a dataset that is not loaded yet. targetBytes is the
// size of one node's row of classes, or 0 if nodes have one class; underWay is the number of batches in use.
func MostMemory(p *mbfile.Params, d dataset.Facts, targetBytes, underWay int) int64 {
	perSeed, visit, held := int64(4), int64(0), int64(0)
	switch {
	case p.Partitions > 0:
		states := 1
		if p.Order == Dispersed {
			states = walk.States(p.Walk, p.Partitions, p.Buffer)
		}
		walked, assignment := walk.Memory(p.Partitions, states)
		perSeed, visit, held = 4+8, walked, 2*d.Nodes+4*d.Train+16*int64(states+1)+assignment
	case p.Order == Overlap:
		held = newCutting(int(d.Train), p.BatchSize).memory()
	}
	// Visits of 2 + underWay/batches epochs; no batch has more than BatchSize seed nodes.
	ahead := 2*d.Train + int64(underWay)*min(int64(p.BatchSize), d.Train)
	visits := min(perSeed*ahead+int64(2+underWay)*visit, int64(p.Epochs+1)*(perSeed*d.Train+visit))
	return held + visits + int64(8+targetBytes)*(d.Train+d.Valid+d.Test)
}

// MostLocalizeMemory returns an upper bound of Seeds.LocalizeMemory for a dataset that is not loaded
// yet.
func MostLocalizeMemory(p *mbfile.Params, d dataset.Facts) int64 {
	if p.Order != Overlap {
		return 0
	}
	return localityMemory(d.Nodes, d.Train)
}

// LocalizeMemory returns the bytes of memory that Localize takes for a graph of the given number of
// nodes, 0 if it does nothing.
func (s *Seeds) LocalizeMemory(nodes int64) int64 {
	if s.params.Order != Overlap {
		return 0
	}
	return localityMemory(nodes, int64(len(s.split[Train].nodes)))
}

// Pick sets to to the seed nodes of a batch, reusing its memory, and returns the key of the batch's
// random draws.
func (s *Seeds) Pick(id ID, to *Picked) (key uint64) {
	to.Nodes, to.Labels, to.Targets = to.Nodes[:0], to.Labels[:0], to.Targets[:0]
	size, from := s.params.BatchSize, &s.split[id.Split]
	key = rng.Key(s.params.Seed, forDraws, id.drawnAs(), uint64(id.Index))
	if id.Split == Train {
		s.orders.with(id.Epoch, func(v *visit) {
			for _, at := range v.span(id.Index, size) {
				to.Nodes, to.Labels = append(to.Nodes, from.nodes[at]), append(to.Labels, from.labels[at])
				to.Targets = append(to.Targets, from.targetsOf(int(at))...)
			}
		})
		return key
	}
	lo, hi := id.Index*size, min((id.Index+1)*size, len(from.nodes))
	to.Nodes, to.Labels = append(to.Nodes, from.nodes[lo:hi]...), append(to.Labels, from.labels[lo:hi]...)
	to.Targets = append(to.Targets, from.targets[lo*from.row:hi*from.row]...)
	return key
}

// Forget frees the visiting orders of the training epochs before the given one. They are computed
// again if needed.
func (s *Seeds) Forget(before int) { s.orders.drop(before) }
