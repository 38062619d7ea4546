package dataset

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// checkEdges looks at the header of a file of edges, and counts those of an array.
func (s *graphBolt) checkEdges(f gbFile) error {
	if f.Format == "csv" {
		_, err := statSource(s.fs, s.path(f))
		return err
	}
	return s.openNumbers(f, func(a *numbers) error {
		if !a.Integer() || len(a.Shape) != 2 || a.Shape[0] != 2 {
			return a.fail(fault.New(fault.ErrInput, "edges are integers of shape (2, E), not %s of shape %s", a.Type(), a.ShapeString()))
		}
		s.sh.edges = min(s.sh.edges+min(a.Shape[1], maxEdges+1), maxEdges+1)
		return nil
	})
}

// countEdges implements source: a line of a csv file is an edge.
func (s *graphBolt) countEdges(lines map[string]int64) int64 {
	n := s.sh.edges
	for _, f := range s.edge {
		if f.Format == "csv" {
			n = min(n+lines[s.path(f)], maxEdges+1)
		}
	}
	return n
}

func (s *graphBolt) edges(ctx context.Context, add func(dst, src []int64) error) error {
	for _, f := range s.edge {
		if err := s.readEdges(ctx, f, add); err != nil {
			return err
		}
	}
	return nil
}

// readEdges reads one file of edges.
func (s *graphBolt) readEdges(ctx context.Context, f gbFile, add func(dst, src []int64) error) (err error) {
	name := s.path(f)
	pairs, err := s.openPairs(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pairs.close()) }()
	dst, src := make([]int64, chunk), make([]int64, chunk)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := pairs.next(dst, src)
		if err != nil || n == 0 {
			return err
		}
		for i := range n {
			if uint64(dst[i]) >= uint64(s.sh.nodes) || uint64(src[i]) >= uint64(s.sh.nodes) {
				return fault.New(fault.ErrInput, "%s: the edge from %d to %d leaves the graph of %d nodes", name, src[i], dst[i], s.sh.nodes)
			}
		}
		if err := add(dst[:n], src[:n]); err != nil {
			return err
		}
	}
}

// pairStream yields edges: next fills dst and src as far as there are any.
type pairStream interface {
	next(dst, src []int64) (int, error)
	close() error
}

func (s *graphBolt) openPairs(f gbFile) (pairStream, error) {
	name := s.path(f)
	if f.Format == "csv" {
		c, err := openCSV(s.fs, name, 2)
		if err != nil {
			return nil, err
		}
		return &interleaved{intStream: c, both: make([]int64, 2*chunk)}, nil
	}
	a, err := openNPY(s.fs, name)
	if err != nil {
		return nil, err
	}
	if a.Fortran { // column-major: source, destination, source, …
		return &interleaved{intStream: &npyInts{a, a.Count()}, both: make([]int64, 2*chunk)}, nil
	}
	// Row-major: all sources, then all destinations. A second reader is put
	// before these.
	b, err := openNPY(s.fs, name)
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	p := &twoRows{src: a, dst: b, left: a.Shape[1]}
	if err := b.skip(p.left); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// twoRows reads a row-major [2, E] array.
type twoRows struct {
	src, dst *numbers
	left     int64
}

func (p *twoRows) next(dst, src []int64) (int, error) {
	n := min(int64(len(dst)), p.left)
	p.left -= n
	return int(n), errors.Join(p.src.ints(src[:n]), p.dst.ints(dst[:n]))
}

func (p *twoRows) close() error { return errors.Join(p.src.close(), p.dst.close()) }

// interleaved reads sources and destinations that follow each other in pairs.
type interleaved struct {
	intStream
	both []int64
}

func (p *interleaved) next(dst, src []int64) (int, error) {
	n, err := p.intStream.next(p.both[:2*min(len(dst), len(p.both)/2)])
	for i := range n / 2 {
		src[i], dst[i] = p.both[2*i], p.both[2*i+1]
	}
	return n / 2, err
}

// csvInts reads a file of integers, so many to a line, separated by commas. It
// has no header.
type csvInts struct {
	f       vfs.File
	name    string
	r       *bufio.Reader
	columns int
	line    int64
}

func openCSV(fsys vfs.FS, name string, columns int) (*csvInts, error) {
	f, err := openSource(fsys, name)
	if err != nil {
		return nil, err
	}
	return &csvInts{f: f, name: name, r: bufio.NewReaderSize(f, writeBuffer), columns: columns}, nil
}

func (c *csvInts) close() error { return c.f.Close() }

// next implements intStream. It fills whole lines only.
func (c *csvInts) next(dst []int64) (int, error) {
	n := 0
	for n+c.columns <= len(dst) {
		line, err := c.r.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = fault.New(fault.ErrInput, "line %d is too long", c.line+1)
			}
			return 0, fmt.Errorf("%s: %w", c.name, err)
		}
		end := err != nil
		c.line++
		line = bytes.TrimSpace(line)
		if len(line) > 0 {
			if !c.parse(line, dst[n:n+c.columns]) {
				return 0, fault.New(fault.ErrInput, "%s: line %d is %.40q instead of %d integers", c.name, c.line, line, c.columns)
			}
			n += c.columns
		}
		if end {
			break
		}
	}
	return n, nil
}

// parse reads a line of exactly len(dst) integers.
func (c *csvInts) parse(line []byte, dst []int64) bool {
	for i := range dst {
		field, rest, more := bytes.Cut(line, []byte(","))
		v, ok := parseInt(bytes.TrimSpace(field))
		if !ok || more != (i < len(dst)-1) {
			return false
		}
		dst[i], line = v, rest
	}
	return true
}

// parseInt reads a decimal integer without allocating.
func parseInt(b []byte) (int64, bool) {
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
