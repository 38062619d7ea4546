package tables

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// TakesTyped lists the flags that typed sources of this package honour beside Takes.
var TakesTyped = []string{"typed", "without-features"}

// Typed is a graph of several types made of tables.
type Typed struct {
	// Shape has the properties that the tables do not have, as Graph's.
	Shape     importer.Shape
	Name      string // of the source, for messages
	Files     []string
	Types     []NodeType // in the order of the source
	Relations []Relation
	Labelled  string // the type with labels; for a dataset without labels any type, or ""
	Labels    Table
	Sets      [3]Set // of nodes of that type, counted from 0 in it
	// ReadLabels, unless nil, stands for Labels and Sets: it gives the labels and the splits of the nodes of that
	// type to l. Shape then has the properties of the labels.
	ReadLabels func(ctx context.Context, l *importer.Labelling, of stream.Span) error
}

// NodeType is a type of nodes.
type NodeType struct {
	Name     string
	Count    int64    // 0: the rows of the features
	Features Features // none: its nodes have no features
}

// Relation is the edges from nodes of one type to nodes of one type, counted from 0 in their types.
type Relation struct {
	Source, Name, Destination string
	Edges                     Edges
	// Lines are the files of text that have an edge a line, where Edges.Count is not known.
	Lines []string
	// AtMost says that Edges.Count is an upper bound.
	AtMost bool
}

// typed is such a graph as an importer.Source.
type typed struct {
	g     Typed
	sh    importer.Shape
	types *stream.Types
	of    stream.Span // the nodes with labels
	rels  []stream.Relation
	feats []NodeType // the types with features, in the order of their nodes
	index int        // of the division into sets
}

// NewTyped is New for a graph of several types. Features have one width: a type with another one is an error,
// unless o leaves its features out.
func NewTyped(g Typed, o *importer.Reading) (importer.Source, error) {
	s := &typed{g: g, sh: g.Shape, index: o.SplitIndex}
	s.sh.Edges = 0
	s.g.Types = slices.Clone(g.Types)
	s.sh.Notes, s.sh.Reading = slices.Clone(g.Shape.Notes), maps.Clone(g.Shape.Reading)
	if err := s.leaveOut(o.Featureless); err != nil {
		return nil, err
	}
	if err := s.lookAtFeatures(); err != nil {
		return nil, err
	}
	if err := s.number(); err != nil {
		return nil, err
	}
	s.sh.NoSplit = g.Sets[0].Open == nil && g.ReadLabels == nil || !o.Labelled()
	if !o.Labelled() || g.ReadLabels != nil {
		return s, nil
	}
	if err := g.Labels.LookAtLabels(&s.sh, s.of.Count); err != nil {
		return nil, err
	}
	return s, lookAtSets(&s.sh, s.g.Sets, s.of.Count, o)
}

// leaveOut drops the features of the types with the given names.
func (s *typed) leaveOut(names []string) error {
	for _, name := range names {
		i := slices.IndexFunc(s.g.Types, func(k NodeType) bool { return k.Name == name })
		if i < 0 {
			return fault.New(fault.ErrUsage, "--without-features %s: %s has no such node type", name, s.g.Name)
		}
		if k := &s.g.Types[i]; k.Count == 0 && len(k.Features) > 0 { // their rows tell how many nodes there are
			var sh importer.Shape
			if err := k.Features.LookAt(&sh); err != nil {
				return err
			}
			k.Count = sh.Nodes
		}
		s.g.Types[i].Features = nil
	}
	if len(names) > 0 {
		s.choose("without_features", strings.Join(slices.Sorted(slices.Values(names)), ","))
	}
	return nil
}

func (s *typed) choose(option, value string) {
	if s.sh.Reading == nil {
		s.sh.Reading = map[string]string{}
	}
	s.sh.Reading[option] = value
}

