package ogb

import (
	"errors"
	"strings"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/internal/fault"
)

// member opens an array of an archive.
func (s *source) member(name, key string) func() (matrix.Matrix, error) {
	s.files = append(s.files, name)
	return func() (matrix.Matrix, error) {
		return matrix.Open(s.fs, matrix.Spec{Path: name, Key: key})
	}
}

// edgeArray returns the edges of an array of shape (2, E) in an archive.
func (s *source) edgeArray(name, key string) (relation, error) {
	open := func() (*npz.Array, error) { return npz.OpenMember(s.fs, name, key) }
	r, rowMajor, err := s.twoRows(name, open)
	if r.Name = name + ": " + key; rowMajor {
		r.row = open
	}
	return r, err
}

// twoRows returns the edges of an array of shape (2, E) in a file, and whether the array is row-major.
func (s *source) twoRows(name string, open func() (*npz.Array, error)) (r relation, rowMajor bool, err error) {
	s.files = append(s.files, name)
	r.Name, r.Open = name, func() (stream.Pairs, error) { return stream.TwoRows(open) }
	r.Edges, rowMajor, err = stream.CountTwoRows(open)
	return r, rowMajor, err
}

// Glance is the Glancer's: of an array of two rows, the second is behind all of the first.
func (s *source) Glance() (bool, error) {
	if len(s.rels) == 0 || s.rels[0].row == nil {
		return false, nil
	}
	r := s.rels[0]
	a, err := r.row()
	if err != nil {
		return false, err
	}
	return true, stream.CheckSources(a, r.Src.Count, func(src int64) error {
		return fault.New(fault.ErrInput, "%s: an edge from %d is out of range: there are %d source nodes and %d destination nodes", r.Name, src, r.Src.Count, r.Dst.Count)
	})
}

// one reads an array of one number.
func one(z *npz.Archive, key string) (int64, error) {
	v, err := z.All(key, 1)
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

func (s *source) openBinary() (err error) {
	name := s.raw("data.npz")
	z, err := npz.OpenArchive(s.fs, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	n, err := one(z, "num_nodes_list")
	if err != nil {
		return err
	}
	if err := s.setNodes(n); err != nil {
		return err
	}
	r, err := s.edgeArray(name, "edge_index")
	if err != nil {
		return err
	}
	e, err := one(z, "num_edges_list")
	if err != nil {
		return err
	}
	if e != r.Edges {
		return fault.New(fault.ErrInput, "%s: num_edges_list says %d edges, but edge_index has %d", name, e, r.Edges)
	}
	r.Src = stream.Span{First: 0, Count: n}
	r.Dst = r.Src
	s.rels = []relation{r}
	used := ""
	switch {
	case z.Has("node_feat"):
		s.feat = s.member(name, "node_feat")
	case z.Has("edge_feat"):
		used, s.edge = "edge_feat", s.member(name, "edge_feat")
	}
	s.sh.DropEdgeData(name, importer.EdgeData(z.Keys(), used))
	s.label.Open = s.member(s.raw("node-label.npz"), "node_label")
	return nil
}

func (s *source) openTypedBinary() (err error) {
	name := s.raw("num_nodes_dict.npz")
	s.files = append(s.files, name)
	z, err := npz.OpenArchive(s.fs, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	var types []stream.Type
	for _, key := range z.Keys() {
		n, err := one(z, key)
		if err != nil {
			return err
		}
		types = append(types, stream.Type{Name: key, Count: n})
	}
	labels := s.raw("node-label.npz")
	lz, err := npz.OpenArchive(s.fs, labels)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lz.Close()) }()
	if len(lz.Keys()) != 1 {
		return fault.New(fault.ErrInput, "%s has labels of %d node types (%s) instead of one", labels, len(lz.Keys()), strings.Join(lz.Keys(), ", "))
	}
	labelled := lz.Keys()[0]
	all, err := s.setTypes(types, labelled)
	if err != nil {
		return err
	}
	name = s.raw("edge_index_dict.npz")
	ez, err := npz.OpenArchive(s.fs, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ez.Close()) }()
	for _, key := range ez.Keys() {
		r, err := s.edgeArray(name, key)
		if err != nil {
			return err
		}
		if err := s.addRelation(key, all, r); err != nil {
			return err
		}
	}
	s.label.Open = s.member(labels, labelled)
	features := s.raw("node_feat_dict.npz")
	s.feat = s.member(features, labelled)
	if s.keep {
		if err := importer.With(func() (*npz.Archive, error) { return npz.OpenArchive(s.fs, features) }, func(z *npz.Archive) error {
			s.noteFeatures(z.Keys())
			return nil
		}); err != nil {
			return err
		}
	}
	return s.dropEdgeData("", s.raw())
}
