// Package offgs imports the output of DiskGNN's own prepare_dataset.py, which is the input of its
// sampling and packing: a directory NAME-offgs.
//
//	DIR/
//	├── conf.json                  num_nodes, features_shape, features_dtype, labels_shape,
//	│                              num_classes, label_offset
//	├── graph.pth                  DGL's graph, by torch.save: a FusedCSCSamplingGraph, or a DGLGraph
//	│                              that lists its edges
//	├── features.bin               features_shape elements of features_dtype without a header;
//	│                              or features.npy, mostly without one too
//	├── labels.pth, or labels.npy  of the nodes from label_offset on; -1 or NaN: none
//	└── split_idx.pth              train, valid, test: nodes
//
// Of ogbn-papers100M, prepare_dataset.py has the label 404 for none: it is none where there are fewer
// classes.
package offgs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/dglgraph"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/npy"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/torchfile"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Format reads DiskGNN's directories.
var Format = importer.Format{
	Name: "offgs", What: "DiskGNN's own preprocessed input, a directory NAME-offgs with conf.json",
	Detect: detect, Open: open,
}

const (
	confFile  = "conf.json"
	graphFile = "graph.pth"
	splitFile = "split_idx.pth"
	// maxConf bounds conf.json.
	maxConf = 1 << 20
	// none is the label that stands for no label, if there are at most 404 classes.
	none = 404
)

// conf is the part of conf.json that is read. Nodes of several types have their numbers by type.
type conf struct {
	Nodes    json.RawMessage `json:"num_nodes"`
	Features []int64         `json:"features_shape"`
	DType    string          `json:"features_dtype"`
	Classes  int             `json:"num_classes"`
	Offset   int64           `json:"label_offset"`
}

// source is an open directory.
type source struct {
	fs          vfs.FS
	dir         string
	conf        conf
	sh          importer.Shape
	graph       *dglgraph.Graph
	feat, label string
	labels      int64 // of the nodes from conf.Offset on
}

func bad(format string, args ...any) error { return fault.New(fault.ErrInput, format, args...) }

func detect(fsys vfs.FS, sources []string) string {
	if len(sources) != 1 {
		return ""
	}
	for _, name := range []string{confFile, splitFile} {
		if there, err := vfs.Exists(fsys, filepath.Join(sources[0], name)); err != nil || !there {
			return ""
		}
	}
	return "it has " + confFile + " and " + splitFile
}

func open(fsys vfs.FS, sources []string, _ *importer.Reading) (importer.Source, error) {
	dir, err := importer.One(sources)
	if err != nil {
		return nil, err
	}
	s := &source{fs: fsys, dir: dir}
	if err := s.readConf(); err != nil {
		return nil, err
	}
	var found importer.Problems
	found.Add(s.readGraph())
	found.Add(s.readFeatures())
	found.Add(s.readLabelShape())
	found.Add(s.readSplitShapes())
	if err := found.Err(); err != nil {
		return nil, err
	}
	names := []string{s.path(graphFile), s.path(splitFile)}
	if isTorch(s.label) {
		names = append(names, s.label)
	}
	s.sh.Held, err = torchfile.Held(fsys, names...)
	return s, err
}

func (s *source) path(name string) string { return filepath.Join(s.dir, name) }

// either returns the path of the first of the files that is there, or of the first.
func (s *source) either(names ...string) string {
	for _, name := range names {
		if there, err := vfs.Exists(s.fs, s.path(name)); err == nil && there {
			return s.path(name)
		}
	}
	return s.path(names[0])
}

func isTorch(name string) bool { return filepath.Ext(name) == ".pth" }

func (s *source) readConf() error {
	name := s.path(confFile)
	if _, err := importer.StatFile(s.fs, name); err != nil {
		return err
	}
	content, err := vfs.ReadSmall(s.fs, name, maxConf)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	c := &s.conf
	if err := json.Unmarshal(content, c); err != nil {
		return bad("%s: %v", name, err)
	}
	if len(c.Nodes) > 0 && c.Nodes[0] == '{' {
		return bad("%s: the graph has several types: this version reads graphs of one type", name)
	}
	if err := json.Unmarshal(c.Nodes, &s.sh.Nodes); err != nil || s.sh.Nodes < 1 {
		return bad("%s: num_nodes is %.40s instead of a number from 1", name, c.Nodes)
	}
	if err := dataset.CheckNodes(name, s.sh.Nodes); err != nil {
		return err
	}
	switch {
	case len(c.Features) != 2 || c.Features[0] != s.sh.Nodes || c.Features[1] < 1 || c.Features[1] > dataset.MaxDim:
		return bad("%s: features_shape is %v, which is wrong for %d nodes", name, c.Features, s.sh.Nodes)
	case c.Classes < 1 || c.Classes > dataset.MaxTargets:
		return bad("%s: num_classes is %d instead of 1 to %d", name, c.Classes, dataset.MaxTargets)
	case c.Offset < 0 || c.Offset >= s.sh.Nodes:
		return bad("%s: label_offset is %d, but there are only %d nodes", name, c.Offset, s.sh.Nodes)
	}
	s.sh.Dim, s.sh.Classes = int(c.Features[1]), c.Classes
	return nil
}

