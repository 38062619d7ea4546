// Package dglchunked imports graphs in DGL's chunked format, which GraphStorm's GSProcessing writes and
// DistDGL's partitioning reads.
//
// A graph is a directory with a metadata.json. It has, for each type of nodes and of edges
// ("source:relation:destination"), how many there are in each chunk, and the chunks' files: edges of
// two columns, and data of nodes by name, a row per node. A file is csv, numpy or parquet.
//
// Several types become one homogeneous graph, unless they are kept: the nodes of the types follow each other in the order of
// node_type, and every edge keeps its direction. One type has labels, and its features are the graph's;
// the nodes of the others have zeros. Labels are the data that graph_info names as
// ntype_label_property, or the data called label, labels or y; sets are train_mask, val_mask and
// test_mask. Features are the data called feat, or all other data, side by side in alphabetical order.
package dglchunked

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/text"
	"diskgnn/graph"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Name is the name of the format.
const Name = "dgl-chunked"

// Format reads DGL's chunked format.
var Format = importer.Format{
	Name:   Name,
	What:   "DGL's chunked format, a directory with metadata.json, as GraphStorm and DistDGL have it",
	Takes:  []string{"task", "feature", "labels-as", "typed"},
	Detect: detect,
	Open:   open,
}

const (
	metadataFile = "metadata.json"
	// maxMetadata is the largest size of the file, and held the memory of its decoded content.
	maxMetadata = 1 << 20
	held        = 16 << 20
)

// metadata is the part of metadata.json that is read.
type metadata struct {
	NodeType []string                        `json:"node_type"`
	Nodes    [][]int64                       `json:"num_nodes_per_chunk"`
	EdgeType []string                        `json:"edge_type"`
	Edges    [][]int64                       `json:"num_edges_per_chunk"`
	EdgeData map[string]*document            `json:"edges"`
	NodeData map[string]map[string]*document `json:"node_data"`
	EdgeMore map[string]map[string]*document `json:"edge_data"`
	Info     struct {
		Label    []string `json:"ntype_label"`
		Property []string `json:"ntype_label_property"`
	} `json:"graph_info"`
}

// document is the files of the chunks of one thing.
type document struct {
	Format struct {
		Name      string `json:"name"`
		Delimiter string `json:"delimiter"`
	} `json:"format"`
	Data []string `json:"data"`

	paths []string // Data, inside the directory
}

// source is an open graph.
type source struct {
	fs    vfs.FS
	dir   string
	meta  string
	m     metadata
	sh    importer.Shape
	first []int64 // node of each type, and after the last the number of nodes
	kind  int     // the type with labels
	label table
	masks [3]*table
	feats []table
}

// table is data of the nodes that have labels.
type table struct {
	name   string
	d      *document
	counts []int64 // rows of the chunks
	dim    int
}

func bad(format string, args ...any) error { return fault.New(fault.ErrInput, format, args...) }

func detect(fsys vfs.FS, sources []string) string {
	if len(sources) != 1 {
		return ""
	}
	name := sources[0]
	if filepath.Base(name) != metadataFile {
		name = filepath.Join(name, metadataFile)
	}
	if there, err := vfs.Exists(fsys, name); err != nil || !there {
		return ""
	}
	return "it has a " + metadataFile
}

func open(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
	name, err := importer.One(sources)
	if err != nil {
		return nil, err
	}
	st, err := importer.StatFile(fsys, name)
	if err != nil {
		return nil, err
	}
	s := &source{fs: fsys, dir: name, meta: filepath.Join(name, metadataFile)}
	if !st.IsDir() {
		s.dir, s.meta = filepath.Dir(name), name
	}
	if _, err := importer.StatFile(fsys, s.meta); err != nil {
		return nil, err
	}
	content, err := vfs.ReadSmall(fsys, s.meta, maxMetadata)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.meta, err)
	}
	if err := json.Unmarshal(content, &s.m); err != nil {
		return nil, bad("%s: %v", s.meta, err)
	}
	for _, step := range []func(*importer.Reading) error{s.readTypes, s.readEdgeTypes, s.pickLabel, s.pickFeatures} {
		if err := step(o); err != nil {
			return nil, fmt.Errorf("%s: %w", s.meta, err)
		}
	}
	if o.Typed {
		s.keepTypes()
	}
	if err := s.readShapes(); err != nil {
		return nil, err
	}
	return s, s.addTables(o.ScratchMemory)
}

