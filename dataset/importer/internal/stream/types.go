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
	"diskgnn/graph"
	"diskgnn/internal/fault"
)

// Type is a type of nodes: its name and its number of nodes.
type Type struct {
	Name     string
	Count    int64
	Features bool // its nodes have features, which NumberTyped must know
}

// Span is the range of the nodes of one type: Count nodes from number First on.
type Span struct{ First, Count int64 }

// Types are the node types of a heterogeneous graph: nodes are numbered type by type.
type Types struct {
	// All has the types in the order of their nodes.
	All []Type
	// Nodes is the number of nodes of all types together.
	Nodes int64
	// Offsets is the list "TYPE:FIRST TYPE:FIRST …" of the first node of each type, for the content
	// parameters.
	Offsets string

	source string
	spans  map[string]Span
}

// mostNodes bounds the nodes of a type, so that sums can be computed.
const mostNodes = 1 << 33

// Number numbers the nodes of a graph that becomes a homogeneous one: the types are in alphabetical order. source
// is the name of the source, for messages. A type that is listed twice is an error of kind fault.ErrInput.
func Number(source string, types []Type) (*Types, error) {
	types = slices.Clone(types)
	slices.SortFunc(types, func(a, b Type) int { return cmp.Compare(a.Name, b.Name) })
	return number(source, types)
}

// NumberTyped is Number for a graph that keeps its types: those with features are the first, else they are in
// the order of the list.
func NumberTyped(source string, types []Type) (*Types, error) {
	types = slices.Clone(types)
	slices.SortStableFunc(types, func(a, b Type) int {
		switch {
		case a.Features == b.Features:
			return 0
		case a.Features:
			return -1
		}
		return 1
	})
	return number(source, types)
}

func number(source string, types []Type) (*Types, error) {
	t := &Types{All: types, source: source, spans: map[string]Span{}}
	var offsets []string
	for _, k := range t.All {
		if _, twice := t.spans[k.Name]; twice || k.Count < 0 || k.Count > mostNodes {
			return nil, fault.New(fault.ErrInput, "%s: the node type %q is listed twice, or with an impossible number of nodes, %d", source, k.Name, k.Count)
		}
		t.spans[k.Name] = Span{t.Nodes, k.Count}
		offsets = append(offsets, fmt.Sprintf("%s:%d", k.Name, t.Nodes))
		t.Nodes += k.Count
	}
	if t.Offsets = strings.Join(offsets, " "); t.Nodes < 1 {
		return nil, fault.New(fault.ErrInput, "%s: the graph has %d nodes; at least 1 is needed", source, t.Nodes)
	}
	return t, dataset.CheckNodes(source, t.Nodes)
}

// Labelled returns the range of the nodes of the type with the given name, which has labels.
func (t *Types) Labelled(name string) (Span, error) {
	at, ok := t.spans[name]
	if !ok {
		return at, fault.New(fault.ErrInput, "%s: labels are of the node type %q, which does not exist", t.source, name)
	}
	return at, nil
}

// Join sets r.Src and r.Dst to the node types of an edge type with the name HEAD, separator, RELATION,
// separator, TAIL.
func (t *Types) Join(r *Relation, name, separator string) error {
	parts := strings.Split(name, separator)
	if len(parts) != 3 {
		return fault.New(fault.ErrInput, "%s: the name of the edge type %q is not HEAD%sRELATION%sTAIL", t.source, name, separator, separator)
	}
	return t.between(r, name, [3]string(parts))
}

// Between is Join for a relation with the given names of its ends.
func (t *Types) Between(r *Relation, source, name, destination string) error {
	triple := [3]string{source, name, destination}
	return t.between(r, strings.Join(triple[:], ":"), triple)
}

func (t *Types) between(r *Relation, name string, triple [3]string) error {
	var ok, ok2 bool
	if r.Src, ok = t.spans[triple[0]]; ok {
		r.Dst, ok2 = t.spans[triple[2]]
	}
	if !ok || !ok2 {
		return fault.New(fault.ErrInput, "%s: the edge type %s is between node types of which at least one does not exist", t.source, name)
	}
	r.Triple = triple
	return nil
}

// Typed sets the types of sh to the types t, and to the relations of the given triples, which Join made.
// labelled is the name of the type with labels.
func (t *Types) Typed(sh *importer.Shape, labelled string, triples [][3]string) {
	g := &graph.Types{}
	place := func(name string) int {
		return slices.IndexFunc(t.All, func(k Type) bool { return k.Name == name })
	}
	for _, k := range t.All {
		g.Nodes = append(g.Nodes, graph.NodeType{Name: k.Name, Count: k.Count, Features: k.Features})
	}
	for _, r := range triples {
		g.Relations = append(g.Relations, graph.Relation{Source: place(r[0]), Name: r[1], Destination: place(r[2])})
	}
	sh.Types, sh.LabelledType = g, max(place(labelled), 0)
}

