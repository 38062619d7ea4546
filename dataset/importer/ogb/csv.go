package ogb

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/edges"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/text"
	"diskgnn/internal/fault"
)

// column opens a file with one number to a line, without a header.
func (s *source) column(name string) (matrix.Matrix, error) {
	return matrix.OpenText(s.fs, name, text.Format{Columns: 1})
}

// table opens a file of numbers whose columns are counted.
func (s *source) table(name string) func() (matrix.Matrix, error) {
	s.also = append(s.also, name)
	return func() (matrix.Matrix, error) { return matrix.OpenText(s.fs, name, text.Format{}) }
}

// number reads the only number of a file.
func (s *source) number(name string) (n int64, err error) {
	s.also = append(s.also, name)
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
		return 0, fault.New(fault.ErrInput, "%s: one graph, and so one number, is needed", name)
	}
	return values[0], nil
}

// pairs opens the edges of a file of "source,destination".
func (s *source) pairs(name string) func() (edges.Pairs, error) {
	return func() (edges.Pairs, error) {
		t, err := text.Open(s.fs, name, 2)
		if err != nil {
			return nil, err
		}
		return edges.Interleave(t), nil
	}
}

// openCSV opens a graph of one type.
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
	name, all := s.raw("edge.csv.gz"), span{0, n}
	s.rels = []relation{{name: name, files: []string{name}, edges: e, open: s.pairs(name), src: all, dst: all}}
	s.label = s.table(s.raw("node-label.csv.gz"))
	if exists(s.fs, s.raw("node-feat.csv.gz")) {
		s.feat = s.table(s.raw("node-feat.csv.gz"))
	} else if exists(s.fs, s.raw("edge-feat.csv.gz")) {
		s.edge = s.table(s.raw("edge-feat.csv.gz"))
	}
	return nil
}

// setNodes is for graphs of one type.
func (s *source) setNodes(n int64) error {
	if n < 1 {
		return fault.New(fault.ErrInput, "%s: a graph of %d nodes", s.dir, n)
	}
	s.sh.Nodes, s.count = n, n
	return dataset.CheckNodes(s.dir, n)
}

// nodeType is a type of nodes and how many there are.
type nodeType struct {
	name  string
	count int64
}

// setTypes numbers the nodes of all types, and sets the type that has labels.
func (s *source) setTypes(types []nodeType, labelled string) (map[string]span, error) {
	slices.SortFunc(types, func(a, b nodeType) int { return cmp.Compare(a.name, b.name) })
	spans := map[string]span{}
	var offsets []string
	total := int64(0)
	for _, t := range types {
		if _, twice := spans[t.name]; twice || t.count < 0 || t.count > 1<<33 {
			return nil, fault.New(fault.ErrInput, "%s: %d nodes of type %q, or two such types", s.dir, t.count, t.name)
		}
		spans[t.name] = span{total, t.count}
		offsets = append(offsets, fmt.Sprintf("%s:%d", t.name, total))
		total += t.count
	}
	if total < 1 {
		return nil, fault.New(fault.ErrInput, "%s: a graph of %d nodes", s.dir, total)
	}
	at, ok := spans[labelled]
	if !ok {
		return nil, fault.New(fault.ErrInput, "%s: labels of the type %q, of which there are no nodes", s.dir, labelled)
	}
	s.sh.Nodes, s.first, s.count = total, at.first, at.count
	s.sh.Reading["node_types"], s.sh.Reading["labelled_type"] = strings.Join(offsets, " "), labelled
	s.sh.Notes = append(s.sh.Notes, fmt.Sprintf("%d types of nodes become one, numbered one type after the other (%s); features and labels are those of %s", len(types), strings.Join(offsets, " "), labelled))
	return spans, dataset.CheckNodes(s.dir, total)
}

// addRelation adds the edges of a type that is named "HEAD___RELATION___TAIL".
func (s *source) addRelation(triplet string, spans map[string]span, r relation) error {
	parts := strings.Split(triplet, "___")
	if len(parts) != 3 {
		return fault.New(fault.ErrInput, "%s: the type of edges %q is no HEAD___RELATION___TAIL", s.dir, triplet)
	}
	var ok, ok2 bool
	if r.src, ok = spans[parts[0]]; ok {
		r.dst, ok2 = spans[parts[2]]
	}
	if !ok || !ok2 {
		return fault.New(fault.ErrInput, "%s: edges of the type %s join types of which there are no nodes", s.dir, triplet)
	}
	s.rels = append(s.rels, r)
	return nil
}

// words reads a small file of text: its lines, cut at commas.
func (s *source) words(name string) (lines [][]string, err error) {
	s.also = append(s.also, name)
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
			if f := fields[i]; f == "" || !filepath.IsLocal(f) || strings.ContainsAny(f, `/\`) {
				return nil, fault.New(fault.ErrInput, "%s: %q is no name of a type", name, f)
			}
		}
		lines = append(lines, fields)
	}
}

// maxTypes bounds the types of nodes and of edges.
const maxTypes = 10_000

// openTypedCSV opens a graph of several types.
func (s *source) openTypedCSV() error {
	name := s.raw("num-node-dict.csv.gz")
	counts, err := s.words(name)
	if err != nil {
		return err
	}
	if len(counts) != 2 || len(counts[0]) != len(counts[1]) {
		return fault.New(fault.ErrInput, "%s: a line of types and one of their counts are needed", name)
	}
	var types []nodeType
	for i, t := range counts[0] {
		n, err := strconv.ParseInt(counts[1][i], 10, 64)
		if err != nil {
			return fault.New(fault.ErrInput, "%s: %q nodes of type %s", name, counts[1][i], t)
		}
		types = append(types, nodeType{t, n})
	}
	labelled, err := s.labelledType()
	if err != nil {
		return err
	}
	spans, err := s.setTypes(types, labelled)
	if err != nil {
		return err
	}
	name = s.raw("triplet-type-list.csv.gz")
	triplets, err := s.words(name)
	if err != nil {
		return err
	}
	slices.SortFunc(triplets, slices.Compare[[]string])
	for _, t := range triplets {
		if len(t) != 3 {
			return fault.New(fault.ErrInput, "%s: %q is no head, relation and tail", name, strings.Join(t, ","))
		}
		dir := s.raw("relations", strings.Join(t, "___"))
		n, err := s.number(filepath.Join(dir, "num-edge-list.csv.gz"))
		if err != nil {
			return err
		}
		file := filepath.Join(dir, "edge.csv.gz")
		if err := s.addRelation(strings.Join(t, "___"), spans, relation{name: file, files: []string{file}, edges: n, open: s.pairs(file)}); err != nil {
			return err
		}
	}
	s.label = s.table(s.raw("node-label", labelled, "node-label.csv.gz"))
	s.feat = s.table(s.raw("node-feat", labelled, "node-feat.csv.gz"))
	return nil
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
				return "", fault.New(fault.ErrInput, "%s: nodes of %s and of %s have labels: one type is needed", name, found, has[0][i])
			}
			found = has[0][i]
		}
	}
	if found == "" {
		return "", fault.New(fault.ErrInput, "%s names no type that has labels", name)
	}
	return found, nil
}
