// Package raw imports graphs without a format of their own: edges, features, labels and splits in
// files of arrays or tables that flags name; and graphs of edges only, as SNAP's text and in
// WebGraph's ASCII format.
//
//	edges     integers of shape (E, 2), or of arrays also (2, E): source and destination
//	features  a row for each node, or random:DIM, normally distributed
//	labels    a class for each node, missing or -1 for none; or a column per class, of ones and
//	          zeros; or random:CLASSES
//	splits    three files, of node ids or of a boolean for each node
//	node ids  names of nodes: a column of a table, or edges, which stands for the names in the edges
//
// A file is an array (.npy, NAME.npz:KEY), an array without a header (NAME:DTYPE:ROWSxCOLS), text (.csv
// with commas; .tsv, .txt with white space; .gz of them), or Parquet.
//
// # Names of columns
//
// Names of columns are in a first line of text without numbers, in the comment before the first line,
// or in Parquet. If the columns of edges have the names of a destination and a source, in this order,
// the destination comes first; names that contradict each other are an error. If the first column of
// features or labels has a name for ids, it must have the numbers of the rows, and is left out; such a
// column elsewhere is an error.
//
// # Names
//
// With --node-ids, files refer to nodes by names instead of numbers from 0: strings and integers of
// Parquet, integers of arrays, fields of text as they are written, in quotes if they have commas. A
// name has 1 to 4096 bytes of UTF-8 without control characters.
//
// The first column of a table of ids has a name for each node, and nodes are numbered by its rows;
// features and labels are in the same order. With "edges", nodes are numbered by their first
// appearance in the edges, sources before destinations; tables of features and labels then begin with
// a column of names, and may be in any order. Every node must have features; nodes without a row of
// labels are unlabelled. A first line is a header, and skipped, if it has only words like id, source
// and target (matrix.ColumnNames) or, in a table of names and numbers, no number.
//
// Names are numbered when the source is opened (package names), on disk if they do not fit in half of
// the memory; so are the ends of edges and the nodes of splits, which takes 8 bytes of disk for each
// edge.
package raw

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// takes are the flags that all formats here take, beside --edges.
var takes = []string{"features", "labels", "split-files", "nodes", "node-ids", "labels-as"}

// Format reads arrays and tables.
var Format = importer.Format{
	Name: "raw", What: "files that --edges, --features, --labels and --split-files name", Takes: append([]string{"edges"}, takes...),
	Open: func(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
		if o.Edges == "" || len(sources) > 0 {
			return nil, fault.New(fault.ErrUsage, "the format raw takes no SOURCE: name its files with --edges, --features, --labels and --split-files")
		}
		spec, err := matrix.ParseSpec(o.Edges)
		if err != nil {
			return nil, err
		}
		return open(fsys, o, &table{fs: fsys, spec: spec})
	},
}

// edgeList is where edges come from.
type edgeList interface {
	file() string
	// count returns how many edges there are, or -1 if only the lines of the file tell.
	count() (int64, error)
	open() (stream.Pairs, error)
	// columns returns the Ends of the columns' names, once the edges are counted.
	columns() matrix.Ends
	// nodes returns how many nodes there are, or 0 if only all edges tell.
	nodes() (int64, error)
}

// random is the prefix of features and labels that are drawn.
const random = "random:"

// source is a graph.
type source struct {
	fs      vfs.FS
	sh      importer.Shape
	edge    edgeList
	counted bool // the edges, without reading them
	feat    *matrix.Spec
	label   *matrix.Spec
	drawn   int // classes
	splits  []matrix.Spec
	seed    uint64
	named   *named // nil: nodes are numbers
}

