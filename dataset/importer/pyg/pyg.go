// Package pyg imports graphs that PyTorch Geometric saved: the files processed/*.pt of its data sets,
// and graphs that were saved by themselves.
//
// Such a file is written by torch.save, whether or not the library has remembered which attributes
// belong to nodes and which to edges. It holds a tuple of a graph's attributes, of None and of the
// graph's class, or of the graph and None, or the graph alone. Attributes are tensors by name: x, a row
// of features per node; edge_index of shape (2, E), sources and destinations; y, a class per node, or a
// column per class; train_mask, val_mask and test_mask, by node. Of masks with several columns, each a
// division into sets, the first is taken. Edges are directed as they are given.
package pyg

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
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

// Name is the name of the format.
const Name = "pyg"

// Format reads files of PyTorch Geometric.
var Format = importer.Format{
	Name:   Name,
	What:   "a graph that PyTorch Geometric saved: NAME.pt, or a data set's directory with processed/data.pt",
	Takes:  []string{"labels-as"},
	Detect: detect,
	Open:   open,
}

// source is a graph in a file.
type source struct {
	fs    vfs.FS
	name  string
	sh    importer.Shape
	masks [3]bool // that there are, by split
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
	if err := s.readShape(o.Labelled()); err != nil {
		return nil, err
	}
	return s, nil
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
			return nil, fault.New(errAbsent, "its graph has no %s; it has %.200s", key, strings.Join(names, ", "))
		}
		return v, nil
	})
}

// errAbsent: the graph has no such attribute.
var errAbsent = fault.New(fault.ErrInput, "absent")

