package graph

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"unicode/utf8"
)

// MostRelations is the largest number of relations into a node type, and MostTypes of node types.
const (
	MostRelations = 64
	MostTypes     = 256
)

// Types are the node types and the relations of a typed graph. A type is a range of node ids. A row of the
// topology is a pair of a destination and a relation into its type: its in-neighbours by this relation. The
// rows of a node follow each other in the order of the relations, and the rows of nodes in the order of
// their ids. So all in-neighbours of a node are adjacent, and with one type and one relation a row is a
// node.
//
// Types does not change after Check, which decoding calls.
type Types struct {
	Nodes     []NodeType `json:"node_types"`
	Relations []Relation `json:"relations"` // ascending by destination

	ends  []int64 // of each type: the node id after its last
	plain int     // number of types with features, which are the first
	rows  []int64 // of each type: its first row; and the number of rows
	first []int   // of each type: the first relation into it; and the number of relations
}

// UnmarshalJSON decodes and checks the types.
func (t *Types) UnmarshalJSON(b []byte) error {
	type plain Types // without this method
	if err := json.Unmarshal(b, (*plain)(t)); err != nil {
		return err
	}
	return t.Check()
}

// NodeType is a node type: its nodes follow the nodes of the type before.
type NodeType struct {
	Name     string `json:"name"`
	Count    int64  `json:"nodes"`
	Features bool   `json:"features"` // its nodes have features
}

// Relation is a kind of edges, all from one node type to one node type.
type Relation struct {
	Source      int    `json:"source"` // a type's place in Nodes
	Name        string `json:"name"`
	Destination int    `json:"destination"`
}

// Check checks the types, and prepares the other methods.
func (t *Types) Check() error {
	if len(t.Nodes) == 0 || len(t.Relations) == 0 {
		return fmt.Errorf("%d node types and %d relations: a graph has at least one of each", len(t.Nodes), len(t.Relations))
	}
	n := len(t.Nodes)
	if n > MostTypes {
		return fmt.Errorf("%d node types: a graph has at most %d", n, MostTypes)
	}
	t.plain = 0
	t.ends, t.rows, t.first = make([]int64, n), make([]int64, n+1), make([]int, n+1)
	names, end := map[string]bool{}, int64(0)
	for i, k := range t.Nodes {
		if err := checkName(k.Name); err != nil {
			return fmt.Errorf("node type %d: %w", i, err)
		}
		if names[k.Name] {
			return fmt.Errorf("two node types have the name %q", k.Name)
		}
		names[k.Name] = true
		if k.Count < 1 || k.Count > MaxNodes-end {
			return fmt.Errorf("node type %s has %d nodes, after %d of other types: a type has at least one, and all have at most %d", k.Name, k.Count, end, int64(MaxNodes))
		}
		if k.Features && t.plain < i {
			return fmt.Errorf("node type %s has features, but follows one without: types without features are the last", k.Name)
		}
		if k.Features {
			t.plain++
		}
		end += k.Count
		t.ends[i] = end
	}
	triples := map[Relation]bool{}
	for i, r := range t.Relations {
		if err := checkName(r.Name); err != nil {
			return fmt.Errorf("relation %d: %w", i, err)
		}
		if r.Source < 0 || r.Source >= n || r.Destination < 0 || r.Destination >= n {
			return fmt.Errorf("relation %s leads from node type %d to %d, but there are %d types", r.Name, r.Source, r.Destination, n)
		}
		if triples[r] {
			return fmt.Errorf("two relations are %s", t.Triple(i))
		}
		triples[r] = true
		if i > 0 && r.Destination < t.Relations[i-1].Destination {
			return fmt.Errorf("relation %s follows %s: relations are in the order of their destinations", t.Triple(i), t.Triple(i-1))
		}
		t.first[r.Destination+1] = i + 1
	}
	for i, k := range t.Nodes {
		t.first[i+1] = max(t.first[i+1], t.first[i])
		into := t.first[i+1] - t.first[i]
		if into > MostRelations {
			return fmt.Errorf("%d relations lead to node type %s: at most %d can", into, k.Name, MostRelations)
		}
		t.rows[i+1] = t.rows[i] + k.Count*int64(into)
	}
	return nil
}

