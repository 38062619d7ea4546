// Package graphbolt imports GraphBolt's OnDiskDataset from its source tree.
package graphbolt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/edges"
	"diskgnn/dataset/importer/internal/file"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/text"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/internal/yaml"
)

// Name is the format's.
const Name = "graphbolt"

// source is the source tree of a GraphBolt OnDiskDataset: a directory with a
// metadata.yaml that names the edges (numpy [2, E] or csv "source,destination"),
// the node features (numpy) and, for its first task, the seeds and labels of the
// three sets. Edges are directed as they are given.
type source struct {
	fs    vfs.FS
	dir   string
	meta  string // the path of metadata.yaml
	sh    importer.Shape
	edge  []document
	feat  document
	sets  [3][]piece // by split
	limit int        // classes, 0 if not said
}

// document is a file that metadata.yaml names.
type document struct {
	Format string `yaml:"format"`
	Path   string `yaml:"path"`
}

// piece is one piece of a split.
type piece struct{ seeds, labels document }

// metadata is what is read of metadata.yaml.
type metadata struct {
	Graph *struct {
		Nodes []struct {
			Type string `yaml:"type"`
			Num  int64  `yaml:"num"`
		} `yaml:"nodes"`
		Edges []struct {
			Type string   `yaml:"type"`
			File document `yaml:",inline"`
		} `yaml:"edges"`
	} `yaml:"graph"`
	Features []struct {
		Domain string   `yaml:"domain"`
		Type   string   `yaml:"type"`
		Name   string   `yaml:"name"`
		File   document `yaml:",inline"`
	} `yaml:"feature_data"`
	Tasks []struct {
		Name    string        `yaml:"name"`
		Classes *int          `yaml:"num_classes"`
		Train   []metadataSet `yaml:"train_set"`
		Valid   []metadataSet `yaml:"validation_set"`
		Test    []metadataSet `yaml:"test_set"`
	} `yaml:"tasks"`
}

type metadataSet struct {
	Type string `yaml:"type"`
	Data []struct {
		Name string   `yaml:"name"`
		File document `yaml:",inline"`
	} `yaml:"data"`
}

// Format reads GraphBolt's source trees.
var Format = importer.Format{Name: Name, What: "the source tree of GraphBolt's OnDiskDataset, a directory with metadata.yaml", Detect: detect, Open: open}

func detect(fsys vfs.FS, sources []string) string {
	if len(sources) != 1 {
		return ""
	}
	if filepath.Base(sources[0]) == "metadata.yaml" {
		return "it is a metadata.yaml"
	}
	if _, err := fsys.Stat(filepath.Join(sources[0], "metadata.yaml")); err == nil {
		return "it has a metadata.yaml"
	}
	return ""
}

func open(fsys vfs.FS, sources []string, _ *importer.Reading) (importer.Source, error) {
	name, err := importer.One(sources)
	if err != nil {
		return nil, err
	}
	for _, suffix := range []string{".tar.gz", ".tgz", ".tar", ".zip"} {
		if strings.HasSuffix(name, suffix) {
			return nil, fault.New(fault.ErrInput, "%s is packed: unpack it and import the directory that holds its metadata.yaml", name)
		}
	}
	st, err := file.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	s := &source{fs: fsys, dir: name, meta: filepath.Join(name, "metadata.yaml")}
	if !st.IsDir() {
		s.dir, s.meta = filepath.Dir(name), name
	}
	if _, err := file.Stat(fsys, s.meta); err != nil {
		return nil, err
	}
	text, err := vfs.ReadSmall(fsys, s.meta, yaml.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.meta, err)
	}
	var m metadata
	if err := yaml.Unmarshal(text, &m); err != nil {
		return nil, fault.New(fault.ErrInput, "%s: %v", s.meta, err)
	}
	for _, step := range []func(*metadata) error{s.readGraph, s.readFeatures, s.readTask} {
		if err := step(&m); err != nil {
			return nil, fmt.Errorf("%s: %w", s.meta, err)
		}
	}
	if err := s.readShape(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *source) readGraph(m *metadata) error {
	bad := func(format string, args ...any) error { return fault.New(fault.ErrInput, format, args...) }
	switch {
	case m.Graph == nil:
		return bad("it has no \"graph\": a preprocessed dataset? Its source tree is needed")
	case len(m.Graph.Nodes) == 0 || len(m.Graph.Edges) == 0:
		return bad("its graph has no nodes or no edges")
	case len(m.Graph.Nodes) > 1 || len(m.Graph.Edges) > 1:
		return bad("a graph of %d node types and %d edge types: this version reads graphs of one type", len(m.Graph.Nodes), len(m.Graph.Edges))
	}
	n := m.Graph.Nodes[0].Num
	if n < 1 {
		return bad("a graph of %d nodes", n)
	}
	s.sh = importer.Shape{Nodes: n}
	for _, e := range m.Graph.Edges {
		if err := s.checkFile(e.File, "edges", "numpy", "csv"); err != nil {
			return err
		}
		s.edge = append(s.edge, e.File)
	}
	return dataset.CheckNodes("graph", n)
}

