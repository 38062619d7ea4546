package matrix

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"diskgnn/dataset/importer/internal/text"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Description describes the columns of a table as they are in the file, before any are chosen. A list
// in Parquet or Arrow is one column.
type Description struct {
	Columns int
	Names   []string // nil if the file has none
	// Text tells which columns have words, and Integer which have whole numbers: by their types; in files
	// of text by the first lines.
	Text, Integer []bool
	Rows          int64    // -1: known only after reading
	Data          []string // names of data behind the columns which are not a column: networkx's dicts of edges
}

// Describe describes a file, without regard to s.Columns and s.Except; an empty one of text has no
// columns. Of a large file it reads only the beginning, or the file's own description. Errors are of
// kind fault.ErrInput.
func Describe(fsys vfs.FS, s Spec) (Description, error) {
	if files, is, err := partsOf(fsys, s); err != nil || is {
		if err != nil {
			return Description{}, err
		}
		return describeParts(fsys, s, files)
	}
	switch formOf(s) {
	case parquetForm:
		return describeParquet(fsys, s)
	case arrowForm:
		m, err := openArrow(fsys, s, columnsOf{key: -1, none: true})
		if err != nil {
			return Description{}, err
		}
		return m.description, m.Close()
	case textForm:
		l, err := look(fsys, s.Path, textFormat(s), lookOptions{guess: true, words: true, key: -1, columns: s.Columns})
		return l.Description, err
	}
	all := s
	all.Columns, all.Except = nil, nil
	m, err := Open(fsys, all)
	if err != nil {
		return Description{}, err
	}
	n := m.Columns()
	d := Description{n, m.Names(), make([]bool, n), slices.Repeat([]bool{m.Integer()}, n), m.Rows(), nil}
	return d, m.Close()
}

// Select returns the numbers of the columns that s chooses, in the order of s.Columns; each column once.
// If nothing is chosen, all columns are. Of several columns with a name, the name chooses all. Errors
// are of kind fault.ErrInput, or of kind fault.ErrUsage for a pattern that is none.
func (d *Description) Select(s Spec) ([]int, error) {
	if s.numbers != nil {
		return s.numbers, nil
	}
	var chosen []int
	for _, c := range s.Columns {
		found, err := d.find(s.Path, c)
		if err != nil {
			return nil, err
		}
		for _, i := range found {
			if !slices.Contains(chosen, i) {
				chosen = append(chosen, i)
			}
		}
	}
	if len(s.Columns) == 0 {
		for i := range d.Columns {
			chosen = append(chosen, i)
		}
	}
	if len(s.Except) == 0 {
		return chosen, nil
	}
	except := make([]bool, d.Columns)
	for _, c := range s.Except {
		found, err := d.find(s.Path, c)
		if err != nil {
			return nil, err
		}
		for _, i := range found {
			except[i] = true
		}
	}
	chosen = slices.DeleteFunc(chosen, func(i int) bool { return except[i] })
	if len(chosen) == 0 {
		return nil, fault.New(fault.ErrInput, "%s: no column is left; it has %s", s.Path, d.list())
	}
	return chosen, nil
}

