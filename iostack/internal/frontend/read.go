package frontend

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"diskgnn/device"
	"diskgnn/iostack"
)

// Read is one device read under way: a piece of a request. The goroutine that took it from the queue reads
// into Rest or, for device memory, Device, reports the bytes read with Advance until the read is done, and
// then calls End once. Until then the file stays open. A Read is for one goroutine at a time. Take fills in
// a zero value.
type Read struct {
	stack *Stack
	group *iostack.Group
	file  *File

	// The request's, for errors.
	index  int
	offset int64
	length int

	whole *File // the request's, of which file is a part if it is striped

	dst  []byte   // the piece's part of the request's buffer
	more [][]byte // the destinations after dst, if there are more
	at   int64    // offset of dst in the request's file
	from int64    // offset of buf in file
	buf  []byte   // memory that the device fills: dst itself, or a bounce buffer
	skip int      // where dst lies in buf
	need int      // bytes of buf without which dst is not whole

	device device.Buffer // the piece's destination instead of dst and buf

	got    int // bytes of buf that are there, whole pages when direct
	stalls int
}

// maxStalls is the number of times that a direct read may return less than a page before the end of the
// file. One more is an error.
const maxStalls = 8

// File returns the file to read.
func (r *Read) File() *File { return r.file }

// Device returns the rest of a destination in device memory, and the file offset of its first byte, which
// need not be a multiple of a page. It returns the zero Buffer if the destination is host memory: then Rest
// applies.
func (r *Read) Device() (to device.Buffer, offset int64) {
	if r.device == (device.Buffer{}) {
		return device.Buffer{}, 0
	}
	return r.device.Slice(int64(r.got), int64(r.need-r.got)), r.from + int64(r.got)
}

// Serve reads all of Rest with calls of pread, a function like pread(2), and returns the error for End.
func (r *Read) Serve(pread func(fd int, p []byte, offset int64) (int, error)) error {
	for {
		fd, buf, offset := r.Rest()
		n, err := pread(fd, buf, offset)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("pread: %w", err)
		}
		if done, err := r.Advance(n); done || err != nil {
			return err
		}
	}
}

// Rest returns the rest of the read: the descriptor, the memory, and the file offset. For a direct file all
// of it is whole pages, also after a short read.
func (r *Read) Rest() (fd int, buf []byte, offset int64) {
	return r.file.fd, r.buf[r.got:], r.from + int64(r.got)
}

// Advance records that the first n bytes of Rest, or of Device, were read, and returns whether the read is
// done. If not, Rest or Device returns the remainder. If the file ends too early, the error is of kind
// fault.ErrCorrupt.
func (r *Read) Advance(n int) (done bool, err error) {
	if n, err = r.altered(n); err != nil {
		return false, err
	}
	r.stack.stats.deviceReads.Add(1)
	r.stack.stats.bytesRead.Add(r.fetched(n))
	end := r.got + n
	if end >= r.need {
		return true, nil
	}
	if whole := end &^ (r.align() - 1); whole > r.got {
		r.got = whole
		return false, nil
	}
	// Less than a page: the end of the file, or a direct read cut inside a page,
	// which must be repeated from the page's start.
	size, err := r.file.end()
	switch {
	case err != nil:
		return false, fmt.Errorf("find the end of the file: %w", err)
	case size <= r.from+int64(end):
		return false, r.truncated(end, size)
	}
	if r.stalls++; r.stalls > maxStalls {
		return false, fmt.Errorf("%s: %w", r.stack.name, io.ErrNoProgress)
	}
	return false, nil
}

// Failed returns the error to report for a read that failed with err: the error of a truncated file if the
// file ends before the read, else err. Libraries return errors of their own for reads beyond the end.
func (r *Read) Failed(err error) error {
	if size, e := r.file.end(); e == nil && size < r.from+int64(r.need) {
		return r.truncated(int(max(size-r.from, 0)), size)
	}
	return err
}

// truncated returns the error of a file of the given size, in which the read got the first n bytes from
// r.from on.
func (r *Read) truncated(n int, size int64) error {
	return iostack.Truncated(r.length, r.at-int64(r.skip)+int64(n)-r.offset, size)
}

