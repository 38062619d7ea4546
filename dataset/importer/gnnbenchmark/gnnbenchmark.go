// Package gnnbenchmark imports graphs in the layout of gnn-benchmark, .npz archives.
package gnnbenchmark

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Name is the name of the format.
const Name = "gnn-benchmark"

// source is a graph in the layout of gnn-benchmark (Shchur et al., 2018):
// NAME.npz with the adjacency as adj_{data,indices,indptr,shape}, the features as
// attr_{data,indices,indptr,shape} or dense as attr_matrix, and labels, a class or a
// column per class; beside it NAME_split.npz with the node ids train, valid and test. Edges have no
// direction, whether both are stored or one.
type source struct {
	fs           vfs.FS
	graph, split string
	sh           importer.Shape
	dense        bool
}

// Format reads gnn-benchmark's archives.
var Format = importer.Format{Name: Name, What: "an npz file with adj_*, attr_* and labels, and its NAME_split.npz beside it", Takes: []string{"labels-as"}, Detect: detect, Open: open}

func detect(fsys vfs.FS, sources []string) string {
	if len(sources) != 1 || !strings.HasSuffix(sources[0], ".npz") {
		return ""
	}
	z, err := npz.OpenArchive(fsys, sources[0])
	if err != nil {
		return ""
	}
	defer func() { _ = z.Close() }() // it was only looked at
	if z.Has("adj_shape") {
		return "it has an array adj_shape"
	}
	return ""
}

func open(fsys vfs.FS, sources []string, o *importer.Reading) (_ importer.Source, err error) {
	name, err := importer.One(sources)
	if err != nil {
		return nil, err
	}
	base, ok := strings.CutSuffix(name, ".npz")
	if !ok {
		return nil, fault.New(fault.ErrInput, "%s: the format %s is a file NAME.npz with the arrays adj_*, attr_* and labels", name, Name)
	}
	s := &source{fs: fsys, graph: name, split: base + "_split.npz"}
	if _, err := fsys.Stat(s.split); errors.Is(err, fs.ErrNotExist) || !o.Labelled() {
		s.split = ""
	} else if err != nil {
		return nil, err
	}
	z, err := npz.OpenArchive(fsys, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	if err := s.readShape(z, o.Labelled()); err != nil {
		return nil, err
	}
	return s, nil
}

// readShape reads the small arrays and the headers of the others.
func (s *source) readShape(z *npz.Archive, labelled bool) error {
	adj, err := z.All("adj_shape", 2)
	if err != nil {
		return err
	}
	if adj[0] != adj[1] || adj[0] < 1 {
		return fault.New(fault.ErrInput, "%s: adj_shape: the adjacency matrix is %d × %d, not square with at least 1 node", s.graph, adj[0], adj[1])
	}
	s.sh = importer.Shape{Nodes: adj[0], DType: dtype.Float32, Undirected: true, Features: s.graph, NoSplit: s.split == ""}
	if err := dataset.CheckNodes(s.graph, s.sh.Nodes); err != nil {
		return err
	}
	if err := z.Header("adj_indices", func(a *npz.Array) error {
		s.sh.Edges = importer.AddEdges(0, a.Count())
		return a.Vector(-1)
	}); err != nil {
		return err
	}
	data := importer.EdgeData(z.Keys())
	if z.Weighted("adj_data") {
		data = append(data, "adj_data")
	}
	s.sh.DropEdgeData(s.graph, data)
	if labelled {
		if err := s.readLabelShape(z); err != nil {
			return err
		}
	}
	s.dense = !z.Has("attr_shape")
	features := "attr_data"
	if s.dense {
		features = "attr_matrix"
	} else {
		attr, err := z.All("attr_shape", 2)
		if err != nil {
			return err
		}
		if attr[0] != s.sh.Nodes {
			return fault.New(fault.ErrInput, "%s: attr_shape: there are features of %d nodes, but the graph has %d nodes", s.graph, attr[0], s.sh.Nodes)
		}
		if err := s.setDim(attr[1]); err != nil {
			return err
		}
	}
	return z.Header(features, func(a *npz.Array) error {
		if a.Kind == 'f' && a.Size == 2 {
			s.sh.DType = dtype.Float16
		}
		if !s.dense {
			return nil
		}
		if len(a.Shape) != 2 || a.Shape[0] != s.sh.Nodes || a.Fortran {
			return a.Fail(fault.New(fault.ErrInput, "its shape is %s instead of (%d, dim), row-major", a.ShapeString(), s.sh.Nodes))
		}
		return s.setDim(a.Shape[1])
	})
}

func (s *source) setDim(dim int64) error {
	if dim < 1 || dim > dataset.MaxDim {
		return fault.New(fault.ErrInput, "%s: feature rows have %d elements instead of 1 to %d", s.graph, dim, dataset.MaxDim)
	}
	s.sh.Dim = int(dim)
	return nil
}

func (s *source) Shape() importer.Shape { return s.sh }

func (s *source) CountEdges(map[string]int64) int64 { return s.sh.Edges }

func (s *source) Files() []string {
	if s.split == "" {
		return []string{s.graph}
	}
	return []string{s.graph, s.split}
}

func (s *source) Labels(ctx context.Context, l *importer.Labelling) (err error) {
	z, err := npz.OpenArchive(s.fs, s.graph)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	if s.sh.Multi {
		err = z.Header("labels", func(a *npz.Array) error { return npz.EachLabelRow(ctx, a, s.sh.Classes, l.Row) })
	} else {
		err = z.Header("labels", func(a *npz.Array) error { return npz.EachLabel(ctx, a, s.sh.Nodes, l) })
	}
	if err != nil {
		return err
	}
	if s.split == "" {
		return nil
	}
	splits, err := npz.OpenArchive(s.fs, s.split)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, splits.Close()) }()
	for i, name := range dataset.SplitNames {
		if err := s.each(ctx, splits, name, func(_, v int64) error { return l.Assign(v, uint8(i+1)) }); err != nil {
			return err
		}
	}
	return nil
}

