package sampler

import (
	"context"
	"fmt"
	"math"
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
)

// typed is the memory for batches of a typed graph.
type typed struct {
	types   *graph.Types // nil: the graph has one type and one relation
	fanouts [][]int      // Options.Relations
	merged  bool
	limit   []uint32 // edges that each row of a hop draws at most
	nodes   []uint32 // found so far, by type, then in the order of discovery
	place   []uint32 // of each node in the order of discovery: its number in nodes
	rows    []uint32 // of the topology, of all destinations of a hop
	last    []uint32 // the node after the last of each type, among nodes
	before  []uint32 // last, before the present hop
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
		if err := s.limit(l, n, rng.Join(key, uint64(hop))); err != nil {
			return err
		}
		edges, err := s.countRows(&k[l])
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

// limit sets the number of edges that each row of the first n nodes draws at most, in layer l.
//
// If relations are merged, a destination draws positions among all its edges. A row then draws one edge for each of
// these positions that is its own. So every set of edges is equally likely.
func (s *Sampler) limit(l, n int, key uint64) error {
	t, fanout := &s.typed, s.fanout[l]
	t.limit = enlarge(t.limit, 0, len(t.rows))
	row := 0
	for _, v := range t.nodes[:n] {
		first, count := t.types.Into(t.types.Of(v))
		limit, degree := t.limit[row:row+count], s.degree[row:row+count]
		row += count
		if t.merged {
			if err := s.divide(limit, degree, fanout, rng.Join(key, mergedDraw|uint64(v))); err != nil {
				return fmt.Errorf("node %d: %w", v, err)
			}
			continue
		}
		for r := range limit {
			if t.fanouts != nil {
				fanout = t.fanouts[first+r][l]
			}
			limit[r] = uint32(fanout)
			if fanout == mbfile.AllNeighbours {
				limit[r] = degree[r]
			}
		}
	}
	return nil
}

// mergedDraw keeps keys of nodes apart from keys of rows, which are below 2³².
const mergedDraw = 1 << 32

// divide draws fanout edges of rows with the given degrees, and sets limit to the number of edges of each row.
func (s *Sampler) divide(limit, degree []uint32, fanout int, key uint64) error {
	copy(limit, degree)
	all := uint64(0)
	for _, d := range degree {
		all += uint64(d)
	}
	if fanout == mbfile.AllNeighbours || all <= uint64(fanout) {
		return nil
	}
	if all > math.MaxUint32 {
		return fault.New(fault.ErrInput, "its relations have %d in-neighbours together, more than %d", all, uint32(math.MaxUint32))
	}
	clear(limit)
	pos := s.pos[:fanout]
	s.draw(pos, 0, uint32(all), key)
	for _, p := range pos {
		r := 0
		for ; p >= int64(degree[r]); r++ {
			p -= int64(degree[r])
		}
		limit[r]++
	}
	return nil
}

// countRows is count with the limit of each row.
func (s *Sampler) countRows(k *graph.Block) (int64, error) {
	rows := len(s.typed.rows)
	k.Indptr = enlarge(k.Indptr, 0, rows+1)
	k.Indptr[0] = 0
	sum := int64(0)
	for i, d := range s.degree[:rows] {
		sum += int64(min(d, s.typed.limit[i]))
		k.Indptr[i+1] = uint32(sum)
	}
	return sum, checkEdges(sum)
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
