package raw

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/text"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// table is edges in an array or a table.
type table struct {
	fs      vfs.FS
	spec    matrix.Spec
	twoRows bool // an array of shape (2, E), row-major
	pairs   bool // one of shape (2, E), column-major: as good as (E, 2)
	square  bool // of shape (2, 2), read as (E, 2)
	ends    matrix.Ends
}

func (t *table) file() string          { return t.spec.Path }
func (t *table) listSpec() matrix.Spec { return t.spec }
func (t *table) nodes() (int64, error) { return 0, nil }
func (t *table) columns() matrix.Ends  { return t.ends }

func (t *table) count() (n int64, err error) {
	if n, is, err := t.array(); is || err != nil {
		if is && t.square {
			err = fault.New(fault.ErrInput, "%s: the shape (2, 2) may mean (E, 2) or (2, E): add an edge, or use a text file", t.spec.Path)
		}
		return n, err
	}
	m, ends, err := t.matrix()
	if err != nil {
		return 0, err
	}
	t.ends = ends
	defer func() { err = errors.Join(err, m.Close()) }()
	if m.Columns() != 2 {
		return 0, fault.New(fault.ErrInput, "%s: edges must be two columns of integers, but there are %d columns", m.Name(), m.Columns())
	}
	packed := func(file string) bool { return strings.HasSuffix(file, ".gz") }
	if m.Rows() < 0 && slices.ContainsFunc(filesOf(t.fs, t.spec), packed) {
		p, err := t.open() // lines of packed text cannot be seen
		if err != nil {
			return 0, err
		}
		return drain(p)
	}
	return m.Rows(), nil
}

// array looks at the shape of an array and returns the number of edges, or reports false for other
// files, and for an array with chosen columns.
func (t *table) array() (n int64, is bool, err error) {
	a, err := matrix.OpenArray(t.fs, t.spec)
	if a == nil || err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if a.Kind == 'f' && len(a.Shape) == 2 && a.Shape[0] != 2 && a.Shape[1] == 2 && !a.Fortran { // each may be whole
		return 0, false, nil
	}
	if len(t.spec.Columns) == 0 {
		n, err = t.shape(a)
		return n, true, err
	}
	if len(a.Shape) == 2 && a.Shape[0] == 2 && a.Shape[1] > 2 {
		err = a.Fail(fault.New(fault.ErrInput, "--edge-columns: its shape is %s, sources in a row and destinations in the other, without columns to choose", a.ShapeString()))
	}
	return 0, false, err
}

func (t *table) shape(a *npz.Array) (int64, error) {
	switch {
	case !a.Integer() || len(a.Shape) != 2 || a.Shape[0] != 2 && a.Shape[1] != 2:
		return 0, a.Fail(fault.New(fault.ErrInput, "edges must be integers of shape (E, 2) or (2, E), not %s of shape %s%s", a.Type(), a.ShapeString(), chosenEnds(a)))
	case a.Shape[0] == 2 && a.Shape[1] != 2:
		t.twoRows, t.pairs = !a.Fortran, a.Fortran
		return a.Shape[1], nil
	}
	t.square = a.Shape[0] == 2
	t.twoRows = a.Fortran // all sources, then all destinations
	return a.Shape[0], nil
}

// words opens the ends of edges as text, sources first.
func (t *table) words() (matrix.Words, matrix.Ends, error) {
	if _, _, err := t.array(); err != nil {
		return nil, matrix.Ends{}, err
	}
	if !t.twoRows && !t.pairs {
		return matrix.OpenEnds(t.fs, t.spec)
	}
	p, err := t.open()
	return &pairWords{Pairs: p, name: t.spec.Path, ends: make([]int64, 2*importer.Chunk), words: make([][]byte, 2)}, matrix.Ends{}, err
}

// pairWords are the ends of edges in an array that is not a matrix of two columns, in decimals.
type pairWords struct {
	stream.Pairs
	name  string
	ends  []int64 // destinations, then sources
	n, at int     // edges of ends, and the next one
	words [][]byte
}

func (w *pairWords) Name() string  { return w.name }
func (*pairWords) Names() []string { return nil }

func (w *pairWords) Next() (_ [][]byte, err error) {
	half := len(w.ends) / 2
	if w.at == w.n {
		w.at = 0
		if w.n, err = w.Pairs.Next(w.ends[:half], w.ends[half:]); err == nil && w.n == 0 {
			err = io.EOF
		}
		if err != nil {
			return nil, err
		}
	}
	w.words[0] = strconv.AppendInt(w.words[0][:0], w.ends[half+w.at], 10)
	w.words[1] = strconv.AppendInt(w.words[1][:0], w.ends[w.at], 10)
	w.at++
	return w.words, nil
}

// chosenEnds returns advice for an array of integers with more columns.
func chosenEnds(a *npz.Array) string {
	if a.Integer() && len(a.Shape) == 2 && a.Shape[1] > 2 {
		return ": name two of its columns, as in --edge-columns 0,1"
	}
	return ""
}

// matrix opens a table of two columns, sources first.
func (t *table) matrix() (matrix.Matrix, matrix.Ends, error) { return matrix.OpenEdges(t.fs, t.spec) }

func (t *table) rows() (*npz.Array, error) {
	a, err := matrix.OpenArray(t.fs, t.spec)
	if err == nil && a.Fortran && !t.pairs { // its transpose is row-major
		slices.Reverse(a.Shape)
		a.Fortran = false
	}
	return a, err
}