const mostName = 256

func checkName(name string) error {
	if name == "" || len(name) > mostName || !utf8.ValidString(name) {
		return fmt.Errorf("%.20q is not a name of 1 to %d bytes of UTF-8", name, mostName)
	}
	for _, c := range name {
		if c < ' ' || c == 0x7F {
			return fmt.Errorf("the name %.20q has a control character", name)
		}
	}
	return nil
}

// Equal reports whether two graphs have the same types and relations; nil stands for one of each.
func (t *Types) Equal(o *Types) bool {
	if t == nil || o == nil {
		return t == o
	}
	return slices.Equal(t.Nodes, o.Nodes) && slices.Equal(t.Relations, o.Relations)
}

// Triple returns the names of relation r and its ends, as in "author:writes:paper".
func (t *Types) Triple(r int) string {
	k := t.Relations[r]
	return t.Nodes[k.Source].Name + ":" + k.Name + ":" + t.Nodes[k.Destination].Name
}

// NumNodes returns the number of nodes of all types.
func (t *Types) NumNodes() int64 { return t.ends[len(t.ends)-1] }

// NumRows returns the number of rows of the topology.
func (t *Types) NumRows() int64 { return t.rows[len(t.rows)-1] }

// NumFeatureRows returns the number of rows of features: one for each node of the types with features, in the
// order of the nodes, and then one for each other type, which its nodes share.
func (t *Types) NumFeatureRows() int64 {
	return t.featured() + int64(len(t.Nodes)-t.plain)
}

// featured returns the number of nodes of types with features.
func (t *Types) featured() int64 {
	if t.plain == 0 {
		return 0
	}
	return t.ends[t.plain-1]
}

// FeatureRow returns the row of features of node v, which must be in range.
func (t *Types) FeatureRow(v uint32) uint32 {
	kind := t.Of(v)
	if kind < t.plain {
		return v
	}
	return uint32(t.featured()) + uint32(kind-t.plain)
}

// OfFeatureRow returns the type of the nodes with a row of features, which must be in range.
func (t *Types) OfFeatureRow(row uint32) int {
	if n := t.featured(); int64(row) >= n {
		return t.plain + int(int64(row)-n)
	}
	return t.Of(row)
}

// featureRows returns the rows of features of a type's nodes: from lo to hi - 1.
func (t *Types) featureRows(kind int) (lo, hi uint32) {
	if kind < t.plain {
		return uint32(t.ends[kind] - t.Nodes[kind].Count), uint32(t.ends[kind])
	}
	row := uint32(t.featured()) + uint32(kind-t.plain)
	return row, row + 1
}

// Of returns the type of node v, which must be in range.
func (t *Types) Of(v uint32) int {
	if len(t.ends) == 1 {
		return 0
	}
	return sort.Search(len(t.ends)-1, func(i int) bool { return int64(v) < t.ends[i] })
}

// Range returns the first node of a type, and the node after its last.
func (t *Types) Range(kind int) (lo, hi int64) {
	return t.ends[kind] - t.Nodes[kind].Count, t.ends[kind]
}

// Into returns the relations that lead to a type: from first on, n of them.
func (t *Types) Into(kind int) (first, n int) {
	return t.first[kind], t.first[kind+1] - t.first[kind]
}

// Rows returns the rows of node v, which must be in range: from first on, n of them, one for each relation of
// Into.
func (t *Types) Rows(v uint32) (first int64, n int) {
	kind := t.Of(v)
	lo, _ := t.Range(kind)
	_, n = t.Into(kind)
	return t.rows[kind] + (int64(v)-lo)*int64(n), n
}

// RowOf returns the destination and the relation of a row, which must be in range.
func (t *Types) RowOf(row int64) (v uint32, relation int) {
	kind := sort.Search(len(t.ends)-1, func(i int) bool { return row < t.rows[i+1] })
	lo, _ := t.Range(kind)
	first, n := t.Into(kind)
	at := row - t.rows[kind]
	return uint32(lo + at/int64(n)), first + int(at%int64(n))
}
