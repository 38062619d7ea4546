// Package dgl imports graphs that DGL saved with dgl.save_graphs, and so the caches of dgl.data's data
// sets, such as dgl_graph.bin.
//
// A file has graphs, and labels that belong to the file. This package reads files with one graph, of one
// type or several, whether its edges are stored as a list (COO) or in compressed rows or columns (CSR, CSC). The
// numbers of edges, which order edge data, are not read. Nodes have data by name:
//
//	feat                             features; or feature, features, x, or as --feature says, side by side
//	label                            labels; or labels, y, or as --task says
//	train_mask, val_mask, test_mask  sets; or valid_mask, or numbers of nodes as train_idx, val_idx,
//	                                 valid_idx, test_idx
//
// Labels and sets are also looked for among the labels of the file, where OGB's caches have them.
// Arrays are not aligned and follow each other: opening a file walks over all headers, in memory of a
// fixed size, and remembers the positions of the elements.
package dgl

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/tables"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Format reads files of dgl.save_graphs.
var Format = importer.Format{
	Name:   "dgl",
	What:   "a file of dgl.save_graphs with one graph, NAME.bin, or a directory with one such file",
	Takes:  slices.Concat([]string{"feature", "task"}, tables.Takes, tables.TakesTyped),
	Detect: detect,
	Open:   open,
}

// Names of the data of nodes, the preferred ones first.
var (
	featureNames = []string{"feat", "feature", "features", "x"}
	labelNames   = []string{"label", "labels", "y"}
	setNames     = [3][]string{
		{"train_mask", "train_idx"},
		{"val_mask", "valid_mask", "val_idx", "valid_idx"},
		{"test_mask", "test_idx"},
	}
)

func detect(fsys vfs.FS, sources []string) string {
	if len(sources) != 1 {
		return ""
	}
	if name, err := locate(fsys, sources[0]); err == nil && begins(fsys, name) {
		return "dgl.save_graphs wrote " + filepath.Base(name)
	}
	return ""
}

// begins reports whether a file begins as DGL's files do.
func begins(fsys vfs.FS, name string) bool {
	f, err := fsys.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only looked at
	var b [8]byte
	n, _ := f.ReadAt(b[:], 0)
	return n == len(b) && binary.LittleEndian.Uint64(b[:]) == fileMagic
}

// mostLooked is the number of files of a directory that locate looks at.
const mostLooked = 100