func (s *source) readGraph() (err error) {
	name := s.path(graphFile)
	if s.graph, err = dglgraph.Open(s.fs, name); err != nil {
		return err
	}
	if n := s.graph.Nodes; n != 0 && n != s.sh.Nodes {
		return bad("%s: the graph has %d nodes, but conf.json says %d", name, n, s.sh.Nodes)
	}
	s.sh.Edges = s.graph.Edges
	s.sh.DropEdgeData(name, s.graph.Dropped)
	return nil
}

func (s *source) readFeatures() (err error) {
	s.feat = s.either("features.bin", "features.npy")
	s.sh.Features = s.feat
	a, err := s.openFeatures()
	if err != nil {
		return err
	}
	s.sh.DType = a.DType()
	return a.Close()
}

// openFeatures opens the features, with the shape that conf.json gives.
func (s *source) openFeatures() (*npz.Array, error) {
	headed, err := npz.IsNPY(s.fs, s.feat)
	if err != nil {
		return nil, err
	}
	if !headed {
		h, err := npy.Describe(strings.TrimPrefix(s.conf.DType, "torch."), s.conf.Features...)
		if err != nil {
			return nil, fmt.Errorf("%s: features_dtype: %w", s.path(confFile), err)
		}
		return npz.OpenRaw(s.fs, s.feat, h)
	}
	a, err := npz.Open(s.fs, s.feat)
	if err != nil {
		return nil, err
	}
	if len(a.Shape) != 2 || a.Shape[0] != s.sh.Nodes || a.Shape[1] != s.conf.Features[1] || a.Fortran {
		err := a.Fail(bad("its shape is %s; conf.json says %v, and it must be row-major", a.ShapeString(), s.conf.Features))
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (s *source) readLabelShape() error {
	s.label = s.either("labels.pth", "labels.npy")
	return importer.With(s.openLabels, func(m matrix.Matrix) error {
		if s.labels = m.Rows(); m.Columns() != 1 || s.labels > s.sh.Nodes-s.conf.Offset {
			return bad("%s: labels have the shape (%d, %d), but there are %d nodes from label_offset on", m.Name(), s.labels, m.Columns(), s.sh.Nodes-s.conf.Offset)
		}
		return nil
	})
}

// openLabels opens the labels.
func (s *source) openLabels() (matrix.Matrix, error) {
	var a *npz.Array
	var err error
	if isTorch(s.label) {
		a, err = torchfile.Array(s.fs, s.label, "", torchfile.Only)
	} else {
		a, err = npz.Open(s.fs, s.label)
	}
	if err != nil {
		return nil, err
	}
	return matrix.FromArray(a)
}

func (s *source) readSplitShapes() error {
	var found importer.Problems
	for _, set := range dataset.SplitNames {
		found.Add(s.withSet(set, func(*npz.Array) error { return nil }))
	}
	return found.Err()
}

// withSet calls do with the nodes of a set, which are open.
func (s *source) withSet(set string, do func(*npz.Array) error) error {
	return importer.With(func() (*npz.Array, error) {
		return torchfile.Array(s.fs, s.path(splitFile), set, func(root any) (any, error) {
			d, ok := torchfile.Dict(root)
			if !ok {
				return nil, bad("it is not a dictionary of sets")
			}
			v, _ := d.Get(set)
			return v, nil
		})
	}, func(a *npz.Array) error {
		if err := a.Vector(-1); err != nil {
			return err
		}
		return do(a)
	})
}

// Shape implements importer.Source.
func (s *source) Shape() importer.Shape { return s.sh }

// Files implements importer.Source.
func (s *source) Files() []string {
	return []string{s.path(confFile), s.path(graphFile), s.feat, s.label, s.path(splitFile)}
}

// CountEdges implements importer.Source.
func (s *source) CountEdges(map[string]int64) int64 { return s.sh.Edges }

// Labels implements importer.Source.
func (s *source) Labels(ctx context.Context, l *importer.Labelling) error {
	if err := importer.With(s.openLabels, func(m matrix.Matrix) error {
		return matrix.EachDouble(ctx, m, func(i int64, row []float64) error {
			class := row[0]
			if class == none && s.conf.Classes <= none {
				class = float64(graph.Unlabelled)
			}
			if err := l.Number(s.conf.Offset+i, class); err != nil {
				return fmt.Errorf("%s: %w", m.Name(), err)
			}
			return nil
		})
	}); err != nil {
		return err
	}
	for i, set := range dataset.SplitNames {
		if err := s.withSet(set, func(a *npz.Array) error {
			return a.Each(ctx, func(_, v int64) error { return l.Assign(v, uint8(i+1)) })
		}); err != nil {
			return err
		}
	}
	return nil
}

// Edges implements importer.Source.
func (s *source) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	return s.graph.Each(ctx, s.sh.Nodes, add)
}

// Features implements importer.Source.
func (s *source) Features(first int64) (importer.RowStream, error) {
	a, err := s.openFeatures()
	if err != nil {
		return nil, err
	}
	m, err := matrix.FromArray(a)
	if err != nil {
		return nil, err
	}
	return matrix.NewRows(m, s.sh.Nodes, first)
}