// addTables adds the memory for reading Parquet chunks to Shape.Held: for edges and, at the same time,
// for labels or a mask, or for all features, which are read side by side.
func (s *source) addTables(most int64) error {
	var largest matrix.Need
	take := func(d *document) (n int64, err error) {
		if d == nil || d.Format.Name != "parquet" {
			return 0, nil
		}
		for _, name := range d.paths {
			held, err := matrix.Held(s.fs, matrix.Spec{Path: name}, most)
			if err != nil {
				return 0, err
			}
			if n = max(n, held.Bytes); held.Bytes > largest.Bytes {
				largest = held
			}
		}
		return n, nil
	}
	var edges, labels, features int64
	for _, name := range s.m.EdgeType {
		n, err := take(s.m.EdgeData[name])
		if err != nil {
			return err
		}
		edges = max(edges, n)
	}
	for _, t := range append([]*table{&s.label}, s.masks[:]...) {
		if t == nil {
			continue
		}
		n, err := take(t.d)
		if err != nil {
			return err
		}
		labels = max(labels, n)
	}
	for i := range s.feats {
		n, err := take(s.feats[i].d)
		if err != nil {
			return err
		}
		features += n
	}
	s.sh.Held, s.sh.HeldMost = s.sh.Held+edges+max(labels, features), largest.Most
	return nil
}

// sum adds up counts of nodes or edges; a negative count, or a sum above limit, is an error.
func sum(counts []int64, limit int64) (int64, error) {
	var n int64
	for _, c := range counts {
		if c < 0 || c > limit-n {
			return 0, bad("a chunk has an impossible number of nodes or edges, %d", c)
		}
		n += c
	}
	return n, nil
}

func (s *source) readTypes(*importer.Reading) error {
	if len(s.m.NodeType) == 0 || len(s.m.Nodes) != len(s.m.NodeType) {
		return bad("it lists %d node types, but chunks of %d node types", len(s.m.NodeType), len(s.m.Nodes))
	}
	s.sh.Held = held
	s.first = []int64{0}
	for i, counts := range s.m.Nodes {
		n, err := sum(counts, math.MaxInt64/2-s.sh.Nodes)
		if err != nil {
			return fmt.Errorf("the type %.40q: %w", s.m.NodeType[i], err)
		}
		s.sh.Nodes += n
		s.first = append(s.first, s.sh.Nodes)
	}
	if s.sh.Nodes < 1 {
		return bad("the graph has %d nodes; at least 1 is needed", s.sh.Nodes)
	}
	s.recordTypes()
	return dataset.CheckNodes("graph", s.sh.Nodes)
}

// recordTypes records the first node of each of several types.
func (s *source) recordTypes() {
	if len(s.m.NodeType) < 2 {
		return
	}
	var places []string
	for i, name := range s.m.NodeType {
		places = append(places, name+"="+strconv.FormatInt(s.first[i], 10))
	}
	s.choose("types", strings.Join(places, ","))
}

// keepTypes numbers the nodes of the type with features first, and sets Shape.Types. A graph of one type and one
// relation has none.
func (s *source) keepTypes() {
	if len(s.m.NodeType) == 1 && len(s.m.EdgeType) == 1 {
		return
	}
	order := []int{s.kind}
	for i := range s.m.NodeType {
		if i != s.kind {
			order = append(order, i)
		}
	}
	types, chunks, end := []string{}, [][]int64{}, int64(0)
	g := &graph.Types{}
	first := []int64{0}
	var dropped []string
	for place, i := range order {
		name := s.m.NodeType[i]
		n := s.first[i+1] - s.first[i]
		end += n
		types, chunks, first = append(types, name), append(chunks, s.m.Nodes[i]), append(first, end)
		g.Nodes = append(g.Nodes, graph.NodeType{Name: name, Count: n, Features: place == 0})
		if place > 0 && len(s.m.NodeData[name]) > 0 {
			dropped = append(dropped, name)
		}
	}
	s.m.NodeType, s.m.Nodes, s.first, s.kind = types, chunks, first, 0
	s.recordTypes()
	for _, name := range s.m.EdgeType {
		src, dst, _ := s.ends(name) // readEdgeTypes has found them
		g.Relations = append(g.Relations, graph.Relation{Source: src, Name: strings.Split(name, ":")[1], Destination: dst})
	}
	if len(dropped) > 0 {
		s.sh.Notes = append(s.sh.Notes, fmt.Sprintf("data of nodes of the types %.200s is not imported: only the type %.40s has features", strings.Join(dropped, ", "), types[0]))
	}
	s.sh.Types = g
}