// readFeatures picks the node features: the only ones, or those named "feat".
func (s *source) readFeatures(m *metadata) error {
	var names []string
	found := false
	for _, f := range m.Features {
		if f.Domain != "node" {
			continue
		}
		names = append(names, f.Name)
		if !found || f.Name == "feat" {
			s.feat, found = f.File, true
		}
	}
	feats := 0
	for _, n := range names {
		if n == "feat" {
			feats++
		}
	}
	if !found {
		return fault.New(fault.ErrInput, "it has no feature_data of the domain node")
	}
	if len(names) > 1 && feats != 1 {
		return fault.New(fault.ErrInput, "several node features (%s), none or more than one of which is called feat", strings.Join(names, ", "))
	}
	return s.checkFile(s.feat, "features", "numpy")
}

func (s *source) readTask(m *metadata) error {
	if len(m.Tasks) == 0 {
		return fault.New(fault.ErrInput, "it has no tasks")
	}
	t := m.Tasks[0]
	if t.Classes != nil {
		if s.limit = *t.Classes; s.limit < 1 || s.limit > math.MaxInt32 {
			return fault.New(fault.ErrInput, "num_classes is %d", s.limit)
		}
	}
	s.sh.Classes = s.limit
	for i, sets := range [][]metadataSet{t.Train, t.Valid, t.Test} {
		for _, set := range sets {
			var g piece
			for _, d := range set.Data {
				switch d.Name {
				case "seeds", "seed_nodes":
					g.seeds = d.File
				case "labels":
					g.labels = d.File
				}
			}
			if g.seeds.Path == "" || g.labels.Path == "" {
				return fault.New(fault.ErrInput, "the %s set has no seeds or no labels", dataset.SplitNames[i])
			}
			for _, f := range []document{g.seeds, g.labels} {
				if err := s.checkFile(f, dataset.SplitNames[i]+" set", "numpy", "csv"); err != nil {
					return err
				}
			}
			s.sets[i] = append(s.sets[i], g)
		}
	}
	if len(s.sets[0]) == 0 {
		return fault.New(fault.ErrInput, "the train set is empty")
	}
	return nil
}

// checkFile refuses formats other than those given, and paths that leave the
// tree.
func (s *source) checkFile(f document, what string, formats ...string) error {
	for _, known := range formats {
		if f.Format == known {
			if !filepath.IsLocal(f.Path) {
				return fault.New(fault.ErrInput, "%s: path %q is not inside the directory", what, f.Path)
			}
			return nil
		}
	}
	return fault.New(fault.ErrInput, "%s: format %q, known is %s", what, f.Format, strings.Join(formats, ", "))
}

func (s *source) path(f document) string { return filepath.Join(s.dir, filepath.FromSlash(f.Path)) }

