package graphbolt

import (
	"fmt"
	"math"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
)

// metadataTask is an entry of tasks.
type metadataTask struct {
	Name    string        `yaml:"name"`
	Classes *int          `yaml:"num_classes"`
	Train   []metadataSet `yaml:"train_set"`
	Valid   []metadataSet `yaml:"validation_set"`
	Test    []metadataSet `yaml:"test_set"`
}

type metadataSet struct {
	Type string `yaml:"type"`
	Data []struct {
		Name string   `yaml:"name"`
		File document `yaml:",inline"`
	} `yaml:"data"`
}

// piece is one piece of a split.
type piece struct{ seeds, labels document }

// readTask picks the task: the one that was named, or else the first that classifies nodes.
func (s *source) readTask(m *metadata, o *importer.Reading) error {
	if !o.Labelled() {
		return nil
	}
	i, err := s.pickTask(m, o.Task)
	if err != nil {
		return err
	}
	t := &m.Tasks[i]
	if i > 0 {
		s.choose("task", t.Name)
		if o.Task == "" {
			s.sh.Notes = append(s.sh.Notes, fmt.Sprintf("the task is %s, the first of %d tasks that classifies nodes: choose another with --task", t.Name, len(m.Tasks)))
		}
	}
	if t.Classes != nil {
		if s.limit = *t.Classes; s.limit < 1 || s.limit > math.MaxInt32 {
			return bad("num_classes is %d instead of 1 to %d", s.limit, math.MaxInt32)
		}
	}
	s.sh.Classes = s.limit
	if err := s.readLabelFeature(m, t); err != nil {
		return err
	}
	for i, sets := range [][]metadataSet{t.Train, t.Valid, t.Test} {
		for _, set := range sets {
			g := set.piece()
			if g.seeds.Path == "" || g.labels.Path == "" && s.label == nil {
				return bad("the %s set has no seeds or no labels", dataset.SplitNames[i])
			}
			files := []document{g.seeds, g.labels}
			if s.label != nil {
				files = files[:1]
			}
			for _, f := range files {
				if err := s.checkFile(f, dataset.SplitNames[i]+" set", "numpy", "csv", "torch"); err != nil {
					return err
				}
			}
			s.sets[i] = append(s.sets[i], g)
		}
	}
	if len(s.sets[0]) == 0 {
		return bad("the train set is empty")
	}
	return nil
}

func (s *source) pickTask(m *metadata, name string) (int, error) {
	var names []string
	for i, t := range m.Tasks {
		if name != "" && t.Name == name {
			return i, nil
		}
		names = append(names, t.Name)
	}
	switch {
	case len(m.Tasks) == 0:
		return 0, bad("it has no tasks")
	case name != "":
		return 0, bad("its tasks are %s; --task %q is not one of them", strings.Join(names, ", "), name)
	case len(m.Tasks) == 1:
		return 0, nil // reading the task reports missing parts
	}
	for i := range m.Tasks {
		if s.classifiesNodes(m, &m.Tasks[i]) {
			return i, nil
		}
	}
	return 0, bad("none of its tasks (%s) classifies nodes: such a task has labels, and seeds that are single nodes", strings.Join(names, ", "))
}

// piece finds the seeds and labels of a set.
func (m *metadataSet) piece() (g piece) {
	for _, d := range m.Data {
		switch d.Name {
		case "seeds", "seed_nodes":
			g.seeds = d.File
		case "labels":
			g.labels = d.File
		}
	}
	return g
}

// hasLabels reports whether any set of a task has labels.
func (t *metadataTask) hasLabels() bool {
	for _, sets := range [][]metadataSet{t.Train, t.Valid, t.Test} {
		for _, set := range sets {
			if set.piece().labels.Path != "" {
				return true
			}
		}
	}
	return false
}

// classifiesNodes reports whether a task's training seeds are nodes, not pairs of them, that have
// labels.
func (s *source) classifiesNodes(m *metadata, t *metadataTask) bool {
	for _, set := range t.Train {
		g := set.piece()
		if g.seeds.Path == "" || g.labels.Path == "" && (t.hasLabels() || m.labelFeature() == nil) {
			return false
		}
		if s.checkFile(g.seeds, "seeds", "numpy", "torch") != nil {
			continue // text, or a format that reading the task reports as an error
		}
		single := false
		err := s.with(g.seeds, func(m matrix.Matrix) error {
			single = m.Columns() == 1
			return nil
		})
		if err == nil && !single {
			return false
		}
	}
	return len(t.Train) > 0
}

// labelFeature returns the node feature that is labels by its name, or nil.
func (m *metadata) labelFeature() *metadataFeature {
	for _, name := range labelNames {
		if f := m.nodeFeature(name); f != nil {
			return f
		}
	}
	return nil
}

// readLabelFeature takes the labels from a node feature if no set of the task has any.
func (s *source) readLabelFeature(m *metadata, t *metadataTask) error {
	f := m.labelFeature()
	if t.hasLabels() || f == nil {
		return nil
	}
	s.label = &f.File
	return s.checkFile(f.File, "labels", "numpy", "torch")
}
