package samplertest

import (
	"diskgnn/graph"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
)

// SampleTyped draws a batch of a typed graph: each row of a destination draws by itself. The rows of g are the rows
// of the topology. Labels are left out.
func SampleTyped(g *graph.CSC, types *graph.Types, seeds []uint32, d TypedDraws, key uint64) *graph.Batch {
	fanout := d.Fanout
	b := &graph.Batch{Blocks: make([]graph.Block, len(fanout)), Types: types, SeedType: types.Of(seeds[0])}
	type place struct{ kind, at int } // of a node: its type, and its number among the nodes of that type
	places := map[uint32]place{}
	found := make([][]uint32, len(types.Nodes)) // by type
	of := func(v uint32) place {
		if _, ok := places[v]; !ok {
			t := types.Of(v)
			places[v] = place{t, len(found[t])}
			found[t] = append(found[t], v)
		}
		return places[v]
	}
	for _, v := range seeds {
		of(v)
	}
	for hop := range fanout {
		l := len(fanout) - 1 - hop
		k := graph.Block{Indptr: []uint32{0}, Indices: []uint32{}}
		destinations := make([]int, len(found))
		for t := range found {
			destinations[t] = len(found[t])
		}
		var edges []place
		for t, n := range destinations {
			_, relations := types.Into(t)
			for i := range n {
				v := found[t][i]
				first, _ := types.Rows(v)
				most := d.rows(g, types, v, l, rng.Join(key, uint64(hop)))
				for r := range relations {
					row := uint32(first) + uint32(r)
					list := g.Neighbors(row)
					for _, at := range Draw(len(list), most[r], rng.Join(rng.Join(key, uint64(hop)), uint64(row))) {
						edges = append(edges, of(list[at]))
					}
					k.Indptr = append(k.Indptr, uint32(len(edges)))
				}
			}
		}
		begin := make([]int, len(found))
		shared := func(t int) bool { return l == 0 && !types.Nodes[t].Features } // all nodes have one row of features
		for t := range found {
			begin[t] = k.NumSrc
			sources := len(found[t])
			if shared(t) {
				sources = min(sources, 1)
			}
			for i := range destinations[t] {
				k.Dst = append(k.Dst, uint32(k.NumSrc+min(i, sources-1)))
			}
			k.NumDst += destinations[t]
			k.NumSrc += sources
			k.Ends = append(k.Ends, uint32(k.NumSrc))
		}
		for _, e := range edges {
			if shared(e.kind) {
				e.at = 0
			}
			k.Indices = append(k.Indices, uint32(begin[e.kind]+e.at))
		}
		b.Blocks[l] = k
	}
	row := uint32(0)
	for t, nodes := range found {
		if types.Nodes[t].Features {
			b.Input = append(b.Input, nodes...)
			row += uint32(types.Nodes[t].Count)
			continue
		}
		if len(nodes) > 0 {
			b.Input = append(b.Input, row)
		}
		row++
	}
	return b
}

// TypedDraws says how many neighbours a destination of a typed graph draws: Fanout of each layer for each relation, or
// for all relations Merged; or the fanout of each relation.
type TypedDraws struct {
	Fanout    []int
	Relations [][]int
	Merged    bool
}

// DrawsOf returns the draws of training or evaluation batches.
func DrawsOf(p mbfile.Params, t *graph.Types, eval bool) TypedDraws {
	d := TypedDraws{p.Fanout, p.ByRelation(t, eval), p.Merged}
	if eval {
		d.Fanout = p.EvalFanout
	}
	return d
}

// rows returns the number of neighbours that each row of node v draws at most, in a hop with the given key.
func (d TypedDraws) rows(g *graph.CSC, types *graph.Types, v uint32, l int, key uint64) []int {
	first, n := types.Rows(v)
	relation, _ := types.Into(types.Of(v))
	var most, owner []int // owner: the row of each edge of v
	for r := range n {
		switch {
		case d.Relations != nil:
			most = append(most, d.Relations[relation+r][l])
		case d.Merged:
			most = append(most, 0)
		default:
			most = append(most, d.Fanout[l])
		}
		for range g.Neighbors(uint32(first) + uint32(r)) {
			owner = append(owner, r)
		}
	}
	if d.Merged {
		for _, at := range Draw(len(owner), d.Fanout[l], rng.Join(key, 1<<32+uint64(v))) {
			most[owner[at]]++
		}
	}
	return most
}
