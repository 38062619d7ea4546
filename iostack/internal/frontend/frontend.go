// Package frontend is the common half of storage stacks: it opens files, checks requests, queues them,
// waits for groups, and counts. The backend's half carries the requests out. It takes them from the Queue
// one device read at a time:
//
//	user ── Submit ──► Queue ── Take, TryTake ──► Read ── Rest, Advance … End
//	     ◄─ Wait ─────────────── group ◄──────────────────────────────────┘
//
// All backends share it, so they differ only in how they carry out a read.
package frontend

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// bounceBytes is the size of a bounce buffer: at this length copying costs about
// as much as the extra device reads that it saves, and misaligned requests, read
// in pieces of it, still keep a drive busy.
const bounceBytes = 128 << 10

// Stack is the part of iostack.Stack that does not depend on the backend.
type Stack struct {
	name    string
	options iostack.Options
	splits  Splitter // of direct files
	device  bool     // requests may have destinations in device memory
	open    func(path string) (*File, error)
	queue   Queue
	stats   counters
	flight  flight
}

type counters struct {
	requests, bytesAsked, deviceReads, bytesRead atomic.Int64
}

// New returns the common half of a backend of the given name, and the queue from which the backend takes
// its reads. Invalid options are an error of kind fault.ErrUsage.
func New(name string, options iostack.Options) (*Stack, *Queue, error) {
	options.EnsureDefaults()
	if err := options.Validate(); err != nil {
		return nil, nil, err
	}
	s := &Stack{
		name:    name,
		options: options,
		splits:  Splitter{Align: iostack.Align, MaxIO: options.MaxIO, Bounce: min(bounceBytes, options.MaxIO)},
	}
	if options.Direct == iostack.DirectNever {
		s.splits.Bounce = 0 // buffered reads all land in place
	}
	s.open = s.OpenFile
	s.queue.init(s)
	return s, &s.queue, nil
}

// BounceBytes returns the size in bytes of the bounce buffer that each read under way needs; 0 if none is
// needed.
func (s *Stack) BounceBytes() int { return s.splits.Bounce }

// Name returns the backend's kind.
func (s *Stack) Name() string { return s.name }

// AcceptDevice allows requests with destinations in device memory: the backend must then call Device of
// every Read. It must be called before the first Submit.
func (s *Stack) AcceptDevice() { s.device = true }

// Caps returns MaxIO of the options and, as Depth, their Workers.
func (s *Stack) Caps() iostack.Caps {
	return iostack.Caps{Align: iostack.Align, MaxIO: s.options.MaxIO, Depth: s.options.Workers, Device: s.device}
}

// OpenWith sets the function that opens files, which must call OpenFile first. OpenWith must be called
// before the first Open.
func (s *Stack) OpenWith(open func(path string) (*File, error)) { s.open = open }

// Open opens a file; see iostack.Stack.
func (s *Stack) Open(path string) (iostack.File, error) {
	f, err := s.open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// OpenFile opens a file without the function of OpenWith. With DirectAlways, a file system without direct
// I/O is an error of kind fault.ErrUsage.
func (s *Stack) OpenFile(path string) (*File, error) {
	if s.queue.Closed() {
		return nil, fmt.Errorf("%s: open %s: %w", s.name, path, iostack.ErrClosed)
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

// Owns reports whether this stack has opened the file.
func (s *Stack) Owns(f iostack.File) bool {
	mine, ok := f.(*File)
	return ok && mine.stack == s
}

// Check returns the error with which Submit would refuse the requests, or nil.
func (s *Stack) Check(reqs []iostack.Request) error {
	for i := range reqs {
		if err := s.check(&reqs[i]); err != nil {
			return fmt.Errorf("%s: submit: request %d: %w", s.name, i, err)
		}
	}
	return nil
}

// Submit queues the requests; see iostack.Stack.
func (s *Stack) Submit(g *iostack.Group, reqs []iostack.Request) error {
	if err := s.Check(reqs); err != nil {
		return err
	}
	var bytes int64
	for i := range reqs {
		bytes += int64(reqs[i].Len())
	}
	if err := s.queue.push(g, reqs); err != nil {
		return fmt.Errorf("%s: submit: %w", s.name, err)
	}
	s.stats.requests.Add(int64(len(reqs)))
	s.stats.bytesAsked.Add(bytes)
	return nil
}

// check refuses invalid requests: errors of the caller, not of the file.
func (s *Stack) check(r *iostack.Request) error {
	f, ok := r.File.(*File)
	switch {
	case !ok || f.stack != s:
		return fault.New(fault.ErrUsage, "%T is not a file of this stack", r.File)
	case r.Offset < 0 || r.Offset > math.MaxInt64-int64(r.Len())-iostack.Align:
		return fault.New(fault.ErrUsage, "read %s: %d bytes at byte %d are not a possible range", f.path, r.Len(), r.Offset)
	case r.Device != (device.Buffer{}) && !s.device:
		return fault.New(fault.ErrUsage, "read %s: this backend reads into host memory only", f.path)
	case r.Device != (device.Buffer{}) && r.Buf != nil:
		return fault.New(fault.ErrUsage, "read %s: the request has both host and device memory", f.path)
	case r.Scatter != nil && (r.Buf != nil || r.Device != (device.Buffer{})):
		return fault.New(fault.ErrUsage, "read %s: the request has both a list of buffers and another destination", f.path)
	}
	return nil
}

// Wait waits for a group; see iostack.Stack.
func (s *Stack) Wait(ctx context.Context, g *iostack.Group) error {
	stopped := g.Await(ctx)
	if stopped == nil {
		return g.Take()
	}
	// Reads that have begun cannot be cancelled, and end within the time of a device read.
	s.Drop(g)
	_ = g.Await(context.Background())
	_ = g.Take()
	return fmt.Errorf("%s: wait: %w", s.name, stopped)
}

// Drop ends the requests of a group that have not begun.
func (s *Stack) Drop(g *iostack.Group) { s.queue.drop(g) }

// Stats returns a snapshot. While reads are in flight, its fields may differ by some reads.
func (s *Stack) Stats() iostack.Stats {
	flown, reads := s.flight.now()
	return iostack.Stats{
		Requests:    s.stats.requests.Load(),
		BytesAsked:  s.stats.bytesAsked.Load(),
		DeviceReads: s.stats.deviceReads.Load(),
		BytesRead:   s.stats.bytesRead.Load(),
		InFlight:    flown,
		UnderWay:    reads,
	}
}

// flight is a stopwatch that runs while at least one device read is under way.
type flight struct {
	mu    sync.Mutex
	reads int           // under way
	since time.Time     // when the first of them began
	past  time.Duration // of earlier stretches
}

func (f *flight) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reads++; f.reads == 1 {
		f.since = time.Now()
	}
}

func (f *flight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reads--; f.reads == 0 {
		f.past += time.Since(f.since)
	}
}

// now returns the time for which the stopwatch has run so far, and the reads under way.
func (f *flight) now() (flown time.Duration, reads int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	flown = f.past
	if f.reads > 0 {
		flown += time.Since(f.since)
	}
	return flown, f.reads
}