func (s *source) choose(option, value string) {
	if s.sh.Reading == nil {
		s.sh.Reading = map[string]string{}
	}
	s.sh.Reading[option] = value
}

// check finds the files of a document. Their number must be chunks, or at least 1 if chunks is
// negative.
func (s *source) check(d *document, what string, chunks int) error {
	if d == nil || len(d.Data) == 0 {
		return bad("it names no files for %.80s", what)
	}
	if chunks >= 0 && len(d.Data) != chunks {
		return bad("%.80s: it names %d files instead of one for each of %d chunks", what, len(d.Data), chunks)
	}
	switch d.Format.Name {
	case "csv", "numpy", "parquet":
	default:
		return bad("%.80s: unknown format %.40q; use csv, numpy or parquet", what, d.Format.Name)
	}
	if len(d.Format.Delimiter) > 1 {
		return bad("%.80s: the delimiter is %.20q instead of one character", what, d.Format.Delimiter)
	}
	for _, name := range d.Data {
		if filepath.IsAbs(name) { // as DGL's own script writes them
			if rel, err := filepath.Rel(s.dir, name); err == nil {
				name = filepath.ToSlash(rel)
			}
		}
		path, err := importer.Inside(s.dir, name)
		if err != nil {
			return fmt.Errorf("%.80s: %w", what, err)
		}
		d.paths = append(d.paths, path)
	}
	return nil
}

// text returns how lines are written where the files are of text.
func (d *document) text() (f text.Format, is bool) {
	switch d.Format.Delimiter {
	case "", ",":
	case " ", "\t":
		f.Blanks = true
	default:
		f.Comma = d.Format.Delimiter[0]
	}
	return f, d.Format.Name == "csv"
}

// openChunk opens file i of a document, which should have the given number of rows; -1: not known. It
// returns nil for an empty text file if no rows are expected: DGL's own script writes such chunks.
func (s *source) openChunk(d *document, i int, rows int64) (matrix.Matrix, error) {
	name := d.paths[i]
	if f, is := d.text(); is {
		if rows == 0 {
			if fields, _, err := text.CountFields(s.fs, name, f); err != nil || fields == 0 {
				return nil, err
			}
		}
		return matrix.OpenText(s.fs, name, f)
	}
	if ext := map[string]string{"numpy": ".npy", "parquet": ".parquet"}[d.Format.Name]; filepath.Ext(name) != ext {
		return nil, bad("%s: the name of a file in the format %s must end in %s", name, d.Format.Name, ext)
	}
	return matrix.Open(s.fs, matrix.Spec{Path: name})
}

func (s *source) readEdgeTypes(*importer.Reading) error {
	if len(s.m.EdgeType) == 0 || len(s.m.Edges) != len(s.m.EdgeType) {
		return bad("it lists %d edge types, but chunks of %d edge types", len(s.m.EdgeType), len(s.m.Edges))
	}
	for i, name := range s.m.EdgeType {
		if slices.Contains(s.m.EdgeType[:i], name) {
			return bad("it has the edge type %.80q twice", name)
		}
		if _, _, err := s.ends(name); err != nil {
			return err
		}
		n, err := sum(s.m.Edges[i], importer.MaxEdges+1-s.sh.Edges)
		if err != nil {
			return fmt.Errorf("the type %.80q: %w", name, err)
		}
		s.sh.Edges += n
		if err := s.check(s.m.EdgeData[name], "edges "+name, len(s.m.Edges[i])); err != nil {
			return err
		}
	}
	var dropped []string
	for kind, data := range s.m.EdgeMore {
		for name := range data {
			dropped = append(dropped, kind+" "+name)
		}
	}
	s.sh.DropEdgeData(s.meta, dropped)
	return nil
}

// ends returns the node types of an edge type.
func (s *source) ends(name string) (src, dst int, err error) {
	parts := strings.Split(name, ":")
	if len(parts) == 3 {
		src, dst = slices.Index(s.m.NodeType, parts[0]), slices.Index(s.m.NodeType, parts[2])
	}
	if len(parts) != 3 || src < 0 || dst < 0 {
		return 0, 0, bad("the edge type %.80q is not source:relation:destination of the node types %.200s", name, strings.Join(s.m.NodeType, ", "))
	}
	return src, dst, nil
}

// labelNames are the data of nodes that are labels, if graph_info names none.
var labelNames = []string{"label", "labels", "y"}

