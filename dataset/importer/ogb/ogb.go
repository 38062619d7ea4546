// Package ogb imports node property prediction sets of the Open Graph Benchmark as its own archives
// hold them: a directory with raw/ and split/, of CSV files (ogbn-arxiv, ogbn-products, ogbn-proteins),
// of compressed NumPy archives (ogbn-papers100M), and graphs of several types of nodes (ogbn-mag) as
// one graph of one type; and MAG240M of its large-scale challenge likewise.
//
//	DIR/
//	├── raw/      edge.csv.gz num-node-list.csv.gz num-edge-list.csv.gz
//	│             node-feat.csv.gz node-label.csv.gz; perhaps edge-feat.csv.gz
//	│         or  data.npz (edge_index, num_nodes_list, num_edges_list, node_feat) node-label.npz
//	│         or  num-node-dict.csv.gz triplet-type-list.csv.gz relations/H___R___T/…
//	│             node-feat/TYPE/node-feat.csv.gz node-label/TYPE/node-label.csv.gz
//	│         or  edge_index_dict.npz num_nodes_dict.npz num_edges_dict.npz node_feat_dict.npz
//	│             node-label.npz, with arrays named by types
//	└── split/NAME/{train,valid,test}.csv.gz, of several types in a directory of the type
//
//	mag240m_kddcup2021/
//	├── meta.pt          how many nodes each type has, and num_classes: a dictionary, by torch.save
//	├── split_dict.pt    arrays of papers by set: train, valid, test-whole, test-dev, …
//	└── processed/       paper/{node_feat,node_label}.npy HEAD___RELATION___TAIL/edge_index.npy (2, E)
//
// Nodes of several types are numbered type by type, the types in alphabetical order; if the types are kept, the
// type with labels is the first, and the others follow in the order of the files. Features and labels belong to
// the type that has labels; other nodes have zeros, and no label.
//
// A graph without node features that has edge features (ogbn-proteins) gets as a node's features the
// mean of its incoming edges' features, of both directions where reverses are added.
//
// A label that is missing or NaN is none. Labels of several columns are of nodes that have any number
// of classes.
package ogb

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/tables"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Format reads the directories of OGB's archives.
var Format = importer.Format{
	Name: "ogb", What: "the directory of an OGB node property prediction set, with raw and split, or MAG240M's, with meta.pt", Takes: []string{"task", "typed"},
	Detect: detect, Open: open,
}

// layout is one of the ways in which sets are written; sign is a file that it alone has.
type layout struct {
	sign  string
	typed bool // several types of nodes; the split is in the directory of the type with labels
	open  func(*source) error
}

var layouts = []layout{
	{"raw/edge.csv.gz", false, (*source).openCSV},
	{"raw/data.npz", false, (*source).openBinary},
	{"raw/triplet-type-list.csv.gz", true, (*source).openTypedCSV},
	{"raw/edge_index_dict.npz", true, (*source).openTypedBinary},
	{metaFile, true, (*source).openLSC},
}

func detect(fsys vfs.FS, sources []string) string {
	if len(sources) != 1 {
		return ""
	}
	for _, l := range layouts {
		if exists(fsys, filepath.Join(sources[0], filepath.FromSlash(l.sign))) {
			return "it has " + l.sign
		}
	}
	return ""
}

func exists(fsys vfs.FS, name string) bool {
	_, err := fsys.Stat(name)
	return err == nil
}

// reversed are the directory names of the sets for which OGB's own loader adds the reverse of every
// edge.
var reversed = []string{"ogbn_products", "ogbn-products", "products", "ogbn_proteins", "ogbn-proteins", "proteins"}

// source is one graph.
type source struct {
	fs     vfs.FS
	dir    string
	sh     importer.Shape
	rels   []relation
	feat   func() (matrix.Matrix, error) // nil: made of edges
	edge   func() (matrix.Matrix, error) // features of edges, where feat is nil
	label  tables.Table
	first  int64 // the first of the count nodes that have labels and features
	count  int64
	splits [3]tables.Set // nodes, counted from the first
	files  []string      // that are read
	mean   []float32
	both   bool          // a node's features are of its outgoing edges too
	task   string        // that was named, or ""
	keep   bool          // the types
	types  *stream.Types // of a graph of several
}

// relation is the edges of one type.
type relation struct {
	stream.Relation
	row func() (*npz.Array, error) // an archive's array of two rows, or nil
}

