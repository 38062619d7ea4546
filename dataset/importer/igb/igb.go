// Package igb imports the graphs of the Illinois Graph Benchmark, IGB tiny to full: the homogeneous
// ones, which are the papers of the heterogeneous ones, and these with all their types of nodes as one
// graph of one type:
//
//	DIR/processed/
//	├── paper/node_feat.npy          N × 1024 float32
//	├── paper/node_label_19.npy      N float32, classes; or node_label_2K.npy, 2983 of them
//	├── paper__cites__paper/edge_index.npy    E × 2, source and destination
//	│   of heterogeneous sets also
//	├── TYPE/node_feat.npy                    author, institute, fos, journal, conference
//	└── HEAD__RELATION__TAIL/edge_index.npy   paper__written_by__author, …
//
// The arrays of the large sets have no header, though their names end in .npy: their sizes give the
// shapes. The last rows of the full set's features may be in paper/node_feat_5M_tail.npy, which
// replaces the end of node_feat.npy.
//
// Of the full set the first 227,130,858 papers have one of the 19 classes, the first 157,675,969 one of
// the 2983; the first 60 % of these train, the next 20 % validate, the rest test. Of other homogeneous
// sets IGB's loader draws a split without a seed: here one of 60/20/20 is drawn with a seed, which is
// recorded. The splits of heterogeneous sets follow the order of the papers.
//
// The types of nodes of a heterogeneous set follow each other in alphabetical order. Each has its own
// features; a type without node_feat.npy has zeros, and its largest id in edges gives its number of
// nodes.
package igb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Format reads IGB's directories.
var Format = importer.Format{
	Name: "igb", What: "the directory of an IGB set, with processed/paper", Takes: []string{"task"},
	Detect: detect, Open: open,
}

// dim is the dimension of IGB's features, which a file without a header does not give.
const dim = 1024

// tasks are the labels that there are.
var tasks = []task{
	{"19", "node_label_19.npy", 19, 227_130_858},
	{"2983", "node_label_2K.npy", 2983, 157_675_969},
}

type task struct {
	name, file string
	classes    int
	labelled   int64 // of the full set
}

// fullNodes are the papers of the full set.
const fullNodes = 269_346_174

func detect(fsys vfs.FS, sources []string) string {
	if len(sources) != 1 {
		return ""
	}
	const edges = "processed/paper__cites__paper/edge_index.npy"
	if _, err := fsys.Stat(filepath.Join(sources[0], filepath.FromSlash(edges))); err == nil {
		return "it has " + edges
	}
	return ""
}

type source struct {
	fs                      vfs.FS
	sh                      importer.Shape
	task                    task
	feat, tail, label, edge string
	tailRows                int64
	first                   int64 // node of the first paper
	prefix                  int64 // papers that have labels and are split by their order; 0: all, drawn
}

func open(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
	dir, err := importer.One(sources)
	if err != nil {
		return nil, err
	}
	s, err := newSource(fsys, dir, o)
	if err != nil {
		return nil, err
	}
	found := s.readPapers()
	found.Add(s.readEdges())
	if err := found.Err(); err != nil {
		return nil, err
	}
	s.sh.Notes = append(s.sh.Notes, "IGB's loader replaces all self-loops by one at every node: give --self-loops add for the same")
	if rels, err := relations(fsys, dir); err == nil && len(rels) > 1 {
		s.sh.Notes = append(s.sh.Notes, "only papers are imported, of a graph of several types: --format igb-h imports all types")
	}
	if s.sh.Nodes != fullNodes {
		s.prefix, s.sh.NoSplit, s.sh.Split = 0, true, &importer.Split{Parts: "60/20/20"}
		s.sh.Notes = append(s.sh.Notes, "IGB's loader draws a new split each time: this import draws one with --seed 0, unless you give --split and --seed")
	}
	return s, nil
}

