package synth

import (
	"diskgnn/graph"
	"diskgnn/internal/rng"
)

// Typed is a typed graph as a function, as Model is a graph. Each type is a Model: its nodes have communities,
// features and expected degrees of their own. A row of a node and a relation draws sources from the type that
// the relation leads from, Inside of them in the community of the same class. The first type has the labels.
type Typed struct {
	types  *graph.Types
	models []*Model // by type
}

// NewTyped prepares a graph with checked types. p.Nodes is their number of nodes; AvgDegree the number of edges of
// a node by all relations together.
func NewTyped(p Params, types *graph.Types) (*Typed, error) {
	t := &Typed{types: types}
	for kind, k := range types.Nodes {
		q := p
		q.Nodes, q.Seed = k.Count, rng.Key(p.Seed, keyType, uint64(kind))
		if _, relations := types.Into(kind); relations > 0 {
			q.AvgDegree = p.AvgDegree / float64(relations)
		} else {
			q.AvgDegree = 0
		}
		if kind > 0 {
			q.Train, q.Valid, q.Test = 0, 0, 0
		}
		m, err := New(q)
		if err != nil {
			return nil, err
		}
		t.models = append(t.models, m)
	}
	return t, nil
}

// Of returns the model of node v's type, and the node's number in it.
func (t *Typed) Of(v uint32) (*Model, uint32) {
	kind := t.types.Of(v)
	lo, _ := t.types.Range(kind)
	return t.models[kind], v - uint32(lo)
}

// Row appends the in-neighbours of v by a relation into its type, distinct, ascending. They are at most half of
// the nodes that the relation leads from.
func (t *Typed) Row(dst []uint32, v uint32, relation int) []uint32 {
	m, local := t.Of(v)
	r := t.types.Relations[relation]
	from := t.models[r.Source]
	c, rank := m.locate(local)
	degree := min(m.law.degree(rank, m.community(c).size), int(from.p.Nodes/2))
	if degree == 0 {
		return dst
	}
	not := int64(-1)
	if r.Source == r.Destination {
		not = int64(local)
	}
	src := rng.New(rng.Key(m.p.Seed, keyEdges, uint64(local), uint64(relation)))
	first := len(dst)
	dst = from.draw(&src, dst, degree, c, not)
	lo, _ := t.types.Range(r.Source)
	for i := range dst[first:] {
		dst[first+i] += uint32(lo)
	}
	return dst
}