// maskNames are the data of nodes that are sets, by split.
var maskNames = []string{"train_mask", "val_mask", "test_mask"}

func (s *source) labels(kind string) string {
	data := s.m.NodeData[kind]
	if i := slices.Index(s.m.Info.Label, kind); i >= 0 && i < len(s.m.Info.Property) && data[s.m.Info.Property[i]] != nil {
		return s.m.Info.Property[i]
	}
	for _, name := range labelNames {
		if data[name] != nil {
			return name
		}
	}
	return ""
}

// pickLabel finds the type that has labels: the only one, or the one that --task names.
func (s *source) pickLabel(o *importer.Reading) error {
	if !o.Labelled() {
		return s.pickType(o)
	}
	var kinds []string
	for _, kind := range s.m.NodeType {
		if s.labels(kind) != "" {
			kinds = append(kinds, kind)
		}
	}
	kind := o.Task
	switch {
	case len(kinds) == 0:
		return bad("no node type has labels: data with the name %s, or the name that graph_info gives", strings.Join(labelNames, ", "))
	case kind == "" && len(kinds) > 1:
		return bad("several node types have labels (%.200s): choose one with --task", strings.Join(kinds, ", "))
	case kind == "":
		kind = kinds[0]
	case !slices.Contains(kinds, kind):
		return bad("the node types with labels are %.200s; --task %.40q is not one of them", strings.Join(kinds, ", "), kind)
	}
	if len(kinds) > 1 {
		s.choose("task", kind)
	}
	s.kind = slices.Index(s.m.NodeType, kind)
	name := s.labels(kind)
	s.label = table{name: name, d: s.m.NodeData[kind][name]}
	if err := s.check(s.label.d, "labels "+name, -1); err != nil {
		return err
	}
	for i, name := range maskNames {
		d := s.m.NodeData[kind][name]
		if d == nil {
			continue
		}
		s.masks[i] = &table{name: name, d: d}
		if err := s.check(d, name, -1); err != nil {
			return err
		}
	}
	s.sh.NoSplit = s.masks[0] == nil
	if s.sh.NoSplit && (s.masks[1] != nil || s.masks[2] != nil) {
		return bad("the node type %.40q has masks, but no %s", kind, maskNames[0])
	}
	return nil
}

// pickType finds the type that features are taken of where no labels are: the one that --task names,
// the only one that has data, or the only one that has labels.
func (s *source) pickType(o *importer.Reading) error {
	var data, labelled []string
	for _, kind := range s.m.NodeType {
		if len(s.m.NodeData[kind]) > 0 {
			data = append(data, kind)
		}
		if s.labels(kind) != "" {
			labelled = append(labelled, kind)
		}
	}
	kind := o.Task
	switch {
	case len(data) == 0:
		return bad("no node type has node data, so there are no features")
	case kind != "" && !slices.Contains(data, kind):
		return bad("the node types with data are %.200s; --task %.40q is not one of them", strings.Join(data, ", "), kind)
	case kind != "":
	case len(data) == 1:
		kind = data[0]
	case len(labelled) == 1:
		kind = labelled[0]
	default:
		return bad("several node types have data (%.200s): choose one with --task", strings.Join(data, ", "))
	}
	if len(data) > 1 {
		s.choose("task", kind)
	}
	s.kind, s.label.name = slices.Index(s.m.NodeType, kind), s.labels(kind)
	return nil
}

// pickFeatures finds the features of the type with labels.
func (s *source) pickFeatures(o *importer.Reading) error {
	data := s.m.NodeData[s.m.NodeType[s.kind]]
	var all []string
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if name != s.label.name && !slices.Contains(maskNames, name) {
			all = append(all, name)
		}
	}
	chosen := all
	switch {
	case len(o.Features) > 0:
		chosen = o.Features
	case slices.Contains(all, "feat"):
		chosen = []string{"feat"}
	}
	if len(all) == 0 {
		return bad("the node type %.40q has no features", s.m.NodeType[s.kind])
	}
	for i, name := range chosen {
		if !slices.Contains(all, name) || slices.Contains(chosen[:i], name) {
			return bad("the features of the node type %.40q are %.200s; --feature %.40q is not one of them, or is given twice", s.m.NodeType[s.kind], strings.Join(all, ", "), name)
		}
		if err := s.check(data[name], "features "+name, -1); err != nil {
			return err
		}
		s.feats = append(s.feats, table{name: name, d: data[name]})
	}
	if len(all) > 1 && !slices.Equal(chosen, []string{"feat"}) {
		s.choose("feature", strings.Join(chosen, ","))
		if len(o.Features) == 0 {
			s.sh.Notes = append(s.sh.Notes, fmt.Sprintf("the features are %s, side by side: choose others with --feature", strings.Join(chosen, ", ")))
		}
	}
	return nil
}