func open(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
	dir, err := importer.One(sources)
	if err != nil {
		return nil, err
	}
	s := &source{fs: fsys, dir: dir, task: o.Task, keep: o.Typed}
	s.sh.Reading = map[string]string{}
	i := slices.IndexFunc(layouts, func(l layout) bool { return exists(fsys, filepath.Join(dir, filepath.FromSlash(l.sign))) })
	if i < 0 {
		return nil, fault.New(fault.ErrInput, "%s has neither meta.pt nor a directory raw with edge.csv.gz, data.npz, triplet-type-list.csv.gz or edge_index_dict.npz: unpack the archive, and name the directory that has raw and split, or meta.pt", dir)
	}
	if slices.Contains(reversed, filepath.Base(filepath.Clean(dir))) {
		s.sh.AddReverse = true
		s.sh.Notes = append(s.sh.Notes, fmt.Sprintf("%s: the reverse of every edge is added, as OGB's loader does; GraphBolt's copy of a set may lack them: for that graph, give --add-reverse-edges no", dir))
	}
	s.both = o.AddsReverse(s.sh.AddReverse)
	var found importer.Problems
	found.Add(layouts[i].open(s))
	if l := layouts[i]; l.sign != metaFile && (!l.typed || len(found) == 0) { // MAG240M's is in its own file
		found.Add(s.findSplit())
	}
	if len(found) == 0 {
		found.Add(s.readShape())
		if s.keep && s.types != nil {
			s.types.Typed(&s.sh, s.sh.Reading["labelled_type"], s.triples())
		}
	}
	if err := found.Err(); err != nil {
		return nil, err
	}
	if len(s.sh.Reading) == 0 {
		s.sh.Reading = nil
	}
	return s, nil
}

// list is a set that lists its nodes.
func list(name string, open func() (matrix.Matrix, error)) tables.Set {
	return tables.Set{Table: tables.Table{Name: name, Open: open}, Kind: tables.List}
}

func (s *source) raw(name ...string) string {
	return filepath.Join(append([]string{s.dir, "raw"}, name...)...)
}

// dropEdgeData notes files of data of edges in directories beside their ends, but for a given one.
func (s *source) dropEdgeData(but string, dirs ...string) error {
	var data []string
	for _, dir := range dirs {
		names, err := s.fs.List(dir)
		if err != nil {
			return fmt.Errorf("list %s: %w", dir, err)
		}
		data = append(data, importer.EdgeData(names, but)...)
	}
	s.sh.DropEdgeData(filepath.Dir(dirs[0]), data)
	return nil
}

func (s *source) findSplit() error {
	name := s.task
	dir := filepath.Join(s.dir, "split")
	names, err := s.fs.List(dir)
	if err != nil {
		return fault.New(fault.ErrInput, "%s is missing", dir)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, ".") })
	switch {
	case name != "" && !slices.Contains(names, name):
		return fault.New(fault.ErrInput, "%s has no split %q; it has %s", dir, name, strings.Join(names, ", "))
	case name != "":
		s.sh.Reading["task"] = name
	case len(names) == 0:
		return fault.New(fault.ErrInput, "%s is empty", dir)
	case len(names) > 1:
		return fault.New(fault.ErrInput, "%s has several splits (%s): choose one with --task", dir, strings.Join(names, ", "))
	default:
		name = names[0]
	}
	dir = filepath.Join(dir, name)
	if t := s.sh.Reading["labelled_type"]; t != "" && exists(s.fs, filepath.Join(dir, t)) {
		dir = filepath.Join(dir, t)
	}
	var missing importer.Problems
	for i, set := range dataset.SplitNames {
		name := filepath.Join(dir, set+".csv.gz")
		s.splits[i] = list(name, func() (matrix.Matrix, error) { return s.column(name) })
		s.files = append(s.files, name)
		if !exists(s.fs, name) {
			missing.Add(fault.New(fault.ErrInput, "%s is missing", name))
		}
	}
	return missing.Err()
}

