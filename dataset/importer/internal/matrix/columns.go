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

// plain returns a column's name in lower case, without what is no letter or digit.
func plain(name string) string {
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
			return c
		}
		return -1
	}, strings.ToLower(name))
}

// idNames are plain names of columns that have the ids of nodes, or count rows; the last three are
// what pandas calls a table's index, in text and in Parquet.
var idNames = []string{"id", "ids", "node", "nodeid", "nodeids", "nodeidx", "nodeindex", "nid", "vertex", "vertexid", "vid", "rowid", "index", "idx", "", "unnamed0", "indexlevel0"}

func isID(name string) bool { return slices.Contains(idNames, plain(name)) }

// namesInComment returns the names of so many columns that the comment before the first line has, as NumPy's
// savetxt writes them, if it is seen by the ends of edges or the ids that it names; else it is a comment.
func namesInComment(fsys vfs.FS, file string, f text.Format, columns int) ([]string, error) {
	words, err := text.Heading(fsys, file, f)
	if err != nil || len(words) != columns {
		return nil, err
	}
	if columns == 2 && endOf(words[0]) != 0 && endOf(words[1]) != 0 || columns > 1 && isID(words[0]) {
		return words, nil
	}
	return nil, nil
}

// CheckColumns refuses a table that has ids of nodes among its columns, as far as it names these: no
// such column is a feature or a label.
func CheckColumns(m Matrix) error {
	for i, name := range m.Names() {
		if isID(name) {
			return fault.New(fault.ErrInput, "%s: the name of column %d, %q, says that it has ids, which are not features or labels: remove it, or rename it if it has no ids", m.Name(), i+1, name)
		}
	}
	return nil
}

// WithoutIDs returns a table without its first column, if that has the ids of the rows by its name;
// reading it checks that they count the rows. It closes the table if it refuses it.
func WithoutIDs(m Matrix) (Matrix, error) {
	names := m.Names()
	if len(names) < 2 || !isID(names[0]) {
		return checked(m, CheckColumns(m))
	}
	r := &withoutIDs{Matrix: m, doubles: make([]float64, m.Columns()), ints: make([]int64, m.Columns())}
	return checked(r, CheckColumns(r))
}

// LeftOut returns the name of the column that WithoutIDs has left out, if any.
func LeftOut(m Matrix) (name string, is bool) {
	r, is := m.(*withoutIDs)
	if is {
		name = r.Matrix.Names()[0]
	}
	return name, is
}

// checked returns m, or closes it if there is an error.
func checked(m Matrix, err error) (Matrix, error) {
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// withoutIDs is a table without its first column, which counts the rows.
type withoutIDs struct {
	Matrix
	doubles []float64 // of a row
	ints    []int64
	at      int64 // the row that comes next
}

func (m *withoutIDs) Columns() int    { return m.Matrix.Columns() - 1 }
func (m *withoutIDs) Names() []string { return m.Matrix.Names()[1:] }

func (m *withoutIDs) Skip(rows int64) error {
	m.at += rows
	return m.Matrix.Skip(rows)
}

func (m *withoutIDs) Ints(dst []int64) (int, error) {
	return behindIDs(m, dst, m.ints, m.Matrix.Ints)
}

func (m *withoutIDs) Floats(dst []float32) (int, error) {
	return behindIDs(m, dst, m.doubles, m.Matrix.Doubles) // ids are exact in them
}

func (m *withoutIDs) Doubles(dst []float64) (int, error) {
	return behindIDs(m, dst, m.doubles, m.Matrix.Doubles)
}

// behindIDs fills dst with what follows the ids of the next rows, and checks the ids. next reads
// a row.
func behindIDs[T, U int64 | float32 | float64](m *withoutIDs, dst []T, row []U, next func([]U) (int, error)) (n int, err error) {
	for n+m.Columns() <= len(dst) {
		got, err := next(row)
		if err != nil || got == 0 {
			return n, err
		}
		if row[0] != U(m.at) {
			return 0, fault.New(fault.ErrInput, "%s: row %d: the column %q is %v instead of the number of the row, so it cannot be left out; if it has the ids of nodes, give --node-ids edges", m.Name(), m.at, m.Matrix.Names()[0], row[0])
		}
		for _, x := range row[1:] {
			dst[n] = T(x)
			n++
		}
		m.at++
	}
	return n, nil
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

// Ends is the meaning of the two column names of a table of edges.
type Ends struct {
	Reversed bool   // the destination comes first
	Note     string // for users, if they say nothing
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

// Edges returns a table of two columns with sources first, as its names tell them. It closes the
// table if these contradict each other.
func Edges(m Matrix) (Matrix, Ends, error) {
	e, err := endsOf(m.Name(), m.Names())
	if e.Reversed {
		m = reversed{m}
	}
	m, err = checked(m, err)
	return m, e, err
}

// reversed is a table of integers in two columns that change places.
type reversed struct{ Matrix }

func (m reversed) Ints(dst []int64) (int, error) {
	n, err := m.Matrix.Ints(dst)
	for i := 0; i+1 < n; i += 2 {
		dst[i], dst[i+1] = dst[i+1], dst[i]
	}
	return n, err
}

// OpenEnds opens a file of edges between nodes with names, sources first.
func OpenEnds(fsys vfs.FS, s Spec) (Words, Ends, error) {
	w, err := OpenWords(fsys, s, 2, true)
	if err != nil {
		return nil, Ends{}, err
	}
	e, err := endsOf(w.Name(), w.Names())
	if err != nil {
		return nil, e, errors.Join(err, w.Close())
	}
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
