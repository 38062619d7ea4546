package array

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/internal/frontend"
	"diskgnn/iostack/nvme"
)

type front = frontend.Stack

// Options are the options of a Stack.
type Options struct {
	iostack.Options

	// Timeout is the time limit of a command, and Now the clock for it; 0 and nil: the defaults of
	// nvme.Options.
	Timeout time.Duration
	Now     func() time.Time

	// Lent is the number of further queues of each drive, for Lend, of at least LentDepth entries if the
	// drive supports them. A drive with too few queues lends fewer.
	Lent, LentDepth int
}

// Stack implements iostack.Stack on the queues of NVMe controllers. It holds one bounce
// buffer of min(MaxIO, 128 KiB) for each of Options.Workers reads in flight, counted in
// device.HostBytes, and as much again for a transport that cannot map it.
type Stack struct {
	*front
	queue   *frontend.Queue
	drives  []*drive
	workers []*worker
	table   Table
	bounce  *device.Host
	now     func() time.Time
	own     int // queues of each drive that the workers use: the first
	running sync.WaitGroup
	once    sync.Once
	err     error // of Close
}

var _ iostack.Stack = (*Stack)(nil)

// perWorker is the number of reads under way for each worker. Up to some 100 reads, a second worker would
// use more processor time than it gains.
const perWorker = 128

// New brings up the controllers behind the transports. The stack closes the transports, also when New
// fails. find reads the table of the drives' files when the controllers are up. Invalid options are an
// error of kind fault.ErrUsage, and so are buffered reads, since there is no page cache.
func New(ctx context.Context, transports []nvme.Transport, o Options, find func([]*nvme.Controller) (Table, error)) (_ *Stack, err error) {
	s := &Stack{now: o.Now}
	if s.now == nil {
		s.now = time.Now
	}
	defer func() {
		if err == nil {
			return
		}
		for _, t := range transports[len(s.drives):] {
			err = errors.Join(err, t.Close())
		}
		err = errors.Join(err, s.Close())
	}()
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Direct == iostack.DirectNever {
		return nil, fault.New(fault.ErrUsage, "buffered reads were asked for, but drives have no page cache")
	}
	workers := min((o.Workers+perWorker-1)/perWorker, 4)
	window := (o.Workers + workers - 1) / workers
	for _, t := range transports {
		c, err := nvme.Open(ctx, t, nvme.Options{Queues: workers + o.Lent, Depth: max(window+1, min(o.Lent, 1)*o.LentDepth), Timeout: o.Timeout, Now: o.Now})
		s.drives = append(s.drives, newDrive(s, c, t)) // closed by now if it failed
		if err != nil {
			return nil, err
		}
		d := s.drives[len(s.drives)-1]
		d.space, d.transfer = c.Namespace(), c.Identity().MaxTransfer&^(iostack.Align-1)
		workers = min(workers, len(c.Queues()))
		for _, q := range c.Queues() {
			window = min(window, q.Depth()-1)
		}
		o.MaxIO = min(o.MaxIO, d.transfer)
	}
	s.own = workers
	o.Workers = min(o.Workers, workers*window)
	if s.front, s.queue, err = frontend.New("nvme", o.Options); err != nil {
		return nil, err
	}
	s.OpenWith(s.open)
	if s.table, err = find(s.controllers()); err != nil {
		return nil, err
	}
	if s.bounce, err = device.NewHost(workers * window * s.BounceBytes()); err != nil {
		return nil, fmt.Errorf("nvme: bounce buffers: %w", err)
	}
	for _, d := range s.drives {
		_ = d.maps.add(s.bounce.Bytes()) // if it fails, the workers allocate memory of the transport
	}
	for i := range workers {
		w, err := newWorker(s, i, window)
		if err != nil {
			return nil, err
		}
		s.workers = append(s.workers, w)
	}
	s.queue.OnPush(s.wakeOne)
	for _, d := range s.drives {
		d.users = len(s.workers)
	}
	for _, w := range s.workers {
		s.running.Go(func() {
			defer fault.Crash()
			w.run()
		})
	}
	return s, nil
}

func (s *Stack) controllers() (all []*nvme.Controller) {
	for _, d := range s.drives {
		all = append(all, d.c)
	}
	return all
}