// lookAtFeatures sets the fields of Shape that features determine, and the numbers of nodes.
func (s *typed) lookAtFeatures() error {
	first := ""
	var names []string
	for i := range s.g.Types {
		k := &s.g.Types[i]
		if len(k.Features) == 0 {
			continue
		}
		sh := importer.Shape{Nodes: k.Count}
		if err := k.Features.LookAt(&sh); err != nil {
			return fmt.Errorf("node type %s: %w", k.Name, err)
		}
		k.Count = sh.Nodes
		names = append(names, sh.Features)
		switch {
		case first == "":
			first, s.sh.Dim, s.sh.DType = k.Name, sh.Dim, sh.DType
		case sh.Dim != s.sh.Dim:
			return bad("%s: the features of the node type %s have %d elements, but of %s they have %d: give --without-features %s or %s", s.g.Name, k.Name, sh.Dim, first, s.sh.Dim, k.Name, first)
		case sh.DType != s.sh.DType:
			s.sh.DType = dtype.Float32 // holds both
		}
	}
	if first == "" {
		return bad("%s: no node type has features", s.g.Name)
	}
	s.sh.Features = strings.Join(names, ", ")
	return nil
}

// number numbers the nodes, and finds the ends of relations.
func (s *typed) number() error {
	var types []stream.Type
	for _, k := range s.g.Types {
		if k.Count == 0 {
			return bad("%s: the number of nodes of the type %s is not known, or 0", s.g.Name, k.Name)
		}
		types = append(types, stream.Type{Name: k.Name, Count: k.Count, Features: len(k.Features) > 0})
	}
	var err error
	if s.types, err = stream.NumberTyped(s.g.Name, types); err != nil {
		return err
	}
	s.sh.Nodes = s.types.Nodes
	for _, k := range s.types.All {
		i := slices.IndexFunc(s.g.Types, func(t NodeType) bool { return t.Name == k.Name })
		if k.Features {
			s.feats = append(s.feats, s.g.Types[i])
		}
	}
	s.g.Labelled = cmp.Or(s.g.Labelled, s.types.All[0].Name)
	if s.of, err = s.types.Labelled(s.g.Labelled); err != nil {
		return err
	}
	var triples [][3]string
	for _, k := range s.g.Relations {
		r := stream.Relation{Name: k.Edges.Name, Edges: k.Edges.Count, Open: k.Edges.Open}
		if err := s.types.Between(&r, k.Source, k.Name, k.Destination); err != nil {
			return err
		}
		if k.Lines == nil {
			s.sh.Edges = importer.AddEdges(s.sh.Edges, k.Edges.Count)
		}
		if k.Lines != nil || k.AtMost {
			r.Edges = -1
		}
		s.rels, triples = append(s.rels, r), append(triples, r.Triple)
	}
	s.types.Typed(&s.sh, s.g.Labelled, triples)
	return nil
}

// Files implements importer.Source.
func (s *typed) Files() []string { return s.g.Files }

// Shape implements importer.Source.
func (s *typed) Shape() importer.Shape { return s.sh }

// CountEdges implements importer.Source.
func (s *typed) CountEdges(lines map[string]int64) int64 {
	n := s.sh.Edges
	for _, k := range s.g.Relations {
		for _, file := range k.Lines {
			n = importer.AddEdges(n, lines[file])
		}
	}
	return n
}

// Labels implements importer.Source.
func (s *typed) Labels(ctx context.Context, l *importer.Labelling) error {
	if s.g.ReadLabels != nil {
		return s.g.ReadLabels(ctx, l, s.of)
	}
	if err := s.g.Labels.ReadLabels(ctx, l, s.sh.Multi, s.of); err != nil {
		return err
	}
	for i := range s.g.Sets {
		if t := &s.g.Sets[i]; t.Open != nil {
			if err := t.Read(ctx, l, uint8(i+1), s.of, s.index); err != nil {
				return err
			}
		}
	}
	return nil
}

// Relation implements importer.TypedSource.
func (s *typed) Relation(ctx context.Context, relation int, add func(dst, src []int64) error) error {
	return s.rels[relation].Read(ctx, add)
}

// Edges implements importer.Source.
func (s *typed) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	for i := range s.rels {
		if err := s.rels[i].Read(ctx, add); err != nil {
			return err
		}
	}
	return nil
}

// Features implements importer.Source.
func (s *typed) Features(first int64) (importer.RowStream, error) {
	var counts []int64
	for _, k := range s.feats {
		counts = append(counts, k.Count)
	}
	return stream.Behind(counts, s.sh.Dim, first, func(i int, first int64) (importer.RowStream, error) {
		return s.feats[i].Features.Rows(s.feats[i].Count, first)
	}), nil
}