// IsName reports whether s can be the name of a type: it is safe in paths and in messages.
func IsName(s string) bool {
	const longest = 255 // of a file's name
	return s != "" && len(s) <= longest && s != "." && filepath.IsLocal(s) && !strings.ContainsAny(s, `/\`) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Relation is the edges of one edge type. Their ends are counted from 0 within the node types Src and
// Dst.
type Relation struct {
	Name     string // name of the file, for messages
	Edges    int64  // -1: not known
	Open     func() (Pairs, error)
	Src, Dst Span
	Triple   [3]string // names of the source type, the relation and the destination type, after Join
}

// Read calls add for all edges, some at a time. Their number must be the relation's, and their ends
// must be nodes of their types.
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
		if left -= int64(n); r.Edges >= 0 && (left < 0 || n == 0 && left > 0) {
			return fault.New(fault.ErrInput, "%s: it does not have the %d edges that it should have", r.Name, r.Edges)
		}
		if n == 0 {
			return nil
		}
		for i := range n {
			if uint64(src[i]) >= uint64(r.Src.Count) || uint64(dst[i]) >= uint64(r.Dst.Count) {
				return fault.New(fault.ErrInput, "%s: the edge from %d to %d is out of range: there are %d source nodes and %d destination nodes", r.Name, src[i], dst[i], r.Src.Count, r.Dst.Count)
			}
			src[i] += r.Src.First
			dst[i] += r.Dst.First
		}
		if err := add(dst[:n], src[:n]); err != nil {
			return err
		}
	}
}

// RowsOfType returns an endless stream of the feature rows of the nodes from first on: rows of a
// stream for the nodes in at, and zeros for all others. open opens the stream at a row, counted from 0
// within at; it is called only if rows of at are needed.
func RowsOfType(dim int, at Span, first int64, open func(first int64) (importer.RowStream, error)) importer.RowStream {
	counts := []int64{at.First, at.Count, math.MaxInt64}
	return Behind(counts, dim, first, func(i int, first int64) (importer.RowStream, error) {
		if i == 1 {
			return open(first)
		}
		return Zeros{}, nil
	})
}

// Part is a stream of rows, each of Dim elements.
type Part struct {
	Rows importer.RowStream
	Dim  int
}

// Beside concatenates tables horizontally: a row consists of the rows of all parts. Closing the result
// closes the parts. It holds some rows of the widest part.
func Beside(parts []Part) importer.RowStream {
	if len(parts) == 1 {
		return parts[0].Rows
	}
	b := &beside{parts: parts}
	widest := 1
	for _, p := range parts {
		b.dim += p.Dim
		widest = max(widest, p.Dim)
	}
	b.rows = max(importer.Chunk/widest, 1)
	b.buf = make([]float32, b.rows*widest)
	return b
}

type beside struct {
	parts []Part
	dim   int // of all
	rows  int // that are read at a time
	buf   []float32
}

func (b *beside) Next(values []float32) error {
	for len(values) > 0 {
		n := min(len(values)/b.dim, b.rows)
		at := 0
		for _, p := range b.parts {
			part := b.buf[:n*p.Dim]
			if err := p.Rows.Next(part); err != nil {
				return err
			}
			for i := range n {
				copy(values[i*b.dim+at:], part[i*p.Dim:(i+1)*p.Dim])
			}
			at += p.Dim
		}
		values = values[n*b.dim:]
	}
	return nil
}

func (b *beside) Close() error {
	var errs []error
	for _, p := range b.parts {
		errs = append(errs, p.Rows.Close())
	}
	return errors.Join(errs...)
}

// Behind concatenates tables vertically: table i has counts[i] rows of dim elements. The stream begins
// at row first, counted through all tables. open opens table i at its row first; one table is open at
// a time.
func Behind(counts []int64, dim int, first int64, open func(i int, first int64) (importer.RowStream, error)) importer.RowStream {
	b := &behind{counts: counts, dim: int64(dim), open: open}
	for b.next < len(counts) && first >= counts[b.next] {
		first -= counts[b.next]
		b.next++
	}
	b.first = first
	return b
}

type behind struct {
	counts []int64
	dim    int64
	open   func(i int, first int64) (importer.RowStream, error)
	next   int   // the table that is opened next
	first  int64 // its row
	now    importer.RowStream
	left   int64 // rows of it
}

// Next must not be called for more rows than there are.
func (b *behind) Next(values []float32) error {
	for len(values) > 0 {
		for b.left == 0 {
			if err := b.Close(); err != nil {
				return err
			}
			b.left = b.counts[b.next] - b.first
			if b.left > 0 {
				now, err := b.open(b.next, b.first)
				if err != nil {
					return err
				}
				b.now = now
			}
			b.next, b.first = b.next+1, 0
		}
		n := min(int64(len(values))/b.dim, b.left)
		if err := b.now.Next(values[:n*b.dim]); err != nil {
			return err
		}
		values, b.left = values[n*b.dim:], b.left-n
	}
	return nil
}

func (b *behind) Close() error {
	if b.now == nil {
		return nil
	}
	now := b.now
	b.now = nil
	return now.Close()
}

// Zeros is an endless stream of zeros.
type Zeros struct{}

// Next implements importer.RowStream.
func (Zeros) Next(values []float32) error {
	clear(values)
	return nil
}

// Close implements importer.RowStream.
func (Zeros) Close() error { return nil }