func open(fsys vfs.FS, o *importer.Reading, e edgeList) (_ importer.Source, err error) {
	s := &source{fs: fsys, edge: e, seed: o.Seed}
	held, err := heldByTables(fsys, o, e)
	if err != nil {
		return nil, err
	}
	var spec matrix.Spec
	if o.NodeIDs != "" {
		list, ok := e.(interface{ listSpec() matrix.Spec })
		switch {
		case !ok:
			return nil, fault.New(fault.ErrUsage, "--node-ids: the adjacency lists of %s have no ids", e.file())
		case o.Nodes != 0:
			return nil, fault.New(fault.ErrUsage, "--nodes: not with --node-ids, which determines the number of nodes")
		}
		spec = list.listSpec()
		if s.named, err = openNamed(fsys, o, held.Bytes); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, s.Close())
			}
		}()
	}
	s.sh.DType, s.sh.Reading = dtype.Float32, map[string]string{}
	var found importer.Problems
	found.Add(s.openFeatures(o.FeatureFile))
	if o.Labelled() {
		found.Add(s.openLabels(o.LabelFile))
		found.Add(s.openSplits(o.SplitFiles))
	} else {
		s.sh.NoSplit = true
	}
	if s.named == nil {
		found.Add(s.openEdges())
	} else if err := s.settleNames(context.Background(), o, spec); err != nil {
		if !errors.Is(err, fault.ErrInput) {
			return nil, err
		}
		found.Add(err)
	}
	if err := found.Err(); err != nil {
		return nil, err
	}
	if err := s.countNodes(o.Nodes); err != nil {
		return nil, err
	}
	if len(s.sh.Reading) == 0 {
		s.sh.Reading = nil
	}
	s.sh.Held, s.sh.HeldMost = s.sh.Held+held.Bytes, held.Most
	return s, nil
}

// heldByTables returns the memory for reading the tables: edges, and one of the others at the same
// time. If nodes have names, files are read while the source is opened, so that too large ones are
// errors here; others are errors when the whole import is planned.
func heldByTables(fsys vfs.FS, o *importer.Reading, e edgeList) (held matrix.Need, err error) {
	texts := append([]string{o.FeatureFile, o.LabelFile, o.NodeIDs}, o.SplitFiles...)
	var specs []matrix.Spec
	for _, text := range texts {
		if spec, err := matrix.ParseSpec(text); err == nil { // opening the file reports other errors
			specs = append(specs, spec)
		}
	}
	other := matrix.Need{}
	for _, spec := range specs {
		n, err := tableNeed(fsys, spec, o)
		if err != nil {
			return held, err
		}
		if n.Bytes > other.Bytes {
			other = n
		}
	}
	if list, ok := e.(interface{ listSpec() matrix.Spec }); ok {
		if held, err = tableNeed(fsys, list.listSpec(), o); err != nil {
			return held, err
		}
	}
	if other.Bytes > held.Bytes {
		held.Most = other.Most
	}
	held.Bytes += other.Bytes
	if o.NodeIDs != "" && o.ScratchMemory != 0 && held.Bytes > max(o.ScratchMemory, 0) {
		err = fault.New(fault.ErrBudget, "%s", held.Most)
	}
	return held, err
}

func tableNeed(fsys vfs.FS, spec matrix.Spec, o *importer.Reading) (matrix.Need, error) {
	n, err := matrix.Held(fsys, spec, o.ScratchMemory)
	if errors.Is(err, fault.ErrInput) {
		return matrix.Need{}, nil // likewise
	}
	return n, err
}

// parseRandom reads random:N.
func parseRandom(flag, text string, most int) (n int, is bool, err error) {
	rest, is := strings.CutPrefix(text, random)
	if !is {
		return 0, false, nil
	}
	if n, err = strconv.Atoi(rest); err != nil || n < 1 || n > most {
		return 0, true, fault.New(fault.ErrUsage, "--%s %s: needs a number from 1 to %d", flag, text, most)
	}
	return n, true, nil
}

