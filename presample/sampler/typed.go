package sampler

import (
	"context"
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/rng"
)

// typed is the memory for batches of a typed graph.
type typed struct {
	types  *graph.Types // nil: the graph has one type and one relation
	nodes  []uint32     // found so far, by type, then in the order of discovery
	place  []uint32     // of each node in the order of discovery: its number in nodes
	rows   []uint32     // of the topology, of all destinations of a hop
	last   []uint32     // the node after the last of each type, among nodes
	before []uint32     // last, before the present hop
}

// sampleTyped is sample for a typed graph. The topology's lists are its rows, so that each relation into a
// destination draws its own edges. Nodes are numbered in the order of discovery while a hop is drawn; then
// sources are ordered by type. The order within a type is kept, so the destinations of a type are the first
// of its sources. The input nodes are rows of features: all nodes of a type without features are one.
func (s *Sampler) sampleTyped(ctx context.Context, b *graph.Batch, seeds []uint32, key uint64) error {
	n, err := s.begin(b, seeds)
	if err != nil {
		return err
	}
	t, fanout, k := &s.typed, s.fanout, b.Blocks
	b.Types, b.SeedType = t.types, t.types.Of(seeds[0])
	t.order(s.nodes[:n], false)
	var size Extent
	for hop := range fanout {
		l := len(fanout) - 1 - hop
		t.expand(n)
		s.degree, s.start = enlarge(s.degree, 0, len(t.rows)), enlarge(s.start, 0, len(t.rows))
		if err := s.from.Locate(t.rows, s.start, s.degree); err != nil {
			return err
		}
		edges, err := s.count(&k[l], len(t.rows), fanout[l])
		if err != nil {
			return err
		}
		size = Extent{int64(n), size.Dst + int64(len(t.rows)), size.Edges + edges, Widest(fanout), true} // at least
		if err := s.allow(size); err != nil {
			return err
		}
		if err := s.hop(ctx, &k[l], n, t.rows, int(edges), rng.Join(key, uint64(hop)), labor{}); err != nil {
			return err
		}
		n = k[l].NumSrc
		t.before = append(t.before[:0], t.last...)
		t.order(s.nodes[:n], l == 0)
		k[l].NumSrc = len(t.nodes)
		k[l].Ends = append(k[l].Ends[:0], t.last...)
		k[l].Dst = t.types.PlaceDestinations(k[l].Dst, t.before, t.last, l == 0)
		for e, at := range k[l].Indices {
			k[l].Indices[e] = t.place[at]
		}
		size.Nodes = int64(n)
		if err := s.allow(size); err != nil {
			return err
		}
	}
	b.Input, b.Degree = t.nodes, nil
	return nil
}

// order orders nodes, which are in the order of discovery, by type; with inputs, their rows of features.
func (t *typed) order(found []uint32, inputs bool) {
	kinds := len(t.types.Nodes)
	ends := slices.Grow(t.last[:0], kinds)[:kinds]
	clear(ends)
	for _, v := range found {
		if kind := t.types.Of(v); !inputs || t.types.Nodes[kind].Features {
			ends[kind]++
		} else {
			ends[kind] = 1
		}
	}
	sum := uint32(0)
	for i, n := range ends {
		ends[i], sum = sum, sum+n
	}
	t.nodes, t.place = enlarge(t.nodes, 0, int(sum)), enlarge(t.place, 0, len(found))
	for i, v := range found {
		kind, step := t.types.Of(v), uint32(1)
		if inputs {
			if v = t.types.FeatureRow(v); !t.types.Nodes[kind].Features {
				step = 0
			}
		}
		at := &ends[kind]
		t.nodes[*at], t.place[i] = v, *at
		*at += step
	}
	for kind := range kinds { // types without features still have their beginnings
		if end := sum; inputs && !t.types.Nodes[kind].Features {
			if kind+1 < kinds {
				end = ends[kind+1]
			}
			ends[kind] = end
		}
	}
	t.last = ends
}

// expand lists the rows of the first n nodes, which are the destinations of a hop.
func (t *typed) expand(n int) {
	t.rows = t.rows[:0]
	for _, v := range t.nodes[:n] {
		first, count := t.types.Rows(v)
		for r := range count {
			t.rows = append(t.rows, uint32(first)+uint32(r))
		}
	}
}