// wakeOne wakes a worker that waits for requests. That worker wakes the next one if there are more requests
// than it takes.
func (s *Stack) wakeOne() {
	for _, w := range s.workers {
		if w.idle.Load() && w.poke() {
			return
		}
	}
}

func (s *Stack) wakeAll() {
	for _, w := range s.workers {
		w.poke()
	}
}

// Held returns the bytes that the stack holds: bounce buffers, controllers in software with the rings of
// their queues, and the table; see iostack.Held. Memory of other transports is not counted: it is huge
// pages that were reserved before.
func (s *Stack) Held() int64 {
	n := int64(len(s.bounce.Bytes()))
	for _, d := range s.drives {
		n += held(d.maps.t)
	}
	return n + held(s.table)
}

func held(of any) int64 {
	if h, ok := of.(interface{ Held() int64 }); ok {
		return h.Held()
	}
	return 0
}

// Register maps memory for the drives, as far as their transports can; see iostack.Stack.
func (s *Stack) Register(bufs ...[]byte) error {
	for _, b := range bufs {
		for _, d := range s.drives {
			if len(b) > 0 {
				_ = d.maps.add(b)
			}
		}
	}
	return nil
}

// Unregister unmaps memory; see iostack.Stack.
func (s *Stack) Unregister(bufs ...[]byte) error {
	for _, b := range bufs {
		for _, d := range s.drives {
			if len(b) > 0 {
				d.maps.remove(b)
			}
		}
	}
	return nil
}

// Close ends the workers after their reads, and closes the controllers and transports; see iostack.Stack.
func (s *Stack) Close() error {
	if s.queue != nil {
		s.queue.Close()
		for _, w := range s.workers {
			w.kick()
		}
		s.running.Wait()
	}
	s.once.Do(func() {
		for _, d := range s.drives {
			if d.c != nil {
				s.err = errors.Join(s.err, d.c.Close())
			}
		}
		if s.bounce != nil {
			s.bounce.Free()
		}
	})
	return s.err
}

// Table lists the files on the drives. Its method may be called from any goroutine.
type Table interface {
	// Find returns the file with the given path. If the drives do not have it, but the file system may, the
	// error wraps iostack.ErrElsewhere.
	Find(name string) (File, error)
}

// File has the places of a file's bytes: runs that begin and end at multiples of iostack.Align, in the file
// and on the drives. Bytes after the file's end in the last run are not part of it. Methods may be called
// from any goroutine, and allocate nothing.
type File interface {
	// Size returns the size of the file in bytes.
	Size() int64
	// Locate returns the place of the byte at an offset below Size: the drive, counted from 0, the offset
	// on that drive, and the number of contiguous bytes from there to the end of the run.
	Locate(offset int64) (drive int, at, n int64)
}

func (s *Stack) open(path string) (*frontend.File, error) {
	f, err := s.table.Find(path)
	if err != nil {
		return nil, err
	}
	return s.newFile(path, f)
}

func (s *Stack) newFile(path string, f File) (*frontend.File, error) {
	runs := func(offset int64) int {
		if offset >= f.Size() {
			return math.MaxInt
		}
		_, _, n := f.Locate(offset)
		return int(n)
	}
	return s.NewFile(path, f.Size(), runs, f)
}

// Flat opens all blocks of all drives as one file: block i of drive j is block blocks × j + i of the file,
// where blocks is the number of blocks of the smallest drive.
func (s *Stack) Flat() (iostack.File, error) {
	f := &flat{drives: len(s.drives)}
	for i, d := range s.drives {
		space := d.c.Namespace()
		bytes := int64(space.Blocks) * int64(space.BlockBytes) / iostack.Align * iostack.Align
		if i == 0 || bytes < f.each {
			f.each = bytes
		}
	}
	return s.newFile(s.drives[0].name, f)
}

// flat is the file of all drives, one after another.
type flat struct {
	drives int
	each   int64 // bytes
}

func (f *flat) Size() int64 { return int64(f.drives) * f.each }

func (f *flat) Locate(offset int64) (drive int, at, n int64) {
	at = offset % f.each
	return int(offset / f.each), at, f.each - at
}
