package text

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"

	"diskgnn/dataset/importer"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Lists reads a graph in WebGraph's ASCII format: a line with the number of nodes, then for
// each node a line of its successors, separated by blanks; an empty line is a node without any.
// Lines may be as long as a node has successors: they are not held.
type Lists struct {
	name   string
	f      vfs.File
	packed bool
	r      *bufio.Reader
	nodes  int64
	at     int64 // the node whose successors are read
}

// OpenLists opens a file, also one that is gzipped, and reads the number of nodes.
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

// Nodes is what the first line says.
func (l *Lists) Nodes() int64 { return l.nodes }

// Close closes the file.
func (l *Lists) Close() error { return l.f.Close() }

// Edge returns the next edge, or io.EOF behind the last one.
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
				return 0, 0, fault.New(fault.ErrInput, "%s: it ends after the successors of %d of %d nodes", l.name, l.at, l.nodes)
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
			return fault.New(fault.ErrInput, "%s: it goes on behind the successors of %d nodes, which its first line says", l.name, l.nodes)
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
				return 0, 0, fault.New(fault.ErrInput, "%s: node %d has a successor of more digits than any node", l.name, l.at)
			}
			n = n*10 + int64(c-'0')
		case c == '\n':
			return n, c, nil
		case c == ' ' || c == '\t' || c == '\r':
			if n >= 0 && c != '\r' {
				return n, c, nil
			}
		default:
			return 0, 0, fault.New(fault.ErrInput, "%s: node %d: %q where a number is needed", l.name, l.at, fmt.Sprintf("%c", c))
		}
	}
}
