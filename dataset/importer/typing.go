package importer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/units"
)

// ReversePrefix begins the names of relations that are reverses of others.
const ReversePrefix = "rev_"

// typing has the types of a dataset, and the rows of its topology.
type typing struct {
	types *graph.Types // types that are filled have no features here
	// Of each relation of the source: the relation of the dataset with its edges, and the one with their
	// reverses, or -1.
	with, reverse []int
	rows          []rowsOf // of each relation of the dataset
	labels        int64    // by how much the numbers of the nodes with labels are larger than in the source
}

// rowsOf has the rows of a relation: destination v of the source has the row first + (v − lo)·step. The relation's sources have
// numbers that are larger by shift than in the source.
type rowsOf struct{ lo, first, step, shift int64 }

// settleTypes decides the types and relations of the dataset.
func (im *importing) settleTypes() error {
	s := &im.shape
	if s.Types == nil {
		if im.o.Typed {
			return fault.New(fault.ErrInput, "%s has one type of nodes: import it without --typed", im.name())
		}
		return nil
	}
	bad := func(err error) error { return fault.New(fault.ErrInput, "%s: %w", im.name(), err) }
	t, err := newTyping(s.Types, im.o.Symmetrize, im.reverse)
	if err != nil {
		return bad(err)
	}
	if !t.types.Nodes[0].Features {
		return bad(fmt.Errorf("no node type has features: at least one must"))
	}
	if n := t.types.NumRows(); n > graph.MaxNodes {
		return bad(fmt.Errorf("it has %d pairs of a node and a relation into its type, and at most %d are possible", n, int64(graph.MaxNodes)))
	}
	if im.o.Fill != "" {
		if t, err = im.settleFilling(t); err != nil {
			return bad(err)
		}
	}
	im.typing = t
	s.Notes = append(slices.Clone(s.Notes), t.describe(s.LabelledType, im.filling != nil))
	if kinds := t.unreached(); kinds != "" {
		s.Notes = append(s.Notes, fmt.Sprintf("no relation leads to nodes of the types %.300s: they get no messages; --add-reverse-edges yes and --symmetrize add reverses", kinds))
	}
	return nil
}

// settleFilling puts the types into the order in which they are filled, and prepares the filling.
func (im *importing) settleFilling(t *typing) (*typing, error) {
	s := &im.shape
	order, err := dataset.FillOrder(t.types)
	if err != nil {
		return nil, err
	}
	types := &graph.Types{Relations: slices.Clone(s.Types.Relations)}
	place, was := make([]int, len(order)), t.types
	for i, j := range order {
		types.Nodes = append(types.Nodes, s.Types.Nodes[j])
		place[j] = i
	}
	for i := range types.Relations {
		r := &types.Relations[i]
		r.Source, r.Destination = place[r.Source], place[r.Destination]
	}
	if t, err = newTyping(types, im.o.Symmetrize, im.reverse); err != nil {
		return nil, err
	}
	for i := range t.rows {
		r, row := t.types.Relations[i], &t.rows[i]
		row.lo -= moved(was, t.types, order, r.Destination)
		row.shift = moved(was, t.types, order, r.Source)
	}
	labelled := place[s.LabelledType]
	t.labels = moved(was, t.types, order, labelled)
	s.LabelledType = labelled
	im.filling, err = dataset.NewFilling(t.types)
	return t, err
}

// moved returns the number that is added to the nodes of a type if types are put into an order.
func moved(was, is *graph.Types, order []int, kind int) int64 {
	from, _ := was.Range(order[kind])
	to, _ := is.Range(kind)
	return to - from
}

// newTyping adds relations to the types of a source: with symmetric, edges are stored in both directions; with
// reverse, relations get reverses. It checks the result.
func newTyping(source *graph.Types, symmetric, reverse bool) (*typing, error) {
	t := &typing{types: &graph.Types{Nodes: slices.Clone(source.Nodes), Relations: slices.Clone(source.Relations)}}
	var with, back []int // of each relation in the list, before it is sorted
	for i := range source.Relations {
		with, back = append(with, i), append(back, -1)
	}
	if symmetric || reverse {
		for i, r := range source.Relations {
			switch {
			case symmetric && r.Source == r.Destination:
				back[i] = i
			case hasReverse(source.Relations, r):
			default:
				back[i] = len(t.types.Relations)
				t.types.Relations = append(t.types.Relations, graph.Relation{Source: r.Destination, Name: ReversePrefix + r.Name, Destination: r.Source})
			}
		}
	}
	// Sort the relations, and tell where each one went.
	order := make([]int, len(t.types.Relations))
	for i := range order {
		order[i] = i
	}
	list := t.types.Relations
	slices.SortStableFunc(order, func(a, b int) int { return list[a].Destination - list[b].Destination })
	place, sorted := make([]int, len(list)), make([]graph.Relation, len(list))
	for i, j := range order {
		place[j], sorted[i] = i, list[j]
	}
	t.types.Relations = sorted
	for i := range with {
		with[i] = place[with[i]]
		if back[i] >= 0 {
			back[i] = place[back[i]]
		}
	}
	t.with, t.reverse = with, back
	return t, t.settle()
}

