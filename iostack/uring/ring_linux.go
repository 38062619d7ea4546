package uring

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/iostack/internal/frontend"
)

// ring is one io_uring and the thread that owns it: fields not marked as shared belong to the
// thread.
type ring struct {
	stack   *Stack
	queues  *queues
	buffers buffers
	files   bool // the kernel has a table of files

	reads  []frontend.Read // by user data
	tries  []int           // how often the kernel was asked again, by user data
	free   []uint64        // user data not in flight
	bounce []byte          // a buffer of BounceBytes for each read

	since time.Time // io_uring_enter has failed since then, without an exception
	dead  error     // the kernel answers no more: why

	event  *os.File    // shared: an eventfd; a write to it wakes the thread
	count  [8]byte     // that the kernel reads from it
	armed  bool        // the read of it is in flight
	asleep atomic.Bool // shared: the thread has room, found nothing queued, and waits

	mu     sync.Mutex
	orders []func() // shared: functions that the thread runs next
	over   bool     // shared: it runs nothing any more
}

const (
	wakeData = 1<<64 - 1 // user data of the read of the eventfd
	testData = 1<<64 - 2 // of the read that tries the ring out

	// maxTries bounds the number of times that a read is submitted again after EINTR or EAGAIN.
	maxTries = 1000

	// longCopy is the least size in bytes of a copied read that is left to threads of the kernel: otherwise the ring's
	// thread, or one of the kernel's, would copy one read after the other.
	longCopy = 64 << 10
)