// readShape looks at the features and the labels.
func (s *source) readShape() (err error) {
	features := s.feat
	if features == nil {
		features = s.edge
	}
	if features == nil {
		return fault.New(fault.ErrInput, "%s has neither node features nor edge features", s.dir)
	}
	for _, r := range s.rels {
		s.sh.Edges = importer.AddEdges(s.sh.Edges, r.Edges)
	}
	if err := importer.With(features, func(m matrix.Matrix) error {
		s.sh.Dim, s.sh.DType, s.sh.Features = m.Columns(), dtype.Float32, m.Name()
		if m.Half() {
			s.sh.DType = dtype.Float16
		}
		if n := m.Rows(); s.feat != nil && n >= 0 && n != s.count {
			return fault.New(fault.ErrInput, "%s has features of %d nodes, but there are %d nodes", m.Name(), n, s.count)
		}
		return nil
	}); err != nil {
		return err
	}
	if s.feat == nil {
		s.sh.Held = s.sh.Nodes * int64(s.sh.Dim*4+4)
		s.sh.Notes = append(s.sh.Notes, "nodes have no features: each gets the mean of the features of its incoming edges")
	}
	return s.label.LookAtLabels(&s.sh, s.count)
}

func (s *source) Shape() importer.Shape { return s.sh }

func (s *source) Files() []string {
	files := slices.Clone(s.files)
	slices.Sort(files) // archives hold several of these
	return slices.Compact(files)
}

func (s *source) CountEdges(map[string]int64) int64 { return s.sh.Edges }

func (s *source) Labels(ctx context.Context, l *importer.Labelling) error {
	of := stream.Span{First: s.first, Count: s.count}
	if err := s.label.ReadLabels(ctx, l, s.sh.Multi, of); err != nil {
		return err
	}
	for i := range s.splits {
		if err := s.splits[i].Read(ctx, l, uint8(i+1), of, 0); err != nil {
			return err
		}
	}
	return nil
}

// noteFeatures notes node types that have features beside the type with labels.
func (s *source) noteFeatures(kinds []string) {
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(name string) bool { return name == s.sh.Reading["labelled_type"] })
	slices.Sort(kinds)
	if s.keep && len(kinds) > 0 {
		s.sh.Notes = append(s.sh.Notes, fmt.Sprintf("%s: features of the node types %.200s are not imported: only the type with labels has some", s.dir, strings.Join(kinds, ", ")))
	}
}

func (s *source) triples() (list [][3]string) {
	for i := range s.rels {
		list = append(list, s.rels[i].Triple)
	}
	return list
}

// Relation implements importer.TypedSource.
func (s *source) Relation(ctx context.Context, relation int, add func(dst, src []int64) error) error {
	return s.rels[relation].Read(ctx, add)
}

func (s *source) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	for _, r := range s.rels {
		if err := r.Read(ctx, add); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) Features(first int64) (importer.RowStream, error) {
	if s.feat == nil {
		if s.mean == nil {
			if err := s.computeMeans(); err != nil {
				return nil, err
			}
		}
		return &held{s.mean[first*int64(s.sh.Dim):]}, nil
	}
	return stream.RowsOfType(s.sh.Dim, stream.Span{First: s.first, Count: s.count}, first, func(first int64) (importer.RowStream, error) {
		m, err := s.feat()
		if err != nil {
			return nil, err
		}
		return matrix.NewRows(m, s.count, first)
	}), nil
}

func (s *source) computeMeans() error {
	dim := s.sh.Dim
	mean, degree := make([]float32, s.sh.Nodes*int64(dim)), make([]float32, s.sh.Nodes)
	err := importer.With(s.edge, func(m matrix.Matrix) error {
		row := make([]float32, importer.Chunk*dim)
		err := s.Edges(context.Background(), func(dst, src []int64) error {
			n, err := m.Floats(row[:len(dst)*dim])
			if err == nil && n != len(dst)*dim {
				err = fault.New(fault.ErrInput, "%s: truncated: it ends before the row of the last edge", m.Name())
			}
			if err != nil {
				return err
			}
			for i := range dst {
				ends := [2]int64{dst[i], src[i]}
				of := ends[:1]
				if s.both {
					of = ends[:]
				}
				for _, v := range of {
					degree[v]++
					sum := mean[v*int64(dim):][:dim]
					for j, x := range row[i*dim:][:dim] {
						sum[j] += x
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return m.End()
	})
	if err != nil {
		return err
	}
	for v, d := range degree {
		if d > 0 {
			for j := range dim {
				mean[v*dim+j] /= d
			}
		}
	}
	s.mean = mean
	return nil
}

// held yields rows that are in memory.
type held struct{ rows []float32 }

func (h *held) Next(values []float32) error {
	h.rows = h.rows[copy(values, h.rows):]
	return nil
}

func (h *held) Close() error { return nil }
