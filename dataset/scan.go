package dataset

import (
	"context"
	"errors"
	"io"

	"diskgnn/internal/binio"
	"diskgnn/internal/vfs"
)

// scan reads a data file that is not compressed, granule by granule, verified. The piece
// is valid during the call.
func (d *Dataset) scan(ctx context.Context, name string, see func(piece []byte) error) (err error) {
	s, err := d.stream(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		piece, err := s.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := see(piece); err != nil {
			return err
		}
	}
}

// stream reads a data file from its beginning, verified. It holds a granule.
type stream struct {
	name string
	sums binio.Sums
	f    vfs.File
	at   int64 // bytes read
	buf  []byte
}

func (d *Dataset) stream(name string) (*stream, error) {
	c, err := d.checksums(name)
	if err != nil {
		return nil, err
	}
	return openStream(d.fs, d.path(name), c.sums)
}

func openStream(fsys vfs.FS, path string, sums binio.Sums) (*stream, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	return &stream{name: path, sums: sums, f: f, buf: make([]byte, min(Granule, sums.Size))}, nil
}

// next returns the next granule, valid until the next call, or io.EOF.
func (s *stream) next() ([]byte, error) {
	b := s.buf[:min(Granule, s.sums.Size-s.at)]
	if len(b) == 0 {
		return nil, io.EOF
	}
	if err := readAt(s.f, b, s.at); err != nil {
		return nil, err
	}
	if err := s.sums.Verify(s.name, s.at, b); err != nil {
		return nil, err
	}
	s.at += int64(len(b))
	return b, nil
}

func (s *stream) close() error { return s.f.Close() }

// numberStream yields the numbers of a data file one after another.
type numberStream[T binio.Number] struct {
	*stream
	ahead []T
}

func openNumbers[T binio.Number](d *Dataset, name string) (*numberStream[T], error) {
	s, err := d.stream(name)
	return &numberStream[T]{stream: s}, err
}

// peek returns the numbers that come next, some of them, or none at the end.
func (s *numberStream[T]) peek() ([]T, error) {
	if len(s.ahead) > 0 {
		return s.ahead, nil
	}
	b, err := s.next()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	s.ahead = binio.View[T](b)
	return s.ahead, err
}

// skip passes over some of the numbers that peek returned.
func (s *numberStream[T]) skip(n int) { s.ahead = s.ahead[n:] }
