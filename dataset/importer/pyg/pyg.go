// Package pyg imports graphs that PyTorch Geometric saved: the files processed/*.pt of its data sets,
// and graphs that were saved by themselves.
//
// Such a file is written by torch.save, whether or not the library has remembered which attributes
// belong to nodes and which to edges. It holds a tuple of a graph's attributes, of None and of the
// graph's class, or of the graph and None, or the graph alone. Attributes are tensors by name: x, a row
// of features per node; edge_index of shape (2, E), sources and destinations; y, a class per node, or a
// column per class; train_mask, val_mask and test_mask, by node. Of masks with several columns, each a
// division into sets, one is taken: see package tables. Edges are directed as they are given.
package pyg

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/pickle"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/tables"
	"diskgnn/dataset/importer/internal/torchfile"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Name is the name of the format.
const Name = "pyg"

// Format reads files of PyTorch Geometric.
var Format = importer.Format{
	Name:   Name,
	What:   "a graph that PyTorch Geometric saved: NAME.pt, or a data set's directory with processed/data.pt",
	Takes:  tables.Takes,
	Detect: detect,
	Open:   open,
}

// source is a file with a graph.
type source struct {
	fs   vfs.FS
	name string
}

// known are the files of a data set's directory, by the names that the libraries give them.
var known = []string{"processed/data.pt", "data.pt", "processed/geometric_data_processed.pt", "geometric_data_processed.pt"}

// locate returns the file that a path means.
func locate(fsys vfs.FS, name string) (string, error) {
	st, err := importer.StatFile(fsys, name)
	if err != nil || !st.IsDir() {
		return name, err
	}
	for _, k := range known {
		path := filepath.Join(name, filepath.FromSlash(k))
		if there, err := vfs.Exists(fsys, path); err != nil || there {
			return path, err
		}
	}
	if planetoid(fsys, name) {
		return "", errPlanetoid(name)
	}
	return "", bad("%s has no %s: name the file to import", name, strings.Join(known[:2], " and no "))
}

// planetoid reports whether a directory, or the directory raw in it, has Planetoid's own files: pickles
// of SciPy's matrices, which Python 2 wrote.
func planetoid(fsys vfs.FS, dir string) bool {
	for _, dir := range []string{dir, filepath.Join(dir, "raw")} {
		names, err := fsys.List(dir)
		if err == nil && slices.ContainsFunc(names, isPlanetoid) {
			return true
		}
	}
	return false
}

func isPlanetoid(name string) bool {
	return strings.HasPrefix(name, "ind.") && strings.HasSuffix(name, ".x")
}

func errPlanetoid(name string) error {
	return bad("%s has Planetoid's pickles of SciPy matrices, which cannot be read: load them once with torch_geometric.datasets.Planetoid, and import the processed/data.pt that it writes", name)
}

func detect(fsys vfs.FS, sources []string) string {
	if len(sources) != 1 {
		return ""
	}
	if planetoid(fsys, sources[0]) {
		return "it has Planetoid's files"
	}
	name, err := locate(fsys, sources[0])
	if err != nil {
		return ""
	}
	if st, err := fsys.Stat(name); err != nil || st.IsDir() || filepath.Ext(name) != ".pt" {
		return ""
	}
	return "it is a file of torch, " + filepath.Base(name)
}

func bad(format string, args ...any) error { return fault.New(fault.ErrInput, format, args...) }

func open(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
	name, err := importer.One(sources)
	if err != nil {
		return nil, err
	}
	s := &source{fs: fsys}
	if s.name, err = locate(fsys, name); err != nil {
		return nil, err
	}
	g, err := s.graph(o.Labelled())
	if err != nil {
		return nil, err
	}
	return tables.New(g, o)
}

// attributes returns the attributes of the saved graph.
func attributes(root any) (*pickle.Dict, error) {
	v := root
	if t, ok := root.(*pickle.Tuple); ok && (len(t.Items) == 2 || len(t.Items) == 3) {
		v = t.Items[0]
		if class, ok := t.Items[len(t.Items)-1].(pickle.Global); ok && class.Name == "HeteroData" {
			return nil, errTypes
		}
		if t.Items[1] != nil {
			return nil, bad("it has several graphs instead of one")
		}
	}
	if o, ok := v.(*pickle.Object); ok {
		switch o.Class.Name {
		case "HeteroData":
			return nil, errTypes
		case "Data":
			return fields(o)
		}
	}
	if d, ok := torchfile.Dict(v); ok {
		if _, ok := d.Get("_global_store"); ok {
			return nil, errTypes
		}
		return d, nil
	}
	if list, ok := v.(*pickle.List); ok {
		return nil, bad("it contains a list of %d values, not a graph of PyTorch Geometric: save one graph by itself", len(list.Items))
	}
	return nil, bad("it does not contain a graph of PyTorch Geometric")
}

var errTypes = bad("its graph has several types (HeteroData): this version reads graphs of one type (Data)")

