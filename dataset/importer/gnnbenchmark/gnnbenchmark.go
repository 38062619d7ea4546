// Package gnnbenchmark imports graphs in the layout of gnn-benchmark (Shchur et al., 2018), .npz
// archives: NAME.npz with the adjacency as adj_{data,indices,indptr,shape}, the features as
// attr_{data,indices,indptr,shape} or dense as attr_matrix, and labels, a class or a column per class;
// beside it NAME_split.npz with the node ids train, valid and test. Edges have no direction, whether
// both are stored or one.
package gnnbenchmark

import (
	"errors"
	"io/fs"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/tables"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Name is the name of the format.
const Name = "gnn-benchmark"

// Format reads gnn-benchmark's archives.
var Format = importer.Format{Name: Name, What: "an npz file with adj_*, attr_* and labels, and its NAME_split.npz beside it", Takes: tables.Takes, Detect: detect, Open: open}

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
	s := &source{fs: fsys, name: name}
	g := tables.Graph{Shape: importer.Shape{Undirected: true}, Files: []string{name}, Labels: s.table(name, "labels")}
	split := base + "_split.npz"
	if _, err := fsys.Stat(split); err == nil && o.Labelled() {
		g.Files = append(g.Files, split)
		for i, key := range dataset.SplitNames {
			g.Sets[i] = tables.Set{Table: s.table(split, key), Kind: tables.List}
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	z, err := npz.OpenArchive(fsys, name)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.readShape(z, &g), z.Close()); err != nil {
		return nil, err
	}
	return tables.New(g, o)
}

// source is an archive with a graph.
type source struct {
	fs   vfs.FS
	name string
}

// readShape reads the small arrays, and finds the edges and the features.
func (s *source) readShape(z *npz.Archive, g *tables.Graph) error {
	adj, err := z.All("adj_shape", 2)
	if err != nil {
		return err
	}
	m := s.matrix("adj", adj)
	if g.Shape.Nodes, err = m.Nodes(); err != nil {
		return err
	}
	g.Edges = tables.Edges{Name: s.name + ": adj_indices", Open: func() (stream.Pairs, error) { return m.Pairs(true) }}
	if g.Edges.Count, err = m.Count(); err != nil {
		return err
	}
	data := importer.EdgeData(z.Keys())
	if z.Weighted("adj_data") {
		data = append(data, "adj_data")
	}
	g.Shape.DropEdgeData(s.name, data)
	features := s.table(s.name, "attr_matrix")
	if z.Has("attr_shape") {
		attr, err := z.All("attr_shape", 2)
		if err != nil {
			return err
		}
		features.Open = s.matrix("attr", attr).Matrix
	}
	g.Features = tables.Features{features}
	return nil
}

// table returns an array of an archive as a table.
func (s *source) table(archive, key string) tables.Table {
	return tables.Table{Name: archive + ": " + key, Open: func() (matrix.Matrix, error) {
		return matrix.Open(s.fs, matrix.Spec{Path: archive, Key: key})
	}}
}

// matrix returns the matrix with the arrays that begin with a prefix.
func (s *source) matrix(prefix string, shape []int64) *matrix.Sparse {
	return &matrix.Sparse{Name: s.name + ": " + prefix + "_shape", Layout: "csr", Rows: shape[0], Columns: shape[1], Data: true, Array: func(part string) (*npz.Array, error) {
		return npz.OpenMember(s.fs, s.name, prefix+"_"+part)
	}}
}
