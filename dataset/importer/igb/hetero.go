package igb

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Heterogeneous reads IGB's directories with all types of nodes. Auto never finds it, since Format
// reads the same directories: users name it.
var Heterogeneous = importer.Format{
	Name: "igb-h", What: "the directory of a heterogeneous IGB set, all its types of nodes", Takes: []string{"task", "typed"},
	Open: openHetero,
}

// separator is between the parts of the name of a type of edges.
const separator = "__"

// hetero is a graph of several types.
type hetero struct {
	papers *source
	dir    string
	keep   bool // the types
	fill   bool // types without features get some
	sh     importer.Shape
	types  *stream.Types
	feats  map[string]string // files by type; none of a type that has zeros
	files  []string          // of edges
	rels   []stream.Relation
}

// relations lists the types of edges of a directory.
func relations(fsys vfs.FS, dir string) ([]string, error) {
	dir = filepath.Join(dir, "processed")
	names, err := fsys.List(dir)
	if err != nil {
		return nil, fault.New(fault.ErrInput, "%s is missing", dir)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(name, separator) })
	slices.Sort(names)
	return names, nil
}

func openHetero(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
	dir, err := importer.One(sources)
	if err != nil {
		return nil, err
	}
	papers, err := newSource(fsys, dir, o)
	if err != nil {
		return nil, err
	}
	found := papers.readPapers()
	names, err := relations(fsys, dir)
	found.Add(err)
	if err := found.Err(); err != nil {
		return nil, err
	}
	h := &hetero{papers: papers, dir: dir, keep: o.Typed, fill: o.Fill != "", sh: papers.sh, feats: map[string]string{}}
	if err := h.number(names); err != nil {
		return nil, err
	}
	for _, name := range names {
		found.Add(h.addRelation(name))
	}
	if err := found.Err(); err != nil {
		return nil, err
	}
	if h.keep {
		var triples [][3]string
		for i := range h.rels {
			triples = append(triples, h.rels[i].Triple)
		}
		h.types.Typed(&h.sh, paper, triples)
	}
	return h, nil
}

// path is the path of a file in processed.
func (h *hetero) path(name ...string) string {
	return filepath.Join(append([]string{h.dir, "processed"}, name...)...)
}

// number finds the types of nodes that edges join, and numbers their nodes.
func (h *hetero) number(relations []string) error {
	types := []stream.Type{{Name: paper, Count: h.papers.sh.Nodes, Features: true}}
	var found importer.Problems
	for _, relation := range relations {
		parts := strings.Split(relation, separator)
		for _, name := range []string{parts[0], parts[len(parts)-1]} {
			if slices.ContainsFunc(types, func(t stream.Type) bool { return t.Name == name }) {
				continue
			}
			n, err := h.count(name, relations)
			found.Add(err)
			types = append(types, stream.Type{Name: name, Count: n, Features: h.feats[name] != ""})
		}
	}
	if err := found.Err(); err != nil {
		return err
	}
	var err error
	number := stream.Number
	if h.keep {
		number = stream.NumberTyped
	}
	if h.types, err = number(h.dir, types); err != nil {
		return err
	}
	at, err := h.types.Labelled(paper)
	h.papers.first, h.sh.Nodes = at.First, h.types.Nodes
	h.sh.Reading["node_types"], h.sh.Reading["labelled_type"] = h.types.Offsets, paper
	if h.keep {
		return err
	}
	h.sh.Notes = append(h.sh.Notes, fmt.Sprintf("nodes of %d types become nodes of one type, numbered type by type (%s); only nodes of the type %s have labels", len(types), h.types.Offsets, paper))
	return err
}

// count returns the number of nodes of a type: the rows of its features or, if it has none, one more
// than its largest id.
func (h *hetero) count(name string, relations []string) (n int64, err error) {
	file := h.path(name, featFile)
	if !exists(h.papers.fs, file) {
		have := "have zeros as features"
		if h.fill {
			have = "get features from their neighbours"
		}
		h.sh.Notes = append(h.sh.Notes, fmt.Sprintf("%s is missing: nodes of this type %s, and their number is the largest id of the edges plus one", file, have))
		return h.largest(name, relations)
	}
	h.feats[name] = file
	err = importer.With(func() (matrix.Matrix, error) { return h.features(name) }, func(m matrix.Matrix) error {
		if n = m.Rows(); m.Columns() != h.sh.Dim {
			return fault.New(fault.ErrInput, "%s: its rows have %d elements, but the rows of %s have %d", file, m.Columns(), paper, h.sh.Dim)
		}
		if m.Half() != (h.sh.DType == dtype.Float16) {
			h.sh.DType = dtype.Float32 // holds both
		}
		return nil
	})
	return n, err
}