// find returns the columns that a name, a number, a range or a pattern matches. A name comes first: a
// table may have numbers as names.
func (d *Description) find(file, c string) (found []int, err error) {
	named := func(name string) (at []int) {
		for i, n := range d.Names {
			if n == name {
				at = append(at, i)
			}
		}
		return at
	}
	number := func(s string) int {
		if at := named(s); len(at) > 0 {
			return at[0]
		}
		if n, err := strconv.Atoi(s); err == nil && n < d.Columns && s[0] != '+' {
			return n
		}
		return -1
	}
	if found = named(c); len(found) > 0 {
		return found, nil
	}
	if i := number(c); i >= 0 {
		return []int{i}, nil
	}
	if first, last, ok := strings.Cut(c, "-"); ok && number(first) >= 0 && number(first) <= number(last) {
		for i := number(first); i <= number(last); i++ {
			found = append(found, i)
		}
		return found, nil
	}
	for i, n := range d.Names {
		is, err := path.Match(slashes.Replace(c), slashes.Replace(n))
		if err != nil {
			return nil, fault.New(fault.ErrUsage, "%q is not a pattern of columns' names", c)
		}
		if is {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		return nil, fault.New(fault.ErrInput, "%s: no column is %q; it has %s", file, c, d.list())
	}
	return found, nil
}

// slashes hides slashes in names from path.Match, which would not match them by *.
var slashes = strings.NewReplacer("/", "\x00")

// list lists the columns for a message, some of many.
func (d *Description) list() string {
	const most = 20
	switch {
	case d.Columns == 0:
		return "no columns"
	case d.Columns == 1 && d.Names == nil:
		return "one column without a name, 0"
	case d.Names == nil:
		return fmt.Sprintf("columns without names, 0-%d", d.Columns-1)
	}
	text := fmt.Sprintf("the columns %q", d.Names[:min(len(d.Names), most)])
	if len(d.Names) > most {
		text += fmt.Sprintf(" and %d more", len(d.Names)-most)
	}
	return text
}

// label returns the name of a column for messages.
func (d *Description) label(i int) string {
	if d.Names == nil {
		return fmt.Sprintf("column %d", i)
	}
	return d.Names[i]
}

// isAll reports whether columns are all columns in their order.
func (d *Description) isAll(columns []int) bool {
	for i, c := range columns {
		if i != c {
			return false
		}
	}
	return len(columns) == d.Columns
}

// lookOptions tell how the first lines of text are looked at.
type lookOptions struct {
	guess   bool     // the separator, by the lines
	words   bool     // all columns may have words, so that the first line needs a known name to be a header
	key     int      // the number of the column with ids, -1 if there is none
	columns []string // the names by which columns are chosen
}

// textLook is a file of text as its first lines tell it.
type textLook struct {
	Description
	f     text.Format
	first []string // fields of the first line
}

// look looks at the first lines of a file of text.
func look(fsys vfs.FS, name string, f text.Format, o lookOptions) (l textLook, err error) {
	lines, err := text.Head(fsys, name, f.Comments, headLines)
	if err != nil {
		return l, err
	}
	if len(lines) == 0 && (o.words || f.Columns > 0) {
		return textLook{Description: Description{Columns: f.Columns, Rows: -1}, f: f}, nil
	}
	if len(lines) == 0 {
		return l, fault.New(fault.ErrInput, "%s is empty", name)
	}
	if o.guess {
		f = text.Guess(lines, f)
	}
	var rows [][]string
	for _, line := range lines {
		fields, ok := text.Fields(line, f)
		if !ok && len(rows) > 0 {
			break // reading reports it
		}
		rows = append(rows, fields)
	}
	if f.Comments == "" && len(rows) > 1 && lines[0][0] == '#' && len(rows[0]) != len(rows[1]) {
		f.Comments = "#" // a line of it that names no columns, as NumPy's savetxt writes any text
		return look(fsys, name, f, o)
	}
	first, rest := rows[0], rows
	l.Columns, l.Rows = len(first), -1
	if l.Columns > maxColumns {
		return l, fault.New(fault.ErrInput, "%s has %d columns, more than %d", name, l.Columns, maxColumns)
	}
	if f.Header = isHeader(rows, o); f.Header {
		l.Names, rest = first, rows[1:]
		if f.Blanks {
			for i, n := range first {
				if len(n) > 1 && n[0] == '"' && n[len(n)-1] == '"' {
					first[i] = n[1 : len(n)-1]
				}
			}
		}
	} else if f.Comments != "" {
		if l.Names, err = namesInComment(fsys, name, f, l.Columns, len(o.columns) > 0); err != nil {
			return l, err
		}
	}
	if f.Dict {
		l.Data = keysOf(lines[0])
	}
	l.kinds(rest)
	l.f, l.first = f, first
	return l, nil
}

// headLines is the number of lines that are looked at.
const headLines = 50

// kinds sets Text and Integer by the first rows.
func (d *Description) kinds(rows [][]string) {
	d.Text, d.Integer = make([]bool, d.Columns), make([]bool, d.Columns)
	for i := range d.Columns {
		seen := false
		d.Integer[i] = true
		for _, row := range rows {
			if i >= len(row) || text.Missing([]byte(row[i])) {
				continue
			}
			seen = true
			_, number := text.ParseFloat([]byte(row[i]))
			_, whole := text.ParseWhole([]byte(row[i]))
			d.Text[i] = d.Text[i] || !number
			d.Integer[i] = d.Integer[i] && whole
		}
		d.Integer[i] = d.Integer[i] && seen
	}
}

// keysOf returns the keys of the dict of Python at the end of a line.
func keysOf(line string) (keys []string) {
	_, dict, _ := strings.Cut(line, "{")
	parts := strings.Split(dict, "'")
	for i := 1; i+1 < len(parts); i += 2 {
		if strings.HasPrefix(strings.TrimSpace(parts[i+1]), ":") {
			keys = append(keys, parts[i])
		}
	}
	return keys
}

// isHeader reports whether the first line has the names of columns: a word stands above a number, or
// there is no number in it.
func isHeader(rows [][]string, o lookOptions) bool {
	first := slices.Clone(rows[0])
	if o.key >= 0 && o.key < len(first) {
		first = slices.Delete(first, o.key, o.key+1)
	}
	if len(rows) > 1 && len(rows[1]) == len(rows[0]) {
		second := slices.Clone(rows[1])
		if o.key >= 0 {
			second = slices.Delete(second, o.key, o.key+1)
		}
		if isAbove(first, second) || counts(rows[0]) || counts(append([]string{""}, rows[0]...)) && areReal(rows[1:]) {
			return true
		}
		if o.words && !slices.ContainsFunc(second, isNumber) {
			return isWords(first) && slices.ContainsFunc(first, func(w string) bool {
				return isColumn(w) || slices.Contains(o.columns, w)
			})
		}
	}
	return isWords(first)
}

// isWords reports whether no field is a number, and no field is missing except the first of several,
// which pandas leaves empty above its index.
func isWords(fields []string) bool {
	for i, f := range fields {
		if i == 0 && len(fields) > 1 && text.Missing([]byte(f)) {
			continue
		}
		if _, ok := text.ParseFloat([]byte(f)); ok {
			return false
		}
	}
	return true
}

// isAbove reports whether a word of the first line stands above a number.
func isAbove(first, second []string) bool {
	for i, f := range first {
		if _, ok := text.ParseFloat([]byte(f)); !ok && isNumber(second[i]) && !slices.Contains(noNumbers, strings.ToLower(f)) {
			return true
		}
	}
	return false
}

// noNumbers are words that programs write for a missing number.
var noNumbers = []string{"na", "n/a", "<na>", "null", "none", "nil", "nat", "missing", "?", "-", "."}

func isNumber(field string) bool {
	_, ok := text.ParseFloat([]byte(field))
	return ok && !text.Missing([]byte(field))
}

// counts reports whether fields are nothing, 0, 1, 2, and so on: pandas' names of columns without names
// behind an index.
func counts(fields []string) bool {
	for i, f := range fields {
		if i == 0 && f != "" || i > 0 && f != strconv.Itoa(i-1) {
			return false
		}
	}
	return len(fields) > 1
}

// areReal reports whether all fields have a decimal point, as in a table of floats: a program writes the
// first row of those alike, so that whole numbers in it are names.
func areReal(rows [][]string) bool {
	return !slices.ContainsFunc(rows, func(row []string) bool {
		return len(row) < 2 || slices.ContainsFunc(row, func(f string) bool { return !strings.ContainsAny(f, ".eE") || !isNumber(f) })
	})
}

// isColumn reports whether a word is a usual name of a column.
func isColumn(word string) bool {
	return slices.Contains(ColumnNames, strings.ToLower(word)) || endOf(word) != 0 || word != "" && isID(word)
}