// locate returns the file that a path means: of a directory, such as a cache of dgl.data, the only file
// NAME.bin of DGL.
func locate(fsys vfs.FS, path string) (string, error) {
	st, err := importer.StatFile(fsys, path)
	if err != nil || !st.IsDir() {
		return path, err
	}
	all, err := fsys.List(path)
	if err != nil {
		return "", err
	}
	var found []string
	all = slices.DeleteFunc(all, func(name string) bool { return filepath.Ext(name) != ".bin" })
	for _, name := range all[:min(len(all), mostLooked)] {
		if begins(fsys, filepath.Join(path, name)) {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		return "", bad("%s has no file NAME.bin of dgl.save_graphs: name the file to import", path)
	case 1:
		return filepath.Join(path, found[0]), nil
	}
	return "", bad("%s has several files of dgl.save_graphs, %.300s: name the file to import", path, strings.Join(found, ", "))
}

// source is a file and the layout of its graph, which becomes tables.
type source struct {
	fs   vfs.FS
	name string
	*graph
	reading map[string]string // Shape.Reading
}

// nodes are the nodes of one type in a file.
type nodes struct {
	*source
	*part
	labels []named // of the file, where it has one type
	of     string  // begins the names of tables
}

func open(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
	name, err := importer.One(sources)
	if err != nil {
		return nil, err
	}
	s := &source{fs: fsys, reading: map[string]string{}}
	if s.name, err = locate(fsys, name); err != nil {
		return nil, err
	}
	if err := s.read(); err != nil {
		return nil, err
	}
	switch {
	case o.Typed:
		return s.openTyped(o)
	case !s.one():
		kinds, relations := s.describe()
		return nil, bad("%s: its graph has several types, nodes of %.300s and edges of %.600s: give --typed to keep them, or save `dgl.to_homogeneous(g, ndata=[...])`", s.name, kinds, relations)
	}
	if err := s.nonempty(); err != nil {
		return nil, err
	}
	n := nodes{s, &s.kinds[0].part, s.labels, ""}
	g := tables.Graph{Files: []string{s.name}, Edges: s.edges(0)}
	g.Shape.Nodes, g.Shape.Held = n.nodes, s.held()
	g.Shape.DropEdgeData(s.name, slices.DeleteFunc(slices.Clone(s.relations[0].edgeData), internal))
	if g.Features, err = n.features(o); err != nil {
		return nil, err
	}
	if o.Labelled() {
		if err := n.labelled(&g, o); err != nil {
			return nil, err
		}
	}
	g.Shape.Reading = s.reading
	return tables.New(g, o)
}

// read reads the layout of the file.
func (s *source) read() (err error) {
	f, err := importer.OpenFile(s.fs, s.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	r := reader{file: f, size: st.Size(), window: make([]byte, 0, windowBytes)}
	if s.graph, err = r.layout(); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// nonempty returns an error for a type without nodes.
func (s *source) nonempty() error {
	for _, k := range s.kinds {
		if k.nodes < 1 && len(s.kinds) == 1 {
			return bad("%s: the graph has no nodes", s.name)
		} else if k.nodes < 1 {
			return bad("%s: the type %s has no nodes", s.name, k.name)
		}
	}
	return nil
}

// held returns the memory of the layout.
func (s *source) held() (n int64) {
	const each = 256 // of an array, beside its name
	add := func(list []string) {
		for _, name := range list {
			n += each + int64(len(name))
		}
	}
	add(names(s.labels))
	for _, k := range s.kinds {
		add(names(k.nodeData))
	}
	for _, k := range s.relations {
		add(k.edgeData)
	}
	if s.one() {
		return n
	}
	for _, k := range s.kinds {
		add([]string{k.name})
	}
	for _, k := range s.relations {
		add([]string{k.name, k.name}) // the arrays of its edges too
	}
	return n
}

// internal reports whether DGL itself has added the data, as dgl.to_homogeneous adds _ID and _TYPE.
func internal(name string) bool { return strings.HasPrefix(name, "_") }

// array opens an array of the file.
func (s *source) array(name string, a *array) (*npz.Array, error) {
	f, err := importer.OpenFile(s.fs, s.name)
	if err != nil {
		return nil, err
	}
	v, err := a.open(f, s.name+": "+name, f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return v, nil
}

func (s *nodes) table(n *named) tables.Table {
	return tables.Table{Name: s.name + ": " + s.of + n.name, Open: func() (matrix.Matrix, error) {
		a, err := s.array(s.of+n.name, &n.array)
		if err != nil {
			return nil, err
		}
		return matrix.FromArray(a)
	}}
}

// edges returns the edges of a relation, in the order in which they are stored.
func (s *source) edges(relation int) tables.Edges {
	k := &s.relations[relation]
	e := tables.Edges{Name: s.name + ": edges"}
	if len(s.relations) > 1 {
		e.Name += " " + s.triple(relation)
	}
	if k.stored == coo {
		e.Count = k.ends[0].Count()
		e.Open = func() (stream.Pairs, error) {
			keys := map[string]*array{"sources": &k.ends[0], "destinations": &k.ends[1]}
			return stream.TwoVectors(func(key string) (*npz.Array, error) { return s.array(key, keys[key]) }, "sources", "destinations")
		}
		return e
	}
	e.Count = k.ends[1].Count()
	e.Open = func() (stream.Pairs, error) {
		indptr, err := s.array("indptr", &k.ends[0])
		if err != nil {
			return nil, err
		}
		indices, err := s.array("indices", &k.ends[1])
		if err != nil {
			return nil, errors.Join(err, indptr.Close())
		}
		rows, err := stream.NewCompressedRows(indptr, indices, k.rows)
		if err != nil {
			return nil, err
		}
		return rows.Pairs(k.stored == csc), nil
	}
	return e
}

// features chooses the features: the ones that a flag names, side by side, or the usual ones.
func (s *nodes) features(o *importer.Reading) (all tables.Features, err error) {
	wanted := o.Features
	if len(wanted) == 0 {
		wanted = []string{""}
	}
	for i, name := range wanted {
		if slices.Contains(wanted[:i], name) {
			return nil, fault.New(fault.ErrUsage, "--feature %s: %s is given twice", strings.Join(wanted, ","), name)
		}
		n, err := s.choose("feature", name, "features", featureNames, func(name string) *named { return find(s.nodeData, name) })
		if err != nil {
			return nil, err
		}
		all = append(all, s.table(n))
	}
	if len(all) > 1 {
		s.reading["feature"] = strings.Join(wanted, ",")
	}
	return all, nil
}

// choose returns the data of nodes with the wanted name, which a flag gave, or if that is "" the first
// of the usual names that there is. Another choice than the usual one decides the dataset's content.
func (s *nodes) choose(flag, wanted, what string, usual []string, get func(name string) *named) (n *named, err error) {
	for i := 0; i < len(usual) && n == nil; i++ {
		n = get(usual[i])
	}
	have := cmp.Or(strings.Join(names(s.nodeData), ", "), "none")
	if wanted == "" {
		if n == nil {
			err = bad("%s: its graph has no %s, data of nodes called %s; it has %.300s: choose with --%s", s.name, what, list(usual), have, flag)
		}
		return n, err
	}
	chosen := get(wanted)
	if chosen == nil {
		return nil, fault.New(fault.ErrUsage, "--%s %s: %s has no such data of nodes; it has %.300s", flag, wanted, s.name, have)
	}
	if n == nil || n.name != wanted {
		s.reading[flag] = wanted
	}
	return chosen, nil
}

// list joins words: a, b or c.
func list(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// labelled finds the labels and the sets of nodes, and notes the data that is left out.
func (s *nodes) labelled(g *tables.Graph, o *importer.Reading) error {
	used := map[string]bool{}
	labels, err := s.choose("task", o.Task, "labels", labelNames, s.data)
	if err != nil {
		return err
	}
	g.Labels, used[labels.name] = s.table(labels), true
	for i, known := range setNames {
		for _, name := range known {
			n := s.data(name)
			if n == nil {
				continue
			}
			g.Sets[i], used[name] = tables.Set{Table: s.table(n), Kind: tables.Mask}, true
			if strings.HasSuffix(name, "_idx") && n.Kind != 'b' {
				g.Sets[i].Kind = tables.List
			}
			break
		}
	}
	var others []string
	for _, n := range s.labels {
		if !used[n.name] {
			others = append(others, n.name)
		}
	}
	if len(others) > 0 {
		g.Shape.Notes = append(g.Shape.Notes, fmt.Sprintf("%s: labels of the whole graph are not imported: %.400s", s.name, strings.Join(others, ", ")))
	}
	return nil
}

// data returns data of nodes by its name or, if the graph has none, the label of the file by that name
// if it may belong to nodes: a set, or an array with a row for each node.
func (s *nodes) data(name string) *named {
	if n := find(s.nodeData, name); n != nil {
		return n
	}
	n := find(s.labels, name)
	if n == nil || !strings.HasSuffix(name, "_idx") && (len(n.Shape) == 0 || n.Shape[0] != s.nodes) {
		return nil
	}
	return n
}
