package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/internal/fault"
)

// Type is a type of nodes, and how many there are.
type Type struct {
	Name  string
	Count int64
}

// Span is where the nodes of a type are.
type Span struct{ First, Count int64 }

// Types are the types of a graph. Its nodes are numbered one type after the other, the types in
// alphabetical order, and every edge keeps its direction.
type Types struct {
	// All has them in the order of their nodes.
	All []Type
	// Nodes is how many nodes there are of all types.
	Nodes int64
	// Offsets has "TYPE:FIRST" of each, as it is recorded.
	Offsets string

	source string
	spans  map[string]Span
}

// mostNodes bounds the nodes of a type, so that sums can be computed.
const mostNodes = 1 << 33

// Number numbers the nodes of all types. Source is what they are of, for messages.
func Number(source string, types []Type) (*Types, error) {
	t := &Types{All: slices.Clone(types), source: source, spans: map[string]Span{}}
	slices.SortFunc(t.All, func(a, b Type) int { return cmp.Compare(a.Name, b.Name) })
	var offsets []string
	for _, k := range t.All {
		if _, twice := t.spans[k.Name]; twice || k.Count < 0 || k.Count > mostNodes {
			return nil, fault.New(fault.ErrInput, "%s: %d nodes of type %q, or two such types", source, k.Count, k.Name)
		}
		t.spans[k.Name] = Span{t.Nodes, k.Count}
		offsets = append(offsets, fmt.Sprintf("%s:%d", k.Name, t.Nodes))
		t.Nodes += k.Count
	}
	if t.Offsets = strings.Join(offsets, " "); t.Nodes < 1 {
		return nil, fault.New(fault.ErrInput, "%s: a graph of %d nodes", source, t.Nodes)
	}
	return t, dataset.CheckNodes(source, t.Nodes)
}

// Labelled returns the nodes of the type that has labels.
func (t *Types) Labelled(name string) (Span, error) {
	at, ok := t.spans[name]
	if !ok {
		return at, fault.New(fault.ErrInput, "%s: labels of the type %q, of which there are no nodes", t.source, name)
	}
	return at, nil
}

// Join sets the ends of a relation whose name is HEAD, separator, RELATION, separator, TAIL.
func (t *Types) Join(r *Relation, name, separator string) error {
	parts := strings.Split(name, separator)
	if len(parts) != 3 {
		return fault.New(fault.ErrInput, "%s: the type of edges %q is no HEAD%sRELATION%sTAIL", t.source, name, separator, separator)
	}
	var ok, ok2 bool
	if r.Src, ok = t.spans[parts[0]]; ok {
		r.Dst, ok2 = t.spans[parts[2]]
	}
	if !ok || !ok2 {
		return fault.New(fault.ErrInput, "%s: edges of the type %s join types of which there are no nodes", t.source, name)
	}
	return nil
}

// IsName tells whether a text is the name of a type, which may be a part of paths and of messages.
func IsName(s string) bool {
	const longest = 255 // of a file's name
	return s != "" && len(s) <= longest && s != "." && filepath.IsLocal(s) && !strings.ContainsAny(s, `/\`) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Relation is the edges of one type.
type Relation struct {
	Name     string // of the file, for messages
	Edges    int64
	Open     func() (Pairs, error)
	Src, Dst Span
}

// Read calls add for all edges, some at a time. There must be as many as the relation says, and
// their ends must be nodes of their types.
func (r *Relation) Read(ctx context.Context, add func(dst, src []int64) error) (err error) {
	pairs, err := r.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pairs.Close()) }()
	dst, src := make([]int64, importer.Chunk), make([]int64, importer.Chunk)
	for left := r.Edges; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := pairs.Next(dst, src)
		if err != nil {
			return err
		}
		if left -= int64(n); left < 0 || n == 0 && left > 0 {
			return fault.New(fault.ErrInput, "%s: other than the %d edges that there should be", r.Name, r.Edges)
		}
		if n == 0 {
			return nil
		}
		for i := range n {
			if uint64(src[i]) >= uint64(r.Src.Count) || uint64(dst[i]) >= uint64(r.Dst.Count) {
				return fault.New(fault.ErrInput, "%s: the edge from %d to %d leaves the graph of %d and %d nodes", r.Name, src[i], dst[i], r.Src.Count, r.Dst.Count)
			}
			src[i] += r.Src.First
			dst[i] += r.Dst.First
		}
		if err := add(dst[:n], src[:n]); err != nil {
			return err
		}
	}
}

// RowsOfType returns the features of the nodes from the first on: those of the nodes in at, which
// open opens at one of its rows, and zeros for all others, for which nothing is read. It has no
// end.
func RowsOfType(dim int, at Span, first int64, open func(first int64) (importer.RowStream, error)) importer.RowStream {
	counts := []int64{at.First, at.Count, math.MaxInt64}
	return Behind(counts, dim, first, func(i int, first int64) (importer.RowStream, error) {
		if i == 1 {
			return open(first)
		}
		return Zeros{}, nil
	})
}
