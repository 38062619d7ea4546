package text

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"

	"diskgnn/dataset/importer"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// bufferBytes bounds a line.
const bufferBytes = 256 << 10

// Lines reads the lines of a text file, without white space at their ends. A file with a name that
// ends in .gz is decompressed.
type Lines struct {
	name     string
	f        vfs.File
	unpack   *gzip.Reader // nil for plain text
	r        *bufio.Reader
	line     int64
	comments string // characters that begin a line that is passed over
	ends     string // white space at the ends of lines; "": all
	whole    []byte // the current line with the white space at its ends
	ended    bool
}

// OpenLines opens a file. Empty lines, and lines that begin with a character of comments, are skipped.
func OpenLines(fsys vfs.FS, name, comments string) (*Lines, error) {
	f, err := importer.OpenFile(fsys, name)
	if err != nil {
		return nil, err
	}
	l := &Lines{name: name, f: f, comments: comments}
	var from io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if l.unpack, err = gzip.NewReader(bufio.NewReaderSize(f, bufferBytes)); err != nil {
			return nil, errors.Join(l.unpacking(err), f.Close())
		}
		from = l.unpack
	}
	size := int64(bufferBytes)
	if st, err := f.Stat(); err == nil && l.unpack == nil && st.Size() > 0 {
		size = min(size, st.Size()+1) // a table may have thousands of small parts
	}
	l.r = bufio.NewReaderSize(from, int(size))
	return l, nil
}

// Close closes the file.
func (l *Lines) Close() error { return l.f.Close() }

// unpacking describes the fault of a compressed file.
func (l *Lines) unpacking(err error) error {
	return fmt.Errorf("%s: %w", l.name, importer.Unpacking(err))
}

// Next returns the next line, valid until the next call, or io.EOF.
func (l *Lines) Next() ([]byte, error) {
	for !l.ended {
		line, err := l.r.ReadSlice('\n')
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			l.ended = true
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fault.New(fault.ErrInput, "%s: line %d is too long", l.name, l.line+1)
		case l.unpack != nil:
			return nil, l.unpacking(err)
		default:
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		if l.line++; l.line == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")) // the mark of UTF-8
		}
		l.whole = line
		if l.ends == "" {
			line = bytes.TrimSpace(line)
		} else {
			line = bytes.Trim(line, l.ends)
		}
		if len(line) > 0 && strings.IndexByte(l.comments, line[0]) < 0 {
			return line, nil
		}
	}
	return nil, io.EOF
}

// Fail returns the error for a line that does not have the form that want describes; it names the file
// and the line.
func (l *Lines) Fail(line []byte, want string) error {
	return fault.New(fault.ErrInput, "%s: line %d is %.40q instead of %s", l.name, l.line, line, want)
}

// Lists reads a graph in WebGraph's ASCII format: a line with the number of nodes, then for
// each node a line of its successors, separated by blanks; an empty line is a node without any.
// Lines may be as long as a node has successors: they are not held.
type Lists struct {
	name   string
	f      vfs.File
	packed bool
	r      *bufio.Reader
	nodes  int64
	at     int64 // the node of the current line
}

// OpenLists opens a file, which may be gzipped, and reads the number of nodes from its first line.
func OpenLists(fsys vfs.FS, name string) (*Lists, error) {
	f, err := importer.OpenFile(fsys, name)
	if err != nil {
		return nil, err
	}
	l := &Lists{name: name, f: f, r: bufio.NewReaderSize(f, bufferBytes)}
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(l.r)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", name, importer.Unpacking(err)), f.Close())
		}
		l.packed, l.r = true, bufio.NewReaderSize(z, bufferBytes)
	}
	n, end, err := l.number()
	if err == nil && (n < 1 || end != '\n' && end != 0) {
		err = fault.New(fault.ErrInput, "%s: its first line is not the number of nodes", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l.nodes = n
	return l, nil
}

// Nodes returns the number of nodes, which the first line has.
func (l *Lists) Nodes() int64 { return l.nodes }

// Close closes the file.
func (l *Lists) Close() error { return l.f.Close() }

// Edge returns the next edge, or io.EOF after the last one.
func (l *Lists) Edge() (from, to int64, err error) {
	for l.at < l.nodes {
		n, end, err := l.number()
		if err != nil {
			return 0, 0, err
		}
		from = l.at
		switch {
		case end == '\n':
			l.at++
		case end == 0:
			if l.at++; l.at < l.nodes {
				return 0, 0, fault.New(fault.ErrInput, "%s: it ends after the lines of %d nodes, but its first line says %d nodes", l.name, l.at, l.nodes)
			}
		}
		if n >= 0 {
			return from, n, nil
		}
	}
	return 0, 0, l.end()
}

// end returns io.EOF if nothing but blank lines follows the last node's.
func (l *Lists) end() error {
	for {
		switch n, end, err := l.number(); {
		case err != nil:
			return err
		case n >= 0:
			return fault.New(fault.ErrInput, "%s: it has more lines than the %d nodes that its first line says", l.name, l.nodes)
		case end == 0:
			return io.EOF
		}
	}
}

// number returns the next number of the line and the byte behind it, 0 at the end of the file,
// or -1 if the line has no more.
func (l *Lists) number() (n int64, end byte, err error) {
	n = -1
	for {
		c, err := l.r.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return n, 0, nil
		case err != nil && l.packed:
			return 0, 0, fmt.Errorf("%s: %w", l.name, importer.Unpacking(err))
		case err != nil:
			return 0, 0, fmt.Errorf("%s: %w", l.name, err)
		case c >= '0' && c <= '9':
			if n = max(n, 0); n > 1<<40 {
				return 0, 0, fault.New(fault.ErrInput, "%s: node %d has a successor with too many digits", l.name, l.at)
			}
			n = n*10 + int64(c-'0')
		case c == '\n':
			return n, c, nil
		case c == ' ' || c == '\t' || c == '\r':
			if n >= 0 && c != '\r' {
				return n, c, nil
			}
		default:
			return 0, 0, fault.New(fault.ErrInput, "%s: the line of node %d has %q instead of a number", l.name, l.at, fmt.Sprintf("%c", c))
		}
	}
}
