// Package text reads numbers from files of text as streams, a line at a time. Errors name the
// file and the line.
package text

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"diskgnn/dataset/importer/internal/file"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// bufferBytes bounds a line.
const bufferBytes = 256 << 10

// Ints reads a file of integers, so many to a line, separated by commas. It
// has no header.
type Ints struct {
	f       vfs.File
	name    string
	r       *bufio.Reader
	columns int
	line    int64
}

// Open opens a file with so many integers to a line.
func Open(fsys vfs.FS, name string, columns int) (*Ints, error) {
	f, err := file.Open(fsys, name)
	if err != nil {
		return nil, err
	}
	return &Ints{f: f, name: name, r: bufio.NewReaderSize(f, bufferBytes), columns: columns}, nil
}

// Close closes the file.
func (c *Ints) Close() error { return c.f.Close() }

// Next fills dst as far as there are whole lines that fit, and returns how many integers
// these were.
func (c *Ints) Next(dst []int64) (int, error) {
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
func (c *Ints) parse(line []byte, dst []int64) bool {
	for i := range dst {
		field, rest, more := bytes.Cut(line, []byte(","))
		v, ok := ParseInt(bytes.TrimSpace(field))
		if !ok || more != (i < len(dst)-1) {
			return false
		}
		dst[i], line = v, rest
	}
	return true
}

// ParseInt reads a decimal integer without allocating.
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
