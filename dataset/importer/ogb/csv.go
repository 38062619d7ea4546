package ogb

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/text"
	"diskgnn/internal/fault"
)

// column opens a file with one number to a line, without a header.
func (s *source) column(name string) (matrix.Matrix, error) {
	return matrix.OpenText(s.fs, name, text.Format{Columns: 1})
}

// table opens a file of numbers, and counts its columns.
func (s *source) table(name string) func() (matrix.Matrix, error) {
	s.files = append(s.files, name)
	return func() (matrix.Matrix, error) { return matrix.OpenText(s.fs, name, text.Format{}) }
}

func (s *source) number(name string) (n int64, err error) {
	s.files = append(s.files, name)
	m, err := s.column(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	values := make([]int64, 2)
	got, err := m.Ints(values)
	if err != nil {
		return 0, err
	}
	if got != 1 || values[0] < 0 {
		return 0, fault.New(fault.ErrInput, "%s must have one number, since there is one graph", name)
	}
	return values[0], nil
}

// pairs opens the edges of a file of "source,destination".
func (s *source) pairs(name string) func() (stream.Pairs, error) {
	s.files = append(s.files, name)
	return func() (stream.Pairs, error) {
		t, err := text.Open(s.fs, name, 2)
		if err != nil {
			return nil, err
		}
		return stream.Interleave(t), nil
	}
}

func (s *source) openCSV() error {
	var found importer.Problems
	n, err := s.number(s.raw("num-node-list.csv.gz"))
	found.Add(err)
	e, err := s.number(s.raw("num-edge-list.csv.gz"))
	found.Add(err)
	if err := found.Err(); err != nil {
		return err
	}
	if err := s.setNodes(n); err != nil {
		return err
	}
	name, all := s.raw("edge.csv.gz"), stream.Span{First: 0, Count: n}
	s.rels = []relation{{Relation: stream.Relation{Name: name, Edges: e, Open: s.pairs(name), Src: all, Dst: all}}}
	s.label.Open = s.table(s.raw("node-label.csv.gz"))
	const edgeFeatures = "edge-feat.csv.gz"
	if exists(s.fs, s.raw("node-feat.csv.gz")) {
		s.feat = s.table(s.raw("node-feat.csv.gz"))
		return s.dropEdgeData("", s.raw())
	}
	if exists(s.fs, s.raw(edgeFeatures)) {
		s.edge = s.table(s.raw(edgeFeatures))
	}
	return s.dropEdgeData(edgeFeatures, s.raw())
}

// setNodes is for graphs of one type.
func (s *source) setNodes(n int64) error {
	if n < 1 {
		return fault.New(fault.ErrInput, "%s: the graph has %d nodes; at least 1 is needed", s.dir, n)
	}
	s.sh.Nodes, s.count = n, n
	return dataset.CheckNodes(s.dir, n)
}

// setTypes numbers the nodes of all types, and sets the type that has labels.
func (s *source) setTypes(types []stream.Type, labelled string) (*stream.Types, error) {
	number := stream.Number
	if s.keep {
		number = stream.NumberTyped
		for i := range types {
			types[i].Features = types[i].Name == labelled
		}
	}
	t, err := number(s.dir, types)
	if err != nil {
		return nil, err
	}
	at, err := t.Labelled(labelled)
	if err != nil {
		return nil, err
	}
	s.sh.Nodes, s.first, s.count = t.Nodes, at.First, at.Count
	s.sh.Reading["node_types"], s.sh.Reading["labelled_type"] = t.Offsets, labelled
	if s.types = t; s.keep {
		return t, nil
	}
	s.sh.Notes = append(s.sh.Notes, fmt.Sprintf("nodes of %d types become nodes of one type, numbered type by type (%s); only nodes of the type %s have features and labels", len(types), t.Offsets, labelled))
	return t, nil
}

// addRelation adds the edges of a type that is named "HEAD___RELATION___TAIL".
func (s *source) addRelation(triplet string, types *stream.Types, r relation) error {
	if err := types.Join(&r.Relation, triplet, separator); err != nil {
		return err
	}
	s.rels = append(s.rels, r)
	return nil
}

// separator is between the parts of the name of a type of edges.
const separator = "___"

// words reads a small file of text: its lines, cut at commas.
func (s *source) words(name string) (lines [][]string, err error) {
	s.files = append(s.files, name)
	l, err := text.OpenLines(s.fs, name, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for {
		line, err := l.Next()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		if len(lines) == maxTypes {
			return nil, fault.New(fault.ErrInput, "%s has more than %d lines", name, maxTypes)
		}
		fields := strings.Split(string(line), ",")
		for i, f := range fields {
			fields[i] = strings.TrimSpace(f)
			if f := fields[i]; !stream.IsName(f) {
				return nil, fault.New(fault.ErrInput, "%s: %.80q cannot be the name of a type", name, f)
			}
		}
		lines = append(lines, fields)
	}
}

// maxTypes bounds the types of nodes and of edges.
const maxTypes = 10_000

func (s *source) openTypedCSV() error {
	name := s.raw("num-node-dict.csv.gz")
	counts, err := s.words(name)
	if err != nil {
		return err
	}
	if len(counts) != 2 || len(counts[0]) != len(counts[1]) {
		return fault.New(fault.ErrInput, "%s must have two lines of equal length: node types, and their numbers of nodes", name)
	}
	var types []stream.Type
	for i, t := range counts[0] {
		n, err := strconv.ParseInt(counts[1][i], 10, 64)
		if err != nil {
			return fault.New(fault.ErrInput, "%s: %.80q is not the number of nodes of the type %s", name, counts[1][i], t)
		}
		types = append(types, stream.Type{Name: t, Count: n})
	}
	labelled, err := s.labelledType()
	if err != nil {
		return err
	}
	all, err := s.setTypes(types, labelled)
	if err != nil {
		return err
	}
	name = s.raw("triplet-type-list.csv.gz")
	triplets, err := s.words(name)
	if err != nil {
		return err
	}
	slices.SortFunc(triplets, slices.Compare[[]string])
	var dirs []string
	for _, t := range triplets {
		if len(t) != 3 {
			return fault.New(fault.ErrInput, "%s: %q is not a head, a relation and a tail", name, strings.Join(t, ","))
		}
		dir := s.raw("relations", strings.Join(t, separator))
		dirs = append(dirs, dir)
		n, err := s.number(filepath.Join(dir, "num-edge-list.csv.gz"))
		if err != nil {
			return err
		}
		file := filepath.Join(dir, "edge.csv.gz")
		if err := s.addRelation(strings.Join(t, separator), all, relation{Relation: stream.Relation{Name: file, Edges: n, Open: s.pairs(file)}}); err != nil {
			return err
		}
	}
	s.label.Open = s.table(s.raw("node-label", labelled, "node-label.csv.gz"))
	s.feat = s.table(s.raw("node-feat", labelled, "node-feat.csv.gz"))
	s.noteFeatures(s.typesWith(types, func(name string) string { return s.raw("node-feat", name, "node-feat.csv.gz") }))
	if len(dirs) == 0 {
		return nil
	}
	return s.dropEdgeData("", dirs...)
}

// typesWith returns the types that have a file.
func (s *source) typesWith(types []stream.Type, file func(name string) string) (names []string) {
	for _, t := range types {
		if exists(s.fs, file(t.Name)) {
			names = append(names, t.Name)
		}
	}
	return names
}

// labelledType returns the only type of nodes that has labels.
func (s *source) labelledType() (string, error) {
	name := s.raw("nodetype-has-label.csv.gz")
	has, err := s.words(name)
	if err != nil {
		return "", err
	}
	found := ""
	for i := 0; len(has) == 2 && len(has[0]) == len(has[1]) && i < len(has[0]); i++ {
		if strings.EqualFold(has[1][i], "true") {
			if found != "" {
				return "", fault.New(fault.ErrInput, "%s: the node types %s and %s both have labels, but only one may", name, found, has[0][i])
			}
			found = has[0][i]
		}
	}
	if found == "" {
		return "", fault.New(fault.ErrInput, "%s names no node type with labels", name)
	}
	return found, nil
}
