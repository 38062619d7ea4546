package matrix

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"diskgnn/dataset/importer/internal/text"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// plain returns a column's name in lower case, with only its letters a to z and digits.
func plain(name string) string {
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
			return c
		}
		return -1
	}, strings.ToLower(name))
}

// idNames are the plain names of columns with ids of nodes or numbers of rows. The last three are
// pandas' names of a table's index, in text and in Parquet.
var idNames = []string{"id", "ids", "node", "nodeid", "nodeids", "nodeidx", "nodeindex", "nid", "vertex", "vertexid", "vid", "rowid", "index", "idx", "", "unnamed0", "indexlevel0"}

func isID(name string) bool { return slices.Contains(idNames, plain(name)) }

// namesInComment returns the names of the columns in the comment before the first line, as NumPy's
// savetxt writes them. A comment counts as names only if it has the given number of words, and they
// name the ends of edges, or ids first, or columns are chosen; else the result is nil.
func namesInComment(fsys vfs.FS, file string, f text.Format, columns int, chosen bool) ([]string, error) {
	words, err := text.Heading(fsys, file, f)
	if err != nil || len(words) != columns {
		return nil, err
	}
	ends := slices.ContainsFunc(words, func(w string) bool { return endOf(w) == source }) && slices.ContainsFunc(words, func(w string) bool { return endOf(w) == target })
	if columns == 2 && endOf(words[0]) != 0 && endOf(words[1]) != 0 || columns > 2 && ends || columns > 1 && isID(words[0]) || chosen {
		return words, nil
	}
	return nil, nil
}

// CheckColumns returns an error of kind fault.ErrInput if the name of a column says that it has ids of
// nodes. Such a column is not a feature or a label.
func CheckColumns(m Matrix) error {
	for i, name := range m.Names() {
		if isID(name) {
			return fault.New(fault.ErrInput, "%s: the name of column %d, %q, says that it has ids, which are not features or labels: remove it, or rename it if it has no ids", m.Name(), i+1, name)
		}
	}
	return nil
}

// pandasIndex is pandas' name of a table's index in Parquet and Feather, where it is the last column.
const pandasIndex = "__index_level_0__"

// IDs returns the columns with names that say that they have ids of nodes, or numbers of rows.
func (d *Description) IDs() (columns []int) {
	for i, name := range d.Names {
		if isID(name) {
			columns = append(columns, i)
		}
	}
	return columns
}

