package matrix

import (
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"diskgnn/dataset/importer/internal/text"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Words reads the first columns of a table as text, such as names of nodes. It is not safe for
// concurrent use.
type Words interface {
	Name() string // name of the file, for messages
	// Names returns the names of the columns, or nil if the file has none.
	Names() []string
	// Next returns the words of the next row, valid until the next call, or io.EOF.
	Next() ([][]byte, error)
	Close() error
}

// ColumnNames are words that make a first line of text a header: a line in which every field is one of
// them.
var ColumnNames = []string{"id", "node", "node_id", "name", "source", "src", "from", "target", "destination", "dst", "to", "label", "class", "y"}

// areColumns reports whether the words of a line are a header: all are ColumnNames or, if edges is
// set, all are names of ends of edges.
func areColumns(words []string, edges bool) bool {
	known, ends := true, edges
	for _, w := range words {
		known = known && slices.Contains(ColumnNames, strings.ToLower(w))
		ends = ends && endOf(w) != 0
	}
	return known || ends
}

// OpenWords opens a table and reads columns as text: fields of text files as they are written, strings
// or integers of Parquet, integers of arrays. These are the chosen columns, of which there must be the
// given number; if none are chosen, they are the first ones, and if exact is set too, a table with more
// columns is an error.
func OpenWords(fsys vfs.FS, s Spec, columns int, exact bool) (Words, error) {
	return openWords(fsys, s, wordsOf{columns: columns, exact: exact})
}

// OpenColumn reads the chosen column of a table as text, whatever its type: integers and whole numbers
// in decimals, other numbers in the shortest form, booleans as true and false, missing values as "".
// Errors are of kind fault.ErrInput.
func OpenColumn(fsys vfs.FS, s Spec) (Words, error) {
	if len(s.Columns) == 0 {
		s.numbers = []int{0}
	}
	return openWords(fsys, s, wordsOf{columns: 1, any: true})
}

// wordsOf tells which columns are read as text.
type wordsOf struct {
	columns    int
	exact, any bool // other columns are errors; values of all types are read
}

func openWords(fsys vfs.FS, s Spec, o wordsOf) (Words, error) {
	if w, is, err := openWordParts(fsys, s, func(fsys vfs.FS, part Spec) (Words, error) { return openWords(fsys, part, o) }); is || err != nil {
		return w, err
	}
	switch formOf(s) {
	case parquetForm, arrowForm:
		return openTypedWords(fsys, s, o)
	case textForm, unknownForm:
		return openTextWords(fsys, s, o)
	}
	m, err := Open(fsys, s)
	if err != nil {
		return nil, err
	}
	chosen := len(s.Columns) > 0 || s.numbers != nil
	if n := m.Columns(); n < o.columns || (o.exact || chosen) && n > o.columns {
		err := fault.New(fault.ErrInput, "%s: ids must be text or integers in %d columns; the file has %d columns", m.Name(), o.columns, m.Columns())
		return nil, errors.Join(err, m.Close())
	}
	return newNumberWords(m, o), nil
}

// openTextWords opens columns of a text file. If they are not chosen, the first line is a header only
// if it has no other words than names of columns.
func openTextWords(fsys vfs.FS, s Spec, o wordsOf) (Words, error) {
	f := textFormat(s)
	chosen := len(s.Columns) > 0 || s.numbers != nil
	l, err := look(fsys, s.Path, f, lookOptions{guess: chosen, words: true, key: -1, columns: s.Columns})
	if err == nil && !chosen && (l.Columns < o.columns || o.exact && l.Columns > o.columns) {
		l, err = look(fsys, s.Path, f, lookOptions{guess: true, words: true, key: -1})
	}
	if err != nil {
		return nil, err
	}
	columns := make([]int, o.columns)
	for i := range columns {
		columns[i] = i
	}
	if chosen {
		if columns, err = l.Select(s); err != nil {
			return nil, err
		}
	}
	if len(columns) != o.columns {
		return nil, fault.New(fault.ErrInput, "%s: %d columns are chosen instead of %d; it has %s", s.Path, len(columns), o.columns, l.list())
	}
	var names []string
	for _, i := range columns {
		if i < len(l.first) {
			names = append(names, l.first[i])
		}
	}
	if !chosen {
		if l.f.Header = len(names) == o.columns && areColumns(names, o.exact); !l.f.Header {
			names = nil
			if f.Blanks {
				if names, err = namesInComment(fsys, s.Path, l.f, o.columns, false); err != nil {
					return nil, err
				}
			}
		}
	} else if l.Names == nil {
		names = nil
	}
	l.f.Columns, l.f.Take = o.columns, columns
	if chosen {
		l.f.Fields = l.Columns
	}
	w, err := text.OpenWords(fsys, s.Path, l.f, text.WordOptions{Exact: o.exact || chosen, Empty: o.any})
	if err != nil {
		return nil, err
	}
	return &textWords{w, s.Path, names}, nil
}

type textWords struct {
	*text.Words
	name  string
	names []string
}

func (w *textWords) Name() string    { return w.name }
func (w *textWords) Names() []string { return w.names }

// numberWords are numbers, written in decimals.
type numberWords struct {
	Matrix
	any   bool
	row   []int64
	real  []float64 // unless all are integers
	words [][]byte
}

func newNumberWords(m Matrix, o wordsOf) *numberWords {
	w := &numberWords{Matrix: m, any: o.any, row: make([]int64, m.Columns()), words: make([][]byte, o.columns)}
	if !m.Integer() && o.any {
		w.real = make([]float64, m.Columns())
	}
	return w
}

func (w *numberWords) Next() ([][]byte, error) {
	var n int
	var err error
	if w.real != nil {
		n, err = w.Doubles(w.real)
	} else {
		n, err = w.Ints(w.row)
	}
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	for i := range w.words {
		switch word := w.words[i][:0]; {
		case w.real != nil:
			w.words[i] = appendReal(word, w.real[i])
		case w.any && w.Mask():
			w.words[i] = strconv.AppendBool(word, w.row[i] != 0)
		default:
			w.words[i] = strconv.AppendInt(word, w.row[i], 10)
		}
	}
	return w.words, nil
}

// appendReal appends a number: nothing for NaN, a whole one like an integer.
func appendReal(b []byte, x float64) []byte {
	switch {
	case math.IsNaN(x):
		return b
	case x == math.Trunc(x) && math.Abs(x) <= 1<<53:
		return strconv.AppendInt(b, int64(x), 10)
	}
	return strconv.AppendFloat(b, x, 'g', -1, 64)
}

// typedFile is a file of columns with types.
type typedFile interface {
	Matrix
	table() *columnar
}

func (m *columnar) table() *columnar { return m }

// openTyped opens a file of Parquet or Arrow.
func openTyped(fsys vfs.FS, s Spec, which columnsOf) (typedFile, error) {
	if formOf(s) == arrowForm {
		m, err := openArrow(fsys, s, which)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	m, err := openParquetColumns(fsys, s, which)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func openTypedWords(fsys vfs.FS, s Spec, o wordsOf) (Words, error) {
	m, err := openTyped(fsys, s, columnsOf{words: o.columns, exact: o.exact, key: -1})
	if err != nil {
		return nil, err
	}
	return &typedWords{m, &columnWords{m.table(), o.any, make([][]byte, o.columns)}}, nil
}

// typedWords are columns of a file with types as text.
type typedWords struct {
	typedFile
	words *columnWords
}

func (w *typedWords) Next() ([][]byte, error) { return w.words.Next() }

// OpenKeyed opens a text or Parquet table with ids in the column s.IDs, and returns the other columns
// that s chooses.
func OpenKeyed(fsys vfs.FS, s Spec) (Matrix, error) {
	if m, is, err := openParts(fsys, s, OpenKeyed); is || err != nil {
		return m, err
	}
	key, err := keyColumn(fsys, s)
	if err != nil {
		return nil, err
	}
	var m Matrix
	if formOf(s) != textForm {
		m, err = openTyped(fsys, s, columnsOf{key: key})
	} else {
		m, err = openText(fsys, s, textFormat(s), lookOptions{guess: true, key: key, columns: s.Columns})
	}
	if err != nil {
		return nil, err
	}
	return checked(m, CheckColumns(m))
}

// keyColumn returns the number of the column with ids.
func keyColumn(fsys vfs.FS, s Spec) (int, error) {
	if f := formOf(s); f != parquetForm && f != arrowForm && f != textForm {
		return 0, fault.New(fault.ErrInput, "%s: a table with ids in its first column must be a .csv, .tsv, .txt, .parquet or .feather file", s.Path)
	}
	if s.IDs == "" {
		return 0, nil
	}
	ids := s
	ids.Columns, ids.Except = []string{s.IDs}, nil
	d, err := Describe(fsys, ids)
	if err != nil {
		return 0, err
	}
	columns, err := d.Select(ids)
	if err == nil && len(columns) != 1 {
		err = fault.New(fault.ErrInput, "%s: %d columns are %q; it has %s", s.Path, len(columns), s.IDs, d.list())
	}
	if err != nil {
		return 0, err
	}
	return columns[0], nil
}

// OpenKeys opens a text or Parquet table as OpenKeyed does, and returns the ids.
func OpenKeys(fsys vfs.FS, s Spec) (Words, error) {
	if w, is, err := openWordParts(fsys, s, OpenKeys); is || err != nil {
		return w, err
	}
	key, err := keyColumn(fsys, s)
	if err != nil {
		return nil, err
	}
	if formOf(s) != textForm {
		s.numbers, s.Columns, s.Except = []int{key}, nil, nil
		return openTypedWords(fsys, s, wordsOf{columns: 1})
	}
	l, err := look(fsys, s.Path, textFormat(s), lookOptions{guess: true, key: key, columns: s.Columns})
	if err != nil {
		return nil, err
	}
	l.f.Columns, l.f.Take = 1, []int{key}
	w, err := text.OpenWords(fsys, s.Path, l.f, text.WordOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	if l.Names != nil {
		names = l.Names[key : key+1]
	}
	return &textWords{w, s.Path, names}, nil
}
