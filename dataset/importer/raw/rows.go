package raw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// rows reads a table of nodes row by row.
type rows interface {
	// next reads the next row, or returns io.EOF. Its errors name the file.
	next() error
	// give gives the row to a node.
	give(v int64) error
}

// eachRow reads a table: it gives each row to its node. The contents have a name for messages.
func (s *source) eachRow(ctx context.Context, t *nodeTable, content string, r rows) (err error) {
	if !t.keyed {
		return s.eachInOrder(ctx, t.spec.Path, content, r)
	}
	seen, row := make([]uint64, (s.sh.Nodes+63)/64), int64(0)
	give := func(v int64) error {
		err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return fault.New(fault.ErrInput, "%s: truncated", t.spec.Path)
		case err != nil:
			return err
		case seen[v/64]&(1<<(v%64)) != 0:
			return fault.New(fault.ErrInput, "%s: row %d: an earlier row has the same id", t.spec.Path, row)
		}
		seen[v/64] |= 1 << (v % 64)
		row++
		return ofFile(t.spec.Path, r.give(v))
	}
	if t.list != nil {
		return t.list.Each(ctx, func(nodes []uint32) error {
			for _, v := range nodes {
				if err := give(int64(v)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	w, err := matrix.OpenKeys(s.fs, t.spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for {
		id, err := w.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && row%importer.Chunk == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		v, err := strconv.ParseInt(string(id[0]), 10, 64)
		if err != nil || v < 0 || v >= s.sh.Nodes {
			return fault.New(fault.ErrInput, "%s: row %d: the graph has the nodes 0 to %d, but no %.40q", t.spec.Path, row, s.sh.Nodes-1, id[0])
		}
		if err := give(v); err != nil {
			return err
		}
	}
}

func (s *source) eachInOrder(ctx context.Context, file, content string, r rows) error {
	for v := int64(0); ; v++ {
		if v%importer.Chunk == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		err := r.next()
		switch {
		case errors.Is(err, io.EOF) && v != s.sh.Nodes:
			return fault.New(fault.ErrInput, "%s has %s of %d nodes, but the graph has %d nodes", file, content, v, s.sh.Nodes)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case v == s.sh.Nodes:
			return fault.New(fault.ErrInput, "%s has %s of more nodes than the graph's %d", file, content, s.sh.Nodes)
		}
		if err := ofFile(file, r.give(v)); err != nil {
			return err
		}
	}
}

// ofFile puts the name of a file before an error.
func ofFile(file string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return err
}

// numberRows are labels that are numbers.
type numberRows struct {
	m      matrix.Matrix
	l      *importer.Labelling
	buf    []float64
	rest   []float64 // of buf, after the row
	row    []float64
	values []float32
}

func newNumberRows(m matrix.Matrix, l *importer.Labelling) *numberRows {
	columns := m.Columns()
	return &numberRows{m: m, l: l, buf: make([]float64, max(importer.Chunk/columns, 1)*columns), values: make([]float32, columns)}
}

func (r *numberRows) next() error {
	if len(r.rest) == 0 {
		n, err := r.m.Doubles(r.buf)
		if err == nil && n == 0 {
			if err = r.m.End(); err == nil {
				err = io.EOF
			}
		}
		if err != nil {
			return err
		}
		r.rest = r.buf[:n]
	}
	r.row, r.rest = r.rest[:len(r.values)], r.rest[len(r.values):]
	return nil
}

func (r *numberRows) give(v int64) error {
	if len(r.row) == 1 {
		return r.l.Number(v, r.row[0])
	}
	for c, x := range r.row {
		r.values[c] = float32(x)
	}
	return r.l.Row(v, r.values)
}

// wordRows are rows of one word each.
type wordRows struct {
	matrix.Words
	word string
	take func(v int64, word string) error
}

func (r *wordRows) next() error {
	words, err := r.Next()
	if err == nil {
		r.word = string(words[0])
	}
	return err
}

func (r *wordRows) give(v int64) error { return r.take(v, r.word) }

// eachWord reads a column of words: take is called with each word and its node.
func (s *source) eachWord(ctx context.Context, t *nodeTable, content string, take func(v int64, word string) error) error {
	return withWords(s.fs, t.spec, func(w matrix.Words) error {
		return s.eachRow(ctx, t, content, &wordRows{Words: w, take: take})
	})
}

// withWords calls do with an open column of words.
func withWords(fsys vfs.FS, column matrix.Spec, do func(w matrix.Words) error) error {
	return importer.With(func() (matrix.Words, error) { return matrix.OpenColumn(fsys, column) }, do)
}

// eachCell calls do for the cells of a column until it returns false, and returns the number of calls
// that returned true.
func eachCell(fsys vfs.FS, column matrix.Spec, do func(row int64, word []byte) bool) (n int64, err error) {
	err = withWords(fsys, column, func(w matrix.Words) error {
		for {
			words, err := w.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil || !do(n, words[0]) {
				return err
			}
			n++
		}
	})
	return n, err
}

// none reports whether a word of a table stands for no value.
func none(word string) bool {
	switch strings.ToLower(word) {
	case "", "nan", "none", "null", "<na>":
		return true
	}
	return false
}

// noClass reports whether a word of a column of labels stands for no label.
func noClass(word string) bool { return none(word) || word == "-1" || word == "-100" }

// setOf returns the number of the set that a word names, 1 for training nodes, or 0 for no set; is
// reports whether it names one or none.
func setOf(word string) (set uint8, is bool) {
	word = strings.ToLower(strings.TrimSpace(word))
	switch word {
	case "train", "training":
		return 1, true
	case "valid", "val", "validation", "dev":
		return 2, true
	case "test", "testing":
		return 3, true
	case "unused":
		return 0, true
	}
	if none(word) {
		return 0, true
	}
	switch x, err := strconv.ParseFloat(word, 64); {
	case err != nil:
		return 0, false
	case x == 0 || x == 1 || x == 2:
		return uint8(x) + 1, true
	default:
		return 0, x == -1
	}
}

// readSets reads the column of sets.
func (s *source) readSets(ctx context.Context, l *importer.Labelling) error {
	return s.eachWord(ctx, s.sets, "sets", func(v int64, word string) error {
		set, is := setOf(word)
		if !is {
			return fault.New(fault.ErrInput, "node %d is in the set %.40q: sets are train (or 0), valid (1) and test (2), or empty for none", v, word)
		}
		if set == 0 {
			return nil
		}
		return l.Assign(v, set)
	})
}

// readMask reads a column of a set: the nodes with a yes are in it.
func (s *source) readMask(ctx context.Context, t *nodeTable, l *importer.Labelling, set uint8) error {
	return s.eachWord(ctx, t, "sets", func(v int64, word string) error {
		x, err := strconv.ParseFloat(word, 64)
		switch lower := strings.ToLower(word); {
		case lower == "true" || lower == "yes" || err == nil && x == 1:
			return l.Assign(v, set)
		case lower == "false" || lower == "no" || err == nil && x == 0 || none(word):
			return nil
		}
		return fault.New(fault.ErrInput, "node %d has %.40q in the column %q, which is a set: it needs true or false", v, word, t.spec.Columns[0])
	})
}

// Bounds of the words of classes, which are held in memory. A few words may be classes of few nodes.
const (
	fewClasses     = 20
	mostClassWords = 1 << 16
	mostClassBytes = dataset.MaxClassNames
	heldByWord     = 128 // bytes at the most, beside the word
)

// findClasses collects the words of a column of labels, and returns the number of rows.
func findClasses(w matrix.Words) (words map[string]int64, rows int64, err error) {
	words = map[string]int64{}
	labelled, bytes := int64(0), 0
	for ; ; rows++ {
		word, err := w.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, rows, err
		}
		if noClass(string(word[0])) {
			continue
		}
		labelled++
		if _, has := words[string(word[0])]; has {
			continue
		}
		bytes += len(word[0]) + 1
		if len(words) == mostClassWords || bytes > mostClassBytes {
			return nil, rows, fault.New(fault.ErrInput, "%s: its labels have more than %d different words: they look like ids or text, not classes", w.Name(), len(words))
		}
		words[string(word[0])] = 0
	}
	if n := int64(len(words)); n > fewClasses && n > labelled/2 {
		err = fault.New(fault.ErrInput, "%s: its labels have %d different words on %d labelled nodes: they look like ids or text, not classes", w.Name(), n, labelled)
	}
	return words, rows, err
}