// readShape reads the headers of edges and features.
func (s *source) readShape() error {
	for _, e := range s.edge {
		if err := s.checkEdges(e); err != nil {
			return err
		}
	}
	if err := s.readLabelShape(); err != nil {
		return err
	}
	s.sh.Features = s.path(s.feat)
	return s.openNumbers(s.feat, func(a *npz.Array) error {
		dim := int64(1)
		switch {
		case len(a.Shape) == 2:
			dim = a.Shape[1]
		case len(a.Shape) != 1:
			return a.Fail(fault.New(fault.ErrInput, "features of shape %s", a.ShapeString()))
		}
		if a.Shape[0] != s.sh.Nodes {
			return a.Fail(fault.New(fault.ErrInput, "features of %d nodes, the graph has %d", a.Shape[0], s.sh.Nodes))
		}
		if dim < 1 || dim > dataset.MaxDim {
			return a.Fail(fault.New(fault.ErrInput, "features of %d elements", dim))
		}
		if a.Fortran && dim > 1 {
			return a.Fail(fault.New(fault.ErrInput, "its rows do not lie in order (fortran_order): save it row-major"))
		}
		s.sh.Dim, s.sh.DType = int(dim), dtype.Float32
		if a.Kind == 'f' && a.Size == 2 {
			s.sh.DType = dtype.Float16
		}
		return nil
	})
}

// openNumbers calls do with an array that is open, but not read.
func (s *source) openNumbers(f document, do func(*npz.Array) error) (err error) {
	a, err := npz.Open(s.fs, s.path(f))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return do(a)
}

func (s *source) Shape() importer.Shape { return s.sh }

func (s *source) Files() []string {
	files := []string{s.meta}
	for _, e := range s.edge {
		files = append(files, s.path(e))
	}
	files = append(files, s.path(s.feat))
	for _, sets := range s.sets {
		for _, set := range sets {
			files = append(files, s.path(set.seeds), s.path(set.labels))
		}
	}
	return files
}

func (s *source) Features(first int64) (importer.RowStream, error) {
	a, err := npz.Open(s.fs, s.path(s.feat))
	if err != nil {
		return nil, err
	}
	return npz.NewRows(a, nil, first, s.sh.Dim)
}

// Labels reads the seeds and labels of all sets, side by side.
func (s *source) Labels(ctx context.Context, l *importer.Labelling) error {
	for i, sets := range s.sets {
		for _, set := range sets {
			read := s.readSet
			if s.sh.Multi {
				read = s.readRows
			}
			if err := read(ctx, set, uint8(i+1), l); err != nil {
				return err
			}
		}
	}
	return nil
}

// readSet reads the seeds and the labels of one set of nodes with one class.
func (s *source) readSet(ctx context.Context, set piece, split uint8, l *importer.Labelling) (err error) {
	seeds, err := s.openInts(set.seeds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, seeds.Close()) }()
	labels, err := s.openInts(set.labels)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, labels.Close()) }()
	classes := make([]int64, importer.Chunk)
	next := func() (int, error) { return labels.Next(classes) }
	return s.walkSet(ctx, set, split, l, seeds, importer.Chunk, next, func(i int, v int64) error { return l.Label(v, classes[i]) })
}

// walkSet puts the seeds of a set into a split, at most so many at a time: for as many,
// next makes the labels ready, of which give gives the i-th to node v.
func (s *source) walkSet(ctx context.Context, set piece, split uint8, l *importer.Labelling, seeds edges.Integers, most int, next func() (int, error), give func(i int, v int64) error) error {
	ids := make([]int64, most)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := seeds.Next(ids)
		if err != nil {
			return err
		}
		m, err := next()
		if err != nil {
			return err
		}
		if m != n {
			return fault.New(fault.ErrInput, "%s and %s are not equally long", s.path(set.seeds), s.path(set.labels))
		}
		if n == 0 {
			return nil
		}
		for i, v := range ids[:n] {
			if err := l.Assign(v, split); err != nil {
				return fmt.Errorf("%s: %w", s.path(set.seeds), err)
			}
			if err := give(i, v); err != nil {
				return fmt.Errorf("%s: %w", s.path(set.labels), err)
			}
		}
	}
}

func (s *source) openInts(f document) (edges.Integers, error) {
	if f.Format == "csv" {
		return text.Open(s.fs, s.path(f), 1)
	}
	a, err := npz.Open(s.fs, s.path(f))
	if err != nil {
		return nil, err
	}
	// A column vector is as good as a vector.
	if len(a.Shape) == 2 && a.Shape[1] == 1 {
		a.Shape = a.Shape[:1]
	}
	if err := a.Vector(-1); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return npz.NewInts(a), nil
}
