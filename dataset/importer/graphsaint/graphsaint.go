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
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
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
	c := common{fs: fsys, graph: filepath.Join(dir, graph)}
	if graph == adjFile {
		return openSaint(c, dir, o.Labelled())
	}
	return openReddit(c, dir)
}

// common is the common part of both layouts.
type common struct {
	fs    vfs.FS
	graph string
	sh    importer.Shape
}

func (c *common) Shape() importer.Shape { return c.sh }

func (c *common) CountEdges(map[string]int64) int64 { return c.sh.Edges }

func (c *common) archive(name string, do func(*npz.Archive) error) (err error) {
	z, err := npz.OpenArchive(c.fs, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	return do(z)
}

// readGraph checks the adjacency's shape, and counts its entries in the array of the given name.
func (c *common) readGraph(entries string) error {
	return c.archive(c.graph, func(z *npz.Archive) error {
		n, err := z.All("shape", 2)
		if err != nil {
			return err
		}
		if n[0] != n[1] || n[0] < 1 {
			return bad("%s: shape: the adjacency matrix is %d × %d, not square with at least 1 node", c.graph, n[0], n[1])
		}
		c.sh.Nodes = n[0]
		if z.Weighted("data") {
			c.sh.DropEdgeData(c.graph, []string{"data"})
		}
		if err := dataset.CheckNodes(c.graph, c.sh.Nodes); err != nil {
			return err
		}
		return z.Header(entries, func(a *npz.Array) error {
			c.sh.Edges = importer.AddEdges(0, a.Count())
			return a.Vector(-1)
		})
	})
}

// readFeatures checks the shape of the features.
func (c *common) readFeatures(a *npz.Array) error {
	if len(a.Shape) != 2 || a.Shape[0] != c.sh.Nodes || a.Shape[1] < 1 || a.Shape[1] > dataset.MaxDim || a.Fortran {
		return a.Fail(bad("its shape is %s instead of (%d, dim), row-major", a.ShapeString(), c.sh.Nodes))
	}
	c.sh.Dim, c.sh.DType, c.sh.Features = int(a.Shape[1]), a.DType(), a.Name()
	return nil
}

// saint is GraphSAINT's layout.
type saint struct {
	common
	feats, classes, roles string
}

func openSaint(c common, dir string, labelled bool) (_ *saint, err error) {
	s := &saint{common: c, feats: filepath.Join(dir, featsFile)}
	if labelled {
		s.classes, s.roles = filepath.Join(dir, classFile), filepath.Join(dir, roleFile)
	}
	for _, name := range s.labelFiles() {
		if _, err := importer.StatFile(s.fs, name); err != nil {
			return nil, err
		}
	}
	if err := s.readGraph("indices"); err != nil {
		return nil, err
	}
	a, err := npz.Open(s.fs, s.feats)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.readFeatures(a), a.Close()); err != nil {
		return nil, err
	}
	if labelled {
		if err := s.countClasses(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// errEnough ends reading early.
var errEnough = errors.New("enough was read")

// countClasses looks at the first entry of the class map: a list has a number per class.
func (s *saint) countClasses() (err error) {
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

// Files implements importer.Source.
func (s *saint) Files() []string { return append([]string{s.graph, s.feats}, s.labelFiles()...) }

// labelFiles lists the files of labels and splits, if they are read.
func (s *saint) labelFiles() []string {
	if s.classes == "" {
		return nil
	}
	return []string{s.classes, s.roles}
}

func (s *saint) node(key string) (int64, error) {
	v, err := strconv.ParseUint(key, 10, 63)
	if err != nil || int64(v) >= s.sh.Nodes {
		return 0, bad("its key %.40q is not a node of the graph, which has %d nodes", key, s.sh.Nodes)
	}
	return int64(v), nil
}

// Labels implements importer.Source.
func (s *saint) Labels(ctx context.Context, l *importer.Labelling) error {
	if err := s.readClasses(ctx, l); err != nil {
		return err
	}
	return s.readRoles(ctx, l)
}

func (s *saint) readClasses(ctx context.Context, l *importer.Labelling) (err error) {
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

func (s *saint) readRoles(ctx context.Context, l *importer.Labelling) (err error) {
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

// Edges implements importer.Source: row r's entries are the destinations of its edges.
func (s *saint) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	return s.archive(s.graph, func(z *npz.Archive) (err error) {
		format, err := z.Text("format")
		if err != nil {
			return err
		}
		if format != "csr" {
			return bad("%s: the adjacency matrix has the format %q instead of csr", s.graph, format)
		}
		indptr, err := z.Array("indptr")
		if err != nil {
			return err
		}
		indices, err := z.Array("indices")
		if err != nil {
			return errors.Join(err, indptr.Close())
		}
		rows, err := stream.NewCompressedRows(indptr, indices, s.sh.Nodes)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		return rows.Edges(ctx, func(row, column []int64) error { return add(column, row) })
	})
}

// Features implements importer.Source.
func (s *saint) Features(first int64) (importer.RowStream, error) {
	a, err := npz.Open(s.fs, s.feats)
	if err != nil {
		return nil, err
	}
	return npz.NewRows(a, nil, first, s.sh.Dim)
}

// reddit is the layout of Reddit's files.
type reddit struct {
	common
	data string
}

func openReddit(c common, dir string) (*reddit, error) {
	s := &reddit{c, filepath.Join(dir, dataFile)}
	if err := s.readGraph("row"); err != nil {
		return nil, err
	}
	return s, s.archive(s.data, func(z *npz.Archive) error { return z.Header("feature", s.readFeatures) })
}

// Files implements importer.Source.
func (s *reddit) Files() []string { return []string{s.graph, s.data} }

// Labels implements importer.Source.
func (s *reddit) Labels(ctx context.Context, l *importer.Labelling) error {
	return s.archive(s.data, func(z *npz.Archive) error {
		if err := z.Header("label", func(a *npz.Array) error { return npz.EachLabel(ctx, a, s.sh.Nodes, l) }); err != nil {
			return err
		}
		return z.Header("node_types", func(a *npz.Array) error {
			if err := a.Vector(s.sh.Nodes); err != nil {
				return err
			}
			return a.Each(ctx, func(v, part int64) error {
				if part < 1 || part > int64(len(dataset.SplitNames)) || part > math.MaxUint8 {
					return bad("node %d has the type %d instead of 1, 2 or 3, the number of its set", v, part)
				}
				return l.Assign(v, uint8(part))
			})
		})
	})
}

// Edges implements importer.Source: row and col are the ends of the edges.
func (s *reddit) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	return s.archive(s.graph, func(z *npz.Archive) (err error) {
		format, err := z.Text("format")
		if err != nil {
			return err
		}
		if format != "coo" {
			return bad("%s: the adjacency matrix has the format %q instead of coo", s.graph, format)
		}
		pairs, err := stream.TwoVectors(func(key string) (*npz.Array, error) { return z.Array(key) }, "row", "col")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, pairs.Close()) }()
		return stream.EachPair(ctx, s.graph, pairs, s.sh.Nodes, add)
	})
}

// Features implements importer.Source.
func (s *reddit) Features(first int64) (importer.RowStream, error) {
	z, err := npz.OpenArchive(s.fs, s.data)
	if err != nil {
		return nil, err
	}
	a, err := z.Array("feature")
	if err != nil {
		return nil, errors.Join(err, z.Close())
	}
	return npz.NewRows(a, z, first, s.sh.Dim)
}