// newSource names the files of a directory's papers.
func newSource(fsys vfs.FS, dir string, o *importer.Reading) (*source, error) {
	s := &source{fs: fsys, task: tasks[0]}
	if name := cmp.Or(o.Task, tasks[0].name); name == tasks[1].name {
		s.task = tasks[1]
	} else if name != tasks[0].name {
		return nil, fault.New(fault.ErrUsage, "--task %s: IGB has the tasks 19 and 2983, the numbers of their classes", name)
	}
	papers := filepath.Join(dir, "processed", paper)
	s.feat, s.label = filepath.Join(papers, featFile), filepath.Join(papers, s.task.file)
	s.edge = filepath.Join(dir, "processed", "paper__cites__paper", edgeFile)
	if tail := filepath.Join(papers, "node_feat_5M_tail.npy"); exists(fsys, tail) {
		s.tail = tail
	}
	return s, nil
}

// Names that occur for every type of nodes or edges.
const (
	paper    = "paper"
	featFile = "node_feat.npy"
	edgeFile = "edge_index.npy"
)

// readPapers reads the shapes of labels and features.
func (s *source) readPapers() (found importer.Problems) {
	found.Add(s.readNodes())
	found.Add(s.readFeatures())
	s.sh.Classes, s.sh.Reading = s.task.classes, map[string]string{"task": s.task.name}
	s.prefix = s.sh.Nodes
	if s.sh.Nodes == fullNodes {
		s.prefix = s.task.labelled
	}
	return found
}

func exists(fsys vfs.FS, name string) bool {
	_, err := fsys.Stat(name)
	return err == nil
}

// array opens an array that has a header, or is of the given type and columns.
func (s *source) array(name, kind string, columns int64) (matrix.Matrix, error) {
	headed, err := npz.IsNPY(s.fs, name)
	if err != nil {
		return nil, err
	}
	if headed {
		return matrix.Open(s.fs, matrix.Spec{Path: name})
	}
	st, err := importer.StatFile(s.fs, name)
	if err != nil {
		return nil, err
	}
	row := columns * 4
	if kind == "int64" {
		row = columns * 8
	}
	if st.Size() == 0 || st.Size()%row != 0 {
		return nil, fault.New(fault.ErrInput, "%s has no header, and its %d bytes are not whole rows of %d × %s", name, st.Size(), columns, kind)
	}
	return matrix.Open(s.fs, matrix.Spec{Path: name, DType: kind, Rows: st.Size() / row, Cols: columns})
}

func (s *source) readNodes() error {
	return importer.With(func() (matrix.Matrix, error) { return s.array(s.label, "float32", 1) }, func(m matrix.Matrix) error {
		s.sh.Nodes = m.Rows()
		if m.Columns() != 1 || s.sh.Nodes < 1 {
			return fault.New(fault.ErrInput, "%s: labels have the shape (%d, %d) instead of one column with at least 1 row", s.label, m.Rows(), m.Columns())
		}
		return dataset.CheckNodes(s.label, s.sh.Nodes)
	})
}

func (s *source) readFeatures() error {
	s.sh.Features = s.feat
	var rows int64
	err := importer.With(func() (matrix.Matrix, error) { return s.array(s.feat, "float32", dim) }, func(m matrix.Matrix) error {
		s.sh.Dim, s.sh.DType = m.Columns(), dtype.Float32
		if m.Half() {
			s.sh.DType = dtype.Float16
		}
		if rows = m.Rows(); s.sh.Nodes > 0 && s.tail == "" && rows != s.sh.Nodes {
			return fault.New(fault.ErrInput, "%s has features of %d nodes, but there are labels of %d nodes", s.feat, rows, s.sh.Nodes)
		}
		return nil
	})
	if err != nil || s.tail == "" {
		return err
	}
	return importer.With(func() (matrix.Matrix, error) { return s.array(s.tail, "float32", int64(s.sh.Dim)) }, func(m matrix.Matrix) error {
		if s.tailRows = m.Rows(); m.Columns() != s.sh.Dim || s.sh.Nodes > 0 && s.tailRows > s.sh.Nodes {
			return fault.New(fault.ErrInput, "%s has %d rows of %d elements, which cannot be the last of %d rows of %d elements", s.tail, m.Rows(), m.Columns(), s.sh.Nodes, s.sh.Dim)
		}
		if rows+s.tailRows < s.sh.Nodes {
			return fault.New(fault.ErrInput, "%s has features of %d nodes, plus %d in %s, but there are labels of %d nodes", s.feat, rows, s.tailRows, filepath.Base(s.tail), s.sh.Nodes)
		}
		return nil
	})
}

