// Package pread is the reference storage stack: a fixed pool of workers, each
// carrying out one pread at a time, fed from one queue. It needs nothing of the
// kernel beyond pread and is the twin that faster backends are compared with.
//
// Requests are begun in submission order, across all groups, and a request
// longer than one device read is spread over the workers, so that a single
// large read already runs at full depth. Reads are direct where the file's
// system takes O_DIRECT: they neither use nor disturb the page cache.
//
// In steady state nothing is allocated: the workers, their bounce buffers and
// the queue live as long as the stack.
package pread

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/internal/split"
)

// bounceBytes is the size of a worker's bounce buffer: at this length copying
// costs about as much as the extra device reads that it saves, and misaligned
// requests, read in pieces of it, still keep a drive busy.
const bounceBytes = 128 << 10

// Stack implements iostack.Stack on pread(2). It holds one bounce buffer of
// min(MaxIO, 128 KiB) per worker, counted in device.HostBytes, unless
// Options.Direct is DirectNever.
type Stack struct {
	options iostack.Options
	splits  split.Splitter // of direct files
	bounce  *device.Host   // Workers buffers of splits.Bounce bytes
	queue   queue
	workers sync.WaitGroup
	stats   counters
	free    sync.Once

	// pread is the system call; tests put worse ones in its place before the
	// first request.
	pread func(fd int, p []byte, offset int64) (int, error)
}

var _ iostack.Stack = (*Stack)(nil)

type counters struct {
	requests, bytesAsked, deviceReads, bytesRead atomic.Int64
}

// New starts a stack. The error is of kind fault.ErrUsage for options that make
// no sense and fault.ErrBudget when there is no memory for bounce buffers.
func New(options iostack.Options) (*Stack, error) {
	options.EnsureDefaults()
	if err := options.Validate(); err != nil {
		return nil, err
	}
	s := &Stack{
		options: options,
		splits:  split.Splitter{Align: iostack.Align, MaxIO: options.MaxIO, Bounce: min(bounceBytes, options.MaxIO)},
		pread:   preadSyscall,
	}
	if options.Direct == iostack.DirectNever {
		s.splits.Bounce = 0 // buffered reads all land in place
	}
	bounce, err := device.NewHost(options.Workers * s.splits.Bounce)
	if err != nil {
		return nil, fmt.Errorf("pread: bounce buffers: %w", err)
	}
	s.bounce = bounce
	s.queue.init()
	for i := range options.Workers {
		own := bounce.Bytes()[i*s.splits.Bounce : (i+1)*s.splits.Bounce]
		s.workers.Go(func() { s.work(own) })
	}
	return s, nil
}

// Name returns "pread".
func (s *Stack) Name() string { return "pread" }

// Caps returns the options' MaxIO and, as Depth, their Workers.
func (s *Stack) Caps() iostack.Caps {
	return iostack.Caps{Align: iostack.Align, MaxIO: s.options.MaxIO, Depth: s.options.Workers}
}

// Open opens a file; see iostack.Stack. Under DirectAlways a file system that
// refuses direct I/O is an error of kind fault.ErrUsage.
func (s *Stack) Open(path string) (iostack.File, error) {
	if s.queue.isClosed() {
		return nil, fmt.Errorf("pread: open %s: %w", path, iostack.ErrClosed)
	}
	f, err := open(path, s.options.Direct)
	if err != nil {
		return nil, err
	}
	f.stack, f.splits = s, s.splits
	if !f.direct {
		f.splits.Align = 1
	}
	return f, nil
}

// Register does nothing: pread needs no memory pinned.
func (s *Stack) Register(...[]byte) error { return nil }

// Submit queues the requests; see iostack.Stack.
func (s *Stack) Submit(g *iostack.Group, reqs []iostack.Request) error {
	var bytes int64
	for i := range reqs {
		if err := s.check(&reqs[i]); err != nil {
			return fmt.Errorf("pread: submit: request %d: %w", i, err)
		}
		bytes += int64(len(reqs[i].Buf))
	}
	if err := s.queue.push(g, reqs); err != nil {
		return fmt.Errorf("pread: submit: %w", err)
	}
	s.stats.requests.Add(int64(len(reqs)))
	s.stats.bytesAsked.Add(bytes)
	return nil
}

// check refuses what no read could serve: a bug of the caller's, not a fault of
// the file's.
func (s *Stack) check(r *iostack.Request) error {
	f, ok := r.File.(*file)
	switch {
	case !ok || f.stack != s:
		return fault.New(fault.ErrUsage, "%T is not a file of this stack", r.File)
	case r.Offset < 0 || r.Offset > math.MaxInt64-int64(len(r.Buf))-iostack.Align:
		return fault.New(fault.ErrUsage, "read %s: %d bytes at %d: no such range", f.path, len(r.Buf), r.Offset)
	}
	return nil
}

// Wait completes a group; see iostack.Stack.
func (s *Stack) Wait(ctx context.Context, g *iostack.Group) error {
	stopped := g.Await(ctx)
	if stopped == nil {
		return g.Take()
	}
	// What has begun cannot be called back, and is over within a device read.
	s.queue.drop(g)
	_ = g.Await(context.Background())
	_ = g.Take()
	return fmt.Errorf("pread: wait: %w", stopped)
}

// Stats returns a snapshot; its fields may be some reads apart from each other
// while reads are in flight.
func (s *Stack) Stats() iostack.Stats {
	return iostack.Stats{
		Requests:    s.stats.requests.Load(),
		BytesAsked:  s.stats.bytesAsked.Load(),
		DeviceReads: s.stats.deviceReads.Load(),
		BytesRead:   s.stats.bytesRead.Load(),
	}
}

// Close ends the workers once their reads are over; see iostack.Stack.
func (s *Stack) Close() error {
	s.queue.close()
	s.workers.Wait()
	s.free.Do(s.bounce.Free)
	return nil
}
