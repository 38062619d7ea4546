package rowfile

import (
	"unsafe"

	"diskgnn/internal/binio"
)

// Appender writes a file of the directory from front to back in large pieces.
type Appender struct {
	f      *File
	buf    []byte // begins on a page, in memory and in the file
	end    int64  // of what is written
	Offset int64  // where the next byte goes
	CRC    uint32 // CRC-32C of all bytes before it
}

// Buffer is the buffer, in bytes, that suits a file that is written alone.
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

// Close gives an unfinished file up.
func (a *Appender) Close() { a.f.Close() }

// aligned returns n bytes of Go's heap that begin on a page.
func aligned(n int) []byte {
	b := make([]byte, n+binio.Page)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (binio.Page - 1))
	return b[skip : skip+n : skip+n]
}