func (s *source) openFeatures(text string) error {
	if text == "" {
		return fault.New(fault.ErrUsage, "--features is missing: give a file, or random:DIM")
	}
	dim, is, err := parseRandom("features", text, dataset.MaxDim)
	if is || err != nil {
		s.sh.Dim, s.sh.Features = dim, text
		s.record("features", text)
		return err
	}
	return s.lookAtTable(text, &s.feat, func(m matrix.Matrix) error {
		s.sh.Dim, s.sh.Features = m.Columns(), m.Name()
		s.noteIDs("features", m)
		if m.Half() {
			s.sh.DType = dtype.Float16
		}
		return s.setNodes("features", m.Name(), m.Rows())
	})
}

// noteIDs records that a table has a column that counts its rows.
func (s *source) noteIDs(what string, m matrix.Matrix) {
	if name, is := matrix.LeftOut(m); is {
		s.sh.Reading["counted_"+what] = "yes"
		s.sh.Notes = append(s.sh.Notes, fmt.Sprintf("%s: its column %q has the numbers of the rows, and is left out of the %s", m.Name(), name, what))
	}
}

// record keeps the draw and its seed in the Shape.
func (s *source) record(name, text string) {
	s.sh.Reading[name], s.sh.Reading["seed"] = text, strconv.FormatUint(s.seed, 10)
}

func (s *source) openLabels(text string) error {
	if text == "" {
		return fault.New(fault.ErrUsage, "--labels is missing: give a file, or random:CLASSES")
	}
	classes, is, err := parseRandom("labels", text, 1<<20)
	if is || err != nil {
		s.drawn, s.sh.Classes = classes, classes
		s.record("labels", text)
		return err
	}
	return s.lookAtTable(text, &s.label, func(m matrix.Matrix) error {
		if s.sh.Multi = m.Columns() > 1; s.sh.Multi {
			s.sh.Classes = m.Columns()
		}
		s.noteIDs("labels", m)
		return s.setNodes("labels", m.Name(), m.Rows())
	})
}

// setNodes compares the numbers of nodes of files and of --nodes, and sets Shape.Nodes.
func (s *source) setNodes(what, name string, n int64) error {
	switch {
	case n < 0 || s.named != nil && s.named.spec == nil: // not known, or not of all nodes
		return nil
	case n == 0:
		return fault.New(fault.ErrInput, "%s has no rows of %s", name, what)
	case s.sh.Nodes == 0:
		s.sh.Nodes = n
	case s.sh.Nodes != n:
		return fault.New(fault.ErrInput, "%s says %d nodes, but another file says %d nodes", name, n, s.sh.Nodes)
	}
	return nil
}

func (s *source) openSplits(files []string) error {
	if len(files) == 0 {
		s.sh.NoSplit = true
		return nil
	}
	if len(files) != len(dataset.SplitNames) {
		return fault.New(fault.ErrUsage, "--split-files %s: needs three files: training, validation and test nodes", strings.Join(files, ","))
	}
	var found importer.Problems
	for _, f := range files {
		if s.named != nil { // the file is checked when ids have numbers
			parsed, err := matrix.ParseSpec(f)
			if found.Add(err); err == nil {
				s.splits = append(s.splits, parsed)
			}
			continue
		}
		var spec *matrix.Spec
		found.Add(s.look(f, &spec, func(m matrix.Matrix) error {
			if m.Columns() != 1 || !m.Integer() && !m.Mask() {
				return fault.New(fault.ErrInput, "%s: a split must be one column of node ids, or of booleans", m.Name())
			}
			return nil
		}))
		if spec != nil {
			s.splits = append(s.splits, *spec)
		}
	}
	return found.Err()
}

// look parses a Spec and opens its file for a moment.
func (s *source) look(text string, spec **matrix.Spec, do func(matrix.Matrix) error) error {
	parsed, err := matrix.ParseSpec(text)
	if err != nil {
		return err
	}
	*spec = &parsed
	return with(func() (matrix.Matrix, error) { return matrix.Open(s.fs, parsed) }, do)
}

// lookAtTable is look for features and labels.
func (s *source) lookAtTable(text string, spec **matrix.Spec, do func(matrix.Matrix) error) error {
	parsed, err := matrix.ParseSpec(text)
	if err != nil {
		return err
	}
	*spec = &parsed
	return s.withTable(parsed, do)
}

