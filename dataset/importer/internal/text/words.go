package text

import (
	"bytes"
	"fmt"

	"diskgnn/internal/vfs"
)

// Words reads columns of each line as text. Fields that are separated by a character may be in quotes,
// with two quotes for one.
type Words struct {
	*Table
	o      WordOptions
	last   int // number of fields to look at
	fields [][]byte
}

// WordOptions are the rules for lines.
type WordOptions struct {
	Exact bool // there are no fields behind the columns
	Empty bool // fields may be empty
}

// OpenWords opens a file to read its columns as text.
func OpenWords(fsys vfs.FS, name string, f Format, o WordOptions) (*Words, error) {
	t, err := OpenTable(fsys, name, f)
	if err != nil {
		return nil, err
	}
	w := &Words{Table: t, o: o, last: f.Columns, fields: make([][]byte, f.Columns)}
	for _, i := range f.Take {
		w.last = max(w.last, i+1)
	}
	return w, nil
}

// Next returns the columns of the next line, valid until the next call, or io.EOF.
func (w *Words) Next() ([][]byte, error) {
	line, err := w.Lines.Next()
	if err != nil {
		return nil, err
	}
	rest := line
	if w.f.Dict {
		rest = beforeDict(line)
	}
	most := w.last
	if w.o.Exact || w.o.Empty && w.f.Blanks {
		most = 0
	}
	ok := w.split(rest, most)
	if ok && w.o.Empty && w.f.Blanks && w.f.Fields > 0 && len(w.parts) != w.f.Fields {
		ok = w.splitTabs(w.f.Fields)
	}
	if !ok {
		return nil, w.Fail(line, fmt.Sprintf("%d names%s", max(w.last, w.f.Fields), openQuotes))
	}
	if len(w.parts) < w.last || w.o.Exact && len(w.parts) > max(w.last, w.f.Fields) {
		return nil, w.Fail(line, fmt.Sprintf("%d names", max(w.last, w.f.Fields)))
	}
	for i := range w.fields {
		at := i
		if w.f.Take != nil {
			at = w.f.Take[i]
		}
		if w.fields[i] = w.parts[at]; len(w.fields[i]) == 0 && !w.o.Empty {
			return nil, w.Fail(line, fmt.Sprintf("%d names", len(w.fields)))
		}
	}
	return w.fields, nil
}

// word returns the next field of a line and the rest. A field in quotes is unquoted into text.
func (t *Table) word(line []byte, text *[]byte) (field, rest []byte, more, ok bool) {
	if t.f.Blanks || len(line) == 0 || line[0] != '"' && line[0] != ' ' && line[0] != '\t' {
		field, rest, more = t.Split(line)
		return field, rest, more, true
	}
	inner := bytes.TrimLeft(line, t.padding())
	if len(inner) == 0 || inner[0] != '"' {
		field, rest, more = t.Split(line)
		return field, rest, more, true
	}
	line = inner[1:]
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

// padding is the white space around fields.
func (t *Table) padding() string {
	if t.f.Comma == '\t' {
		return " "
	}
	return " \t"
}