// features opens the features of a type.
func (h *hetero) features(name string) (matrix.Matrix, error) {
	return h.papers.array(h.feats[name], "float32", int64(h.sh.Dim))
}

// largest returns one more than the largest id of a type that edges have, all of which it reads.
func (h *hetero) largest(name string, relations []string) (n int64, err error) {
	for _, relation := range relations {
		parts := strings.Split(relation, separator)
		ends := []bool{parts[0] == name, parts[len(parts)-1] == name}
		if !ends[0] && !ends[1] {
			continue
		}
		if err := h.withEdges(relation, func(m matrix.Matrix) error {
			return matrix.EachInt(context.Background(), m, func(_ int64, row []int64) error {
				for i, is := range ends {
					if is {
						n = max(n, min(row[i], 1<<62)+1)
					}
				}
				return nil
			})
		}); err != nil {
			return 0, err
		}
	}
	return n, nil
}

func (h *hetero) withEdges(relation string, do func(matrix.Matrix) error) error {
	name := h.path(relation, edgeFile)
	return importer.With(func() (matrix.Matrix, error) { return h.papers.array(name, "int64", 2) }, func(m matrix.Matrix) error {
		if m.Columns() != 2 || !m.Integer() {
			return fault.New(fault.ErrInput, "%s: edges must be integers of shape (E, 2), not an array of shape (%d, %d)", name, m.Rows(), m.Columns())
		}
		return do(m)
	})
}

func (h *hetero) addRelation(relation string) error {
	name := h.path(relation, edgeFile)
	h.files = append(h.files, name)
	r := stream.Relation{Name: name, Open: func() (stream.Pairs, error) {
		m, err := h.papers.array(name, "int64", 2)
		if err != nil {
			return nil, err
		}
		return stream.Interleave(matrix.Stream{Matrix: m}), nil
	}}
	if err := h.types.Join(&r, relation, separator); err != nil {
		return err
	}
	if err := h.withEdges(relation, func(m matrix.Matrix) error { r.Edges = m.Rows(); return nil }); err != nil {
		return err
	}
	h.sh.Edges = importer.AddEdges(h.sh.Edges, r.Edges)
	h.rels = append(h.rels, r)
	return nil
}

// Shape implements importer.Source.
func (h *hetero) Shape() importer.Shape { return h.sh }

// CountEdges implements importer.Source.
func (h *hetero) CountEdges(map[string]int64) int64 { return h.sh.Edges }

// Files implements importer.Source.
func (h *hetero) Files() []string {
	files := slices.Clone(h.files)
	for _, name := range h.feats {
		files = append(files, name)
	}
	for _, name := range []string{h.papers.feat, h.papers.tail, h.papers.label} {
		if name != "" {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return files
}

// Labels implements importer.Source.
func (h *hetero) Labels(ctx context.Context, l *importer.Labelling) error {
	return h.papers.Labels(ctx, l)
}

// Relation implements importer.TypedSource.
func (h *hetero) Relation(ctx context.Context, relation int, add func(dst, src []int64) error) error {
	return h.rels[relation].Read(ctx, add)
}

// Edges implements importer.Source.
func (h *hetero) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	for i := range h.rels {
		if err := h.rels[i].Read(ctx, add); err != nil {
			return err
		}
	}
	return nil
}

// Features implements importer.Source.
func (h *hetero) Features(first int64) (importer.RowStream, error) {
	var counts []int64
	for _, t := range h.types.All {
		counts = append(counts, t.Count)
	}
	return stream.Behind(counts, h.sh.Dim, first, func(i int, first int64) (importer.RowStream, error) {
		t := h.types.All[i]
		switch {
		case t.Name == paper:
			return h.papers.Features(first)
		case h.feats[t.Name] == "":
			return stream.Zeros{}, nil
		}
		m, err := h.features(t.Name)
		if err != nil {
			return nil, err
		}
		return matrix.NewRows(m, t.Count, first)
	}), nil
}
