// Package iostack is the interface of storage stacks, which read files: users submit many micro-batches of
// reads and then wait for all of them at once, and submission never waits for the medium. The backends are
// subpackages; pread is the reference. Package iostack/all lists them, and iostack/iostacktest is the test
// suite for all of them. Writes do not go through this package.
//
// A mini-batch's reads are one Group:
//
//	var g iostack.Group
//	stack.Submit(&g, coldReads)
//	stack.Submit(&g, residualReads)
//	… other work …
//	err := stack.Wait(ctx, &g)
//
// Any offset, length and buffer address is allowed, also for direct I/O, and no byte outside a request's
// destination is written. Reads are cheapest if offset and address are equal modulo Caps.Align: then whole
// pages are read in place, and only the partial pages at the ends are copied. Otherwise the whole request
// is copied.
package iostack

import (
	"context"
	"errors"
	"time"

	"diskgnn/device"
	"diskgnn/internal/binio"
)

// ErrClosed is wrapped by the errors of a closed stack, and of requests that Close abandoned.
var ErrClosed = errors.New("iostack is closed")

// Request is a read of File from Offset on, into one of the destinations Buf, Scatter and Device, which it
// fills completely. The destination belongs to the stack from Submit until the group's Wait returns:
// meanwhile it must be neither read nor written. After an error its content is undefined.
type Request struct {
	File   File
	Offset int64
	Buf    []byte // a destination in host memory

	// Scatter is a destination in several pieces of host memory, which are filled one after the other: each
	// row or block of a request can have a place of its own. Short pieces share one read of the drive. The
	// list belongs to the stack as long as the memory.
	Scatter [][]byte

	// Device is a destination in a GPU's memory, for stacks with Caps.Device. Its owner must keep it until
	// Wait has returned. Reads are not ordered with streams: work of streams on the memory must be done
	// before Submit, and work enqueued after Wait sees the bytes. The bytes are not checked; see
	// kernels.Checksum.
	Device device.Buffer
}

// Len returns the number of bytes of the request's destination.
func (r *Request) Len() int {
	n := len(r.Buf) + int(r.Device.Bytes())
	for _, piece := range r.Scatter {
		n += len(piece)
	}
	return n
}

// File is a file that a stack has opened. Only this stack reads it.
type File interface {
	// Name returns the path with which the file was opened.
	Name() string
	// Size returns the file's size in bytes when it was opened.
	Size() int64
	// Direct reports whether reads bypass the page cache and, if not, the reason.
	Direct() (direct bool, reason string)
	// Close waits for the reads of the file that are under way, and closes it; queued requests fail with
	// os.ErrClosed. Closing again does nothing. Closing a stack does not close its files.
	Close() error
}

// Stack reads files. All methods may be called from any goroutine.
type Stack interface {
	// Name returns the backend's kind, such as "pread".
	Name() string

	// Caps returns the backend's limits and preferences, which do not change.
	Caps() Caps

	// Open opens a regular file or a block device for reading, with direct I/O if the options and the file
	// system allow it (File.Direct). The caller closes the file.
	Open(path string) (File, error)

	// Register registers memory as a destination of later reads, for backends that pin it. It is only a
	// hint. Registered memory must stay mapped until it is unregistered or the stack is closed: reads into
	// other memory at the same addresses would be lost.
	Register(bufs ...[]byte) error

	// Unregister ends Register for the memory in bufs. It must come before the memory is freed. No read
	// into it may be in flight.
	Unregister(bufs ...[]byte) error

	// Submit queues the requests as part of g and returns without waiting for the medium. The queue is
	// never full: it grows by some tens of bytes per request, and a backend with a bounded device queue
	// refills that as reads complete. The caller bounds the requests in flight by its number of buffers.
	//
	// The slice reqs is free for reuse once Submit returns. An error means that nothing was queued: the
	// stack is closed (ErrClosed), or a request is invalid (no file, a file of another stack, a negative
	// offset, two destinations, or device memory without Caps.Device; kind fault.ErrUsage).
	Submit(g *Group, reqs []Request) error

	// Wait returns when every request of g has ended. It returns nil if all succeeded, else the *ReadError
	// of the first failed request in submission order; the other requests are still carried out. Once ctx
	// ends, requests that have not begun are dropped, the others are awaited, and the error wraps
	// ctx.Err(). In either case no buffer of g is written to after Wait has returned, and g is empty and
	// ready for reuse.
	Wait(ctx context.Context, g *Group) error

	// Stats returns the counts of the stack's work since it was made.
	Stats() Stats

	// Close ends the stack: it awaits reads in flight, and ends requests that have not begun with
	// ErrClosed. Wait still works for every group. Closing again does nothing.
	Close() error
}

// Drop cancels a group: it drops the requests that have not begun, waits for the others, and ignores their
// errors. The group is then empty.
func Drop(s Stack, g *Group) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Wait(ended, g)
}

// Caps has the limits of a backend.
type Caps struct {
	Align int // offsets and addresses congruent modulo Align (bytes) are read in place
	MaxIO int // largest single device read, in bytes; longer requests are cut
	Depth int // device reads carried out at the same time, at most

	// Device means that requests may have destinations in a GPU's memory, at any offset, length and
	// address.
	Device bool
}

// Stats counts a stack's work. Requests and BytesAsked count the submitted requests and their bytes.
// DeviceReads and BytesRead count the reads that serve them, including the rest of partial pages in direct
// reads, and bytes of reads that failed later. InFlight is the time in which at least one device read was
// under way: BytesRead over it is the rate of the drive, independent of waiting users. UnderWay is the
// number of device reads under way at the moment of the snapshot.
type Stats struct {
	Requests    int64
	BytesAsked  int64
	DeviceReads int64
	BytesRead   int64
	InFlight    time.Duration
	UnderWay    int
}

// Sub returns the work between the earlier snapshot t and the snapshot s, with UnderWay of s.
func (s Stats) Sub(t Stats) Stats {
	return Stats{
		Requests:    s.Requests - t.Requests,
		BytesAsked:  s.BytesAsked - t.BytesAsked,
		DeviceReads: s.DeviceReads - t.DeviceReads,
		BytesRead:   s.BytesRead - t.BytesRead,
		InFlight:    s.InFlight - t.InFlight,
		UnderWay:    s.UnderWay,
	}
}

// Extent returns the number of bytes that the drive transfers for a read of n bytes of f from off on: whole
// pages if reads are direct, up to the file's end.
func Extent(f File, off, n int64) int64 {
	if direct, _ := f.Direct(); !direct || n == 0 {
		return n
	}
	return min(binio.AlignUp(off+n, binio.Page), f.Size()) - off/binio.Page*binio.Page
}

// Held returns the bytes of memory that an open stack holds beside one bounce buffer for each read in
// flight: buffers of drives in software, and tables of files. Memory plans must add it.
func Held(s Stack) int64 {
	if h, ok := s.(interface{ Held() int64 }); ok {
		return h.Held()
	}
	return 0
}
