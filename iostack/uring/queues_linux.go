package uring

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
)

// queues are one ring's submission and completion queue, which the kernel shares
// by mapping them. All methods are for the thread that made them.
type queues struct {
	fd    int
	rings []byte // both queues' heads and tails, and the completions
	table []byte // the submission entries

	sqHead, sqTail *uint32 // the kernel moves the head, we the tail
	cqHead, cqTail *uint32 // the other way round
	sqes           []sqe
	cqes           []cqe
	tail           uint32 // *sqTail, plus the entries pushed since

	// Arguments that the kernel reads through an address in another argument. They are on the heap, since a
	// goroutine's stack may move.
	fdArg    int32
	iovecArg unix.Iovec
}

// setups are the flags to try, for the newest kernels first. With the first two, completions do not
// interrupt the thread, which polls for them.
var setups = []uint32{setupSingleIssuer | setupDeferTaskrun, setupCoopTaskrun, 0}

// mmap maps the memory shared with the kernel; tests replace it.
var mmap = unix.Mmap

// newQueues makes a ring that holds at least the given number of operations.
func newQueues(entries int) (_ *queues, err error) {
	var p params
	fd, errno := uintptr(0), unix.EINVAL
	for i := 0; i < len(setups) && errno == unix.EINVAL; i++ {
		p = params{flags: setups[i]}
		fd, _, errno = unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(&p)), 0)
	}
	if errno != 0 {
		return nil, os.NewSyscallError("io_uring_setup", errno)
	}
	q := &queues{fd: int(fd)}
	defer func() {
		if err != nil {
			q.close()
		}
	}()
	if want := uint32(featSingleMmap | featNoDrop); p.features&want != want {
		return nil, fault.New(fault.ErrUsage, "this kernel's io_uring is too old: Linux 5.6 is the first that will do")
	}
	const entry, completion = int(unsafe.Sizeof(sqe{})), int(unsafe.Sizeof(cqe{}))
	size := max(int(p.sq.array+4*p.sqEntries), int(p.cq.cqes)+completion*int(p.cqEntries))
	if q.rings, err = mmap(q.fd, offRings, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return nil, fmt.Errorf("map the rings: %w", err)
	}
	if q.table, err = mmap(q.fd, offSQEs, entry*int(p.sqEntries), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return nil, fmt.Errorf("map the submission entries: %w", err)
	}
	q.sqHead, q.sqTail = word(q.rings, p.sq.head), word(q.rings, p.sq.tail)
	q.cqHead, q.cqTail = word(q.rings, p.cq.head), word(q.rings, p.cq.tail)
	q.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(unsafe.SliceData(q.table))), p.sqEntries)
	q.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(&q.rings[p.cq.cqes])), p.cqEntries)
	for i := range p.sqEntries { // entries are used in the order of the queue
		*word(q.rings, p.sq.array+4*i) = i
	}
	return q, nil
}

func word(mem []byte, at uint32) *uint32 { return (*uint32)(unsafe.Pointer(&mem[at])) }

// push returns the next submission entry, zeroed. There is one: the caller keeps fewer operations in flight
// than the ring has entries.
func (q *queues) push() *sqe {
	e := &q.sqes[q.tail&uint32(len(q.sqes)-1)]
	*e = sqe{}
	q.tail++
	return e
}

// pending publishes the pushed entries and returns the number that the kernel has not taken.
func (q *queues) pending() uint32 {
	atomic.StoreUint32(q.sqTail, q.tail)
	return q.tail - atomic.LoadUint32(q.sqHead)
}

// unpush removes the entry that was pushed last, unless the kernel has taken it.
func (q *queues) unpush() (userData uint64, ok bool) {
	if q.pending() == 0 {
		return 0, false
	}
	q.tail--
	userData = q.sqes[q.tail&uint32(len(q.sqes)-1)].userData
	atomic.StoreUint32(q.sqTail, q.tail)
	return userData, true
}

func (q *queues) pop() (c cqe, ok bool) {
	head := *q.cqHead // only this thread writes it
	if head == atomic.LoadUint32(q.cqTail) {
		return cqe{}, false
	}
	c = q.cqes[head&uint32(len(q.cqes)-1)]
	atomic.StoreUint32(q.cqHead, head+1)
	return c, true
}

// enter hands entries to the kernel and waits for completions.
func enter(fd int, submit, wait uint32) error {
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(fd), uintptr(submit), uintptr(wait), enterGetEvents, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// register calls io_uring_register with the address of its argument.
func (q *queues) register(opcode uintptr, arg unsafe.Pointer, n uintptr) error {
	if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(q.fd), opcode, uintptr(arg), n, 0, 0); errno != 0 {
		return os.NewSyscallError("io_uring_register", errno)
	}
	return nil
}

func (q *queues) close() {
	if q.table != nil {
		_ = unix.Munmap(q.table)
	}
	if q.rings != nil {
		_ = unix.Munmap(q.rings)
	}
	_ = unix.Close(q.fd)
}