func (s *source) readEdges() error {
	return importer.With(s.openEdges, func(m matrix.Matrix) error {
		if m.Columns() != 2 || !m.Integer() {
			return fault.New(fault.ErrInput, "%s: edges must be integers of shape (E, 2), not an array of shape (%d, %d)", s.edge, m.Rows(), m.Columns())
		}
		s.sh.Edges = importer.AddEdges(0, m.Rows())
		return nil
	})
}

// openEdges opens the edges. In the large sets they are int32 with a header, or int64 without.
func (s *source) openEdges() (matrix.Matrix, error) { return s.array(s.edge, "int64", 2) }

func (s *source) Shape() importer.Shape { return s.sh }

func (s *source) CountEdges(map[string]int64) int64 { return s.sh.Edges }

func (s *source) Files() []string {
	files := []string{s.edge, s.feat, s.label}
	if s.tail != "" {
		files = append(files, s.tail)
	}
	return files
}

func (s *source) Labels(ctx context.Context, l *importer.Labelling) error {
	err := importer.With(func() (matrix.Matrix, error) { return s.array(s.label, "float32", 1) }, func(m matrix.Matrix) error {
		return matrix.EachDouble(ctx, m, func(v int64, row []float64) error {
			if s.prefix > 0 && v >= s.prefix {
				return nil // papers after the prefix have no label; the file has other values there
			}
			if err := l.Number(s.first+v, row[0]); err != nil {
				return fmt.Errorf("%s: %w", s.label, err)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	return splitPrefix(l, s.first, s.prefix)
}

// splitPrefix divides n nodes from the first on by their order, as IGB does: 60 % train, 20 %
// validate, the rest test.
func splitPrefix(l *importer.Labelling, first, n int64) error {
	train, valid := n*6/10, n*2/10
	for v := range n {
		part := uint8(3)
		switch {
		case v < train:
			part = 1
		case v < train+valid:
			part = 2
		}
		if err := l.Assign(first+v, part); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	return importer.With(s.openEdges, func(m matrix.Matrix) error {
		return stream.EachPair(ctx, s.edge, stream.Interleave(matrix.Stream{Matrix: m}), s.sh.Nodes, add)
	})
}

func (s *source) Features(first int64) (importer.RowStream, error) {
	m, err := s.array(s.feat, "float32", int64(s.sh.Dim))
	if err != nil {
		return nil, err
	}
	whole := s.sh.Nodes - s.tailRows
	rows, err := matrix.NewRows(m, m.Rows(), min(first, whole))
	if err != nil || s.tail == "" {
		return rows, err
	}
	end, err := s.array(s.tail, "float32", int64(s.sh.Dim))
	if err != nil {
		return nil, errors.Join(err, rows.Close())
	}
	tail, err := matrix.NewRows(end, s.tailRows, max(first-whole, 0))
	if err != nil {
		return nil, errors.Join(err, rows.Close())
	}
	return &patched{rows, tail, s.sh.Dim, max(whole-first, 0)}, nil
}

// patched is a stream of rows of one file up to a row, and of another file from there on.
type patched struct {
	rows, tail *matrix.Rows
	dim        int
	left       int64 // of the first file
}

func (p *patched) Next(values []float32) error {
	n := min(int64(len(values)/p.dim), p.left)
	p.left -= n
	if err := p.rows.Next(values[:n*int64(p.dim)]); err != nil {
		return err
	}
	if values = values[n*int64(p.dim):]; len(values) == 0 {
		return nil
	}
	return p.tail.Next(values)
}

func (p *patched) Close() error { return errors.Join(p.rows.Close(), p.tail.Close()) }
