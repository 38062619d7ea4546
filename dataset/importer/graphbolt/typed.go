package graphbolt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/tables"
)

// openTyped opens a source tree with its types.
func (s *source) openTyped(m *metadata, o *importer.Reading) (importer.Source, error) {
	g := tables.Typed{Name: s.meta}
	for _, step := range []func(*metadata, *importer.Reading, *tables.Typed) error{s.typedGraph, s.typedTask, s.typedFeatures} {
		if err := step(m, o, &g); err != nil {
			return nil, fmt.Errorf("%s: %w", s.meta, err)
		}
	}
	if o.Labelled() {
		if err := s.readTypedLabelShape(&g); err != nil {
			return nil, err
		}
		g.ReadLabels = func(ctx context.Context, l *importer.Labelling, of stream.Span) error {
			s.of = of
			return s.Labels(ctx, l)
		}
	}
	if err := s.readHeld(); err != nil {
		return nil, err
	}
	g.Shape, g.Files = s.sh, s.Files()
	slices.Sort(g.Files)
	g.Files = slices.Compact(g.Files)
	return tables.NewTyped(g, o)
}

// typedGraph finds the types of nodes and the edges.
func (s *source) typedGraph(m *metadata, _ *importer.Reading, g *tables.Typed) error {
	switch {
	case m.Graph == nil:
		return bad("it has no \"graph\": with --typed, name the source tree, not the one that GraphBolt's preprocessing made")
	case len(m.Graph.Nodes) == 0 || len(m.Graph.Edges) == 0:
		return bad("its graph has no nodes or no edges")
	}
	for _, k := range m.Graph.Nodes {
		if k.Num < 1 || k.Type == "" {
			return bad("the node type %.40q has %d nodes", k.Type, k.Num)
		}
		g.Types = append(g.Types, tables.NodeType{Name: k.Type, Count: k.Num})
	}
	for _, e := range m.Graph.Edges {
		parts := strings.Split(e.Type, ":")
		if len(parts) != 3 {
			return bad("the edge type %.80q is not source:relation:destination", e.Type)
		}
		if err := s.checkFile(e.File, "edges", "numpy", "csv"); err != nil {
			return err
		}
		before := s.sh.Edges
		if err := s.checkEdges(e.File); err != nil {
			return err
		}
		r := tables.Relation{Source: parts[0], Name: parts[1], Destination: parts[2]}
		r.Edges = tables.Edges{Name: s.path(e.File), Count: s.sh.Edges - before, Open: func() (stream.Pairs, error) { return s.openPairs(e.File) }}
		if e.File.Format == "csv" {
			r.Lines = []string{s.path(e.File)}
		}
		s.edge, g.Relations = append(s.edge, e.File), append(g.Relations, r)
	}
	return nil
}

// typedTask picks the task, and the type with labels: the sets of the task are all of one type.
func (s *source) typedTask(m *metadata, o *importer.Reading, g *tables.Typed) error {
	if !o.Labelled() {
		return nil
	}
	i, err := s.pickTask(m, o.Task)
	if err != nil {
		return err
	}
	of := ""
	for _, sets := range [][]metadataSet{m.Tasks[i].Train, m.Tasks[i].Valid, m.Tasks[i].Test} {
		for _, set := range sets {
			if of != "" && set.Type != of {
				return bad("the task %.40q has sets of the node types %.40q and %.40q, but only one type may have labels", m.Tasks[i].Name, of, set.Type)
			}
			of = set.Type
		}
	}
	if !slices.ContainsFunc(g.Types, func(k tables.NodeType) bool { return k.Name == of }) {
		return bad("the task %.40q has sets of the node type %.40q, which does not exist", m.Tasks[i].Name, of)
	}
	g.Labelled = of
	r := *o
	r.Task = m.Tasks[i].Name
	return s.readTask(m.of(of), &r)
}

// of returns the metadata with the node features of a type.
func (m *metadata) of(kind string) *metadata {
	n := *m
	n.Features = slices.DeleteFunc(slices.Clone(m.Features), func(f metadataFeature) bool { return f.Domain == "node" && f.Type != kind })
	return &n
}

// typedFeatures picks the features of each type that has some.
func (s *source) typedFeatures(m *metadata, o *importer.Reading, g *tables.Typed) error {
	chosen := map[string]string{}
	for i := range g.Types {
		k := &g.Types[i]
		n := m.of(k.Name)
		all := n.nodeFeatures()
		known := func(name string) bool { return slices.Contains(all, name) }
		if isLabel := func(name string) bool { return slices.Contains(labelNames, name) }; len(all) == 0 ||
			len(o.Features) > 0 && !slices.ContainsFunc(o.Features, known) ||
			len(o.Features) == 0 && !slices.ContainsFunc(all, func(name string) bool { return !isLabel(name) }) {
			continue
		}
		own := &source{fs: s.fs, dir: s.dir, meta: s.meta}
		if err := own.readFeatures(n, o); err != nil {
			return fmt.Errorf("the node type %.40q: %w", k.Name, err)
		}
		k.Features = own.features()
		s.feats = append(s.feats, own.feats...)
		if name := own.sh.Reading["feature"]; name != "" {
			chosen[k.Name] = name
		}
	}
	var dropped []string
	for _, f := range m.Features {
		if f.Domain == "edge" {
			dropped = append(dropped, strings.TrimSuffix(f.Type+"."+f.Name, "."))
		}
	}
	s.sh.DropEdgeData(s.meta, dropped)
	for i, k := range g.Types { // in the order of the types
		if name := chosen[k.Name]; name != "" {
			s.choose(fmt.Sprintf("feature%d", i), name)
		}
	}
	return nil
}

// readTypedLabelShape is readLabelShape for nodes of the type with labels.
func (s *source) readTypedLabelShape(g *tables.Typed) error {
	i := slices.IndexFunc(g.Types, func(k tables.NodeType) bool { return k.Name == g.Labelled })
	s.of.Count = g.Types[i].Count
	nodes := s.sh.Nodes
	s.sh.Nodes = s.of.Count
	err := s.readLabelShape()
	s.sh.Nodes = nodes
	return err
}
