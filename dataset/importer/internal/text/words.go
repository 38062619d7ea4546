package text

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"diskgnn/internal/vfs"
)

// Words reads the first fields of each line as text. Fields that are separated by commas may be in
// quotes, with two quotes for one.
type Words struct {
	*Table
	exact  bool // there are no other fields
	fields [][]byte
	text   []byte // of fields in quotes
	ahead  bool   // fields has the first line's
	header []string
}

// OpenWords opens a file to read the first f.Columns fields of each line; if exact is set, a line with
// more fields is an error. If areColumns returns true for the first line, that is a header and
// skipped.
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

// Header returns the names of the columns, or nil if there is no header.
func (w *Words) Header() []string { return w.header }

// Next returns the fields of the next line, valid until the next call, or io.EOF.
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

// word returns the next field of a line and the rest. A field in quotes is unquoted into text.
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