// fields returns the attributes of a Data object: the attributes of its store or, before release 2.0,
// its own.
func fields(data *pickle.Object) (*pickle.Dict, error) {
	own, ok := data.State.(*pickle.Dict)
	if !ok {
		return nil, bad("its Data object has no attributes")
	}
	v, ok := own.Get("_store")
	if !ok {
		return own, nil
	}
	if store, ok := v.(*pickle.Object); ok {
		if state, ok := store.State.(*pickle.Dict); ok {
			if v, _ := state.Get("_mapping"); v != nil {
				if d, ok := torchfile.Dict(v); ok {
					return d, nil
				}
			}
		}
	}
	return nil, bad("its Data object has no attributes")
}

// array opens an attribute that is a tensor.
func (s *source) array(key string) (*npz.Array, error) {
	return torchfile.Array(s.fs, s.name, key, func(root any) (any, error) {
		d, err := attributes(root)
		if err != nil {
			return nil, err
		}
		v, ok := d.Get(key)
		if !ok || v == nil {
			var names []string
			for _, k := range d.Keys {
				if name, ok := k.(string); ok {
					names = append(names, name)
				}
			}
			return nil, bad("its graph has no %s; it has %.200s", key, strings.Join(names, ", "))
		}
		return v, nil
	})
}

// maskNames are the sets' attributes, by split.
var maskNames = []string{"train_mask", "val_mask", "test_mask"}

// graph finds the graph's tables.
func (s *source) graph(labelled bool) (g tables.Graph, err error) {
	g = tables.Graph{Files: []string{s.name}, Features: s.table("x"), Labels: s.table("y")}
	if g.Shape.Held, err = torchfile.Held(s.fs, s.name); err != nil {
		return g, err
	}
	names, err := s.names()
	if err != nil {
		return g, err
	}
	s.noteUnread(&g.Shape, names, labelled)
	for i, name := range maskNames {
		if slices.Contains(names, name) {
			g.Sets[i] = tables.Set{Table: s.table(name), Kind: tables.Mask}
		}
	}
	g.Edges, err = s.edges()
	return g, err
}

// table returns an attribute as a table.
func (s *source) table(key string) tables.Table {
	return tables.Table{Name: s.name + ": " + key, Open: func() (matrix.Matrix, error) {
		a, err := s.array(key)
		if err != nil {
			return nil, err
		}
		return matrix.FromArray(a)
	}}
}

// edges looks at the edges.
func (s *source) edges() (tables.Edges, error) {
	e := tables.Edges{Name: s.name + ": edge_index", Open: func() (stream.Pairs, error) {
		a, err := s.array("edge_index")
		if err != nil {
			return nil, err
		}
		if a.Fortran { // source, destination, source, …
			return stream.Interleave(npz.NewInts(a)), nil
		}
		if err := a.Close(); err != nil {
			return nil, err
		}
		return stream.TwoRows(func() (*npz.Array, error) { return s.array("edge_index") })
	}}
	a, err := s.array("edge_index")
	if err != nil {
		return e, err
	}
	if !a.Integer() || len(a.Shape) != 2 || a.Shape[0] != 2 {
		err = a.Fail(bad("edges must be integers of shape (2, E), not %s of shape %s", a.Type(), a.ShapeString()))
	} else {
		e.Count = a.Shape[1]
	}
	return e, errors.Join(err, a.Close())
}

// names returns the names of the attributes that are not None.
func (s *source) names() (names []string, err error) {
	f, err := torchfile.Open(s.fs, s.name)
	if err != nil {
		return nil, err
	}
	d, err := attributes(f.Root())
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	for i, k := range d.Keys {
		if name, ok := k.(string); ok && d.Values[i] != nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// noteUnread notes the attributes that are data of edges and, if splits are read, the attributes that
// seem to be splits by names of other programs.
func (s *source) noteUnread(sh *importer.Shape, names []string, labelled bool) {
	sh.DropEdgeData(s.name, importer.EdgeData(names))
	if others := otherSets(names); labelled && len(others) > 0 {
		sh.OtherSets = fmt.Sprintf("not read: %.200s (a split is %s)", strings.Join(others, ", "), strings.Join(maskNames, ", "))
		sh.Notes = append(sh.Notes, s.name+": "+sh.OtherSets)
	}
}

// otherSets returns the names that seem to name sets of nodes, as valid_mask and train_idx do, and
// that PyTorch Geometric does not use.
func otherSets(names []string) (others []string) {
	for _, name := range names {
		set, kind, _ := strings.Cut(name, "_")
		sets, kinds := []string{"train", "val", "valid", "validation", "dev", "test"}, []string{"mask", "idx", "index", "id", "ids", "nodes"}
		if slices.Contains(sets, set) && slices.Contains(kinds, kind) && !slices.Contains(maskNames, name) {
			others = append(others, name)
		}
	}
	return others
}
