package sampler

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"diskgnn/dataset"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/rng"
)

const (
	// mostRounds of label propagation, which ends sooner when fewer than one in
	// settled nodes move.
	mostRounds = 20
	settled    = 1000
	// mostVotes bounds the cost of a node of many neighbours.
	mostVotes = 64
	// nodesAtOnce is the number of nodes for which a worker works between two looks at the context.
	nodesAtOnce = 4096
)

// locality orders nodes so that neighbours in the order need the same input nodes. Nodes of one
// community come together; inside a community, nodes with the same least hash of their two-hop
// neighbourhoods (MinHash: Broder, On the resemblance and containment of documents, 1997); and among
// these, nodes with the same least hash of their neighbourhoods. It returns positions in nodes, a
// function of the graph, the nodes and the key.
func locality(ctx context.Context, t *dataset.Topology, nodes []uint32, key uint64, workers int) ([]uint32, error) {
	w := walker{t: t, workers: workers}
	label, spare, err := w.communities(ctx, rng.Join(key, 0))
	if err != nil {
		return nil, err
	}
	least := spare
	if err := w.leastHashes(ctx, least, rng.Join(key, 1)); err != nil {
		return nil, err
	}
	type place struct{ community, two, one, at uint32 }
	places := make([]place, len(nodes))
	err = w.each(ctx, len(nodes), func(i int) error {
		v := nodes[i]
		neighbours, err := t.Sources(v)
		two := least[v]
		for _, u := range neighbours {
			two = min(two, least[u])
		}
		places[i] = place{label[v], two, least[v], uint32(i)}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.community, b.community), cmp.Compare(a.two, b.two), cmp.Compare(a.one, b.one), cmp.Compare(a.at, b.at))
	})
	order := make([]uint32, len(nodes))
	for i := range places {
		order[i] = places[i].at
	}
	return order, nil
}

// localityMemory returns the bytes that locality holds, with its result.
func localityMemory(graph, nodes int64) int64 { return 8*graph + 20*nodes }

// walker visits all nodes of a graph on several goroutines.
type walker struct {
	t       *dataset.Topology
	workers int
}

// communities labels every node with a node of its community, by label
// propagation (Raghavan, Albert, Kumara: Near linear time algorithm to detect
// community structures, 2007): in each round half of the nodes, drawn anew, take
// the label that most of their neighbours had before the round. All at once would
// swap labels for ever; one after another would depend on who is first. It
// returns its working memory, a word for each node, for other use.
func (w walker) communities(ctx context.Context, key uint64) (label, spare []uint32, err error) {
	n := w.t.NumNodes()
	label, next := identity(make([]uint32, n)), make([]uint32, n)
	for round := range mostRounds {
		key := rng.Join(key, uint64(round))
		var moved atomic.Int64
		err := w.ranges(ctx, n, func(lo, hi int) (err error) {
			var votes [mostVotes]uint32
			m := 0
			for v := lo; v < hi && err == nil; v++ {
				next[v] = label[v]
				if draw := rng.Join(key, uint64(v)); draw&1 != 0 {
					next[v], err = w.vote(&votes, label, uint32(v), draw)
				}
				if next[v] != label[v] {
					m++
				}
			}
			moved.Add(int64(m))
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		label, next = next, label
		if moved.Load() <= int64(n)/settled {
			break
		}
	}
	return label, next, nil
}

// vote returns the label that most neighbours have, by lot when several do, or a
// node's own where it has no neighbours. Of many neighbours some are counted, evenly
// spread.
func (w walker) vote(votes *[mostVotes]uint32, label []uint32, v uint32, key uint64) (uint32, error) {
	neighbours, err := w.t.Sources(v)
	if err != nil {
		return label[v], err
	}
	step := max((len(neighbours)+mostVotes-1)/mostVotes, 1)
	n := 0
	for i := 0; i < len(neighbours); i += step {
		votes[n] = label[neighbours[i]]
		n++
	}
	cast := votes[:n]
	slices.Sort(cast)
	best, most, lot := label[v], 0, uint64(0)
	for len(cast) > 0 {
		k := 1
		for k < len(cast) && cast[k] == cast[0] {
			k++
		}
		if k >= most {
			l := rng.Join(key, uint64(cast[0]))
			if k > most || l > lot {
				best, most, lot = cast[0], k, l
			}
		}
		cast = cast[k:]
	}
	return best, nil
}

// leastHashes writes the least hash of each node and its neighbours.
func (w walker) leastHashes(ctx context.Context, least []uint32, key uint64) error {
	hash := func(v uint32) uint32 { return uint32(rng.Join(key, uint64(v)) >> 32) }
	return w.each(ctx, len(least), func(v int) error {
		neighbours, err := w.t.Sources(uint32(v))
		h := hash(uint32(v))
		for _, u := range neighbours {
			h = min(h, hash(u))
		}
		least[v] = h
		return err
	})
}

// each calls fn for 0 … n-1, in any order, and may touch the graph in it.
func (w walker) each(ctx context.Context, n int, fn func(i int) error) error {
	return w.ranges(ctx, n, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			if err := fn(i); err != nil {
				return err
			}
		}
		return nil
	})
}

// ranges is each for ranges of them.
func (w walker) ranges(ctx context.Context, n int, fn func(lo, hi int) error) error {
	return errgroup.Ranges(ctx, w.workers, n, nodesAtOnce, func(_, lo, hi int) error {
		return w.t.Guard(func() error { return fn(lo, hi) })
	})
}