// openTable opens features or labels, without the ids that rows begin with.
func (s *source) openTable(spec matrix.Spec) (matrix.Matrix, error) {
	if s.named != nil && s.named.spec == nil {
		return matrix.OpenKeyed(s.fs, spec)
	}
	m, err := matrix.Open(s.fs, spec)
	if err != nil {
		return nil, err
	}
	return matrix.WithoutIDs(m)
}

func (s *source) withTable(spec matrix.Spec, do func(matrix.Matrix) error) error {
	return with(func() (matrix.Matrix, error) { return s.openTable(spec) }, do)
}

func with(open func() (matrix.Matrix, error), do func(matrix.Matrix) error) (err error) {
	m, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return do(m)
}

func (s *source) openEdges() error {
	n, err := s.edge.count()
	if err != nil {
		return err
	}
	if s.counted = n >= 0; s.counted {
		s.sh.Edges = importer.AddEdges(0, n)
	}
	s.settleEnds(s.edge.columns())
	return s.findEdgeData()
}

// findEdgeData notes the edge data in the archive of the edges.
func (s *source) findEdgeData() error {
	t, ok := s.edge.(*table)
	if !ok || t.spec.Key == "" {
		return nil
	}
	z, err := npz.OpenArchive(s.fs, t.spec.Path)
	if err != nil {
		return err
	}
	s.sh.DropEdgeData(t.spec.Path, importer.EdgeData(z.Keys(), t.spec.Key))
	return z.Close()
}

// settleEnds records which column of the edges has the sources, where it is not the first.
func (s *source) settleEnds(e matrix.Ends) {
	if e.Reversed {
		s.sh.Reading["edge_columns"] = "destination,source"
	}
	if e.Note != "" {
		s.sh.Notes = append(s.sh.Notes, e.Note)
	}
}

// countNodes determines the number of nodes: the given one, the number in files, or the largest id
// plus one, for which it reads all edges.
func (s *source) countNodes(given int64) error {
	if given != 0 {
		if err := s.setNodes("--nodes", "--nodes", given); err != nil {
			return err
		}
		s.sh.Reading["nodes"] = strconv.FormatInt(given, 10)
	}
	n, err := s.edge.nodes()
	if err != nil {
		return err
	}
	if n > 0 {
		if err := s.setNodes("edges", s.edge.file(), n); err != nil {
			return err
		}
	}
	if s.sh.Nodes == 0 {
		if err := s.scan(); err != nil {
			return err
		}
		s.sh.Notes = append(s.sh.Notes, fmt.Sprintf("%s: the graph has %d nodes, by the largest id: give --nodes if it has more", s.edge.file(), s.sh.Nodes))
	}
	if s.sh.Nodes < 1 {
		return fault.New(fault.ErrInput, "%s: the graph has %d nodes; at least 1 is needed", s.edge.file(), s.sh.Nodes)
	}
	return dataset.CheckNodes(s.edge.file(), s.sh.Nodes)
}

// scan reads all edges for the largest id.
func (s *source) scan() error {
	most := int64(-1)
	err := s.eachEdge(context.Background(), 1<<62, func(dst, src []int64) error {
		for i := range dst {
			most = max(most, dst[i], src[i])
		}
		return nil
	})
	s.sh.Nodes = most + 1
	return err
}

func (s *source) eachEdge(ctx context.Context, nodes int64, add func(dst, src []int64) error) (err error) {
	if s.named != nil {
		return s.named.eachEdge(ctx, add)
	}
	pairs, err := s.edge.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pairs.Close()) }()
	return stream.EachPair(ctx, s.edge.file(), pairs, nodes, add)
}

func (s *source) Shape() importer.Shape { return s.sh }

