package matrix

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

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

// OpenWords opens a table and reads its first columns as text: fields of text files as they are
// written, strings or integers of Parquet, integers of arrays. If exact is set, a table with more
// columns is an error.
func OpenWords(fsys vfs.FS, s Spec, columns int, exact bool) (Words, error) {
	plain := strings.TrimSuffix(s.Path, ".gz")
	f := text.Format{Columns: columns}
	switch ext := filepath.Ext(plain); {
	case s.DType != "" || s.Key != "":
	case ext == ".parquet":
		return openParquetWords(fsys, s.Path, columns, exact)
	case ext == ".npy":
	default:
		if f.Blanks = ext != ".csv"; f.Blanks {
			f.Comments = "#%"
		}
		w, err := openTextWords(fsys, s.Path, f, exact, func(words []string) bool { return areColumns(words, exact) })
		if err == nil && w.names == nil && f.Blanks {
			if w.names, err = namesInComment(fsys, s.Path, f, columns); err != nil {
				err = errors.Join(err, w.Close())
			}
		}
		if err != nil {
			return nil, err
		}
		return w, nil
	}
	m, err := Open(fsys, s)
	if err != nil {
		return nil, err
	}
	if !m.Integer() || m.Columns() < columns || exact && m.Columns() > columns {
		err := fault.New(fault.ErrInput, "%s: ids must be text or integers in %d columns; the file has %d columns", m.Name(), columns, m.Columns())
		return nil, errors.Join(err, m.Close())
	}
	return &numberWords{Matrix: m, row: make([]int64, m.Columns()), words: make([][]byte, columns)}, nil
}

func openTextWords(fsys vfs.FS, name string, f text.Format, exact bool, areColumns func([]string) bool) (*textWords, error) {
	w, err := text.OpenWords(fsys, name, f, exact, areColumns)
	if err != nil {
		return nil, err
	}
	return &textWords{w, name, w.Header()}, nil
}

type textWords struct {
	*text.Words
	name  string
	names []string
}

func (w *textWords) Name() string    { return w.name }
func (w *textWords) Names() []string { return w.names }

// numberWords are integers, written in decimals.
type numberWords struct {
	Matrix
	row   []int64
	words [][]byte
}

func (w *numberWords) Next() ([][]byte, error) {
	n, err := w.Ints(w.row)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	for i := range w.words {
		w.words[i] = strconv.AppendInt(w.words[i][:0], w.row[i], 10)
	}
	return w.words, nil
}

// parquetWords are columns of strings or integers.
type parquetWords struct {
	*parquetFile
	words [][]byte
}

func openParquetWords(fsys vfs.FS, name string, columns int, exact bool) (Words, error) {
	m, err := openParquetColumns(fsys, name, columnsOf{words: columns, exact: exact})
	if err != nil {
		return nil, err
	}
	return &parquetWords{m, make([][]byte, columns)}, nil
}

func (w *parquetWords) Next() (_ [][]byte, err error) {
	err = guard(w.name, func() error {
		for i, l := range w.leaves {
			v, err := l.next()
			if err != nil {
				return err
			}
			switch {
			case v.IsNull():
				return w.bad("column %s has a row without a value", l.name)
			case v.Kind() == parquet.Int32:
				w.words[i] = strconv.AppendInt(w.words[i][:0], int64(v.Int32()), 10)
			case v.Kind() == parquet.Int64:
				w.words[i] = strconv.AppendInt(w.words[i][:0], v.Int64(), 10)
			case v.Kind() == parquet.ByteArray:
				w.words[i] = append(w.words[i][:0], v.ByteArray()...)
			default:
				return w.bad("column %s has values of type %v; ids must be strings or integers", l.name, v.Kind())
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w.words, nil
}

// OpenKeyed opens a text or Parquet table with ids in its first column, and returns the other columns.
func OpenKeyed(fsys vfs.FS, s Spec) (Matrix, error) {
	switch keyedForm(s) {
	case "parquet":
		m, err := openParquetColumns(fsys, s.Path, columnsOf{skip: 1})
		if err != nil {
			return nil, err
		}
		return checked(m, CheckColumns(m))
	case "text":
		m, err := OpenText(fsys, s.Path, keyedText(s))
		if err != nil {
			return nil, err
		}
		return checked(m, CheckColumns(m))
	}
	return nil, notKeyed(s)
}

// OpenKeys opens a text or Parquet table with ids in its first column, and returns the ids.
func OpenKeys(fsys vfs.FS, s Spec) (Words, error) {
	switch keyedForm(s) {
	case "parquet":
		return openParquetWords(fsys, s.Path, 1, false)
	case "text":
		f := keyedText(s)
		n, first, err := text.CountFields(fsys, s.Path, f)
		if err != nil {
			return nil, err
		}
		header := n > 0 && isHeader(first)
		f.Columns, f.Keyed = 1, false
		w, err := openTextWords(fsys, s.Path, f, false, func([]string) bool { return header })
		if err != nil {
			return nil, err
		}
		return w, nil
	}
	return nil, notKeyed(s)
}

func keyedForm(s Spec) string {
	switch ext := filepath.Ext(strings.TrimSuffix(s.Path, ".gz")); {
	case s.DType != "" || s.Key != "":
		return ""
	case ext == ".parquet":
		return "parquet"
	case ext == ".csv" || ext == ".tsv" || ext == ".txt":
		return "text"
	}
	return ""
}

func keyedText(s Spec) text.Format {
	if filepath.Ext(strings.TrimSuffix(s.Path, ".gz")) == ".csv" {
		return text.Format{Keyed: true}
	}
	return text.Format{Keyed: true, Blanks: true, Comments: "#%"}
}

func notKeyed(s Spec) error {
	return fault.New(fault.ErrInput, "%s: a table with ids in its first column must be a .csv, .tsv, .txt or .parquet file", s.Path)
}
