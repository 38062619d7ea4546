// Package dglgraph reads graphs of DGL from files of torch.save: GraphBolt's FusedCSCSamplingGraph,
// which is in compressed columns, and a DGLGraph that lists its edges, as formats("coo") makes it.
// Both have nodes of one type.
package dglgraph

import (
	"context"
	"errors"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/pickle"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/torchfile"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Graph is a graph in a file. The file is open only during Each.
type Graph struct {
	fs      vfs.FS
	name    string
	columns bool // in compressed columns
	// Nodes is the number of nodes, or 0 if the file does not have it.
	Nodes int64
	Edges int64 // number of edges; importer.MaxEdges + 1 also stands for more
	// Dropped are the names of the edge data in the file, which is not imported. DGL's internal
	// columns, with names that begin with an underscore, are left out.
	Dropped []string
}

func bad(format string, args ...any) error { return fault.New(fault.ErrInput, format, args...) }

// OpenFused opens a file with a FusedCSCSamplingGraph and reads its shapes.
func OpenFused(fsys vfs.FS, name string) (_ *Graph, err error) {
	g := &Graph{fs: fsys, name: name, columns: true}
	indptr, err := g.part("indptr")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, indptr.Close()) }()
	if err := indptr.Vector(-1); err != nil {
		return nil, err
	}
	if g.Nodes = indptr.Shape[0] - 1; g.Nodes < 1 {
		return nil, indptr.Fail(bad("the graph has %d nodes; at least 1 is needed", g.Nodes))
	}
	if err := dataset.CheckNodes(name, g.Nodes); err != nil {
		return nil, err
	}
	indices, err := g.part("indices")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, indices.Close()) }()
	g.Edges = importer.AddEdges(0, indices.Count())
	if err := g.findData(); err != nil {
		return nil, err
	}
	return g, indices.Vector(-1)
}

// findData lists the attributes of the edges of a FusedCSCSamplingGraph.
func (g *Graph) findData() error {
	f, err := torchfile.Open(g.fs, g.name)
	if err != nil {
		return err
	}
	parts, err := fusedParts(f.Root())
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	v, _ := parts.Get("edge_attributes")
	if attributes, ok := torchfile.Dict(v); ok {
		for _, k := range attributes.Keys {
			if name, ok := k.(string); ok && !strings.HasPrefix(name, "_") {
				g.Dropped = append(g.Dropped, name)
			}
		}
	}
	return nil
}

// Open opens a file with a FusedCSCSamplingGraph or a DGLGraph and reads its shapes.
func Open(fsys vfs.FS, name string) (_ *Graph, err error) {
	f, err := torchfile.Open(fsys, name)
	if err != nil {
		return nil, err
	}
	o, _ := f.Root().(*pickle.Object)
	if err := f.Close(); err != nil {
		return nil, err
	}
	if o == nil || o.Class.Name != "DGLGraph" {
		return OpenFused(fsys, name)
	}
	g := &Graph{fs: fsys, name: name}
	src, err := g.part("source")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := g.part("destination")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	g.Edges = importer.AddEdges(0, src.Count())
	return g, errors.Join(src.Vector(-1), dst.Vector(src.Count()))
}

func (g *Graph) part(key string) (*npz.Array, error) {
	return torchfile.Array(g.fs, g.name, key, func(root any) (any, error) {
		if !g.columns {
			parts, err := listed(root)
			if err != nil {
				return nil, err
			}
			return parts[map[string]int{"source": 0, "destination": 1}[key]], nil
		}
		d, err := fused(root)
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

var errNotFused = bad("it does not contain a FusedCSCSamplingGraph")

// fusedParts returns the state of the object that a FusedCSCSamplingGraph wraps.
func fusedParts(root any) (*pickle.Dict, error) {
	no := errNotFused
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
	return parts, nil
}

// fused returns the tensors by name that a FusedCSCSamplingGraph consists of.
func fused(root any) (*pickle.Dict, error) {
	parts, err := fusedParts(root)
	if err != nil {
		return nil, err
	}
	v, _ := parts.Get("independent_tensors")
	d, ok := v.(*pickle.Dict)
	if !ok {
		return nil, errNotFused
	}
	for _, key := range []string{"node_type_offset", "type_per_edge"} {
		if v, _ := d.Get(key); torchfile.IsArray(v) {
			return nil, bad("its graph has several types (it has %s): this version reads graphs of one type", key)
		}
	}
	return d, nil
}

// listed returns the sources and the destinations of a DGLGraph: the state of the states of the
// object that it wraps is (2, description, tensors), two for each type of edges that are listed.
func listed(root any) ([]any, error) {
	no := bad("it does not contain a DGLGraph")
	graph, ok := root.(*pickle.Object)
	if !ok {
		return nil, no
	}
	fields, ok := graph.State.(*pickle.Dict)
	if !ok {
		return nil, no
	}
	for _, key := range []string{"_ntypes", "_etypes"} {
		v, _ := fields.Get(key)
		if names, ok := v.(*pickle.List); !ok || len(names.Items) != 1 {
			return nil, bad("its DGLGraph has several types: this version reads graphs of one type")
		}
	}
	v, _ := fields.Get("_graph")
	index, ok := v.(*pickle.Object)
	if !ok {
		return nil, no
	}
	states, ok := index.State.(*pickle.Object) // made by _new_object of its class
	if !ok || len(states.Args) != 1 || states.Args[0] != (pickle.Global{Module: "dgl.heterograph_index", Name: "HeteroPickleStates"}) {
		return nil, no
	}
	state, ok := states.State.(*pickle.Tuple)
	if !ok || len(state.Items) != 3 || state.Items[0] != int64(2) {
		return nil, no
	}
	tensors, ok := state.Items[2].(*pickle.List)
	if !ok {
		return nil, no
	}
	if len(tensors.Items) != 2 {
		return nil, bad(`its DGLGraph has %d tensors instead of 2, sources and destinations: save graph.formats("coo")`, len(tensors.Items))
	}
	return tensors.Items, nil
}

// Each calls add for all edges, in several pieces: edge i of a piece is from src[i] to dst[i]. The
// slices are valid during the call. A node id that is not below nodes is an error of kind
// fault.ErrInput.
func (g *Graph) Each(ctx context.Context, nodes int64, add func(dst, src []int64) error) (err error) {
	pairs, err := g.pairs(nodes)
	if err != nil {
		return err
	}
	name := g.name
	if g.columns {
		name += ": indices"
	}
	return errors.Join(stream.EachPair(ctx, name, pairs, nodes, add), pairs.Close())
}

// pairs opens the edges.
func (g *Graph) pairs(nodes int64) (stream.Pairs, error) {
	if !g.columns {
		return stream.TwoVectors(g.part, "source", "destination")
	}
	indptr, err := g.part("indptr")
	if err != nil {
		return nil, err
	}
	indices, err := g.part("indices")
	if err != nil {
		return nil, errors.Join(err, indptr.Close())
	}
	columns, err := stream.NewCompressedRows(indptr, indices, nodes)
	if err != nil {
		return nil, err
	}
	return columns.Pairs(true), nil
}