// labelled is how many nodes the type with labels has.
func (s *source) labelled() int64 { return s.first[s.kind+1] - s.first[s.kind] }

func (s *source) readTable(t *table, each func(matrix.Matrix) error) error {
	nodes := s.m.Nodes[s.kind]
	var rows int64
	for i := range t.d.paths {
		should := int64(-1)
		if len(nodes) == len(t.d.paths) {
			should = nodes[i]
		}
		m, err := s.openChunk(t.d, i, should)
		if err != nil {
			return err
		}
		if m == nil {
			t.counts = append(t.counts, 0)
			continue
		}
		n := m.Rows()
		switch {
		case n < 0 && should < 0:
			err = bad("%s: %s has %d files of text instead of one for each of %d chunks", m.Name(), t.name, len(t.d.paths), len(nodes))
		case n < 0:
			n = should
		}
		if err == nil && t.dim > 0 && m.Columns() != t.dim {
			err = bad("%s: it has %d columns, but other chunks have %d", m.Name(), m.Columns(), t.dim)
		}
		if t.dim = m.Columns(); err == nil && t.dim > 1 {
			err = matrix.CheckColumns(m)
		}
		t.counts = append(t.counts, n)
		rows += n
		if err == nil {
			err = each(m)
		}
		if err := errors.Join(err, m.Close()); err != nil {
			return err
		}
	}
	if t.dim == 0 {
		return bad("%s is empty, like all files of %s", t.d.paths[0], t.name)
	}
	if rows != s.labelled() {
		return bad("%s: the files of %s have %d rows, but there are %d nodes of the type %.40q", t.d.paths[0], t.name, rows, s.labelled(), s.m.NodeType[s.kind])
	}
	return nil
}

func (s *source) readShapes() error {
	any := func(matrix.Matrix) error { return nil }
	if s.label.d != nil {
		if err := s.readTable(&s.label, any); err != nil {
			return err
		}
	}
	if s.sh.Multi = s.label.dim > 1; s.sh.Multi {
		s.sh.Classes = s.label.dim
	}
	for _, m := range s.masks {
		if m == nil {
			continue
		}
		if err := s.readTable(m, any); err != nil {
			return err
		}
		if m.dim != 1 {
			return bad("%s: a mask has %d columns instead of 1", m.d.paths[0], m.dim)
		}
	}
	half := true
	var names []string
	for i := range s.feats {
		f := &s.feats[i]
		if err := s.readTable(f, func(m matrix.Matrix) error { half = half && m.Half(); return nil }); err != nil {
			return err
		}
		if s.sh.Dim += f.dim; s.sh.Dim > dataset.MaxDim {
			return bad("%s: feature rows have %d elements, more than %d", f.d.paths[0], s.sh.Dim, dataset.MaxDim)
		}
		names = append(names, f.name)
	}
	s.sh.DType = dtype.Float32
	if half {
		s.sh.DType = dtype.Float16
	}
	s.sh.Features = s.meta + ": features " + strings.Join(names, ", ")
	return nil
}

// Shape implements importer.Source.
func (s *source) Shape() importer.Shape { return s.sh }

// CountEdges implements importer.Source.
func (s *source) CountEdges(map[string]int64) int64 { return s.sh.Edges }

// Files implements importer.Source.
func (s *source) Files() []string {
	files := []string{s.meta}
	for _, name := range s.m.EdgeType {
		files = append(files, s.m.EdgeData[name].paths...)
	}
	for _, t := range s.feats {
		files = append(files, t.d.paths...)
	}
	if s.label.d != nil {
		files = append(files, s.label.d.paths...)
	}
	for _, t := range s.masks {
		if t != nil {
			files = append(files, t.d.paths...)
		}
	}
	return files
}

