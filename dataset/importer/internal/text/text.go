// Package text reads numbers from files of text as streams, a line at a time. Errors name the
// file and the line.
package text

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
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
	// Take has the numbers of the fields that become columns, in their order; nil: the first Columns ones.
	// A line has Fields fields, or any number of them if that is 0.
	Take   []int
	Fields int
	Dict   bool // a line ends in a dict of Python, as networkx writes it, which is not read
}

// Table reads a text file of numbers with the same number of fields in each line.
type Table struct {
	*Lines
	f     Format
	parts [][]byte // fields of a line
	text  []byte   // of fields in quotes
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
	t := newTable(l, f)
	if f.Header {
		if _, err := l.Next(); err != nil && !errors.Is(err, io.EOF) {
			return nil, errors.Join(err, l.Close())
		}
	}
	return t, nil
}

func newTable(l *Lines, f Format) *Table {
	if f.Comma == 0 {
		f.Comma = ','
	}
	t := &Table{Lines: l, f: f}
	if l != nil && t.ends() != whiteSpace {
		l.ends = t.ends()
	}
	return t
}

// ends is the white space at the ends of lines. Tabs that are separators are not.
func (t *Table) ends() string {
	if t.f.Comma == '\t' && !t.f.Blanks {
		return " \r\n"
	}
	return whiteSpace
}

const whiteSpace = " \t\v\f\r\n"

// Next sets dst to the integers of the next whole lines that fit and returns their number, 0 at the
// end. A number like 3.0 is the integer 3.
func (t *Table) Next(dst []int64) (int, error) {
	return read(t, dst, "integers", ParseInt, ParseWhole)
}

// Floats is Next for numbers with or without a decimal point. An empty field is NaN.
func (t *Table) Floats(dst []float32) (int, error) {
	parse := func(b []byte) (float32, bool) {
		x, ok := ParseFloat(b)
		return float32(x), ok
	}
	return read(t, dst, "numbers", parse, parse)
}

// Doubles is Floats for float64.
func (t *Table) Doubles(dst []float64) (int, error) {
	return read(t, dst, "numbers", ParseFloat, ParseFloat)
}

// read reads lines. simple parses fields of lines that are nothing but the columns; other fields are
// parsed by general.
func read[T any](t *Table, dst []T, what string, simple, general func([]byte) (T, bool)) (int, error) {
	n, columns, plain := 0, t.f.Columns, t.f.Take == nil && !t.f.Dict
	for n+columns <= len(dst) {
		line, err := t.Lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		if row := dst[n : n+columns]; !(plain && fields(t, line, row, simple)) && !taken(t, line, row, general) {
			return 0, t.notNumbers(line, what)
		}
		n += columns
	}
	return n, nil
}

// notNumbers returns the error for a line that does not have the columns' numbers.
func (t *Table) notNumbers(line []byte, what string) error {
	want := fmt.Sprintf("%d %s", t.f.Columns, what)
	if t.f.Take != nil && t.f.Fields > 0 {
		want = fmt.Sprintf("%d fields with %s in the columns that are read", t.f.Fields, what)
	}
	switch {
	case !t.split(line, 0):
		want += openQuotes
	case slices.ContainsFunc(t.parts, decimalComma):
		want += "; a decimal point must be a point, not a comma"
	}
	return t.Fail(line, want)
}

const openQuotes = "; its quotes do not close: a field may have no line break"

// decimalComma reports whether a field is a number that is written with a comma for the point.
func decimalComma(field []byte) bool {
	whole, part, ok := bytes.Cut(field, []byte{','})
	_, is := ParseInt(whole)
	_, isToo := ParseInt(part)
	return ok && is && isToo && part[0] != '-'
}

// taken reads a line of any form.
func taken[T any](t *Table, line []byte, dst []T, parse func([]byte) (T, bool)) bool {
	if t.f.Dict {
		line = beforeDict(line)
	}
	if !t.split(line, 0) {
		return false
	}
	fields := t.f.Fields
	if t.f.Take == nil {
		fields = len(dst)
	}
	if fields > 0 && len(t.parts) != fields && !(t.f.Blanks && t.splitTabs(fields)) {
		return false
	}
	for i := range dst {
		at, ok := i, false
		if t.f.Take != nil {
			at = t.f.Take[i]
		}
		if at >= len(t.parts) {
			return false
		}
		if dst[i], ok = parse(t.parts[at]); !ok {
			return false
		}
	}
	return true
}

// split sets parts to the fields of a line, or to the first ones if most is not 0. It returns false if
// quotes are wrong.
func (t *Table) split(line []byte, most int) bool {
	t.parts, t.text = t.parts[:0], t.text[:0]
	for more := true; more && (most == 0 || len(t.parts) < most); {
		var field []byte
		var ok bool
		if field, line, more, ok = t.word(line, &t.text); !ok {
			return false
		}
		t.parts = append(t.parts, field)
	}
	return true
}

// splitTabs sets parts to the fields of the current line, with tabs between them: some are missing. It
// returns false if their number is another.
func (t *Table) splitTabs(fields int) bool {
	t.parts = t.parts[:0]
	for field := range bytes.SplitSeq(bytes.TrimRight(t.whole, "\r\n"), []byte{'\t'}) {
		t.parts = append(t.parts, bytes.TrimSpace(field))
	}
	return len(t.parts) == fields
}

// beforeDict returns a line without the dict at its end, and the separator before that.
func beforeDict(line []byte) []byte {
	if i := bytes.IndexByte(line, '{'); i >= 0 && line[len(line)-1] == '}' {
		return bytes.TrimRight(line[:i], " \t,;|")
	}
	return line
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
	lines, err := Head(fsys, name, f.Comments, 1)
	if err != nil || len(lines) == 0 {
		return 0, nil, err
	}
	first, _ = Fields(lines[0], f)
	return len(first), first, nil
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

// ParseFloat parses a decimal number, or a word for a truth as pandas and R write it, which is 1 or 0.
// An empty field is NaN.
func ParseFloat(b []byte) (float64, bool) {
	x, ok := parseNumber(b)
	if !ok {
		switch string(b) {
		case "True", "true", "TRUE":
			return 1, true
		case "False", "false", "FALSE":
			return 0, true
		}
	}
	return x, ok
}

func parseNumber(b []byte) (float64, bool) {
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

// ParseWhole parses an integer, which may be written like 3.0 if it is at most 2^53.
func ParseWhole(b []byte) (int64, bool) {
	if v, ok := ParseInt(b); ok {
		return v, true
	}
	x, ok := parseNumber(b)
	if !ok || x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		return 0, false
	}
	return int64(x), true
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
