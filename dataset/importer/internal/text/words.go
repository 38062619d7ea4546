package text

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"diskgnn/internal/vfs"
)

// Words reads the first fields of lines as they are. Fields that a comma separates may be in quotes, in
// which two quotes are one.
type Words struct {
	*Table
	exact  bool // there are no other fields
	fields [][]byte
	text   []byte // of fields in quotes
	ahead  bool   // fields has the first line's
	header []string
}

// OpenWords opens a file for its first f.Columns fields, which are all there are if exact. If the first line
// has nothing but names of columns, as areColumns knows them, it is passed over.
func OpenWords(fsys vfs.FS, name string, f Format, exact bool, areColumns func(words []string) bool) (*Words, error) {
	t, err := OpenTable(fsys, name, f)
	if err != nil {
		return nil, err
	}
	w := &Words{Table: t, exact: exact, fields: make([][]byte, f.Columns)}
	first, err := w.Next()
	switch {
	case errors.Is(err, io.EOF):
		return w, nil
	case err != nil:
		return nil, errors.Join(err, w.Close())
	}
	var words []string
	for _, word := range first {
		words = append(words, string(word))
	}
	if w.ahead = !areColumns(words); !w.ahead {
		w.header = words
	}
	return w, nil
}

// Header returns the names of the columns, nil if the first line has none.
func (w *Words) Header() []string { return w.header }

// Next returns the fields of the next line, valid until the call after, or io.EOF.
func (w *Words) Next() ([][]byte, error) {
	if w.ahead {
		w.ahead = false
		return w.fields, nil
	}
	line, err := w.Lines.Next()
	if err != nil {
		return nil, err
	}
	w.text = w.text[:0]
	rest, more := line, true
	for i := range w.fields {
		if !more {
			return nil, w.Fail(line, fmt.Sprintf("%d names", len(w.fields)))
		}
		var ok bool
		if w.fields[i], rest, more, ok = w.word(rest, &w.text); !ok || len(w.fields[i]) == 0 {
			return nil, w.Fail(line, fmt.Sprintf("%d names", len(w.fields)))
		}
	}
	if more && w.exact {
		return nil, w.Fail(line, fmt.Sprintf("%d names", len(w.fields)))
	}
	return w.fields, nil
}

// word cuts a line into its next field, which may be in quotes, and the rest. What quotes stand for is
// appended to text.
func (t *Table) word(line []byte, text *[]byte) (field, rest []byte, more, ok bool) {
	if t.f.Blanks || len(line) == 0 || bytes.TrimLeft(line, " \t")[0] != '"' {
		field, rest, more = t.Split(line)
		return field, rest, more, true
	}
	line = bytes.TrimLeft(line, " \t")[1:]
	begin := len(*text)
	for {
		i := bytes.IndexByte(line, '"')
		if i < 0 {
			return nil, nil, false, false
		}
		*text = append(*text, line[:i]...)
		if line = line[i+1:]; len(line) > 0 && line[0] == '"' {
			*text, line = append(*text, '"'), line[1:]
			continue
		}
		between, rest, more := bytes.Cut(line, []byte{t.f.Comma})
		return (*text)[begin:], rest, more, len(bytes.TrimSpace(between)) == 0
	}
}