// each calls do for all rows of a table, with the node that each is of.
func (s *source) each(ctx context.Context, t *table, do func(v int64, row []float64) error) error {
	v := s.first[s.kind]
	for i, n := range t.counts {
		m, err := s.openChunk(t.d, i, n)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		rows := int64(0)
		err = matrix.EachDouble(ctx, m, func(j int64, row []float64) error {
			if rows++; rows > n {
				return bad("%s: it has more rows than its chunk's %d nodes", m.Name(), n)
			}
			if err := do(v+j, row); err != nil {
				return fmt.Errorf("%s: %w", m.Name(), err)
			}
			return nil
		})
		if err == nil && rows < n {
			err = bad("%s: it has %d rows instead of one for each of its chunk's %d nodes", m.Name(), rows, n)
		}
		if err := errors.Join(err, m.Close()); err != nil {
			return err
		}
		v += n
	}
	return nil
}

// Labels implements importer.Source.
func (s *source) Labels(ctx context.Context, l *importer.Labelling) error {
	row := make([]float32, s.label.dim)
	if err := s.each(ctx, &s.label, func(v int64, values []float64) error {
		if s.sh.Multi {
			for i, x := range values {
				row[i] = float32(x)
			}
			return l.Row(v, row)
		}
		return l.Number(v, values[0])
	}); err != nil {
		return err
	}
	for i, t := range s.masks {
		if t == nil {
			continue
		}
		if err := s.each(ctx, t, func(v int64, values []float64) error {
			if values[0] == 0 {
				return nil
			}
			return l.Assign(v, uint8(i+1))
		}); err != nil {
			return err
		}
	}
	return nil
}

// Edges implements importer.Source.
func (s *source) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	for i := range s.m.EdgeType {
		if err := s.Relation(ctx, i, add); err != nil {
			return err
		}
	}
	return nil
}

// Relation implements importer.TypedSource.
func (s *source) Relation(ctx context.Context, relation int, add func(dst, src []int64) error) error {
	for j, n := range s.m.Edges[relation] {
		if err := s.readEdges(ctx, s.m.EdgeType[relation], j, n, add); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) readEdges(ctx context.Context, name string, chunk int, n int64, add func(dst, src []int64) error) error {
	from, to, err := s.ends(name)
	if err != nil {
		return err
	}
	m, err := s.openChunk(s.m.EdgeData[name], chunk, n)
	if err != nil || m == nil {
		return err
	}
	if m, _, err = matrix.Edges(m); err != nil {
		return err
	}
	dst, src := make([]int64, 0, importer.Chunk), make([]int64, 0, importer.Chunk)
	rows := int64(0)
	if m.Columns() != 2 {
		err = bad("%s: edges have %d columns instead of 2, sources and destinations", m.Name(), m.Columns())
	} else {
		err = matrix.EachInt(ctx, m, func(i int64, e []int64) error {
			sources, destinations := s.first[from+1]-s.first[from], s.first[to+1]-s.first[to]
			switch rows++; {
			case rows > n:
				return bad("%s: it has more edges than the %d that metadata.json says", m.Name(), n)
			case uint64(e[0]) >= uint64(sources) || uint64(e[1]) >= uint64(destinations):
				return bad("%s: the edge from %d to %d is out of range: there are %d nodes of the source type %.40s and %d of the destination type %.40s", m.Name(), e[0], e[1], sources, s.m.NodeType[from], destinations, s.m.NodeType[to])
			}
			src, dst = append(src, s.first[from]+e[0]), append(dst, s.first[to]+e[1])
			if len(src) < cap(src) {
				return nil
			}
			err := add(dst, src)
			dst, src = dst[:0], src[:0]
			return err
		})
	}
	if err == nil && rows < n {
		err = bad("%s: it has %d edges instead of the %d that metadata.json says", m.Name(), rows, n)
	}
	if err == nil {
		err = add(dst, src)
	}
	return errors.Join(err, m.Close())
}

// Features implements importer.Source: zeros for types without labels.
func (s *source) Features(first int64) (importer.RowStream, error) {
	counts := make([]int64, len(s.m.NodeType))
	for i := range counts {
		counts[i] = s.first[i+1] - s.first[i]
	}
	return stream.Behind(counts, s.sh.Dim, first, func(kind int, first int64) (importer.RowStream, error) {
		if kind != s.kind {
			return stream.Zeros{}, nil
		}
		var parts []stream.Part
		for _, f := range s.feats {
			parts = append(parts, stream.Part{Dim: f.dim, Rows: stream.Behind(f.counts, f.dim, first, func(i int, first int64) (importer.RowStream, error) {
				m, err := s.openChunk(f.d, i, f.counts[i])
				if err != nil {
					return nil, err
				}
				return matrix.NewRows(m, f.counts[i], first)
			})})
		}
		return stream.Beside(parts), nil
	}), nil
}