// newRing makes a ring for window reads at a time. The calling goroutine must be locked to its thread, and
// must call run.
func newRing(s *Stack, window int, bounce []byte) (r *ring, err error) {
	r = &ring{stack: s, bounce: bounce, reads: make([]frontend.Read, window), tries: make([]int, window)}
	for i := range window {
		r.free = append(r.free, uint64(window-1-i))
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	r.event = os.NewFile(uintptr(fd), "eventfd")
	if r.queues, err = newQueues(window + 1); err != nil {
		r.event.Close()
		return nil, err
	}
	if err = r.try(); err != nil {
		r.close()
		return nil, err
	}
	r.files = r.queues.registerFiles() == nil
	r.buffers.init(r.queues)
	r.buffers.add(bounce)
	return r, nil
}

// try carries out a read: a ring that can be made may still be forbidden to work.
func (r *ring) try() error {
	zero, err := os.Open("/dev/zero")
	if err != nil {
		return err
	}
	defer zero.Close()
	r.count[0] = 1
	e := r.queues.push()
	e.opcode, e.userData = opRead, testData
	e.fd, e.addr, e.length = int32(zero.Fd()), uint64(uintptr(unsafe.Pointer(&r.count))), uint32(len(r.count))
	for {
		switch err := enter(r.queues.fd, r.queues.pending(), 1); err {
		case nil, unix.EINTR:
		default:
			return os.NewSyscallError("io_uring_enter", err)
		}
		c, ok := r.queues.pop()
		switch {
		case !ok:
		case c.res < 0:
			return fmt.Errorf("io_uring: read /dev/zero: %w", unix.Errno(-c.res))
		case int(c.res) != len(r.count) || r.count[0] != 0:
			return fmt.Errorf("io_uring: read /dev/zero: %d bytes were read, and the first is %d", c.res, r.count[0])
		default:
			return nil
		}
	}
}

// run serves the queue until it is closed and all reads are over.
func (r *ring) run() {
	defer r.close()
	queue := r.stack.queue
	for {
		if r.dead != nil {
			r.refuse()
			return
		}
		r.reap()
		r.obey()
		r.fill()
		if len(r.reads)-len(r.free) == 0 && queue.Closed() && r.retire() {
			r.disarm()
			return
		}
		r.arm()
		if len(r.free) > 0 {
			if r.stack.seams.drowsy != nil {
				r.stack.seams.drowsy()
			}
			// A goroutine that queues a request after this checks asleep; earlier requests are found below.
			r.asleep.Store(true)
			if queue.Len() > 0 {
				r.asleep.Store(false)
				continue
			}
		}
		r.enter()
		r.asleep.Store(false)
	}
}

// fill takes pieces from the queue while the window has room.
func (r *ring) fill() {
	each := r.stack.BounceBytes()
	for len(r.free) > 0 {
		i := r.free[len(r.free)-1]
		if !r.stack.queue.TryTake(&r.reads[i], r.bounce[int(i)*each:][:each]) {
			return
		}
		r.free = r.free[:len(r.free)-1]
		r.tries[i] = 0
		r.push(i)
	}
	if r.stack.queue.Len() > 0 {
		r.stack.wakeOne() // there is more than this ring takes
	}
}

// push submits the rest of a read.
func (r *ring) push(i uint64) {
	read := &r.reads[i]
	fd, buf, offset := read.Rest()
	e := r.queues.push()
	e.opcode, e.userData = opRead, i
	e.fd, e.offset = int32(fd), uint64(offset)
	e.addr, e.length = uint64(address(buf)), uint32(len(buf))
	if slot := read.File().Slot; slot != noSlot {
		e.fd, e.flags = int32(slot), e.flags|sqeFixedFile
	}
	if read.File().Copied() && len(buf) >= longCopy {
		e.flags |= sqeAsync
	}
	if slot, ok := r.buffers.find(buf); ok {
		e.opcode, e.bufIndex = opReadFixed, uint16(slot)
	}
}

// reap ends the reads that the kernel has completed, or continues them.
func (r *ring) reap() {
	for {
		c, ok := r.queues.pop()
		switch {
		case !ok:
			return
		case c.userData == wakeData:
			r.armed = false
		default:
			r.complete(c.userData, c.res)
		}
	}
}

func (r *ring) complete(i uint64, res int32) {
	read := &r.reads[i]
	if r.stack.seams.result != nil {
		res = r.stack.seams.result(read, res)
	}
	var err error
	switch errno := unix.Errno(-res); {
	case res >= 0:
		var done bool
		if done, err = read.Advance(int(res)); !done && err == nil {
			r.push(i)
			return
		}
	case (errno == unix.EINTR || errno == unix.EAGAIN) && r.tries[i] < maxTries:
		r.tries[i]++
		r.push(i)
		return
	default:
		err = fmt.Errorf("io_uring: %w", errno)
	}
	read.End(err)
	r.free = append(r.free, i)
}

// patience is the time for which io_uring_enter may fail continuously before reads are given up.
//
// Reads that the kernel has not taken by then can be ended at any time. Reads that it has taken write to
// memory that belongs to the users after the end of the reads, so their transfers must be over. They are
// over: a drive's transfer does not depend on io_uring_enter, and the kernel fails a transfer that does not
// end within half this time (the timeout of SCSI and NVMe requests is 30 s). With
// IORING_SETUP_DEFER_TASKRUN, this thread does pending work for the kernel inside io_uring_enter: posting
// completions, and copying for buffered reads that missed the page cache. This work is not done any more,
// since the thread does not enter again; closing the ring drops it. Long buffered reads are copied by
// threads of the kernel, independently of this thread.
const patience = time.Minute

// enter hands the pushed entries to the kernel and sleeps until something completes.
func (r *ring) enter() {
	err := r.stack.seams.enter(r.queues.fd, r.queues.pending(), 1)
	switch err {
	case nil, unix.EINTR:
		r.since = time.Time{}
		return
	case unix.EAGAIN, unix.EBUSY:
		// The kernel is short of memory, or needs completions to be reaped first. Reads in flight may free
		// memory.
		_ = r.stack.seams.enter(r.queues.fd, 0, 0)
	default:
		r.abandon(os.NewSyscallError("io_uring_enter", err))
	}
	if r.since.IsZero() {
		r.since = time.Now()
	} else if time.Since(r.since) > r.stack.seams.patience {
		r.giveUp(os.NewSyscallError("io_uring_enter", err))
		return
	}
	time.Sleep(time.Millisecond)
}

// abandon ends the reads that the kernel has not taken. err is a permanent error of the kernel.
func (r *ring) abandon(err error) {
	for {
		i, ok := r.queues.unpush()
		switch {
		case !ok:
			return
		case i == wakeData:
			r.armed = false
		default:
			r.reads[i].End(err)
			r.free = append(r.free, i)
		}
	}
}

// giveUp ends all reads with an error: the kernel neither takes nor completes operations.
func (r *ring) giveUp(err error) {
	r.abandon(err)
	r.dead = fmt.Errorf("%w, for %v: use --io pread, which needs no io_uring", err, r.stack.seams.patience)
	free := make([]bool, len(r.reads))
	for _, i := range r.free {
		free[i] = true
	}
	for i := range r.reads {
		if !free[i] {
			r.reads[i].End(r.dead)
		}
	}
	// The kernel may still use addresses in it.
	graves.Lock()
	defer graves.Unlock()
	graves.rings = append(graves.rings, r)
}

// graves keeps abandoned rings reachable, so that their memory is not reused.
var graves struct {
	sync.Mutex
	rings []*ring
}

// refuse serves the queue, once all rings have been given up, by failing its requests.
func (r *ring) refuse() {
	queue := r.stack.queue
	r.stack.dead.Add(1)
	var read frontend.Read
	bounce := make([]byte, r.stack.BounceBytes())
	for {
		r.obey()
		for int(r.stack.dead.Load()) == r.stack.count && queue.TryTake(&read, bounce) {
			read.End(r.dead)
		}
		if queue.Closed() && r.retire() {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// close closes the ring and unregisters its files and memory. After closing alone, the kernel would keep
// files and memory for an indefinite time.
func (r *ring) close() {
	if r.dead == nil { // else it would wait for reads that do not end
		_ = r.queues.register(unregisterFiles, nil, 0)
		_ = r.queues.register(unregisterBuffers, nil, 0)
	}
	r.queues.close()
	r.event.Close()
}
