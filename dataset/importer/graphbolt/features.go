package graphbolt

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/internal/dtype"
)

// metadataFeature is an entry of feature_data.
type metadataFeature struct {
	Domain string   `yaml:"domain"`
	Type   string   `yaml:"type"`
	Name   string   `yaml:"name"`
	File   document `yaml:",inline"`
}

// feature is a table of a row per node.
type feature struct {
	name string
	file document
	dim  int
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
		s.feats = append(s.feats, feature{name: name, file: f.File})
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

func (s *source) readFeatureShape() error {
	var names []string
	dim := 0
	for i := range s.feats {
		f := &s.feats[i]
		err := s.with(f.file, func(m matrix.Matrix) error {
			if m.Rows() != s.sh.Nodes {
				return bad("%s: there are features of %d nodes, but the graph has %d nodes", m.Name(), m.Rows(), s.sh.Nodes)
			}
			f.dim = m.Columns()
			if dim += f.dim; dim > dataset.MaxDim {
				return bad("%s: feature rows have %d elements instead of 1 to %d", m.Name(), dim, dataset.MaxDim)
			}
			if t := matrix.DType(m); i == 0 || t == s.sh.DType {
				s.sh.DType = t
			} else {
				s.sh.DType = dtype.Float32 // holds both
			}
			return nil
		})
		if err != nil {
			return err
		}
		names = append(names, s.path(f.file))
	}
	s.sh.Dim, s.sh.Features = dim, strings.Join(names, ", ")
	return nil
}

// Features implements importer.Source: the tables' rows side by side.
func (s *source) Features(first int64) (importer.RowStream, error) {
	var parts []stream.Part
	for _, f := range s.feats {
		m, err := s.open(f.file)
		if err == nil {
			var rows *matrix.Rows
			if rows, err = matrix.NewRows(m, s.sh.Nodes, first); err == nil {
				parts = append(parts, stream.Part{Rows: rows, Dim: f.dim})
				continue
			}
		}
		for _, p := range parts {
			err = errors.Join(err, p.Rows.Close())
		}
		return nil, err
	}
	return stream.Beside(parts), nil
}
