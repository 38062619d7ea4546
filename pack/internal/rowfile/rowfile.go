// Package rowfile writes the files of a pack: at many places, in long writes that go past the page
// cache where the file system can, or from front to back; and makes the checksum tables of files that
// hold rows. Scratch files keep the data that a packing sets aside: lists of numbers (Lists), and rows
// that wait to be put in order (Windows).
package rowfile

import (
	"context"
	"fmt"
	"unsafe"

	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Rows is a file of a known length that is written from front to back, with a table of its pages' checksums
// in another file. It is for one goroutine.
type Rows struct {
	dir  *stage.Dir
	w    *Writers
	name string
	f    *File
	size int64
	out  Stream

	offset int64
	sum    *binio.Summer
	sums   binio.Sums // complete after the last write
}

// NewRows creates a file of the given size in the set, to be written through w.
func NewRows(files *Set, w *Writers, name string, size int64) (*Rows, error) {
	f, err := files.Create(name, size)
	if err != nil {
		return nil, err
	}
	return &Rows{dir: files.Dir, w: w, name: name, f: f, size: size, out: w.Stream(), sum: binio.NewSummer(binio.Page)}, nil
}

// Write appends b.
func (s *Rows) Write(ctx context.Context, b []byte) error {
	if s.out.b == nil {
		if err := s.out.Seek(ctx, s.f, s.offset); err != nil {
			return err
		}
	}
	if s.offset == 0 {
		s.sum.Expect(s.size)
	}
	s.offset += int64(len(b))
	_, _ = s.sum.Write(b)
	return s.out.Write(ctx, b)
}

// WriteAll writes the whole file from b, which begins at a multiple of a page in memory, on several
// goroutines.
func (s *Rows) WriteAll(ctx context.Context, b []byte, workers int) error {
	n := (len(b) + binio.Page - 1) / binio.Page
	s.sums = binio.Sums{Granule: binio.Page, Size: int64(len(b)), CRC: make([]uint32, n)}
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(workers + Depth)
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

// Finish makes the file durable, writes its table of checksums, and describes both.
func (s *Rows) Finish(table string) ([]stage.File, error) {
	s.out.Flush()
	if err := s.w.Drain(); err != nil {
		return nil, err
	}
	if err := s.f.Finish(); err != nil {
		return nil, err
	}
	if s.sums.CRC == nil {
		s.sums = s.sum.Sums()
	}
	return Describe(s.dir, s.name, s.sums, table)
}

// Describe writes the table of checksums of a file and describes both.
func Describe(dir *stage.Dir, name string, sums binio.Sums, table string) ([]stage.File, error) {
	b := sums.Encode()
	if err := vfs.WriteFile(dir.FS(), dir.File(table), b); err != nil {
		return nil, fmt.Errorf("write %s: %w", table, err)
	}
	return []stage.File{
		{Name: name, Size: sums.Size, Checksum: sums.Checksum()},
		{Name: table, Size: int64(len(b)), Checksum: binio.Hash(b)},
	}, nil
}

// Close closes the file, finished or not.
func (s *Rows) Close() {
	s.out.Flush()
	_ = s.w.Drain()
	s.f.Close()
}

// Summed is an Appender that computes the checksum of every page.
type Summed struct {
	*Appender
	name string
	dir  *stage.Dir
	sums *binio.Summer
}

// NewSummed creates a file of unknown size in the set.
func NewSummed(files *Set, name string) (*Summed, error) {
	a, err := NewAppender(files, name, Buffer)
	if err != nil {
		return nil, err
	}
	return &Summed{a, name, files.Dir, binio.NewSummer(binio.Page)}, nil
}

// Write appends b.
func (s *Summed) Write(b []byte) error {
	_, _ = s.sums.Write(b)
	return s.Appender.Write(b)
}

// Finish makes the file durable, writes its table of checksums, and describes
// both.
func (s *Summed) Finish(table string) ([]stage.File, error) {
	if err := s.Appender.Finish(); err != nil {
		return nil, err
	}
	return Describe(s.dir, s.name, s.sums.Sums(), table)
}

// Appender writes a file of the directory from front to back in large pieces. It is for one goroutine.
type Appender struct {
	f      *File
	buf    []byte // begins on a page, in memory and in the file
	end    int64  // of the written part
	Offset int64  // offset of the next byte
	CRC    uint32 // CRC-32C of all bytes before it
}

// Buffer is the size in bytes of the buffer for a file that is written alone.
const Buffer = 1 << 20

// NewAppender creates a file in the set, written in pieces of the given bytes.
func NewAppender(files *Set, name string, buffer int) (*Appender, error) {
	f, err := files.Create(name, 0)
	if err != nil {
		return nil, err
	}
	return &Appender{f: f, buf: aligned(int(binio.AlignUp(int64(buffer), binio.Page)))[:0]}, nil
}

// Write appends b.
func (a *Appender) Write(b []byte) error {
	a.Offset += int64(len(b))
	a.CRC = binio.UpdateCRC(a.CRC, b)
	for len(b) > 0 {
		if len(a.buf) == cap(a.buf) {
			if err := a.flush(); err != nil {
				return err
			}
		}
		n := min(len(b), cap(a.buf)-len(a.buf))
		a.buf = append(a.buf, b[:n]...)
		b = b[n:]
	}
	return nil
}

// Pad appends zeros up to a multiple of align.
func (a *Appender) Pad(align int64) error {
	var zero [binio.Page]byte
	return a.Write(zero[:binio.AlignUp(a.Offset, align)-a.Offset])
}

// flush writes the buffer; but for the last time it is full.
func (a *Appender) flush() error {
	err := a.f.write(a.buf, a.end)
	a.end += int64(len(a.buf))
	a.buf = a.buf[:0]
	return err
}

// Finish makes the file durable and closes it.
func (a *Appender) Finish() error {
	if err := a.flush(); err != nil {
		return err
	}
	return a.f.Finish()
}

// Close closes the file without making it durable. After Finish it does nothing.
func (a *Appender) Close() { a.f.Close() }

// aligned returns n bytes of Go's heap that begin on a page.
func aligned(n int) []byte {
	b := make([]byte, n+binio.Page)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (binio.Page - 1))
	return b[skip : skip+n : skip+n]
}
