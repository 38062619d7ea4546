package model

import (
	"strings"

	"diskgnn/internal/fault"
)

// Types are the node types and the relations of the graph that a typed model is for. The parameters are
// named after them.
type Types struct {
	Nodes     []string   `json:"node_types"`
	Relations []Relation `json:"relations"` // ascending by destination
	Seed      int        `json:"seed_type"` // the type of the seed nodes, as a place in Nodes
}

// Relation is a kind of edges, all from one node type to one node type.
type Relation struct {
	Source      int    `json:"source"` // a type's place in Nodes
	Name        string `json:"name"`
	Destination int    `json:"destination"`
}

// Into returns the relations that lead to a type: from first on, n of them.
func (t *Types) Into(kind int) (first, n int) {
	for first < len(t.Relations) && t.Relations[first].Destination < kind {
		first++
	}
	for first+n < len(t.Relations) && t.Relations[first+n].Destination == kind {
		n++
	}
	return first, n
}

// key returns the key of relation r in the ModuleDict of PyTorch Geometric's HeteroConv.
func (t *Types) key(r int) string {
	k := t.Relations[r]
	return strings.ReplaceAll("<"+t.Nodes[k.Source]+"___"+k.Name+"___"+t.Nodes[k.Destination]+">", ".", "#")
}

// validate checks the types by themselves.
func (t *Types) validate() error {
	n := len(t.Nodes)
	if n == 0 || len(t.Relations) == 0 {
		return fault.New(fault.ErrUsage, "model: %d node types and %d relations: a typed graph has at least one of each", n, len(t.Relations))
	}
	if t.Seed < 0 || t.Seed >= n {
		return fault.New(fault.ErrUsage, "model: the seed nodes have type %d of %d", t.Seed, n)
	}
	keys, before := map[string]bool{}, 0
	for r, k := range t.Relations {
		if k.Source < 0 || k.Source >= n || k.Destination < before || k.Destination >= n {
			return fault.New(fault.ErrUsage, "model: relation %.20q leads from type %d to type %d, after one to type %d; there are %d types", k.Name, k.Source, k.Destination, before, n)
		}
		key := t.key(r)
		if before = k.Destination; keys[key] {
			return fault.New(fault.ErrUsage, "model: two relations have the name %.80q in PyTorch Geometric", key)
		}
		keys[key] = true
	}
	return nil
}

// typing is the property of a kind of model that says for which graphs it is.
type typing string

const (
	untyped typing = "untyped"
	// By relation: a layer sums over the relations that lead to a type, as HeteroConv does.
	byRelation typing = "by relation"
	// Rooted: a layer also has a map of each node's own features, of whatever type.
	rooted typing = "rooted"
)
