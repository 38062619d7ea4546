// Package iostack reads files the way a storage stack does: many micro-batches
// of reads are submitted, then all completed at once, and submission never
// waits for the medium. It is the provider's interface; its backends are
// subpackages (pread is the reference that every other is compared with),
// iostack/all lists them, and iostack/iostacktest is the suite that each
// passes. It only reads: writes have a seam of their own.
//
// A mini-batch's reads are one Group:
//
//	var g iostack.Group
//	stack.Submit(&g, coldReads)
//	stack.Submit(&g, residualReads)
//	… other work …
//	err := stack.Wait(ctx, &g)
//
// Any offset, length and buffer address is allowed, also when the file is open
// for direct I/O; no byte outside a request's Buf is ever written. Reads are
// cheapest when offset and address lie at the same distance from a multiple of
// Caps.Align: then all whole pages land in place and only the partial pages at
// the ends are copied. Otherwise the whole request is copied.
package iostack

import (
	"context"
	"errors"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/internal/binio"
)

// ErrClosed is wrapped by the errors of a closed stack, and of requests that Close abandoned.
var ErrClosed = errors.New("iostack is closed")

// Request asks for bytes of File from Offset on, and fills its destination exactly. The destination
// belongs to the stack from Submit until the group's Wait returns: before that it must be neither
// read nor written, and after an error its content is undefined.
type Request struct {
	File   File
	Offset int64
	Buf    []byte // a destination in host memory

	// Scatter is a destination in pieces instead, in host memory, which the bytes fill one
	// after the other: a place of its own for each row or block of a request, at one read
	// of the drive where pieces are short. The list belongs to the stack as the memory does.
	Scatter [][]byte

	// Device is a destination in a GPU's memory instead, for stacks that have
	// Caps.Device. Its owner keeps it until Wait has returned. Reads are not work of a
	// stream's: work that streams were given on the memory must be done before Submit,
	// and work given after Wait sees the bytes, whether a drive wrote them there, a
	// library's copy or a queue that the GPU drives. Nothing checks them on the way: see
	// kernels.Checksum.
	Device cuda.Buffer
}

// Len returns how many bytes the request asks for.
func (r *Request) Len() int {
	n := len(r.Buf) + int(r.Device.Bytes())
	for _, piece := range r.Scatter {
		n += len(piece)
	}
	return n
}

// File is an open file of the stack that opened it.
type File interface {
	// Name returns the path the file was opened by.
	Name() string
	// Size returns the file's size in bytes when it was opened.
	Size() int64
	// Direct tells whether reads bypass the page cache and, if not, why.
	Direct() (direct bool, reason string)
	// Close waits for the reads that are in the middle of the file and closes
	// it; requests still queued fail with os.ErrClosed. Closing twice does
	// nothing. A file outlives its stack: closing one does not close the other.
	Close() error
}

// Stack reads files. All methods may be called from any goroutine.
type Stack interface {
	// Name returns the backend's kind, such as "pread".
	Name() string

	// Caps returns the backend's limits and preferences, which do not change.
	Caps() Caps

	// Open opens a regular file or a block device for reading, directly where the options and the
	// file system allow it; File.Direct reports the outcome.
	Open(path string) (File, error)

	// Register announces memory that reads will land in, for backends that pin
	// it; it is only a hint. Registered memory must stay mapped until it is
	// unregistered, or the stack is closed: reads that land in other memory at
	// the same addresses would be lost.
	Register(bufs ...[]byte) error

	// Unregister takes Register back for the memory in bufs, before that memory is freed. No read
	// into it may be in flight.
	Unregister(bufs ...[]byte) error

	// Submit queues the requests as part of g and returns without waiting for the medium. A queue is
	// never full: it grows by some tens of bytes per request, little beside the buffers that the
	// requests name, and a backend whose device has a bounded queue feeds it as reads complete. So
	// the caller bounds the requests in flight by its number of buffers.
	//
	// The slice reqs is free for reuse once Submit returns. An error means that nothing was queued:
	// the stack is closed, or a request is one that no stack can serve (no file, a file of another
	// stack, a negative offset, two destinations, or one in device memory without Caps.Device).
	Submit(g *Group, reqs []Request) error

	// Wait returns when every request of g has ended, with nil when all
	// succeeded and else the *ReadError of the first in submission order that
	// failed; the others have been carried out all the same. Once ctx ends,
	// requests that have not begun are dropped, those that have are awaited,
	// and the error wraps ctx.Err(). In either case no buffer of g is written
	// to after Wait has returned, and g is empty and ready for reuse.
	Wait(ctx context.Context, g *Group) error

	// Stats returns the counts of the stack's work since it was made.
	Stats() Stats

	// Close ends the stack: reads in flight are awaited, requests that have not
	// begun end with ErrClosed. Every group can still be waited for. Closing
	// twice does nothing.
	Close() error
}

// Drop gives the requests of a group up: it drops requests that have not begun, waits for the
// others, and ignores their errors.
func Drop(s Stack, g *Group) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Wait(ended, g)
}

// Caps describes a backend.
type Caps struct {
	Align int // offsets and addresses congruent modulo Align (bytes) are read in place
	MaxIO int // largest single device read, in bytes; longer requests are cut
	Depth int // device reads carried out at the same time, at most

	// Device says that requests may have destinations in a GPU's memory. Offset,
	// length and address are free there, too.
	Device bool
}

// Stats counts a stack's work. Requests and BytesAsked count the submitted requests. DeviceReads and
// BytesRead count the reads that serve them, including the rest of partial pages, which direct reads
// must fetch, and bytes of reads that failed later on. InFlight is the time in which at least one
// device read was under way: BytesRead over it is the rate of the drive, whether or not its users
// waited.
type Stats struct {
	Requests    int64
	BytesAsked  int64
	DeviceReads int64
	BytesRead   int64
	InFlight    time.Duration
}

// Sub returns the work done between the snapshots t and s, of which t is the
// earlier.
func (s Stats) Sub(t Stats) Stats {
	return Stats{
		Requests:    s.Requests - t.Requests,
		BytesAsked:  s.BytesAsked - t.BytesAsked,
		DeviceReads: s.DeviceReads - t.DeviceReads,
		BytesRead:   s.BytesRead - t.BytesRead,
		InFlight:    s.InFlight - t.InFlight,
	}
}

// Extent returns the bytes moved by a read of n bytes of a file from off on: whole pages where reads
// are direct, up to the file's end.
func Extent(f File, off, n int64) int64 {
	if direct, _ := f.Direct(); !direct || n == 0 {
		return n
	}
	return min(binio.AlignUp(off+n, binio.Page), f.Size()) - off/binio.Page*binio.Page
}

// Held returns the bytes of memory that an open stack holds beyond a buffer for each read in flight,
// which every stack has: buffers of drives in software, and tables of files. Plans of memory must
// count it.
func Held(s Stack) int64 {
	if h, ok := s.(interface{ Held() int64 }); ok {
		return h.Held()
	}
	return 0
}
