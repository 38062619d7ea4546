package graphbolt

import (
	"fmt"
	"slices"
	"strings"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/tables"
)

// metadataFeature is an entry of feature_data.
type metadataFeature struct {
	Domain string   `yaml:"domain"`
	Type   string   `yaml:"type"`
	Name   string   `yaml:"name"`
	File   document `yaml:",inline"`
}

// labelNames are the node features that are labels, where the sets of a task have none.
var labelNames = []string{"labels", "label", "y"}

func (m *metadata) nodeFeatures() []string {
	var names []string
	for _, f := range m.Features {
		if f.Domain == "node" {
			names = append(names, f.Name)
		}
	}
	return names
}

func (m *metadata) nodeFeature(name string) *metadataFeature {
	var found *metadataFeature
	for i := range m.Features {
		if f := &m.Features[i]; f.Domain == "node" && f.Name == name {
			if found != nil {
				return nil
			}
			found = f
		}
	}
	return found
}

// readFeatures picks the node features: those that were named; or else the only one, or the one
// named feat, or, where there is none of that name, all that are no labels.
func (s *source) readFeatures(m *metadata, o *importer.Reading) error {
	var dropped []string
	for _, f := range m.Features {
		if f.Domain == "edge" {
			dropped = append(dropped, f.Name)
		}
	}
	s.sh.DropEdgeData(s.meta, dropped)
	all := m.nodeFeatures()
	if len(all) == 0 {
		return bad("it has no feature_data with the domain node")
	}
	chosen := all
	switch {
	case len(o.Features) > 0:
		chosen = o.Features
	case slices.Contains(all, "feat"):
		chosen = []string{"feat"}
	case len(all) > 1:
		chosen = slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(labelNames, name) })
	}
	if len(chosen) == 0 {
		return bad("all its node features (%s) have names of labels: choose features with --feature", strings.Join(all, ", "))
	}
	for i, name := range chosen {
		f := m.nodeFeature(name)
		if f == nil || slices.Contains(chosen[:i], name) {
			return bad("its node features are %s; --feature %q is not exactly one of them, or is given twice", strings.Join(all, ", "), name)
		}
		if err := s.checkFile(f.File, "features "+name, "numpy", "torch"); err != nil {
			return err
		}
		s.feats = append(s.feats, f.File)
	}
	// A tree's only feature, and feat, need no choice.
	if len(all) > 1 && !slices.Equal(chosen, []string{"feat"}) {
		s.choose("feature", strings.Join(chosen, ","))
		if len(o.Features) == 0 {
			s.sh.Notes = append(s.sh.Notes, fmt.Sprintf("the features are %s, side by side, of %s: choose others with --feature", strings.Join(chosen, ", "), strings.Join(all, ", ")))
		}
	}
	return nil
}

// features returns the tables of the features.
func (s *source) features() (all tables.Features) {
	for _, f := range s.feats {
		all = append(all, s.table(f))
	}
	return all
}

// Features implements importer.Source: the tables' rows side by side.
func (s *source) Features(first int64) (importer.RowStream, error) {
	return s.features().Rows(s.sh.Nodes, first)
}
