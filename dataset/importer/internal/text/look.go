package text

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// headLines is the number of lines by which a file's format is told, headBytes the bytes that these
// have at most, beside the first.
const (
	headLines = 50
	headBytes = 1 << 20
)

// Head returns the first lines of a file that are not comments, at most n of them and a bounded number
// of bytes.
func Head(fsys vfs.FS, name, comments string, n int) (lines []string, err error) {
	l, err := OpenLines(fsys, name, comments)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for bytes := 0; len(lines) < n && bytes < headBytes; {
		line, err := l.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if len(lines) > 0 && errors.Is(err, fault.ErrInput) {
				break // it is reported when the line is read
			}
			return nil, err
		}
		bytes += len(line)
		lines = append(lines, strings.TrimRight(string(l.whole), "\r\n"))
	}
	return lines, nil
}

// Fields returns the fields of a line, and reports whether its quotes close. Wrong quotes are as written.
func Fields(line string, f Format) (fields []string, ok bool) {
	t := newTable(nil, f)
	b := bytes.Trim([]byte(line), t.ends())
	if f.Dict {
		b = beforeDict(b)
	}
	if !t.split(b, 0) {
		return strings.Split(line, string(t.f.Comma)), false
	}
	for _, p := range t.parts {
		fields = append(fields, string(p))
	}
	return fields, true
}

// Guess returns f with the separator of fields, and Dict, by the first lines of a file.
func Guess(lines []string, f Format) Format {
	f.Dict = len(lines) > 0 && !slices.ContainsFunc(lines, func(line string) bool {
		line = strings.TrimSpace(line)
		i := strings.IndexByte(line, '{')
		return i < 1 || line[len(line)-1] != '}' || strings.IndexByte(" \t,;|", line[i-1]) < 0
	})
	best := f
	fields, most := regular(lines, f)
	given := fields
	for _, other := range []Format{{Comma: ','}, {Comma: ';'}, {Comma: '\t'}, {Comma: '|'}, {Blanks: true}} {
		g := f
		g.Blanks, g.Comma = other.Blanks, other.Comma
		n, score := regular(lines, g)
		switch {
		case n < 2 || g.Blanks && (given > 1 || score < 1): // or words that are not columns
		case score > most || score == most && (fields < 2 || f.Blanks && n < fields): // of a column with blanks
			best, fields, most = g, n, score
		}
	}
	return best
}

// regular returns the number of fields of all lines, 0 if it differs, and the share of numbers in the
// lines behind the first.
func regular(lines []string, f Format) (int, float64) {
	fields, all, numbers := 0, 0, 0
	for i, line := range lines {
		words, _ := Fields(line, f)
		if i > 0 && len(words) != fields {
			return 0, 0
		}
		if fields = len(words); i == 0 && len(lines) > 1 {
			continue
		}
		for _, w := range words {
			all++
			if _, ok := ParseFloat([]byte(w)); ok || f.Comma != ',' && decimalComma([]byte(w)) {
				numbers++
			}
		}
	}
	return fields, float64(numbers) / float64(max(all, 1))
}