// with calls do with an attribute that is open, but not read.
func (s *source) with(key string, do func(*npz.Array) error) (err error) {
	a, err := s.array(key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return do(a)
}

// maskNames are the sets' attributes, by split.
var maskNames = []string{"train_mask", "val_mask", "test_mask"}

func (s *source) readShape(labelled bool) error {
	s.sh.Features = s.name + ": x"
	var err error
	if s.sh.Held, err = torchfile.Held(s.fs, s.name); err != nil {
		return err
	}
	if err := s.with("x", func(a *npz.Array) error {
		if len(a.Shape) != 2 || a.Shape[0] < 1 || a.Shape[1] < 1 || a.Shape[1] > dataset.MaxDim || a.Fortran {
			return a.Fail(bad("its shape is %s instead of a row of features per node, row-major", a.ShapeString()))
		}
		s.sh.Nodes, s.sh.Dim, s.sh.DType = a.Shape[0], int(a.Shape[1]), a.DType()
		return dataset.CheckNodes(s.name, s.sh.Nodes)
	}); err != nil {
		return err
	}
	if err := s.with("edge_index", func(a *npz.Array) error {
		if !a.Integer() || len(a.Shape) != 2 || a.Shape[0] != 2 {
			return a.Fail(bad("edges must be integers of shape (2, E), not %s of shape %s", a.Type(), a.ShapeString()))
		}
		s.sh.Edges = importer.AddEdges(0, a.Shape[1])
		return nil
	}); err != nil {
		return err
	}
	if err := s.findUnread(labelled); err != nil || !labelled {
		return err
	}
	if err := s.with("y", s.readLabelShape); err != nil {
		return err
	}
	return s.readMaskShapes()
}

// findUnread notes the attributes that are data of edges and, if splits are read, the attributes
// that seem to be splits by names of other programs.
func (s *source) findUnread(labelled bool) error {
	f, err := torchfile.Open(s.fs, s.name)
	if err != nil {
		return err
	}
	d, err := attributes(f.Root())
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	var names []string
	for i, k := range d.Keys {
		if name, ok := k.(string); ok && d.Values[i] != nil {
			names = append(names, name)
		}
	}
	s.sh.DropEdgeData(s.name, importer.EdgeData(names))
	if others := otherSets(names); labelled && len(others) > 0 {
		s.sh.OtherSets = fmt.Sprintf("not read: %.200s (a split is %s)", strings.Join(others, ", "), strings.Join(maskNames, ", "))
		s.sh.Notes = append(s.sh.Notes, s.name+": "+s.sh.OtherSets)
	}
	return nil
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

// readMaskShapes looks which masks there are. A graph without any has no split.
func (s *source) readMaskShapes() error {
	for i, key := range maskNames {
		err := s.with(key, s.checkMask)
		switch {
		case errors.Is(err, errAbsent):
			s.sh.NoSplit = s.sh.NoSplit || i == 0
			continue
		case err != nil:
			return err
		case s.sh.NoSplit:
			return bad("%s: its graph has %s, but no %s", s.name, key, maskNames[0])
		}
		s.masks[i] = true
	}
	return nil
}

func (s *source) readLabelShape(a *npz.Array) (err error) {
	if len(a.Shape) < 1 || len(a.Shape) > 2 || a.Shape[0] != s.sh.Nodes {
		return a.Fail(bad("labels have the shape %s, but the graph has %d nodes", a.ShapeString(), s.sh.Nodes))
	}
	if s.sh.Multi = npz.MultiLabel(a); s.sh.Multi {
		s.sh.Classes, err = npz.LabelClasses(a)
	}
	return err
}

// checkMask makes sure that a mask has a row for each node, of which some are read at a time.
func (s *source) checkMask(a *npz.Array) error {
	if len(a.Shape) < 1 || len(a.Shape) > 2 || a.Shape[0] != s.sh.Nodes || len(a.Shape) == 2 && (a.Fortran || a.Shape[1] < 1 || a.Shape[1] > importer.Chunk) {
		return a.Fail(bad("the mask has the shape %s, but the graph has %d nodes", a.ShapeString(), s.sh.Nodes))
	}
	if len(a.Shape) == 2 && a.Shape[1] > 1 {
		s.sh.Notes = append(s.sh.Notes, fmt.Sprintf("%s has %d columns: only the first is used", a.Name(), a.Shape[1]))
	}
	return nil
}

// Shape implements importer.Source.
func (s *source) Shape() importer.Shape { return s.sh }

// Files implements importer.Source.
func (s *source) Files() []string { return []string{s.name} }

// CountEdges implements importer.Source.
func (s *source) CountEdges(map[string]int64) int64 { return s.sh.Edges }

// Labels implements importer.Source.
func (s *source) Labels(ctx context.Context, l *importer.Labelling) error {
	if err := s.with("y", func(a *npz.Array) error {
		if s.sh.Multi {
			return npz.EachLabelRow(ctx, a, s.sh.Classes, l.Row)
		}
		a.Shape = a.Shape[:1] // a column is as good as a vector
		return npz.EachLabel(ctx, a, s.sh.Nodes, l)
	}); err != nil {
		return err
	}
	for i, key := range maskNames {
		if !s.masks[i] {
			continue
		}
		if err := s.with(key, func(a *npz.Array) error { return readMask(ctx, a, uint8(i+1), l) }); err != nil {
			return err
		}
	}
	return nil
}

// readMask puts the nodes of a mask's first column into a split.
func readMask(ctx context.Context, a *npz.Array, split uint8, l *importer.Labelling) error {
	columns := int64(1)
	if len(a.Shape) == 2 {
		columns = a.Shape[1]
	}
	rows := importer.Chunk / columns
	values := make([]float32, rows*columns)
	for v := int64(0); v < a.Shape[0]; v += rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(rows, a.Shape[0]-v)
		if err := a.Floats(values[:n*columns]); err != nil {
			return err
		}
		for i := range n {
			if values[i*columns] == 0 {
				continue
			}
			if err := l.Assign(v+i, split); err != nil {
				return a.Fail(err)
			}
		}
	}
	return nil
}

// Edges implements importer.Source.
func (s *source) Edges(ctx context.Context, add func(dst, src []int64) error) (err error) {
	a, err := s.array("edge_index")
	if err != nil {
		return err
	}
	var pairs stream.Pairs
	if a.Fortran { // source, destination, source, …
		pairs = stream.Interleave(npz.NewInts(a))
	} else {
		if err := a.Close(); err != nil {
			return err
		}
		if pairs, err = stream.TwoRows(func() (*npz.Array, error) { return s.array("edge_index") }); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, pairs.Close()) }()
	return stream.EachPair(ctx, fmt.Sprintf("%s: edge_index", s.name), pairs, s.sh.Nodes, add)
}

// Features implements importer.Source.
func (s *source) Features(first int64) (importer.RowStream, error) {
	a, err := s.array("x")
	if err != nil {
		return nil, err
	}
	return npz.NewRows(a, nil, first, s.sh.Dim)
}
