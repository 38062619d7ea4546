package graphbolt

import (
	"context"
	"errors"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/csr"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/pickle"
	"diskgnn/dataset/importer/internal/torchfile"
)

// tensors returns what a FusedCSCSamplingGraph consists of: the state of the object that it wraps
// has a dictionary of tensors by name.
func tensors(root any) (*pickle.Dict, error) {
	no := bad("it holds no FusedCSCSamplingGraph")
	graph, ok := root.(*pickle.Object)
	if !ok || graph.Class.Name != "FusedCSCSamplingGraph" {
		return nil, no
	}
	fields, ok := graph.State.(*pickle.Dict)
	if !ok {
		return nil, no
	}
	v, _ := fields.Get("_c_csc_graph")
	wrapped, ok := v.(*pickle.Object)
	if !ok {
		return nil, no
	}
	state, ok := wrapped.State.(*pickle.Tuple)
	if !ok || len(state.Items) == 0 {
		return nil, no
	}
	parts, ok := state.Items[0].(*pickle.Dict)
	if !ok {
		return nil, no
	}
	v, _ = parts.Get("independent_tensors")
	d, ok := v.(*pickle.Dict)
	if !ok {
		return nil, no
	}
	for _, key := range []string{"node_type_offset", "type_per_edge"} {
		if v, _ := d.Get(key); torchfile.IsArray(v) {
			return nil, bad("a graph of several types (it has %s): this version reads graphs of one type", key)
		}
	}
	return d, nil
}

// openTensor opens one of the graph's tensors.
func (s *source) openTensor(key string) (*npz.Array, error) {
	return torchfile.Array(s.fs, s.path(*s.topo), key, func(root any) (any, error) {
		d, err := tensors(root)
		if err != nil {
			return nil, err
		}
		v, ok := d.Get(key)
		if !ok {
			return nil, bad("its graph has no %s", key)
		}
		return v, nil
	})
}

// readTopology reads the shapes of a preprocessed graph.
func (s *source) readTopology() (err error) {
	indptr, err := s.openTensor("indptr")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, indptr.Close()) }()
	if err := indptr.Vector(-1); err != nil {
		return err
	}
	if s.sh.Nodes = indptr.Shape[0] - 1; s.sh.Nodes < 1 {
		return indptr.Fail(bad("a graph of %d nodes", s.sh.Nodes))
	}
	if err := dataset.CheckNodes(s.path(*s.topo), s.sh.Nodes); err != nil {
		return err
	}
	indices, err := s.openTensor("indices")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, indices.Close()) }()
	s.sh.Edges = min(indices.Count(), importer.MaxEdges+1)
	return indices.Vector(-1)
}

// readColumns reads the edges of a preprocessed graph.
func (s *source) readColumns(ctx context.Context, add func(dst, src []int64) error) (err error) {
	indptr, err := s.openTensor("indptr")
	if err != nil {
		return err
	}
	indices, err := s.openTensor("indices")
	if err != nil {
		return errors.Join(err, indptr.Close())
	}
	columns, err := csr.New(indptr, indices, s.sh.Nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, columns.Close()) }()
	return columns.Edges(ctx, add)
}
