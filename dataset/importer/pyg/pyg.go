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
	Takes:  slices.Concat(tables.Takes, tables.TakesTyped, []string{"task"}),
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
	switch {
	case o.Typed:
		return s.openTyped(o)
	case o.Task != "":
		return nil, fault.New(fault.ErrUsage, "--task %s: the format %s takes it with --typed alone, as the node type with labels", o.Task, Name)
	}
	g, err := s.graph(o.Labelled())
	if err != nil {
		return nil, err
	}
	return tables.New(g, o)
}

// attributes returns the attributes of the saved graph.
func attributes(root any) (*pickle.Dict, error) {
	v, hetero, err := saved(root)
	switch {
	case hetero:
		return nil, errTypes
	case err != nil:
		return nil, err
	}
	o, is := v.(*pickle.Object)
	d, ok := torchfile.Attributes(v)
	switch {
	case !ok && is && o.Class.Name == "Data":
		return nil, bad("its Data object has no attributes")
	case !ok && is:
		return nil, bad("it does not contain a graph of PyTorch Geometric, but %s", o.Class)
	case !ok:
		return nil, bad("it does not contain a graph of PyTorch Geometric")
	}
	return d, nil
}

// pick returns the attribute with the given name, or of the dictionary of sets in it, NAME.SET.
func pick(key string) func(root any) (any, error) {
	return func(root any) (any, error) {
		d, err := attributes(root)
		if err != nil {
			return nil, err
		}
		return within(d, key)
	}
}

// maskNames are the sets' attributes, by split.
var maskNames = []string{"train_mask", "val_mask", "test_mask"}

// graph finds the graph's tables.
func (s *source) graph(labelled bool) (g tables.Graph, err error) {
	g = tables.Graph{Files: []string{s.name}, Features: tables.Features{s.table("x")}, Labels: s.table("y")}
	if g.Shape.Held, err = torchfile.Held(s.fs, s.name); err != nil {
		return g, err
	}
	var d *pickle.Dict
	if err := torchfile.Look(s.fs, s.name, func(root any) (err error) {
		d, err = attributes(root)
		return err
	}); err != nil {
		return g, err
	}
	names := torchfile.Keys(d)
	dropped := importer.EdgeData(names)
	if slices.Contains(names, "edge_index") || !slices.Contains(names, "adj_t") {
		g.Edges, err = s.edges()
	} else {
		dropped, err = s.transposed(&g, dropped)
	}
	if err != nil {
		return g, err
	}
	g.Shape.DropEdgeData(s.name, dropped)
	if labelled {
		s.findSets(&g.Sets, &g.Shape, d, s.table)
	}
	return g, nil
}

// findSets finds the sets of nodes, and notes sets by names of other programs.
func (s *source) findSets(sets *[3]tables.Set, sh *importer.Shape, d *pickle.Dict, table func(key string) tables.Table) {
	names, own := torchfile.Keys(d), false
	for i, name := range maskNames {
		if slices.Contains(names, name) {
			own = true
			sets[i] = tables.Set{Table: table(name), Kind: tables.Mask}
		}
	}
	others := otherSets(names)
	if found := setsOf(d, others); found != nil && !own {
		for i, name := range found {
			sets[i] = tables.Set{Table: table(name)}
		}
		sh.Notes = append(sh.Notes, fmt.Sprintf("%s: its sets of nodes are %s", s.name, strings.Join(found, ", ")))
	} else if len(others) > 0 {
		sh.OtherSets = fmt.Sprintf("not read: %.200s (a split is %s)", strings.Join(others, ", "), strings.Join(maskNames, ", "))
		sh.Notes = append(sh.Notes, s.name+": "+sh.OtherSets)
	}
}

// table returns an attribute as a table.
func (s *source) table(key string) tables.Table {
	return tables.Table{Name: s.name + ": " + key, Open: func() (matrix.Matrix, error) {
		return matrix.OpenTorch(s.fs, s.name, key, pick(key))
	}}
}

// edges looks at the edges in edge_index.
func (s *source) edges() (e tables.Edges, err error) {
	array := func() (*npz.Array, error) { return torchfile.Array(s.fs, s.name, "edge_index", pick("edge_index")) }
	e = tables.Edges{Name: s.name + ": edge_index", Open: func() (stream.Pairs, error) { return stream.TwoRows(array) }}
	e.Count, _, err = stream.CountTwoRows(array)
	return e, err
}

// transposed sets the edges to the entries of adj_t, a row of which has the sources of a node. It adds
// its values to the data of edges, unless they are all 1.
func (s *source) transposed(g *tables.Graph, dropped []string) ([]string, error) {
	m, err := matrix.SparseTorch(s.fs, s.name, "adj_t", pick("adj_t"))
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, bad("%s: adj_t is no sparse tensor", s.name)
	}
	if g.Shape.Nodes, err = m.Nodes(); err != nil {
		return nil, err
	}
	g.Edges = tables.Edges{Name: m.Name, Open: func() (stream.Pairs, error) { return m.Pairs(true) }}
	if g.Edges.Count, err = m.Count(); err != nil {
		return nil, err
	}
	if weighted, err := m.Weighted(); err != nil || weighted {
		return append(dropped, "values of adj_t"), err
	}
	return dropped, nil
}

// setsOf returns the names of the sets of nodes that other programs write: for training, validation and
// test nodes an attribute each, the names of which end alike; or NAME.SET of a dictionary split_idx. It
// returns nil if there are none, or several names for the same set.
func setsOf(d *pickle.Dict, others []string) (found []string) {
	add := func(base, between string, in []string) {
		for i, spellings := range [][]string{{"train"}, {"valid", "val", "validation", "dev"}, {"test"}} {
			for _, set := range spellings {
				name := set + between
				if slices.Contains(in, name) {
					if len(found) != i {
						found = append(found, "", "", "", "") // several
					}
					found = append(found, base+name)
				}
			}
		}
	}
	for _, kind := range setKinds {
		add("", "_"+kind, others)
	}
	if v, _ := d.Get("split_idx"); v != nil {
		if sets, ok := torchfile.Dict(v); ok {
			add("split_idx.", "", torchfile.Keys(sets))
		}
	}
	if len(found) != 3 {
		return nil
	}
	return found
}

// setKinds are the ends of names of sets.
var setKinds = []string{"mask", "idx", "index", "id", "ids", "nodes"}

// otherSets returns the names that seem to name sets of nodes, as valid_mask and train_idx do, and
// that PyTorch Geometric does not use.
func otherSets(names []string) (others []string) {
	for _, name := range names {
		set, kind, _ := strings.Cut(name, "_")
		sets := []string{"train", "val", "valid", "validation", "dev", "test"}
		if slices.Contains(sets, set) && slices.Contains(setKinds, kind) && !slices.Contains(maskNames, name) {
			others = append(others, name)
		}
	}
	return others
}
