// Package graphbolt imports GraphBolt's OnDiskDataset: its source tree, or the tree that GraphBolt's
// preprocessing made of one.
//
// A tree is a directory with a metadata.yaml. A source's metadata.yaml names the files of the edges,
// numpy of shape (2, E) or csv with "source,destination" lines; a preprocessed tree's, in the directory
// preprocessed, names graph_topology, a file of torch with the graph in compressed columns. Both name
// the features, arrays or tensors, and tasks with the seeds and labels of three sets. Edges are
// directed as they are given.
package graphbolt

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/dglgraph"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/tables"
	"diskgnn/dataset/importer/internal/text"
	"diskgnn/dataset/importer/internal/torchfile"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/internal/yaml"
)

// Name is the name of the format.
const Name = "graphbolt"

// Format reads GraphBolt's trees.
var Format = importer.Format{
	Name:   Name,
	What:   "GraphBolt's OnDiskDataset, a directory with metadata.yaml or preprocessed/metadata.yaml",
	Takes:  append([]string{"task", "feature"}, tables.TakesTyped...),
	Detect: detect,
	Open:   open,
}

const (
	metadataFile = "metadata.yaml"
	preprocessed = "preprocessed"
)

// source is an open tree.
type source struct {
	fs    vfs.FS
	dir   string // that paths begin in
	meta  string // the path of metadata.yaml
	sh    importer.Shape
	edge  []document // of a source
	topo  *document  // of a preprocessed tree
	graph *dglgraph.Graph
	feats []document
	label *document  // of all nodes, where the sets have no labels
	sets  [3][]piece // by split
	limit int        // classes, 0 if not said
	// of are the nodes with labels, of which sets are counted; all nodes of a graph of one type.
	of stream.Span
}

// document is a file that metadata.yaml names.
type document struct {
	Format string `yaml:"format"`
	Path   string `yaml:"path"`
}

// metadata is the part of metadata.yaml that is read.
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
	Topology *struct {
		Type string `yaml:"type"`
		Path string `yaml:"path"`
	} `yaml:"graph_topology"`
	Features []metadataFeature `yaml:"feature_data"`
	Tasks    []metadataTask    `yaml:"tasks"`
}

// locate returns the metadata.yaml for a path, which is that file or a directory, and the directory to
// which the paths in it are relative.
func locate(fsys vfs.FS, name string) (meta, dir string, err error) {
	st, err := importer.StatFile(fsys, name)
	if err != nil {
		return "", "", err
	}
	meta = name
	if st.IsDir() {
		meta = filepath.Join(name, metadataFile)
		if _, err := importer.StatFile(fsys, meta); err != nil {
			made := filepath.Join(name, preprocessed, metadataFile)
			if there, errMade := vfs.Exists(fsys, made); errMade != nil || !there {
				return "", "", errors.Join(err, errMade)
			}
			meta = made
		}
	}
	dir = filepath.Dir(meta)
	return meta, dir, nil
}

func detect(fsys vfs.FS, sources []string) string {
	if len(sources) != 1 {
		return ""
	}
	meta, _, err := locate(fsys, sources[0])
	if err != nil || filepath.Base(meta) != metadataFile {
		return ""
	}
	return "it has a " + metadataFile
}

func open(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
	name, err := importer.One(sources)
	if err != nil {
		return nil, err
	}
	for _, suffix := range []string{".tar.gz", ".tgz", ".tar", ".zip"} {
		if strings.HasSuffix(name, suffix) {
			return nil, fault.New(fault.ErrInput, "%s is an archive: unpack it and import the directory that has its metadata.yaml", name)
		}
	}
	s := &source{fs: fsys}
	if s.meta, s.dir, err = locate(fsys, name); err != nil {
		return nil, err
	}
	content, err := vfs.ReadSmall(fsys, s.meta, yaml.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.meta, err)
	}
	var m metadata
	if err := yaml.Unmarshal(content, &m); err != nil {
		return nil, fault.New(fault.ErrInput, "%s: %v", s.meta, err)
	}
	if o.Typed {
		return s.openTyped(&m, o)
	}
	for _, step := range []func(*metadata, *importer.Reading) error{s.readGraph, s.readFeatures, s.readTask} {
		if err := step(&m, o); err != nil {
			return nil, fmt.Errorf("%s: %w", s.meta, err)
		}
	}
	if err := s.readShape(); err != nil {
		return nil, err
	}
	return s, s.readHeld()
}