func (s *source) Files() []string {
	files := []string{s.edge.file()}
	for _, spec := range s.splits {
		files = append(files, spec.Path)
	}
	if s.feat != nil {
		files = append(files, s.feat.Path)
	}
	if s.label != nil {
		files = append(files, s.label.Path)
	}
	if s.named != nil && s.named.spec != nil {
		files = append(files, s.named.spec.Path)
	}
	return files
}

func (s *source) CountEdges(lines map[string]int64) int64 {
	if s.counted {
		return s.sh.Edges
	}
	return importer.AddEdges(0, lines[s.edge.file()])
}

func (s *source) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	return s.eachEdge(ctx, s.sh.Nodes, add)
}

// Glance implements importer.Glancer.
func (s *source) Glance() (bool, error) {
	if t, ok := s.edge.(*table); ok {
		return t.glance(s.sh.Nodes)
	}
	return false, nil
}

func (s *source) Labels(ctx context.Context, l *importer.Labelling) error {
	if err := s.readLabels(ctx, l); err != nil {
		return err
	}
	for i, spec := range s.splits {
		if s.named != nil && s.named.splits[i] != nil {
			err := s.named.splits[i].Each(ctx, func(nodes []uint32) error {
				for _, v := range nodes {
					if err := l.Assign(int64(v), uint8(i+1)); err != nil {
						return fmt.Errorf("%s: %w", spec.Path, err)
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			continue
		}
		if err := s.readSplit(ctx, l, spec, uint8(i+1)); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) readLabels(ctx context.Context, l *importer.Labelling) error {
	if s.label == nil {
		return drawLabels(s.seed, s.sh.Nodes, s.drawn, l)
	}
	if s.named != nil && s.named.label != nil {
		return s.keyedLabels(ctx, l)
	}
	return s.withTable(*s.label, func(m matrix.Matrix) error {
		values, rows := make([]float32, m.Columns()), int64(0)
		err := matrix.EachDouble(ctx, m, func(v int64, row []float64) (err error) {
			if rows++; rows > s.sh.Nodes {
				return fault.New(fault.ErrInput, "%s has labels of more nodes than the graph's %d", m.Name(), s.sh.Nodes)
			}
			if s.sh.Multi {
				for c, x := range row {
					values[c] = float32(x)
				}
				err = l.Row(v, values)
			} else {
				err = l.Number(v, row[0])
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", m.Name(), err)
			}
			return err
		})
		if err == nil && rows != s.sh.Nodes {
			err = fault.New(fault.ErrInput, "%s has labels of %d nodes, but the graph has %d nodes", m.Name(), rows, s.sh.Nodes)
		}
		return err
	})
}

// readSplit reads node ids, or a boolean for each node.
func (s *source) readSplit(ctx context.Context, l *importer.Labelling, spec matrix.Spec, split uint8) error {
	return with(func() (matrix.Matrix, error) { return matrix.Open(s.fs, spec) }, func(m matrix.Matrix) error {
		named := func(err error) error {
			if err != nil {
				err = fmt.Errorf("%s: %w", m.Name(), err)
			}
			return err
		}
		if !m.Mask() {
			return matrix.EachInt(ctx, m, func(_ int64, row []int64) error { return named(l.Assign(row[0], split)) })
		}
		if n := m.Rows(); n != s.sh.Nodes {
			return fault.New(fault.ErrInput, "%s has a mask of %d entries, but the graph has %d nodes", m.Name(), n, s.sh.Nodes)
		}
		return matrix.EachDouble(ctx, m, func(v int64, row []float64) error {
			if row[0] == 0 {
				return nil
			}
			return named(l.Assign(v, split))
		})
	})
}

func (s *source) Features(first int64) (importer.RowStream, error) {
	if s.feat == nil {
		return &drawnRows{seed: s.seed, dim: s.sh.Dim, at: first}, nil
	}
	if s.named != nil && s.named.feat != nil {
		return s.keyedRows(first)
	}
	m, err := s.openTable(*s.feat)
	if err != nil {
		return nil, err
	}
	return matrix.NewRows(m, s.sh.Nodes, first)
}
