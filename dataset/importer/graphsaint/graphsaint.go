// Package graphsaint imports graphs in the layout of GraphSAINT's data sets (Flickr, Yelp, Amazon), and
// in the layout of GraphSAGE's Reddit as DGL and PyTorch Geometric have it.
//
// GraphSAINT's is a directory with adj_full.npz, an adjacency that SciPy saved in compressed rows, with
// sources as rows; feats.npy, a row of features per node; class_map.json, {"node": class}, or {"node":
// [0, 1, …]} of nodes of any number of classes; and role.json, with the lists tr, va and te of nodes.
//
// Reddit's is a directory with reddit_graph.npz, an adjacency in coordinates, and reddit_data.npz with
// the arrays feature, label and node_types, which is 1, 2 or 3 for the three sets; also with
// reddit_self_loop_graph.npz instead.
//
// The directory raw below the one that is named is looked at as well. Edges are directed as they are
// given; the published graphs have both directions.
package graphsaint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
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
const Name = "graphsaint"

// Format reads both layouts.
var Format = importer.Format{
	Name:   Name,
	What:   "a directory with adj_full.npz, feats.npy, class_map.json and role.json, or with reddit_data.npz and its graph",
	Detect: detect,
	Open:   open,
}

func bad(format string, args ...any) error { return fault.New(fault.ErrInput, format, args...) }

// The layouts' files.
const (
	adjFile   = "adj_full.npz"
	featsFile = "feats.npy"
	classFile = "class_map.json"
	roleFile  = "role.json"
	dataFile  = "reddit_data.npz"
)

var graphFiles = []string{"reddit_graph.npz", "reddit_self_loop_graph.npz"}

// locate returns the directory of a layout's files, and the adjacency, of which there is one.
func locate(fsys vfs.FS, name string) (dir, graph string, err error) {
	if _, err := importer.StatFile(fsys, name); err != nil {
		return "", "", err
	}
	for _, dir := range []string{name, filepath.Join(name, "raw")} {
		for _, graph := range append([]string{adjFile}, graphFiles...) {
			if there, err := vfs.Exists(fsys, filepath.Join(dir, graph)); err != nil || there {
				return dir, graph, err
			}
		}
	}
	return "", "", bad("%s has neither %s nor %s", name, adjFile, graphFiles[0])
}

func detect(fsys vfs.FS, sources []string) string {
	if len(sources) != 1 {
		return ""
	}
	_, graph, err := locate(fsys, sources[0])
	if err != nil {
		return ""
	}
	return "it has " + graph
}

func open(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
	name, err := importer.One(sources)
	if err != nil {
		return nil, err
	}
	dir, graph, err := locate(fsys, name)
	if err != nil {
		return nil, err
	}
	s := &source{fs: fsys, labelled: o.Labelled()}
	if graph == adjFile {
		s.classes, s.roles = filepath.Join(dir, classFile), filepath.Join(dir, roleFile)
		if err := s.openTables(filepath.Join(dir, graph), "csr", matrix.Spec{Path: filepath.Join(dir, featsFile)}); err != nil {
			return nil, err
		}
		if s.labelled {
			return s, s.countClasses()
		}
		return s, nil
	}
	s.data = filepath.Join(dir, dataFile)
	if err := s.openTables(filepath.Join(dir, graph), "coo", matrix.Spec{Path: s.data, Key: "feature"}); err != nil {
		return nil, err
	}
	if s.labelled {
		return s, s.dataLabels().LookAtLabels(&s.sh, s.sh.Nodes)
	}
	return s, nil
}

// dataLabels returns the labels of Reddit's layout.
func (s *source) dataLabels() tables.Table {
	return tables.Table{Open: func() (matrix.Matrix, error) { return matrix.Open(s.fs, matrix.Spec{Path: s.data, Key: "label"}) }}
}

// source is a graph of tables, with labels and sets of the layout's own.
type source struct {
	importer.Source // without labels
	fs              vfs.FS
	sh              importer.Shape // with labels
	labelled        bool
	classes, roles  string // files of GraphSAINT's layout
	data            string // file of Reddit's
}

// openTables opens the edges and the features. The graph is a matrix of SciPy in the given layout, a row
// of which has the destinations of a node's edges.
func (s *source) openTables(graph, layout string, features matrix.Spec) error {
	g := tables.Graph{Files: []string{graph, features.Path}, Features: tables.Features{{Name: features.Path, Open: func() (matrix.Matrix, error) { return matrix.Open(s.fs, features) }}}}
	if s.labelled && s.classes != "" {
		g.Files = append(g.Files, s.classes, s.roles)
	}
	for _, name := range g.Files[1:] {
		if _, err := importer.StatFile(s.fs, name); err != nil {
			return err
		}
	}
	m, err := matrix.OpenSciPy(s.fs, graph)
	switch {
	case err != nil:
		return err
	case m == nil:
		return bad("%s is not a matrix that SciPy saved", graph)
	case m.Layout != layout:
		return bad("%s: the adjacency matrix has the format %q instead of %s", graph, m.Layout, layout)
	}
	if g.Shape.Nodes, err = m.Nodes(); err != nil {
		return err
	}
	g.Edges = tables.Edges{Name: graph, Open: func() (stream.Pairs, error) { return m.Pairs(false) }}
	if g.Edges.Count, err = m.Count(); err != nil {
		return err
	}
	weighted, err := m.Weighted()
	if err != nil {
		return err
	}
	if weighted {
		g.Shape.DropEdgeData(graph, []string{"data"})
	}
	if s.Source, err = tables.New(g, &importer.Reading{For: importer.ForPredict}); err != nil {
		return err
	}
	s.sh = s.Source.Shape()
	s.sh.NoSplit = !s.labelled
	return nil
}