// checked returns m, or closes it if there is an error.
func checked(m Matrix, err error) (Matrix, error) {
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// end is one of an edge's ends, 0 if it is neither.
type end byte

const (
	source end = 's'
	target end = 't'
)

var endNames = map[string]end{
	"source": source, "src": source, "from": source, "sender": source, "start": source, "citing": source,
	"target": target, "tgt": target, "destination": target, "dest": target, "dst": target, "to": target, "receiver": target, "end": target, "cited": target,
}

// endOf returns which end of an edge a column has by its name, such as src, FromNodeId or
// dst_int_id.
func endOf(name string) end {
	name = plain(name)
	for {
		if e := endNames[name]; e != 0 {
			return e
		}
		short := name
		for _, word := range []string{"node", "id", "int", "idx", "index", "name"} {
			short = strings.TrimSuffix(strings.TrimPrefix(short, word), word)
		}
		if short == name {
			return 0
		}
		name = short
	}
}

// Ends tells which columns of a table of edges are the ends of an edge.
type Ends struct {
	Reversed bool     // the destination comes first
	Note     string   // for the user, if the names do not tell
	Dropped  []string // names of the columns that are not read, and of other data of edges
}

// endsOf reads the names of two columns; there may be none.
func endsOf(file string, names []string) (Ends, error) {
	if len(names) != 2 {
		return Ends{}, nil
	}
	first, second := endOf(names[0]), endOf(names[1])
	switch {
	case first == target && second == source:
		return Ends{Reversed: true}, nil
	case first == 0 && second == 0 && names[0] != names[1]:
		return Ends{Note: fmt.Sprintf("%s: its columns %q and %q are read as source and destination", file, names[0], names[1])}, nil
	case first == target || second == source || first == second && first != 0:
		return Ends{}, fault.New(fault.ErrInput, "%s: its columns are %q and %q: rename them to source and destination, in the order that they have", file, names[0], names[1])
	}
	return Ends{}, nil
}

// Edges returns a table of edges with the source as the first column, by the names of the two columns
// of m. If the names contradict each other, it closes m and returns an error of kind fault.ErrInput.
func Edges(m Matrix) (Matrix, Ends, error) {
	e, err := endsOf(m.Name(), m.Names())
	if e.Reversed {
		m = &picked{Matrix: m, columns: []int{1, 0}, id: -1}
	}
	m, err = checked(m, err)
	return m, e, err
}

// OpenEdges opens a file of edges between nodes with numbers. The matrix has two columns of integers,
// sources first. s.Columns are the source and the destination; without them, a table of two columns
// has only these; of more columns, the two are taken that are named as ends of edges or, where columns
// have no names, the first two columns of integers. Errors are of kind fault.ErrInput.
func OpenEdges(fsys vfs.FS, s Spec) (Matrix, Ends, error) {
	s, e, err := chooseEnds(fsys, s, false)
	if err != nil {
		return nil, e, err
	}
	m, err := Open(fsys, s)
	if err != nil {
		return nil, e, err
	}
	if len(s.numbers) > 0 {
		return m, e, nil
	}
	m, two, err := Edges(m)
	two.Dropped = e.Dropped
	return m, two, err
}

// chooseEnds returns s with the columns of the ends of edges, unless there are only two columns.
func chooseEnds(fsys vfs.FS, s Spec, words bool) (Spec, Ends, error) {
	d, err := Describe(fsys, s)
	if err != nil {
		return s, Ends{}, err
	}
	e := Ends{Dropped: d.Data}
	var columns []int
	switch {
	case len(s.Columns) > 0:
		if columns, err = d.Select(s); err == nil && len(columns) != 2 {
			err = fault.New(fault.ErrInput, "%s: %d columns are chosen as the ends of edges, but an edge has 2; the file has %s", s.Path, len(columns), d.list())
		}
	case d.Columns == 2 || d.Columns == 0: // or empty, which reading reports
		return s, e, nil
	case d.Names != nil:
		columns, err = d.namedEnds(s.Path)
	default:
		for i := range d.Columns {
			if len(columns) < 2 && (words || d.Integer[i]) {
				columns = append(columns, i)
			}
		}
	}
	if err == nil && len(columns) != 2 {
		err = fault.New(fault.ErrInput, "%s: edges need two columns, sources and destinations; it has %s", s.Path, d.list())
	}
	if err != nil {
		return s, e, err
	}
	for i := range d.Columns {
		if !slices.Contains(columns, i) {
			e.Dropped = append(e.Dropped, d.label(i))
		}
	}
	s.numbers, s.Except = columns, nil
	return s, e, nil
}

// EndColumns returns the columns of a table of edges that OpenEdges reads, in the order of the file.
func EndColumns(fsys vfs.FS, s Spec) ([]int, error) {
	s, _, err := chooseEnds(fsys, s, false)
	if err != nil {
		return nil, err
	}
	if s.numbers == nil {
		return []int{0, 1}, nil
	}
	return slices.Sorted(slices.Values(s.numbers)), nil
}

// namedEnds returns the columns named as a source and a destination.
func (d *Description) namedEnds(file string) (columns []int, err error) {
	for _, side := range []end{source, target} {
		for i, n := range d.Names {
			if endOf(n) == side {
				columns = append(columns, i)
			}
		}
	}
	if len(columns) != 2 || endOf(d.Names[columns[0]]) != source || endOf(d.Names[columns[1]]) != target {
		return nil, fault.New(fault.ErrInput, "%s: its names do not tell the two columns with the ends of edges, such as source and target: give --edge-columns; it has %s", file, d.list())
	}
	return columns, nil
}

// OpenEnds is OpenEdges for nodes with names, and returns the ends of the edges as text.
func OpenEnds(fsys vfs.FS, s Spec) (Words, Ends, error) {
	s, chosen, err := chooseEnds(fsys, s, true)
	if err != nil {
		return nil, chosen, err
	}
	w, err := OpenWords(fsys, s, 2, true)
	if err != nil {
		return nil, chosen, err
	}
	if len(s.numbers) > 0 {
		return w, chosen, nil
	}
	e, err := endsOf(w.Name(), w.Names())
	if err != nil {
		return nil, e, errors.Join(err, w.Close())
	}
	e.Dropped = chosen.Dropped
	if e.Reversed {
		w = reversedWords{w}
	}
	return w, e, nil
}

// reversedWords are words in two columns that change places.
type reversedWords struct{ Words }

func (w reversedWords) Next() ([][]byte, error) {
	words, err := w.Words.Next()
	if err != nil {
		return nil, err
	}
	return [][]byte{words[1], words[0]}, nil
}
