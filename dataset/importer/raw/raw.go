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
// A file is an array (.npy, NAME.npz:KEY), an array without a header (NAME:DTYPE:ROWSxCOLS), text (.csv,
// .tsv, .txt, with a separator that the first lines tell; .gz of them), Parquet, or Arrow (.feather,
// .arrow). A directory or a pattern of names is a table in several files.
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
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/tables"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// takes are the flags that all formats here take, beside flags of edges.
var takes = []string{
	"features", "labels", "split-files", "nodes", "node-ids", "feature-columns", "drop", "label-column", "split-column", "id-column", "labels-as", "split-index",
}

// Format reads arrays and tables.
var Format = importer.Format{
	Name: "raw", What: "files that --edges, --features, --labels and --split-files name", Takes: append([]string{"edges", "edge-columns"}, takes...),
	Open: func(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
		if o.Edges == "" || len(sources) > 0 {
			return nil, fault.New(fault.ErrUsage, "the format raw takes no SOURCE: name its files with --edges, --features, --labels and --split-files")
		}
		spec, err := matrix.ParseSpec(o.Edges)
		if err != nil {
			return nil, err
		}
		spec.Columns = o.EdgeColumns
		if m, err := openSparse(fsys, spec); m != nil || err != nil {
			if err == nil && len(o.EdgeColumns) > 0 {
				err = fault.New(fault.ErrUsage, "--edge-columns: %s is a matrix: its rows are sources, its columns destinations", spec.Path)
			}
			if err != nil {
				return nil, err
			}
			return open(fsys, o, m)
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

// idEdges is an edgeList with ids of nodes.
type idEdges interface {
	listSpec() matrix.Spec
	// words opens the ids, the source and the destination of each edge.
	words() (matrix.Words, matrix.Ends, error)
}

// random is the prefix of features and labels that are drawn.
const random = "random:"

// source is a graph.
type source struct {
	fs      vfs.FS
	sh      importer.Shape
	edge    edgeList
	counted bool // the edges, without reading them
	uses
	drawn   int              // classes
	classes map[string]int64 // numbers of classes that are words; nil: labels are numbers
	splits  []matrix.Spec
	index   int // of the column of masks
	seed    uint64
	named   *named // nil: nodes are numbers
}

func open(fsys vfs.FS, o *importer.Reading, e edgeList) (_ importer.Source, err error) {
	s := &source{fs: fsys, edge: e, seed: o.Seed}
	s.sh.DType, s.sh.Reading = dtype.Float32, columnsOf(o)
	if s.uses, err = assign(fsys, o); err != nil {
		return nil, err
	}
	held, err := s.heldByTables(o)
	if err != nil {
		return nil, err
	}
	edges, err := s.openIDs(o, held.Bytes)
	if err != nil {
		return nil, err
	}
	if s.named != nil {
		defer func() {
			if err != nil {
				err = errors.Join(err, s.Close())
			}
		}()
	}
	var found importer.Problems
	found.Add(s.openFeatures(o))
	found.Add(s.checkOrder(o))
	if o.Labelled() {
		found.Add(s.openLabels(o))
		found.Add(s.openSplits(o))
	} else {
		s.sh.NoSplit = true
	}
	if s.named == nil {
		found.Add(s.openEdges())
	} else if err := s.settleNames(context.Background(), edges); err != nil {
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
	if err := s.lookAtSplits(o); err != nil {
		return nil, err
	}
	if len(s.sh.Reading) == 0 {
		s.sh.Reading = nil
	}
	s.sh.Held, s.sh.HeldMost = s.sh.Held+held.Bytes, held.Most
	return s, nil
}

// columnsOf returns the choices of columns for the content parameters.
func columnsOf(o *importer.Reading) map[string]string {
	r := map[string]string{}
	for name, value := range map[string]string{
		"edge-columns": strings.Join(o.EdgeColumns, ","), "feature-columns": strings.Join(o.FeatureColumns, ","), "drop": strings.Join(o.Drop, ","),
		"label-column": o.LabelColumn, "split-column": o.SplitColumn, "id-column": o.IDColumn,
	} {
		if value != "" {
			r[name] = value
		}
	}
	return r
}

// openIDs finds out whether nodes have names, and begins to number them. It returns the edges then.
func (s *source) openIDs(o *importer.Reading, held int64) (edges idEdges, err error) {
	ids := o.NodeIDs
	if ids == "" && s.ids != nil {
		n, is, err := counts(s.fs, *s.ids)
		if err == nil && is {
			err = s.setNodes("ids", s.ids.Path, n, nil)
		}
		if err == nil && !is && s.feat != nil && s.feat.spec.Path != s.ids.Path {
			err = fault.New(fault.ErrInput, "%s: row %d: the column %q is not the number of the row, but %s has no such column, so that its rows cannot be told apart: add it there", s.ids.Path, n, o.IDColumn, s.feat.spec.Path)
		}
		if err != nil || is {
			return edges, err
		}
	}
	if ids == "" && s.ids == nil {
		return edges, nil
	}
	flag := "--node-ids"
	if ids == "" {
		flag = "--id-column"
	}
	edges, ok := s.edge.(idEdges)
	switch {
	case !ok:
		return edges, fault.New(fault.ErrUsage, "%s: the adjacency lists of %s have no ids", flag, s.edge.file())
	case o.Nodes != 0:
		return edges, fault.New(fault.ErrUsage, "--nodes: not with %s, which determines the number of nodes", flag)
	}
	s.named, err = openNamed(s.fs, o, s.ids, held)
	return edges, err
}

// counts reports whether a column has the numbers 0, 1, 2 and so on; n are its rows, up to the first
// that has not.
func counts(fsys vfs.FS, column matrix.Spec) (n int64, is bool, err error) {
	var number []byte
	n, err = eachCell(fsys, column, func(row int64, word []byte) bool {
		number = strconv.AppendInt(number[:0], row, 10)
		is = bytes.Equal(word, number)
		return is
	})
	return n, is, err
}

// heldByTables returns the memory for reading the tables: edges, and one of the others at the same
// time. If nodes have names, files are read while the source is opened, so that too large ones are
// errors here; others are errors when the whole import is planned.
func (s *source) heldByTables(o *importer.Reading) (held matrix.Need, err error) {
	var turns [][]matrix.Spec // files of a turn are read at the same time
	for _, text := range append([]string{o.NodeIDs}, o.SplitFiles...) {
		if spec, err := matrix.ParseSpec(text); err == nil { // opening the file reports other errors
			turns = append(turns, []matrix.Spec{spec})
		}
	}
	if s.ids != nil {
		turns = append(turns, []matrix.Spec{*s.ids})
	}
	for _, t := range append([]*nodeTable{s.feat, s.label, s.sets}, s.masks...) {
		if t != nil {
			turns = append(turns, t.specs())
		}
	}
	other := matrix.Need{}
	for _, specs := range turns {
		if other, err = s.largerNeed(other, specs, o); err != nil {
			return held, err
		}
	}
	if list, ok := s.edge.(interface{ listSpec() matrix.Spec }); ok {
		if held, err = tableNeed(s.fs, list.listSpec(), o); err != nil {
			return held, err
		}
	}
	if other.Bytes > held.Bytes {
		held.Most = other.Most
	}
	held.Bytes += other.Bytes
	if (o.NodeIDs != "" || o.IDColumn != "") && o.ScratchMemory != 0 && held.Bytes > max(o.ScratchMemory, 0) {
		err = fault.New(fault.ErrBudget, "%s", held.Most)
	}
	return held, err
}

// largerNeed returns n, or the need of reading files at the same time if that is larger.
func (s *source) largerNeed(n matrix.Need, specs []matrix.Spec, o *importer.Reading) (matrix.Need, error) {
	sum := matrix.Need{}
	for _, spec := range specs {
		one, err := tableNeed(s.fs, spec, o)
		if err != nil {
			return n, err
		}
		if sum.Most == "" {
			sum.Most = one.Most
		}
		sum.Bytes += one.Bytes
	}
	if sum.Bytes > n.Bytes {
		return sum, nil
	}
	return n, nil
}

func tableNeed(fsys vfs.FS, spec matrix.Spec, o *importer.Reading) (matrix.Need, error) {
	n, err := matrix.Held(fsys, spec, o.ScratchMemory)
	if errors.Is(err, fault.ErrInput) {
		return matrix.Need{}, nil // opening the file reports it
	}
	return n, err
}

// parseRandom reads random:N.
func parseRandom(flag, text string, most int) (n int, err error) {
	if n, err = strconv.Atoi(strings.TrimPrefix(text, random)); err != nil || n < 1 || n > most {
		return 0, fault.New(fault.ErrUsage, "--%s %s: needs a number from 1 to %d", flag, text, most)
	}
	return n, nil
}

func (s *source) openFeatures(o *importer.Reading) error {
	text := o.FeatureFile
	if text == "" {
		return fault.New(fault.ErrUsage, "--features is missing: give a file, or random:DIM")
	}
	if s.feat == nil {
		dim, err := parseRandom("features", text, dataset.MaxDim)
		s.sh.Dim, s.sh.Features = dim, text
		s.record("features", text)
		return err
	}
	if err := s.refuseText(); err != nil {
		return err
	}
	return s.withTable(s.feat, func(m matrix.Matrix) error {
		s.sh.Dim, s.sh.Features = m.Columns(), m.Name()
		s.noteIDs("features", m)
		s.sh.DType = matrix.DType(m)
		return s.setNodes("features", m.Name(), m.Rows(), s.feat)
	})
}

// refuseText returns an error if a column of the features has text.
func (s *source) refuseText() error {
	text, _, err := s.feat.text()
	if err != nil || len(text) == 0 {
		return err
	}
	return fault.New(fault.ErrInput, "%s: features are numbers, but it has text in %.200s: give --drop %.200s, name the columns with --feature-columns, or their use with --label-column, --split-column or --id-column",
		s.feat.spec.Path, strings.Join(text, ", "), strings.Join(text, ","))
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

func (s *source) openLabels(o *importer.Reading) error {
	text := o.LabelFile
	switch {
	case s.label == nil && text == "":
		return fault.New(fault.ErrUsage, "--labels is missing: give a file, or random:CLASSES, or with --label-column a column of --features")
	case s.label == nil:
		classes, err := parseRandom("labels", text, 1<<20)
		s.drawn, s.sh.Classes = classes, classes
		s.record("labels", text)
		return err
	}
	words, all, err := s.label.text()
	if err != nil {
		return err
	}
	if len(words) > 0 && all == 1 {
		return s.openClasses(words[0])
	}
	return s.withTable(s.label, func(m matrix.Matrix) error {
		if s.sh.Multi = m.Columns() > 1; s.sh.Multi {
			s.sh.Classes = m.Columns()
		}
		if _, err := dataset.EncodeClassNames(m.Names()); err == nil && s.sh.Multi && o.LabelsAs == importer.LabelsAsClasses {
			s.sh.ClassNames = m.Names()
		}
		s.noteIDs("labels", m)
		return s.setNodes("labels", m.Name(), m.Rows(), s.label)
	})
}

// openClasses reads the words of the classes, which are numbered in their order.
func (s *source) openClasses(column string) error {
	s.label.spec.Columns, s.label.spec.Except = []string{column}, nil
	return withWords(s.fs, s.label.spec, func(w matrix.Words) error {
		words, rows, err := findClasses(w)
		if err != nil {
			return err
		}
		s.sh.ClassNames = slices.Sorted(maps.Keys(words))
		for i, word := range s.sh.ClassNames {
			words[word] = int64(i)
		}
		s.classes, s.sh.Classes = words, len(words)
		s.sh.Held += mostClassBytes + heldByWord*int64(len(words))
		return s.setNodes("labels", w.Name(), rows, s.label)
	})
}

// setNodes compares the numbers of nodes of files and of --nodes, and sets Shape.Nodes. t is the table
// with n rows, or nil.
func (s *source) setNodes(what, name string, n int64, t *nodeTable) error {
	switch {
	case n < 0 || t != nil && t.keyed: // not known, or not of all nodes
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

func (s *source) openSplits(o *importer.Reading) error {
	files := o.SplitFiles
	if s.sh.NoSplit = len(files) == 0 && s.sets == nil; len(files) == 0 {
		return nil
	}
	if len(files) != len(dataset.SplitNames) {
		return fault.New(fault.ErrUsage, "--split-files %s: needs three files: training, validation and test nodes", strings.Join(files, ","))
	}
	if s.masks != nil {
		s.sh.Reading["split-columns"] = strings.Join(files, ",")
		return nil
	}
	var found importer.Problems
	for _, f := range files {
		spec, err := matrix.ParseSpec(f)
		if found.Add(err); err == nil {
			s.splits = append(s.splits, spec)
		}
	}
	return found.Err()
}

// lookAtSplits looks at the files of sets of node numbers, once the number of nodes is known.
func (s *source) lookAtSplits(o *importer.Reading) error {
	var found importer.Problems
	several := false
	for i := range s.splits {
		if s.hasNames(i) {
			continue
		}
		set, err := s.set(i)
		if err == nil {
			var columns int
			columns, err = set.LookAt(s.sh.Nodes, o.SplitIndex)
			several = several || columns > 1
		}
		found.Add(err)
	}
	if err := found.Err(); err != nil {
		return err
	}
	switch {
	case several:
		s.index, s.sh.Reading["split_index"] = o.SplitIndex, strconv.Itoa(o.SplitIndex)
	case o.SplitIndex != 0:
		return fault.New(fault.ErrUsage, "--split-index %d: no mask in --split-files has several columns", o.SplitIndex)
	}
	return nil
}

// hasNames reports whether a file of a set has names of nodes.
func (s *source) hasNames(i int) bool { return s.named != nil && s.named.splits[i] != nil }

// set returns a file of node numbers, or a mask. In graphs of one or two nodes, integers are numbers.
func (s *source) set(i int) (*tables.Set, error) {
	spec := s.splits[i]
	set := &tables.Set{Table: tables.Table{Name: spec.Path, Open: func() (matrix.Matrix, error) { return matrix.Open(s.fs, spec) }}}
	if s.sh.Nodes > 2 {
		return set, nil
	}
	return set, importer.With(set.Open, func(m matrix.Matrix) error {
		if m.Columns() == 1 && !m.Mask() {
			set.Kind = tables.List
		}
		return nil
	})
}

func (s *source) withTable(t *nodeTable, do func(matrix.Matrix) error) error {
	return importer.With(func() (matrix.Matrix, error) { return t.open(s.fs) }, do)
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

// findEdgeData notes the edge data beside the edges in an archive or a file of torch.
func (s *source) findEdgeData() error {
	t, ok := s.edge.(*table)
	if !ok || t.spec.Key == "" {
		return nil
	}
	keys, err := matrix.Keys(s.fs, t.spec)
	s.sh.DropEdgeData(t.spec.Path, importer.EdgeData(keys, t.spec.Key))
	return err
}

// settleEnds records which columns of the edges are read.
func (s *source) settleEnds(e matrix.Ends) {
	if e.Reversed {
		s.sh.Reading["edge_columns"] = "destination,source"
	}
	if e.Note != "" {
		s.sh.Notes = append(s.sh.Notes, e.Note)
	}
	s.sh.DropEdgeData(s.edge.file(), e.Dropped)
}

// countNodes determines the number of nodes: the given one, the number in files, the number of rows, or
// the largest id plus one, for which it reads all edges.
func (s *source) countNodes(given int64) error {
	if given != 0 {
		if err := s.setNodes("--nodes", "--nodes", given, nil); err != nil {
			return err
		}
		s.sh.Reading["nodes"] = strconv.FormatInt(given, 10)
	}
	n, err := s.edge.nodes()
	if err != nil {
		return err
	}
	if n > 0 {
		if err := s.setNodes("edges", s.edge.file(), n, nil); err != nil {
			return err
		}
	}
	if s.sh.Nodes == 0 {
		if err := s.countRows(); err != nil {
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

// countRows counts the rows of labels or features in text, if they are in the order of the nodes.
func (s *source) countRows() error {
	for _, t := range []*nodeTable{s.label, s.sets, s.feat} {
		if t == nil || t.keyed {
			continue
		}
		first := t.spec
		first.Columns, first.Except = []string{t.name(0)}, nil
		n, err := eachCell(s.fs, first, func(int64, []byte) bool { return true })
		s.sh.Nodes = n
		return err
	}
	return nil
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
	files := s.edgeFiles()
	for _, spec := range s.splits {
		files = append(files, filesOf(s.fs, spec)...)
	}
	tables := []*nodeTable{s.feat, s.label}
	if s.beside { // a file once
		tables = tables[:1]
	}
	for _, t := range tables {
		if t != nil {
			files = append(files, filesOf(s.fs, t.spec)...)
		}
	}
	if s.named != nil && s.named.spec != nil && s.ids == nil {
		files = append(files, filesOf(s.fs, *s.named.spec)...)
	}
	return files
}

// edgeFiles returns the files of the edges.
func (s *source) edgeFiles() []string {
	if list, ok := s.edge.(interface{ listSpec() matrix.Spec }); ok {
		return filesOf(s.fs, list.listSpec())
	}
	return []string{s.edge.file()}
}

// filesOf returns the parts of a table. Opening them reported errors.
func filesOf(fsys vfs.FS, spec matrix.Spec) []string {
	files, err := matrix.Files(fsys, spec)
	if err != nil {
		return []string{spec.Path}
	}
	return files
}

func (s *source) CountEdges(lines map[string]int64) (n int64) {
	if s.counted {
		return s.sh.Edges
	}
	for _, file := range s.edgeFiles() {
		n = importer.AddEdges(n, lines[file])
	}
	return n
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
	if s.sets != nil {
		return s.readSets(ctx, l)
	}
	for i, t := range s.masks {
		if err := s.readMask(ctx, t, l, uint8(i+1)); err != nil {
			return err
		}
	}
	for i := range s.splits {
		if err := s.readSplit(ctx, l, i); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) readSplit(ctx context.Context, l *importer.Labelling, i int) error {
	split := uint8(i + 1)
	if !s.hasNames(i) {
		set, err := s.set(i)
		if err != nil {
			return err
		}
		return set.Read(ctx, l, split, stream.Span{Count: s.sh.Nodes}, s.index)
	}
	return s.named.splits[i].Each(ctx, func(nodes []uint32) error {
		for _, v := range nodes {
			if err := l.Assign(int64(v), split); err != nil {
				return ofFile(s.splits[i].Path, err)
			}
		}
		return nil
	})
}

func (s *source) readLabels(ctx context.Context, l *importer.Labelling) error {
	switch {
	case s.label == nil:
		return drawLabels(s.seed, s.sh.Nodes, s.drawn, l)
	case s.classes != nil:
		return s.eachWord(ctx, s.label, "labels", func(v int64, word string) error {
			if noClass(word) {
				return nil
			}
			return l.Label(v, s.classes[word])
		})
	}
	return s.withTable(s.label, func(m matrix.Matrix) error { return s.eachRow(ctx, s.label, "labels", newNumberRows(m, l)) })
}

func (s *source) Features(first int64) (importer.RowStream, error) {
	if s.feat == nil {
		return &drawnRows{seed: s.seed, dim: s.sh.Dim, at: first}, nil
	}
	if s.feat.list != nil {
		return s.keyedRows(first)
	}
	m, err := s.feat.open(s.fs)
	if err != nil {
		return nil, err
	}
	return matrix.NewRows(m, s.sh.Nodes, first)
}
