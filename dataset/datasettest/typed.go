package datasettest

import (
	"slices"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/rng"
)

// types returns three types of n ≥ 4 nodes, the last without features, and five relations: two from and to the same
// pair of types.
func types(n int) *graph.Types {
	quarter := int64(n / 4)
	t := &graph.Types{
		Nodes: []graph.NodeType{{Name: "paper", Count: int64(n) - 2*quarter, Features: true}, {Name: "author", Count: quarter, Features: true}, {Name: "place", Count: quarter}},
		Relations: []graph.Relation{
			{Source: 0, Name: "cites"}, {Source: 1, Name: "writes"}, {Source: 1, Name: "reviews"},
			{Source: 0, Name: "wrote", Destination: 1}, {Source: 2, Name: "employs", Destination: 1}, {Source: 1, Name: "works at", Destination: 2},
		},
	}
	if err := t.Check(); err != nil {
		panic(err)
	}
	return t
}

// typed gives a dataset types: its rows are drawn anew, and nodes that are no papers lose their labels.
func (p Params) typed(r dataset.Raw) dataset.Raw {
	r.Types = types(p.Nodes)
	r.Indptr, r.Indices = []int64{0}, nil
	src := rng.New(rng.Key(p.Seed, uint64(p.Nodes), 1))
	for row := range r.Types.NumRows() {
		_, relation := r.Types.RowOf(row)
		lo, hi := r.Types.Range(r.Types.Relations[relation].Source)
		among := p
		among.Nodes, among.Simple = int(hi-lo), false
		for _, u := range among.neighbors(&src, 0) {
			r.Indices = append(r.Indices, uint32(lo)+u)
		}
		r.Indptr = append(r.Indptr, int64(len(r.Indices)))
	}
	_, featured := r.Types.Range(1)
	row := p.Dim * p.DType.Size()
	r.Features = append(slices.Clip(r.Features[:int(featured)*row]), make([]byte, row)...)
	papers := uint32(r.Types.Nodes[0].Count)
	for v := papers; v < uint32(len(r.Labels)); v++ {
		r.Labels[v] = graph.Unlabelled
		if p.MultiLabel {
			n := graph.TargetBytes(p.Classes)
			clear(r.Targets[int(v)*n:][:n])
		}
	}
	for _, split := range []*[]uint32{&r.Train, &r.Valid, &r.Test} {
		*split = slices.DeleteFunc(*split, func(v uint32) bool { return v >= papers })
	}
	return r
}