// hasReverse reports whether a list has the reverse of a relation by its name, or the relation of which it is
// the reverse.
func hasReverse(list []graph.Relation, r graph.Relation) bool {
	back := graph.Relation{Source: r.Destination, Name: ReversePrefix + r.Name, Destination: r.Source}
	forth := back
	name, is := strings.CutPrefix(r.Name, ReversePrefix)
	forth.Name = name
	return slices.Contains(list, back) || is && slices.Contains(list, forth)
}

// settle checks the types, and finds the rows.
func (t *typing) settle() error {
	if err := t.types.Check(); err != nil {
		return err
	}
	for i, r := range t.types.Relations {
		lo, _ := t.types.Range(r.Destination)
		first, n := t.types.Rows(uint32(lo))
		before, _ := t.types.Into(r.Destination)
		t.rows = append(t.rows, rowsOf{lo, first + int64(i-before), int64(n), 0})
	}
	return nil
}

// mostDescribed bounds the text that describes types.
const mostDescribed = 1000

// describe tells the types and relations in words.
func (t *typing) describe(labelled int, filled bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", units.Of(int64(len(t.types.Nodes)), "node type"))
	for i, k := range t.types.Nodes {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s (%d", k.Name, k.Count)
		if i == labelled {
			b.WriteString(", labels")
		}
		if !k.Features {
			b.WriteString(", no features")
			if filled {
				b.WriteString(" of their own")
			}
		}
		b.WriteString(")")
	}
	fmt.Fprintf(&b, "; %s: ", units.Of(int64(len(t.types.Relations)), "relation"))
	for i := range t.types.Relations {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(t.types.Triple(i))
	}
	if s := b.String(); len(s) <= mostDescribed {
		return s
	}
	return strings.ToValidUTF8(b.String()[:mostDescribed], "") + " …"
}

// unreached lists the types that no relation leads to.
func (t *typing) unreached() string {
	var kinds []string
	for i, k := range t.types.Nodes {
		if _, n := t.types.Into(i); n == 0 {
			kinds = append(kinds, k.Name)
		}
	}
	return strings.Join(kinds, ", ")
}

// ways returns the most pairs that an edge of the source becomes. A nil t stands for one type.
func (t *typing) ways() int {
	if t == nil || slices.Max(t.reverse) < 0 {
		return 1
	}
	return 2
}

// pairs appends the edges of a relation of the source that are stored, as pairs of the number of a row and the
// source.
func (t *typing) pairs(pairs []uint32, relation int, dst, src []int64, loops bool) []uint32 {
	row := t.rows[t.with[relation]]
	var back *rowsOf
	if r := t.reverse[relation]; r >= 0 {
		back = &t.rows[r]
	}
	for i, d := range dst {
		if d == src[i] && !loops {
			continue
		}
		pairs = append(pairs, uint32(row.first+(d-row.lo)*row.step), uint32(src[i]+row.shift))
		if back != nil {
			pairs = append(pairs, uint32(back.first+(src[i]-back.lo)*back.step), uint32(d+back.shift))
		}
	}
	return pairs
}

// rows returns the number of rows of the topology.
func (im *importing) rows() int64 {
	f := im.facts()
	return f.Rows()
}

// ownRows returns the number of nodes with features of their own.
func (im *importing) ownRows() int64 {
	n := im.shape.Nodes
	if im.typing != nil {
		for _, k := range im.typing.types.Nodes {
			if !k.Features {
				n -= k.Count
			}
		}
	}
	return n
}

// eachEdge reads all edges, with the relation of the source that they belong to.
func (im *importing) eachEdge(ctx context.Context, add func(relation int, dst, src []int64) error) error {
	if im.typing == nil {
		return im.src.Edges(ctx, func(dst, src []int64) error { return add(0, dst, src) })
	}
	src, ok := im.src.(TypedSource)
	if !ok {
		return fmt.Errorf("import: the format %s reports types, but does not implement TypedSource", im.format.Name)
	}
	for i := range im.typing.with {
		if err := src.Relation(ctx, i, func(dst, src []int64) error { return add(i, dst, src) }); err != nil {
			return err
		}
	}
	return nil
}
