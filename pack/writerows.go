package pack

import (
	"context"
	"fmt"

	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// rowFile is a file, as long as is known before, that is written from front to
// back and has a table of its pages' checksums beside it.
type rowFile struct {
	dir  *stage.Dir
	w    *writers
	name string
	f    *outFile
	size int64
	out  stream

	offset int64
	sum    *binio.Summer
	sums   binio.Sums // complete after the last write
}

func newRowFile(files *fileSet, w *writers, name string, size int64) (*rowFile, error) {
	f, err := files.create(name, size)
	if err != nil {
		return nil, err
	}
	return &rowFile{dir: files.dir, w: w, name: name, f: f, size: size, out: stream{w: w}, sum: binio.NewSummer(binio.Page)}, nil
}

// write appends b.
func (s *rowFile) write(ctx context.Context, b []byte) error {
	if s.out.b == nil {
		if err := s.out.seek(ctx, s.f, s.offset); err != nil {
			return err
		}
	}
	if s.offset == 0 {
		s.sum.Expect(s.size)
	}
	s.offset += int64(len(b))
	_, _ = s.sum.Write(b)
	return s.out.write(ctx, b)
}

// writeAll writes the whole file from memory that begins on a page, on several
// goroutines.
func (s *rowFile) writeAll(ctx context.Context, b []byte, workers int) error {
	n := (len(b) + binio.Page - 1) / binio.Page
	s.sums = binio.Sums{Granule: binio.Page, Size: int64(len(b)), CRC: make([]uint32, n)}
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(workers + writeDepth)
	for off := 0; off < len(b) && inner.Err() == nil; off += blockBytes {
		g.Go(func() error {
			part := b[off:min(off+blockBytes, len(b))]
			for i := 0; i < len(part); i += binio.Page {
				s.sums.CRC[(off+i)/binio.Page] = binio.CRC(part[i:min(i+binio.Page, len(part))])
			}
			return s.f.write(part, int64(off))
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// finish makes the file durable, writes its table of checksums, and describes both.
func (s *rowFile) finish(table string) ([]stage.File, error) {
	s.out.flush()
	if err := s.w.drain(); err != nil {
		return nil, err
	}
	if err := s.f.finish(); err != nil {
		return nil, err
	}
	if s.sums.CRC == nil {
		s.sums = s.sum.Sums()
	}
	return describeSummed(s.dir, s.name, s.sums, table)
}

// describeSummed writes the table of checksums of a file and describes both.
func describeSummed(dir *stage.Dir, name string, sums binio.Sums, table string) ([]stage.File, error) {
	b := sums.Encode()
	if err := vfs.WriteFile(dir.FS(), dir.File(table), b); err != nil {
		return nil, fmt.Errorf("write %s: %w", table, err)
	}
	return []stage.File{
		{Name: name, Size: sums.Size, Checksum: sums.Checksum()},
		{Name: table, Size: int64(len(b)), Checksum: binio.Hash(b)},
	}, nil
}

// close closes the file, finished or not.
func (s *rowFile) close() {
	s.out.flush()
	_ = s.w.drain()
	s.f.close()
}