// Shape implements importer.Source.
func (s *source) Shape() importer.Shape { return s.sh }

// Labels implements importer.Source.
func (s *source) Labels(ctx context.Context, l *importer.Labelling) error {
	if s.data != "" {
		return s.readData(ctx, l)
	}
	if err := s.readClasses(ctx, l); err != nil {
		return err
	}
	return s.readRoles(ctx, l)
}

// errEnough ends reading early.
var errEnough = errors.New("enough was read")

// countClasses looks at the first entry of the class map: a list has a number per class.
func (s *source) countClasses() (err error) {
	l, err := openLists(s.fs, s.classes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	entries, n := 0, 0
	err = l.each(func(_ string, list bool) error {
		if entries++; entries > 1 || !list {
			return errEnough
		}
		s.sh.Multi = true
		return nil
	}, func(int64) error {
		if n++; n > dataset.MaxTargets {
			return bad("the labels have more than %d classes", dataset.MaxTargets)
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err == nil && s.sh.Multi && n == 0 {
		err = bad("%s: the list of the first node's classes is empty", s.classes)
	}
	s.sh.Classes = n
	return err
}

func (s *source) node(key string) (int64, error) {
	v, err := strconv.ParseUint(key, 10, 63)
	if err != nil || int64(v) >= s.sh.Nodes {
		return 0, bad("its key %.40q is not a node of the graph, which has %d nodes", key, s.sh.Nodes)
	}
	return int64(v), nil
}

func (s *source) readClasses(ctx context.Context, l *importer.Labelling) (err error) {
	f, err := openLists(s.fs, s.classes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	node := int64(-1)
	row := make([]float32, 0, s.sh.Classes)
	end := func() error { // of an entry
		if node < 0 || !s.sh.Multi {
			return nil
		}
		if len(row) != s.sh.Classes {
			return bad("node %d has %d numbers instead of one for each of %d classes", node, len(row), s.sh.Classes)
		}
		return l.Row(node, row)
	}
	err = f.each(func(key string, list bool) error {
		if err := errors.Join(end(), ctx.Err()); err != nil {
			return err
		}
		row = row[:0]
		if node, err = s.node(key); err == nil && list != s.sh.Multi {
			err = bad("node %d differs from the first node: one has a class, the other a list of classes", node)
		}
		return err
	}, func(v int64) error {
		if !s.sh.Multi {
			return l.Label(node, v)
		}
		if len(row) == s.sh.Classes {
			return bad("node %d has more than %d numbers", node, s.sh.Classes)
		}
		row = append(row, float32(v))
		return nil
	})
	if err != nil {
		return err
	}
	if err := end(); err != nil {
		return fmt.Errorf("%s: %w", s.classes, err)
	}
	return nil
}

// roleNames are the sets' keys, by split.
var roleNames = []string{"tr", "va", "te"}

func (s *source) readRoles(ctx context.Context, l *importer.Labelling) (err error) {
	f, err := openLists(s.fs, s.roles)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	split := uint8(0)
	return f.each(func(key string, _ bool) error {
		split = 0
		for i, name := range roleNames {
			if key == name {
				split = uint8(i + 1)
			}
		}
		if split == 0 {
			return bad("unknown set %.40q; use %s", key, strings.Join(roleNames, ", "))
		}
		return ctx.Err()
	}, func(v int64) error { return l.Assign(v, split) })
}

// readData reads the labels and sets of Reddit's layout.
func (s *source) readData(ctx context.Context, l *importer.Labelling) (err error) {
	if err := s.dataLabels().ReadLabels(ctx, l, s.sh.Multi, stream.Span{Count: s.sh.Nodes}); err != nil {
		return err
	}
	a, err := npz.OpenMember(s.fs, s.data, "node_types")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := a.Vector(s.sh.Nodes); err != nil {
		return err
	}
	return a.Each(ctx, func(v, part int64) error {
		if part < 1 || part > int64(len(dataset.SplitNames)) {
			return bad("node %d has the type %d instead of 1, 2 or 3, the number of its set", v, part)
		}
		return l.Assign(v, uint8(part))
	})
}