// each calls do for every element of a vector.
func (s *source) each(ctx context.Context, z *npz.Archive, key string, do func(i, v int64) error) error {
	return z.Header(key, func(a *npz.Array) error {
		if err := a.Vector(-1); err != nil {
			return err
		}
		return a.Each(ctx, do)
	})
}

// Edges reads the adjacency: row r's entries are its edges.
func (s *source) Edges(ctx context.Context, add func(dst, src []int64) error) (err error) {
	z, err := npz.OpenArchive(s.fs, s.graph)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	rows, err := openRows(z, "adj", s.sh.Nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	dst := make([]int64, importer.Chunk)
	return rows.Each(ctx, func(v int64, src []int64) error {
		for i, u := range src {
			if uint64(u) >= uint64(s.sh.Nodes) {
				return rows.Indices.Fail(fault.New(fault.ErrInput, "the edge between %d and %d is out of range: the graph has %d nodes", v, u, s.sh.Nodes))
			}
			dst[i] = v
		}
		return add(dst[:len(src)], src)
	})
}

func (s *source) Features(first int64) (importer.RowStream, error) {
	z, err := npz.OpenArchive(s.fs, s.graph)
	if err != nil {
		return nil, err
	}
	if s.dense {
		a, err := z.Array("attr_matrix")
		if err != nil {
			return nil, errors.Join(err, z.Close())
		}
		return npz.NewRows(a, z, first, s.sh.Dim)
	}
	r := &sparseRows{z: z, dim: s.sh.Dim}
	if r.rows, err = openRows(z, "attr", s.sh.Nodes); err != nil {
		return nil, errors.Join(err, z.Close())
	}
	if r.data, err = z.Array("attr_data"); err != nil {
		return nil, errors.Join(err, r.rows.Close(), z.Close())
	}
	if len(r.data.Shape) != 1 || r.data.Shape[0] != r.rows.Indices.Count() {
		err := fault.New(fault.ErrInput, "%s: attr_data has the shape %s, but attr_indices has the shape %s", z.Name(), r.data.ShapeString(), r.rows.Indices.ShapeString())
		return nil, errors.Join(err, r.Close())
	}
	if err := r.skip(first); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// readLabelShape looks whether the labels have a column per class.
func (s *source) readLabelShape(z *npz.Archive) error {
	return z.Header("labels", func(a *npz.Array) (err error) {
		if !npz.MultiLabel(a) {
			return nil
		}
		if a.Shape[0] != s.sh.Nodes {
			return a.Fail(fault.New(fault.ErrInput, "there are labels of %d nodes, but the graph has %d nodes", a.Shape[0], s.sh.Nodes))
		}
		s.sh.Multi = true
		s.sh.Classes, err = npz.LabelClasses(a)
		return err
	})
}

// openRows opens the matrix that an archive has as PREFIX_indptr and PREFIX_indices.
func openRows(z *npz.Archive, prefix string, rows int64) (*stream.CompressedRows, error) {
	indptr, err := z.Array(prefix + "_indptr")
	if err != nil {
		return nil, err
	}
	indices, err := z.Array(prefix + "_indices")
	if err != nil {
		return nil, errors.Join(err, indptr.Close())
	}
	return stream.NewCompressedRows(indptr, indices, rows)
}

// sparseRows makes dense feature rows of sparse ones.
type sparseRows struct {
	z       *npz.Archive
	rows    *stream.CompressedRows
	data    *npz.Array
	dim     int
	columns [importer.Chunk]int64
	values  [importer.Chunk]float32
}

func (r *sparseRows) Close() error { return errors.Join(r.data.Close(), r.rows.Close(), r.z.Close()) }

// skip passes over the first rows, of which none was read.
func (r *sparseRows) skip(rows int64) error {
	for range rows {
		if _, err := r.rows.Next(); err != nil {
			return err
		}
	}
	if err := r.rows.Indices.Skip(r.rows.Last); err != nil {
		return err
	}
	return r.data.Skip(r.rows.Last)
}

// Next implements importer.RowStream. Entries for the same place add up, as in SciPy.
func (r *sparseRows) Next(values []float32) error {
	clear(values)
	for ; len(values) > 0; values = values[r.dim:] {
		left, err := r.rows.Next()
		if err != nil {
			return err
		}
		for left > 0 {
			n := min(left, importer.Chunk)
			if err := r.rows.Indices.Ints(r.columns[:n]); err != nil {
				return err
			}
			if err := r.data.Floats(r.values[:n]); err != nil {
				return err
			}
			for i, j := range r.columns[:n] {
				if uint64(j) >= uint64(r.dim) {
					return r.rows.Indices.Fail(fault.New(fault.ErrInput, "column %d is out of range: there are %d columns", j, r.dim))
				}
				values[j] += r.values[i]
			}
			left -= n
		}
	}
	if r.rows.Ended() {
		return errors.Join(r.data.End(), r.rows.Indices.End(), r.rows.Indptr.End())
	}
	return nil
}
