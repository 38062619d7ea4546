// Package pread is the reference storage stack: a fixed pool of workers, each carrying out one pread at a
// time, fed from one queue. It needs only pread of the kernel, and is the reference with which faster
// backends are compared.
//
// Requests are begun in submission order, across all groups, and a request longer than one device read is
// spread over the workers, so that a single large read already runs at full depth. Reads are direct if the
// file system supports O_DIRECT: they do not use or change the page cache.
//
// In steady state nothing is allocated: workers, bounce buffers and queue exist until the stack is closed.
package pread

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/internal/frontend"
)

type front = frontend.Stack

// Stack implements iostack.Stack on pread(2). It holds one bounce buffer of
// min(MaxIO, 128 KiB) per worker, counted in device.HostBytes, unless
// Options.Direct is DirectNever.
type Stack struct {
	*front
	queue   *frontend.Queue
	bounce  *device.Host // a buffer of BounceBytes for each worker
	workers sync.WaitGroup
	free    sync.Once

	// pread is the system call; tests replace it before the first request.
	pread func(fd int, p []byte, offset int64) (int, error)
}

var _ iostack.Stack = (*Stack)(nil)

// New starts a stack. Invalid options are an error of kind fault.ErrUsage; missing memory for bounce
// buffers is one of kind fault.ErrBudget.
func New(options iostack.Options) (*Stack, error) {
	front, queue, err := frontend.New("pread", options)
	if err != nil {
		return nil, err
	}
	workers := front.Caps().Depth
	bounce, err := device.NewHost(workers * front.BounceBytes())
	if err != nil {
		return nil, fmt.Errorf("pread: bounce buffers: %w", err)
	}
	s := &Stack{front: front, queue: queue, bounce: bounce, pread: unix.Pread}
	for i := range workers {
		s.workers.Go(func() {
			defer fault.Crash()
			s.work(s.bounceOf(i))
		})
	}
	return s, nil
}

// bounceOf returns the bounce buffer of a worker.
func (s *Stack) bounceOf(worker int) []byte {
	each := s.BounceBytes()
	return s.bounce.Bytes()[worker*each : (worker+1)*each : (worker+1)*each]
}

// Register does nothing: pread needs no memory pinned.
func (s *Stack) Register(...[]byte) error { return nil }

// Unregister does nothing, as Register does.
func (s *Stack) Unregister(...[]byte) error { return nil }

// Close ends the workers once their reads are over; see iostack.Stack.
func (s *Stack) Close() error {
	s.queue.Close()
	s.workers.Wait()
	s.free.Do(s.bounce.Free)
	return nil
}

// work carries out reads until the queue is closed.
func (s *Stack) work(bounce []byte) {
	var r frontend.Read
	for s.queue.Take(&r, bounce) {
		r.End(r.Serve(s.pread))
	}
}