// readHeld counts the memory of files of torch.
func (s *source) readHeld() (err error) {
	var names []string
	add := func(f document) {
		if f.Format == "torch" {
			names = append(names, s.path(f))
		}
	}
	if s.topo != nil {
		add(*s.topo)
	}
	for _, f := range s.feats {
		add(f)
	}
	if s.label != nil {
		add(*s.label)
	}
	for _, sets := range s.sets {
		for _, set := range sets {
			add(set.seeds)
			add(set.labels)
		}
	}
	if len(names) > 0 {
		s.sh.Held, err = torchfile.Held(s.fs, names...)
	}
	return err
}

func bad(format string, args ...any) error { return fault.New(fault.ErrInput, format, args...) }

func (s *source) readGraph(m *metadata, _ *importer.Reading) error {
	if t := m.Topology; t != nil && m.Graph == nil {
		if t.Type != "FusedCSCSamplingGraph" {
			return bad("its graph_topology has the type %q; only FusedCSCSamplingGraph can be read", t.Type)
		}
		s.dir = filepath.Dir(s.dir)
		s.topo = &document{"torch", t.Path}
		return s.checkFile(*s.topo, "graph_topology", "torch")
	}
	switch {
	case m.Graph == nil:
		return bad("it has neither \"graph\" nor, as a preprocessed dataset, \"graph_topology\"")
	case len(m.Graph.Nodes) == 0 || len(m.Graph.Edges) == 0:
		return bad("its graph has no nodes or no edges")
	case len(m.Graph.Nodes) > 1 || len(m.Graph.Edges) > 1:
		return bad("the graph has %d node types and %d edge types: give --typed to keep them", len(m.Graph.Nodes), len(m.Graph.Edges))
	}
	n := m.Graph.Nodes[0].Num
	if n < 1 {
		return bad("the graph has %d nodes; at least 1 is needed", n)
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

func (s *source) choose(option, value string) {
	if s.sh.Reading == nil {
		s.sh.Reading = map[string]string{}
	}
	s.sh.Reading[option] = value
}

// checkFile refuses formats other than those given, and paths that leave the
// tree.
func (s *source) checkFile(f document, what string, formats ...string) error {
	for _, known := range formats {
		if f.Format == known {
			if _, err := importer.Inside(s.dir, f.Path); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			return nil
		}
	}
	return bad("%s: unknown format %q; use %s", what, f.Format, strings.Join(formats, ", "))
}

func (s *source) path(f document) string { return filepath.Join(s.dir, filepath.FromSlash(f.Path)) }

// readShape reads the headers of edges, labels and features.
func (s *source) readShape() error {
	if s.topo != nil {
		g, err := dglgraph.OpenFused(s.fs, s.path(*s.topo))
		if err != nil {
			return err
		}
		s.graph, s.sh.Nodes, s.sh.Edges = g, g.Nodes, g.Edges
		s.sh.DropEdgeData(s.path(*s.topo), g.Dropped)
	}
	for _, e := range s.edge {
		if err := s.checkEdges(e); err != nil {
			return err
		}
	}
	if err := s.readLabelShape(); err != nil {
		return err
	}
	if err := s.features().LookAt(&s.sh); err != nil {
		return err
	}
	s.of.Count = s.sh.Nodes
	return nil
}

func (s *source) openArray(f document) (*npz.Array, error) {
	if f.Format == "torch" {
		return torchfile.Array(s.fs, s.path(f), "", torchfile.Only)
	}
	return npz.Open(s.fs, s.path(f))
}

// open opens an array as a matrix.
func (s *source) open(f document) (matrix.Matrix, error) {
	a, err := s.openArray(f)
	if err != nil {
		return nil, err
	}
	return matrix.FromArray(a)
}

// with calls do with an array that is open, but not read.
func (s *source) with(f document, do func(matrix.Matrix) error) error {
	return importer.With(func() (matrix.Matrix, error) { return s.open(f) }, do)
}

// openInts opens a vector, or a column.
func (s *source) openInts(f document) (stream.Integers, error) {
	if f.Format == "csv" {
		return text.Open(s.fs, s.path(f), 1)
	}
	a, err := s.openArray(f)
	if err != nil {
		return nil, err
	}
	if len(a.Shape) == 2 && a.Shape[1] == 1 {
		a.Shape = a.Shape[:1]
	}
	if err := a.Vector(-1); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return npz.NewInts(a), nil
}

func (s *source) Shape() importer.Shape { return s.sh }

func (s *source) Files() []string {
	files := []string{s.meta}
	for _, e := range s.edge {
		files = append(files, s.path(e))
	}
	if s.topo != nil {
		files = append(files, s.path(*s.topo))
	}
	for _, f := range s.feats {
		files = append(files, s.path(f))
	}
	if s.label != nil {
		files = append(files, s.path(*s.label))
	}
	for _, sets := range s.sets {
		for _, set := range sets {
			files = append(files, s.path(set.seeds))
			if s.label == nil {
				files = append(files, s.path(set.labels))
			}
		}
	}
	return files
}
