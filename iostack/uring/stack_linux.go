package uring

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/internal/frontend"
)

type front = frontend.Stack

// Stack implements iostack.Stack on io_uring. It holds one bounce buffer of
// min(MaxIO, 128 KiB) for each of Options.Workers reads in flight, counted in
// device.HostBytes, unless Options.Direct is DirectNever.
type Stack struct {
	*front
	queue   *frontend.Queue
	bounce  *device.Host
	rings   []*ring
	count   int // of rings, once all are made
	threads sync.WaitGroup
	slots   slots
	free    sync.Once
	dead    atomic.Int32 // rings that were given up
	seams   seams
}

var _ iostack.Stack = (*Stack)(nil)

// seams are functions and times that tests replace.
type seams struct {
	enter  func(fd int, submit, wait uint32) error
	result func(r *frontend.Read, res int32) int32 // unless nil, changes the result of a completion
	drowsy func()                                  // unless nil, called before a ring that found nothing queued says that it sleeps

	patience time.Duration // 0: patience
}

// New starts a stack. Invalid options are an error of kind fault.ErrUsage; missing memory for bounce
// buffers is one of kind fault.ErrBudget. Any other error is the reason why io_uring does not work on this
// machine, with the remedy.
func New(options iostack.Options) (*Stack, error) {
	return start(options, seams{enter: enter})
}

// ringsFor returns the number of rings for a depth: one, unless the depth is for drives that are faster
// than one thread. On one virtual NVMe drive a second ring never raised the rate of large reads and took a
// half more processor time; from memory, a thread serves some 900,000 reads of a page per second and four
// threads 1,900,000.
func ringsFor(depth int) int { return min((depth+127)/128, 4) }

func start(options iostack.Options, seams seams) (*Stack, error) {
	front, queue, err := frontend.New("uring", options)
	if err != nil {
		return nil, err
	}
	depth, each := front.Caps().Depth, front.BounceBytes()
	bounce, err := device.NewHost(depth * each)
	if err != nil {
		return nil, fmt.Errorf("uring: bounce buffers: %w", err)
	}
	if seams.patience == 0 {
		seams.patience = patience
	}
	s := &Stack{front: front, queue: queue, bounce: bounce, seams: seams}
	front.OpenWith(s.open)
	n := ringsFor(depth)
	s.count = n
	for i := range n {
		first, end := i*depth/n, (i+1)*depth/n
		if err := s.startRing(end-first, bounce.Bytes()[first*each:end*each]); err != nil {
			_ = s.Close()
			return nil, fmt.Errorf("uring: %w", explain(err))
		}
	}
	queue.OnPush(s.wakeOne)
	return s, nil
}

// startRing starts a ring on a thread of its own.
func (s *Stack) startRing(window int, bounce []byte) error {
	type made struct {
		ring *ring
		err  error
	}
	ready := make(chan made)
	s.threads.Go(func() {
		defer fault.Crash()
		runtime.LockOSThread() // for good: the thread ends with the ring
		r, err := newRing(s, window, bounce)
		ready <- made{r, err}
		if err == nil {
			r.run()
		}
	})
	m := <-ready
	if m.err == nil {
		s.rings = append(s.rings, m.ring)
	}
	return m.err
}

// wakeOne wakes a ring that waits for requests. One is enough: it wakes the next one if there are more
// requests than it takes.
func (s *Stack) wakeOne() {
	for _, r := range s.rings {
		if r.wake() {
			return
		}
	}
}

// open opens a file and, if a slot is free, registers it.
func (s *Stack) open(path string) (*frontend.File, error) {
	f, err := s.OpenFile(path)
	if err != nil {
		return nil, err
	}
	if f.Slot = s.slots.take(); f.Slot == noSlot {
		return f, nil
	}
	if !s.setFile(f.Slot, f.Fd()) {
		s.release(f.Slot)
		f.Slot = noSlot
		return f, nil
	}
	f.OnClose = func() { s.release(f.Slot) }
	return f, nil
}

// setFile sets the file of a slot in every ring. It returns false if a ring fails.
func (s *Stack) setFile(slot, fd int) bool {
	ok := true
	for _, r := range s.rings {
		r.do(func() { ok = r.files && r.queues.setFile(slot, fd) == nil && ok })
	}
	return ok
}

func (s *Stack) release(slot int) {
	s.setFile(slot, -1)
	s.slots.give(slot)
}

// Register pins memory, as far as the kernel permits; see iostack.Stack. Pages that are not allocated yet
// are allocated here, so that the rings' threads continue reading.
func (s *Stack) Register(bufs ...[]byte) error {
	for _, mem := range bufs {
		device.Populate(mem)
	}
	s.each(bufs, (*buffers).add)
	return nil
}

// Unregister unpins memory; see iostack.Stack.
func (s *Stack) Unregister(bufs ...[]byte) error {
	s.each(bufs, (*buffers).remove)
	return nil
}

func (s *Stack) each(bufs [][]byte, f func(*buffers, []byte)) {
	for _, r := range s.rings {
		r.do(func() {
			for _, mem := range bufs {
				if len(mem) > 0 {
					f(&r.buffers, mem)
				}
			}
		})
	}
}

// Close ends the rings after their reads; see iostack.Stack.
func (s *Stack) Close() error {
	s.queue.Close()
	for _, r := range s.rings {
		r.kick()
	}
	s.threads.Wait()
	s.free.Do(s.bounce.Free)
	return nil
}