// glance checks the sources of the first edges of two rows in an archive, or reports false.
func (t *table) glance(nodes int64) (bool, error) {
	if !t.twoRows || t.spec.Key == "" {
		return false, nil
	}
	a, err := t.rows()
	if err != nil {
		return false, err
	}
	return true, stream.CheckSources(a, nodes, func(src int64) error {
		return a.Fail(fault.New(fault.ErrInput, "an edge from %d is out of range: the graph has %d nodes", src, nodes))
	})
}

func (t *table) open() (stream.Pairs, error) {
	if t.twoRows || t.pairs {
		return stream.TwoRows(t.rows)
	}
	m, _, err := t.matrix()
	if err != nil {
		return nil, err
	}
	return stream.Interleave(matrix.Stream{Matrix: m}), nil
}

// SNAP reads SNAP's lists of edges.
var SNAP = importer.Format{
	Name: "snap", What: "a list of edges as SNAP's, \"source destination\" with white space, comments of #, also .gz", Takes: takes,
	Detect: func(fsys vfs.FS, sources []string) string {
		if len(sources) != 1 || !isText(sources[0]) {
			return ""
		}
		if _, fields, err := text.CountFields(fsys, sources[0], snapLines); err != nil || len(fields) != 2 || !isInt(fields[0]) || !isInt(fields[1]) {
			return ""
		}
		return "its lines are pairs of integers"
	},
	Open: func(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
		name, err := importer.One(sources)
		if err != nil {
			return nil, err
		}
		return open(fsys, o, &snap{table{fs: fsys, spec: matrix.Spec{Path: name}}})
	},
}

func isText(name string) bool {
	return slices.Contains([]string{".txt", ".tsv", ".el", ".edges", ".mtx", ".ungraph"}, filepath.Ext(strings.TrimSuffix(name, ".gz")))
}

func isInt(s string) bool {
	_, ok := text.ParseInt([]byte(s))
	return ok
}

// snapLines is how SNAP writes edges; some mirrors of it write comments of %.
var snapLines = text.Format{Columns: 2, Blanks: true, Comments: "#%"}

// snap is a list of edges, one to a line.
type snap struct{ table }

// matrix opens the list, sources first.
func (s *snap) matrix() (matrix.Matrix, matrix.Ends, error) {
	m, err := matrix.OpenText(s.fs, s.spec.Path, snapLines)
	if err != nil {
		return nil, matrix.Ends{}, err
	}
	return matrix.Edges(m)
}

func (s *snap) count() (int64, error) {
	m, ends, err := s.matrix()
	if err != nil {
		return 0, err
	}
	s.ends = ends
	if err := m.Close(); err != nil {
		return 0, err
	}
	if !strings.HasSuffix(s.spec.Path, ".gz") {
		return -1, nil
	}
	p, err := s.open()
	if err != nil {
		return 0, err
	}
	return drain(p)
}

func drain(p stream.Pairs) (n int64, err error) {
	defer func() { err = errors.Join(err, p.Close()) }()
	dst, src := make([]int64, importer.Chunk), make([]int64, importer.Chunk)
	for {
		k, err := p.Next(dst, src)
		if n += int64(k); err != nil || k == 0 {
			return n, err
		}
	}
}

func (s *snap) open() (stream.Pairs, error) {
	m, _, err := s.matrix()
	if err != nil {
		return nil, err
	}
	return stream.Interleave(matrix.Stream{Matrix: m}), nil
}

// WebGraph reads WebGraph's ASCII graphs.
var WebGraph = importer.Format{
	Name: "webgraph", What: "a graph in WebGraph's ASCII format: the number of nodes, then a line of successors for each", Takes: takes,
	Detect: func(_ vfs.FS, sources []string) string {
		if len(sources) == 1 && strings.HasSuffix(strings.TrimSuffix(sources[0], ".gz"), ".graph-txt") {
			return "it is named .graph-txt"
		}
		return ""
	},
	Open: func(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
		name, err := importer.One(sources)
		if err != nil {
			return nil, err
		}
		return open(fsys, o, &webgraph{fs: fsys, name: name})
	},
}

// webgraph is a graph in WebGraph's ASCII format: a line with the number of nodes, then for each node
// a line with its successors.
type webgraph struct {
	fs   vfs.FS
	name string
}

func (w *webgraph) file() string         { return w.name }
func (w *webgraph) columns() matrix.Ends { return matrix.Ends{} }

func (w *webgraph) nodes() (n int64, err error) {
	l, err := text.OpenLists(w.fs, w.name)
	if err != nil {
		return 0, err
	}
	return l.Nodes(), l.Close()
}

// count reads the whole graph: its lines do not tell.
func (w *webgraph) count() (int64, error) {
	p, err := w.open()
	if err != nil {
		return 0, err
	}
	return drain(p)
}

func (w *webgraph) open() (stream.Pairs, error) {
	l, err := text.OpenLists(w.fs, w.name)
	if err != nil {
		return nil, err
	}
	return &successors{l}, nil
}

// successors yields the edges of a webgraph.
type successors struct{ *text.Lists }

func (s *successors) Next(dst, src []int64) (int, error) {
	n := 0
	for n < len(dst) {
		u, v, err := s.Edge()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		src[n], dst[n] = u, v
		n++
	}
	return n, nil
}
