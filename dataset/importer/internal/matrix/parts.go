package matrix

import (
	"cmp"
	"errors"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/dataset/importer"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Files returns the files of s: s.Path or, if that is a directory or a pattern of names as in
// path.Match, the parts of a table, in the order of their names, in which digits count as numbers. Parts
// that begin with "_" or "." are no tables and left out, as are empty files of text. Errors are of kind
// fault.ErrInput.
func Files(fsys vfs.FS, s Spec) ([]string, error) {
	files, _, err := partsOf(fsys, s)
	return files, err
}

// partsOf is Files; is reports whether s.Path stands for parts.
func partsOf(fsys vfs.FS, s Spec) (files []string, is bool, err error) {
	if s.DType != "" || s.Key != "" {
		return []string{s.Path}, false, nil
	}
	st, err := fsys.Stat(s.Path)
	switch pattern := filepath.Base(s.Path); {
	case err == nil && st.IsDir():
		files, err = listParts(fsys, s.Path, s.Path, "*")
	case err != nil && strings.ContainsAny(pattern, "*?["):
		files, err = listParts(fsys, s.Path, filepath.Dir(s.Path), pattern)
	default: // a missing file is reported when it is opened
		return []string{s.Path}, false, nil
	}
	return files, true, err
}

// listParts lists the files in a directory that match a pattern.
func listParts(fsys vfs.FS, name, dir, pattern string) (files []string, err error) {
	if _, err := importer.StatFile(fsys, dir); err != nil {
		return nil, err
	}
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(names, natural)
	for _, part := range names {
		is, err := path.Match(pattern, part)
		if err != nil {
			return nil, fault.New(fault.ErrUsage, "%q is not a pattern of files", pattern)
		}
		if !is || strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".") {
			continue
		}
		file := filepath.Join(dir, part)
		st, err := importer.StatFile(fsys, file)
		if err != nil {
			return nil, err
		}
		switch {
		case st.IsDir() && strings.Contains(part, "="):
			return nil, fault.New(fault.ErrInput, "%s: the directory %s has a column's value in its name, which is not read: write the table without partitions", name, part)
		case st.IsDir():
			return nil, fault.New(fault.ErrInput, "%s: %s is a directory instead of a part", name, part)
		}
		if st.Size() == 0 && formOf(Spec{Path: file}) == textForm {
			continue // Spark writes a part without rows thus
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, fault.New(fault.ErrInput, "%s has no files with parts of a table", name)
	}
	return files, nil
}

// natural compares names; digits count as numbers.
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		n, m := digits(x), digits(y)
		if n > 0 && m > 0 {
			p, q := strings.TrimLeft(x[:n], "0"), strings.TrimLeft(y[:m], "0")
			if c := cmp.Or(cmp.Compare(len(p), len(q)), cmp.Compare(p, q)); c != 0 {
				return c
			}
			x, y = x[n:], y[m:]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// digits returns the number of digits at the beginning.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// of returns s for one part.
func (s Spec) of(file string) Spec {
	s.Path = file
	return s
}

// eachPart calls do for all parts, which must have a form, and the same one.
func eachPart(s Spec, files []string, do func(s Spec) error) error {
	first := formOf(s.of(files[0]))
	for _, file := range files {
		switch f := formOf(s.of(file)); {
		case f == unknownForm:
			return fault.New(fault.ErrInput, "%s is a part of %s, but its name does not tell its form", file, s.Path)
		case f != first:
			return fault.New(fault.ErrInput, "%s is of another form than %s", file, files[0])
		}
		if err := do(s.of(file)); err != nil {
			return err
		}
	}
	return nil
}

// differs returns the error for a part that does not have the columns of the first.
func differs(first, part string, names, others []string, columns, other int) error {
	if columns != other {
		return fault.New(fault.ErrInput, "%s has %d columns, but %s has %d", part, other, first, columns)
	}
	if !slices.Equal(names, others) {
		return fault.New(fault.ErrInput, "%s has the columns %.200q, but %s has %.200q", part, others, first, names)
	}
	return nil
}

func describeParts(fsys vfs.FS, s Spec, files []string) (all Description, err error) {
	err = eachPart(s, files, func(part Spec) error {
		d, err := Describe(fsys, part)
		if err != nil {
			return err
		}
		if part.Path == files[0] {
			all = d
			return nil
		}
		for i := range min(len(all.Text), len(d.Text)) {
			all.Text[i], all.Integer[i] = all.Text[i] || d.Text[i], all.Integer[i] && d.Integer[i]
		}
		if all.Rows < 0 || d.Rows < 0 {
			all.Rows = -1
		} else {
			all.Rows += d.Rows
		}
		return differs(files[0], part.Path, all.Names, d.Names, all.Columns, d.Columns)
	})
	return all, err
}

// parts is a table in several files, one after the other.
type parts struct {
	name    string
	open    func(i int) (Matrix, error)
	counts  []int64 // rows of each part, -1: not known
	rows    int64
	columns int
	names   []string
	kinds   [3]bool // Integer, Half, Mask
	at      int     // the part that is open or comes next
	m       Matrix  // nil: none is open
}

// openParts opens the table of several files, each by open; is reports whether s.Path stands for several.
func openParts(fsys vfs.FS, s Spec, open func(vfs.FS, Spec) (Matrix, error)) (_ Matrix, is bool, err error) {
	files, is, err := partsOf(fsys, s)
	if !is || err != nil {
		return nil, is, err
	}
	p := &parts{name: s.Path, kinds: [3]bool{true, true, true}}
	p.open = func(i int) (Matrix, error) { return open(fsys, s.of(files[i])) }
	err = eachPart(s, files, func(part Spec) error {
		m, err := open(fsys, part)
		if err != nil {
			return err
		}
		n := m.Rows()
		if p.counts == nil {
			p.columns, p.names = m.Columns(), m.Names()
		}
		if p.counts = append(p.counts, n); n < 0 || p.rows < 0 {
			p.rows = -1
		} else {
			p.rows += n
		}
		p.kinds = [3]bool{p.kinds[0] && m.Integer(), p.kinds[1] && m.Half(), p.kinds[2] && m.Mask()}
		return errors.Join(differs(files[0], part.Path, p.names, m.Names(), p.columns, m.Columns()), m.Close())
	})
	return p, true, err
}

func (p *parts) Name() string    { return p.name }
func (p *parts) Rows() int64     { return p.rows }
func (p *parts) Columns() int    { return p.columns }
func (p *parts) Names() []string { return p.names }
func (p *parts) Integer() bool   { return p.kinds[0] }
func (p *parts) Half() bool      { return p.kinds[1] }
func (p *parts) Mask() bool      { return p.kinds[2] }

func (p *parts) Ints(dst []int64) (int, error)      { return readParts(p, dst, Matrix.Ints) }
func (p *parts) Floats(dst []float32) (int, error)  { return readParts(p, dst, Matrix.Floats) }
func (p *parts) Doubles(dst []float64) (int, error) { return readParts(p, dst, Matrix.Doubles) }

// ahead makes sure that a part is open, or returns io.EOF.
func (p *parts) ahead() (err error) {
	if p.m == nil {
		if p.at == len(p.counts) {
			return io.EOF
		}
		p.m, err = p.open(p.at)
	}
	return err
}

// leave closes the part, of which all was read.
func (p *parts) leave() error {
	err := errors.Join(p.m.End(), p.m.Close())
	p.m = nil
	p.at++
	return err
}

func readParts[T any](p *parts, dst []T, next func(Matrix, []T) (int, error)) (n int, err error) {
	for dst = dst[:len(dst)/p.columns*p.columns]; n < len(dst); {
		if err := p.ahead(); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
		k, err := next(p.m, dst[n:])
		if err != nil {
			return n, err
		}
		if n += k; k == 0 {
			if err := p.leave(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// Skip skips parts without reading them, if their rows are known.
func (p *parts) Skip(rows int64) error {
	for rows > 0 {
		if p.m == nil && p.at < len(p.counts) && p.counts[p.at] >= 0 {
			n := p.counts[p.at]
			if n > rows {
				if err := p.ahead(); err != nil {
					return err
				}
				return p.m.Skip(rows)
			}
			rows -= n
			p.at++
			continue
		}
		n, err := p.Doubles(make([]float64, min(rows, int64(max(chunk/p.columns, 1)))*int64(p.columns)))
		if err != nil || n == 0 {
			return err
		}
		rows -= int64(n / p.columns)
	}
	return nil
}

// End checks that no row follows, also in other parts.
func (p *parts) End() error {
	n, err := p.Doubles(make([]float64, p.columns))
	if n > 0 {
		err = errors.Join(err, fault.New(fault.ErrInput, "%s has more rows than it should have", p.name))
	}
	return err
}

func (p *parts) Close() error {
	if p.m == nil {
		return nil
	}
	return p.m.Close()
}

// wordParts are words of several files, one after the other.
type wordParts struct {
	Words // of the part that is open
	name  string
	files []string // that come next
	open  func(file string) (Words, error)
}

// openWordParts opens the words of several files, as openParts opens a table.
func openWordParts(fsys vfs.FS, s Spec, open func(vfs.FS, Spec) (Words, error)) (_ Words, is bool, err error) {
	files, is, err := partsOf(fsys, s)
	if !is || err != nil {
		return nil, is, err
	}
	var first Words
	err = eachPart(s, files, func(part Spec) error {
		w, err := open(fsys, part)
		if err != nil {
			return err
		}
		if first == nil {
			first = w
			return nil
		}
		return errors.Join(differs(files[0], part.Path, first.Names(), w.Names(), 0, 0), w.Close())
	})
	if err != nil {
		if first != nil {
			err = errors.Join(err, first.Close())
		}
		return nil, true, err
	}
	return &wordParts{first, s.Path, files[1:], func(file string) (Words, error) { return open(fsys, s.of(file)) }}, true, nil
}

func (p *wordParts) Name() string { return p.name }

func (p *wordParts) Next() ([][]byte, error) {
	for {
		words, err := p.Words.Next()
		if !errors.Is(err, io.EOF) || len(p.files) == 0 {
			return words, err
		}
		next, err := p.open(p.files[0])
		if err != nil {
			return nil, err
		}
		err = p.Words.Close()
		p.Words, p.files = next, p.files[1:]
		if err != nil {
			return nil, err
		}
	}
}
