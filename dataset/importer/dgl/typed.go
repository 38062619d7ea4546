package dgl

import (
	"fmt"
	"slices"
	"strings"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/tables"
	"diskgnn/internal/fault"
)

// openTyped makes tables of a graph with its types.
func (s *source) openTyped(o *importer.Reading) (importer.Source, error) {
	if s.one() {
		return nil, bad("%s: its graph has one type of nodes and of edges: import it without --typed", s.name)
	}
	if err := s.nonempty(); err != nil {
		return nil, err
	}
	g := tables.Typed{Name: s.name, Files: []string{s.name}}
	g.Shape.Held = s.held()
	var dropped []string
	for i, k := range s.relations {
		g.Relations = append(g.Relations, tables.Relation{Source: s.kinds[k.from].name, Name: k.name, Destination: s.kinds[k.to].name, Edges: s.edges(i)})
		for _, name := range k.edgeData {
			if !internal(name) {
				dropped = append(dropped, s.triple(i)+"."+name)
			}
		}
	}
	g.Shape.DropEdgeData(s.name, dropped)
	if err := s.typedFeatures(&g, o); err != nil {
		return nil, err
	}
	if err := s.typedLabels(&g, o); err != nil {
		return nil, err
	}
	g.Shape.Reading = s.reading
	return tables.NewTyped(g, o)
}

// ofKind returns the nodes of a type.
func (s *source) ofKind(i int) *nodes {
	return &nodes{s, &s.kinds[i].part, nil, s.kinds[i].name + "."}
}

// typedFeatures finds the features of each type that has some by the names of a flag, or the usual ones.
func (s *source) typedFeatures(g *tables.Typed, o *importer.Reading) error {
	found := false
	for i, k := range s.kinds {
		t := tables.NodeType{Name: k.name, Count: k.nodes}
		n := s.ofKind(i)
		has := func(name string) bool { return find(k.nodeData, name) != nil }
		if len(o.Features) > 0 && slices.ContainsFunc(o.Features, has) || len(o.Features) == 0 && slices.ContainsFunc(featureNames, has) {
			var err error
			if t.Features, err = n.features(o); err != nil {
				return fmt.Errorf("the node type %s: %w", k.name, err)
			}
			found = true
		}
		g.Types = append(g.Types, t)
	}
	if !found {
		wanted := featureNames
		if len(o.Features) > 0 {
			wanted = o.Features
		}
		return bad("%s: no node type has features, data of nodes called %s: choose with --feature", s.name, strings.Join(wanted, ", "))
	}
	return nil
}

// typedLabels finds the type with labels: the only one that has some, or the one that --task TYPE or TYPE:NAME
// chooses. --task NAME chooses other labels.
func (s *source) typedLabels(g *tables.Typed, o *importer.Reading) error {
	of, name, both := strings.Cut(o.Task, ":")
	if !both {
		if of, name = "", o.Task; slices.ContainsFunc(s.kinds, func(k kind) bool { return k.name == name }) {
			of, name = name, ""
		}
	}
	usual := labelNames
	if name != "" {
		usual = []string{name}
	}
	var found []int
	var words []string
	for i, k := range s.kinds {
		has := slices.ContainsFunc(usual, func(name string) bool { return find(k.nodeData, name) != nil })
		if has && (of == "" || k.name == of) {
			found, words = append(found, i), append(words, k.name)
		}
	}
	switch {
	case !o.Labelled() && len(found) != 1:
		return nil
	case len(found) == 0 && o.Task != "":
		return fault.New(fault.ErrUsage, "--task %s: %s has no such labels of nodes", o.Task, s.name)
	case len(found) == 0:
		return bad("%s: no node type has labels, data of nodes called %s: choose with --task TYPE:NAME", s.name, list(labelNames))
	case len(found) > 1:
		return bad("%s: several node types have labels (%.200s): choose one with --task TYPE", s.name, strings.Join(words, ", "))
	}
	g.Labelled = words[0]
	if !o.Labelled() {
		if o.Task != "" {
			s.reading["task"] = o.Task
		}
		return nil
	}
	n, t := s.ofKind(found[0]), tables.Graph{}
	r := *o
	r.Task = name
	if err := n.labelled(&t, &r); err != nil {
		return err
	}
	if o.Task != "" {
		s.reading["task"] = o.Task // also the type
	}
	g.Labels, g.Sets = t.Labels, t.Sets
	if all := names(s.labels); len(all) > 0 {
		g.Shape.Notes = append(g.Shape.Notes, fmt.Sprintf("%s: labels of the whole graph are not imported: %.400s", s.name, strings.Join(all, ", ")))
	}
	return nil
}
