// Package text reads numbers from files of text as streams, a line at a time. Errors name the
// file and the line.
package text

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"diskgnn/internal/vfs"
)

// Format describes the lines of a text file.
type Format struct {
	Columns  int
	Blanks   bool   // fields are separated by white space instead of Comma
	Comma    byte   // the separator of fields; 0: ','
	Comments string // a line that begins with one of these characters is skipped
	Header   bool   // the first line is a header, which is skipped
	Keyed    bool   // a column of ids before the others is skipped
}

// Table reads a text file of numbers with the same number of fields in each line.
type Table struct {
	*Lines
	f   Format
	key []byte // that is passed over
}

// Open opens a text file without a header, with the given number of integers in each line, separated
// by commas.
func Open(fsys vfs.FS, name string, columns int) (*Table, error) {
	return OpenTable(fsys, name, Format{Columns: columns})
}

// OpenTable opens a text file of numbers in the given format.
func OpenTable(fsys vfs.FS, name string, f Format) (*Table, error) {
	l, err := OpenLines(fsys, name, f.Comments)
	if err != nil {
		return nil, err
	}
	if f.Comma == 0 {
		f.Comma = ','
	}
	if f.Header {
		if _, err := l.Next(); err != nil && !errors.Is(err, io.EOF) {
			return nil, errors.Join(err, l.Close())
		}
	}
	return &Table{Lines: l, f: f}, nil
}

// Next sets dst to the integers of the next whole lines that fit and returns their number, 0 at the
// end.
func (t *Table) Next(dst []int64) (int, error) {
	return read(t, dst, "integers", ParseInt)
}

// Floats is Next for numbers with or without a decimal point. An empty field is NaN.
func (t *Table) Floats(dst []float32) (int, error) {
	return read(t, dst, "numbers", func(b []byte) (float32, bool) {
		x, ok := ParseFloat(b)
		return float32(x), ok
	})
}

// Doubles is Floats for float64.
func (t *Table) Doubles(dst []float64) (int, error) { return read(t, dst, "numbers", ParseFloat) }

func read[T any](t *Table, dst []T, what string, parse func([]byte) (T, bool)) (int, error) {
	n, columns := 0, t.f.Columns
	for n+columns <= len(dst) {
		line, err := t.Lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		numbers := line
		if t.f.Keyed {
			t.key = t.key[:0]
			if _, rest, more, ok := t.word(line, &t.key); !ok || !more {
				return 0, t.Fail(line, fmt.Sprintf("an id and %d %s", columns, what))
			} else {
				numbers = rest
			}
		}
		if !fields(t, numbers, dst[n:n+columns], parse) {
			return 0, t.Fail(line, fmt.Sprintf("%d %s", columns, what))
		}
		n += columns
	}
	return n, nil
}

// Skip skips the given number of lines.
func (t *Table) Skip(lines int64) error {
	for range lines {
		if _, err := t.Lines.Next(); err != nil {
			return err
		}
	}
	return nil
}

// Split returns the first field of a line and the rest after the separator; more reports whether there
// was a separator.
func (t *Table) Split(line []byte) (field, rest []byte, more bool) {
	if !t.f.Blanks {
		field, rest, more = bytes.Cut(line, []byte{t.f.Comma})
		return bytes.TrimSpace(field), rest, more
	}
	i := bytes.IndexAny(line, " \t")
	if i < 0 {
		return line, nil, false
	}
	return line[:i], bytes.TrimLeft(line[i:], " \t"), true
}

// fields reads a line of exactly len(dst) numbers.
func fields[T any](t *Table, line []byte, dst []T, parse func([]byte) (T, bool)) bool {
	for i := range dst {
		field, rest, more := t.Split(line)
		v, ok := parse(field)
		if !ok || more != (i < len(dst)-1) {
			return false
		}
		dst[i], line = v, rest
	}
	return true
}

// CountFields returns the number of fields of the first line of a file, and the fields. n is 0 if the
// file has no line.
func CountFields(fsys vfs.FS, name string, f Format) (n int, first []string, err error) {
	t, err := OpenTable(fsys, name, f)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	line, err := t.Lines.Next()
	if errors.Is(err, io.EOF) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	more := true
	if f.Keyed {
		if _, line, more, _ = t.word(line, &t.key); !more {
			return 0, nil, nil
		}
	}
	for ; more; n++ {
		var field []byte
		field, line, more = t.Split(line)
		first = append(first, string(field))
	}
	return n, first, nil
}

// Heading returns the words of the last of the comment lines at the beginning of a file, or nil if
// there are none.
func Heading(fsys vfs.FS, name string, f Format) (words []string, err error) {
	l, err := OpenLines(fsys, name, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for {
		line, err := l.Next()
		if errors.Is(err, io.EOF) || err == nil && strings.IndexByte(f.Comments, line[0]) < 0 {
			return words, nil
		}
		if err != nil {
			return nil, err
		}
		words = strings.Fields(string(line[1:]))
	}
}

// Missing reports whether a field is empty, or empty quotes: Python's csv module writes those for a
// missing value in a table of one column, since an empty line would not count as a row.
func Missing(b []byte) bool { return len(b) == 0 || string(b) == `""` }

// ParseFloat parses a decimal number; an empty field is NaN.
func ParseFloat(b []byte) (float64, bool) {
	if Missing(b) {
		return math.NaN(), true
	}
	if v, ok := ParseInt(b); ok && len(b) < 16 {
		return float64(v), true
	}
	// The string is not kept.
	x, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(b), len(b)), 64)
	return x, err == nil && !bytes.ContainsAny(b, "xXpP_")
}

// ParseInt parses a decimal integer without allocating.
func ParseInt(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 18 { // longer ones are rare, and may overflow
		v, err := strconv.ParseInt(string(b), 10, 64)
		return v, err == nil
	}
	negative := b[0] == '-'
	if negative || b[0] == '+' {
		b = b[1:]
	}
	var v int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	if negative {
		v = -v
	}
	return v, len(b) > 0
}
