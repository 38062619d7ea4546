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

// Lines yields the lines of a file of text, without white space at their ends. Files whose
// name ends in .gz are unpacked while they are read.
type Lines struct {
	name     string
	f        vfs.File
	unpack   *gzip.Reader // nil for plain text
	r        *bufio.Reader
	line     int64
	comments string // characters that begin a line that is passed over
	ended    bool
}

// OpenLines opens a file. Lines that begin with one of the given characters are passed over,
// as empty ones are.
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
	l.r = bufio.NewReaderSize(from, bufferBytes)
	return l, nil
}

// Close closes the file.
func (l *Lines) Close() error { return l.f.Close() }

// unpacking says what is wrong with a compressed file.
func (l *Lines) unpacking(err error) error {
	return fmt.Errorf("%s: %w", l.name, importer.Unpacking(err))
}

// Next returns the next line, valid until the call after, or io.EOF.
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
		l.line++
		line = bytes.TrimSpace(line)
		if len(line) > 0 && strings.IndexByte(l.comments, line[0]) < 0 {
			return line, nil
		}
	}
	return nil, io.EOF
}

// Fail returns the error of a line that is not what it should be.
func (l *Lines) Fail(line []byte, want string) error {
	return fault.New(fault.ErrInput, "%s: line %d is %.40q instead of %s", l.name, l.line, line, want)
}