// align is the alignment in bytes at which a read can be continued. A backend that reads into device
// memory handles partial pages itself.
func (r *Read) align() int {
	if r.device != (device.Buffer{}) {
		return 1
	}
	return r.file.splits.Align
}

// fetched returns the number of bytes that the drive transferred for n bytes read: whole pages for a direct
// file.
func (r *Read) fetched(n int) int64 {
	if r.device == (device.Buffer{}) || n == 0 {
		return int64(n)
	}
	mask := int64(r.file.splits.Align - 1)
	from := r.from + int64(r.got)
	return (from+int64(n)+mask)&^mask - from&^mask
}

// End ends the read and empties r. A read with an error has failed. The backend must not write to the
// buffers afterwards.
func (r *Read) End(err error) {
	var failure *iostack.ReadError
	switch {
	case err != nil:
		failure = r.fail(err)
	case r.more != nil:
		for from := r.buf[r.skip:r.need]; len(from) > 0; r.dst, r.more = r.more[0], r.more[1:] {
			if from = from[copy(r.dst, from):]; len(r.more) == 0 {
				break
			}
		}
	case r.dst != nil && (r.skip != 0 || len(r.dst) != len(r.buf) || &r.dst[0] != &r.buf[0]):
		copy(r.dst, r.buf[r.skip:r.need])
	}
	r.file.use.RUnlock()
	r.stack.flight.end()
	group := r.group
	*r = Read{} // keeps neither buffer nor group alive
	group.Done(failure)
}

func (r *Read) fail(err error) *iostack.ReadError {
	return &iostack.ReadError{File: r.whole.path, Offset: r.offset, Length: r.length, Index: r.index, At: r.at, Err: err}
}

// begin sets r to the next piece of a queued request, and returns the piece's length. It fails with
// os.ErrClosed once the file is being closed.
func (r *Read) begin(s *Stack, q *request, bounce []byte) (n int, err error) {
	at, rest := q.next(), q.rest
	file, from, n := q.file.locate(at)
	if left := int(q.device.Bytes()); left > 0 {
		n = min(n, left, s.options.MaxIO-int(from%iostack.Align)) // the next piece begins with a page
		*r = Read{
			stack: s, group: q.group, file: file,
			index: q.index, offset: q.offset, length: q.length, whole: q.file,
			device: q.device.Slice(0, int64(n)), at: at, from: from, need: n,
		}
		return n, r.enter(s)
	}
	if n := r.gather(s, q, file, from, n, bounce); n > 0 {
		return n, r.enter(s)
	}
	p := file.splits.Next(from, rest[:min(n, len(rest))])
	*r = Read{
		stack: s, group: q.group, file: file,
		index: q.index, offset: q.offset, length: q.length, whole: q.file,
		dst: p.Dst, at: at, from: p.Offset, buf: p.Dst, need: len(p.Dst),
	}
	if p.Bounce {
		r.buf, r.skip, r.need = bounce[:p.Length], p.Skip, p.Skip+len(p.Dst)
	}
	return len(p.Dst), r.enter(s)
}

// gather sets r to one piece for several destinations that follow each other in the file, read into the
// bounce buffer, and returns its length. It returns 0 if the next destination is long enough for pieces of
// its own, or is the last. n is the number of contiguous bytes from there on.
func (r *Read) gather(s *Stack, q *request, file *File, from int64, n int, bounce []byte) int {
	if len(q.more) == 0 || len(q.rest) > file.splits.Bounce/2 {
		return 0
	}
	mask := file.splits.Align - 1
	lead := int(from) & mask
	if n = min(n, q.left(), file.splits.Bounce-lead); n <= len(q.rest) {
		return 0
	}
	*r = Read{
		stack: s, group: q.group, file: file,
		index: q.index, offset: q.offset, length: q.length, whole: q.file,
		dst: q.rest, more: q.more, at: q.next(), from: from - int64(lead),
		buf: bounce[:(lead+n+mask)&^mask], skip: lead, need: lead + n,
	}
	return n
}

// enter keeps the file open for the read.
func (r *Read) enter(s *Stack) error {
	if !r.file.enter() {
		return os.ErrClosed
	}
	s.flight.begin()
	return nil
}
