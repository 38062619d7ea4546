package pack

import (
	"unsafe"

	"diskgnn/internal/binio"
)

// appender writes a file of the directory from front to back in large pieces.
type appender struct {
	f      *outFile
	buf    []byte // begins on a page, in memory and in the file
	end    int64  // of what is written
	offset int64  // including what is still buffered
	crc    uint32 // of all that: scratch is checked when it is read again
}

const appendBuffer = 1 << 20

func newAppender(files *fileSet, name string, buffer int) (*appender, error) {
	f, err := files.create(name, 0)
	if err != nil {
		return nil, err
	}
	return &appender{f: f, buf: aligned(int(binio.AlignUp(int64(buffer), binio.Page)))[:0]}, nil
}

func (a *appender) write(b []byte) error {
	a.offset += int64(len(b))
	a.crc = binio.UpdateCRC(a.crc, b)
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

// pad appends zeros up to a multiple of align.
func (a *appender) pad(align int64) error {
	var zero [binio.Page]byte
	return a.write(zero[:binio.AlignUp(a.offset, align)-a.offset])
}

// flush writes the buffer; but for the last time it is full.
func (a *appender) flush() error {
	err := a.f.write(a.buf, a.end)
	a.end += int64(len(a.buf))
	a.buf = a.buf[:0]
	return err
}

// finish makes the file durable and closes it.
func (a *appender) finish() error {
	if err := a.flush(); err != nil {
		return err
	}
	return a.f.finish()
}

// close gives an unfinished file up.
func (a *appender) close() { a.f.close() }

// aligned returns n bytes of Go's heap that begin on a page.
func aligned(n int) []byte {
	b := make([]byte, n+binio.Page)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (binio.Page - 1))
	return b[skip : skip+n : skip+n]
}
