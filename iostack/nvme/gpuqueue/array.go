package gpuqueue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
	"diskgnn/iostack/nvme"
)

// Errors of an array.
var (
	// ErrFull means that there is no room for a micro-batch until others are completed, or no record for
	// one until tickets are ended.
	ErrFull = errors.New("the reads under way leave no room for more")
	// ErrLost means that a completion is missing. Only Close of the array is then allowed.
	ErrLost = fault.New(fault.ErrDevice, "the drive does not answer")
	// ErrRequest means that a request is outside the drives or the destination, or has a wrong size.
	ErrRequest = fault.New(fault.ErrInput, "the request cannot be carried out")
	// ErrUnreachable means that the transport's registers are not memory that a GPU can write.
	ErrUnreachable = fault.New(fault.ErrUsage, "a GPU cannot reach the drive's registers")
)

// Options are the sizes and limits of an array. The zero value means the defaults.
type Options struct {
	RequestBytes   int           // limit of a request: whole pages; 0: 4096
	Requests       int           // limit of the requests of a micro-batch; 0: the number of a drive's slots
	Batches        int           // limit of the micro-batches in tickets that were not ended; 0: 16
	CompleteBlocks int           // blocks of the completing kernel; 0: 32. The number of queues limits it
	Timeout        time.Duration // of a kernel's wait for completions; 0: 10 s

	// Shared is the number of queues of each drive, from the first, that belong to another user, who
	// continues to use the controllers after Close. 0: all queues belong to the array, and Close stops the
	// controllers.
	Shared int
	Queues int // limit of the queues used of each drive; 0: all that are not shared
}

// Array is a set of drives with queues that a GPU drives. Its methods are for one goroutine at a time,
// which is attached to the device; Abort may be called from any goroutine.
type Array struct {
	o         Options
	device    *cuda.Device
	functions []int
	drives    []*nvme.Controller
	lent      [][]nvme.Rings // of each drive; a drive without was not touched
	memory    []allocated
	pinned    []*cuda.Pinned
	arena     *cuda.Arena

	namespace uint32
	shift     int    // of a block's bytes
	perDrive  uint64 // blocks
	per       int    // queues of a drive
	depth     int    // entries of a queue
	slotBytes int

	queues      cuda.Buffer
	control     cuda.Buffer
	controlWord *uint32
	stream      *cuda.Stream // for the work of Open

	batches  []*batch
	free     []*batch  // records that are not in use
	reserved []*region // in the order of submission
	spare    []*region
	head     int            // slots of a drive that were given back so far
	tail     int            // that were reserved so far
	reuse    *cuda.Event    // when slots that were given back are free; nil: they are
	last     [2]*cuda.Event // of the last submission and the last completion
	lost     bool           // a completion was missing
}

// allocated is memory of a transport.
type allocated struct {
	t nvme.Transport
	m *nvme.Memory
}

// batch is the record of a micro-batch.
type batch struct {
	in                      Reads
	base                    int // slot position of its first request, of every drive
	holds                   *region
	counts, starts, order   cuda.Buffer
	outcomes                cuda.Buffer
	words                   []byte // outcomes
	wasSubmitted, wasLanded *cuda.Event
}

func (a *Array) count() int    { return len(a.drives) * a.per }
func (a *Array) slots() int    { return a.per * (a.depth - 1) }
func (a *Array) outcomes() int { return BinBlocks + a.count() }

// Drives returns the number of drives, and the number of blocks of each: block i of drive j is block j ×
// blocks + i of the array.
func (a *Array) Drives() (drives int, blocks uint64) { return len(a.drives), a.perDrive }

// BlockBytes returns the size of a block in bytes.
func (a *Array) BlockBytes() int { return 1 << a.shift }

// Queues returns the number of queues of a drive.
func (a *Array) Queues() int { return a.per }

// Room returns the largest micro-batch, in requests, that Submit takes now if there is a record for it.
func (a *Array) Room() int { return min(a.slots()-(a.tail-a.head), a.o.Requests) }

// RequestBytes returns the size limit of a request in bytes, and MostRequests the limit of requests in a
// micro-batch.
func (a *Array) RequestBytes() int { return a.slotBytes }
func (a *Array) MostRequests() int { return a.o.Requests }

// Takes returns the bytes of memory that an array needs on the host (staging buffers and pinned memory) and
// on the device. queues is the number for each drive, and depth the entries of a queue. The sizes in the
// options must not be zero.
func Takes(drives, queues, depth int, o Options) (host, device int64) {
	a := &Array{o: o, drives: make([]*nvme.Controller, drives), per: queues, depth: depth, batches: make([]*batch, o.Batches)}
	for i := range a.batches {
		a.batches[i] = new(batch)
	}
	arena := new(cuda.Arena)
	_, _, _ = a.buffers(arena) // which has room for all
	slot := int64(o.RequestBytes)
	if n := o.RequestBytes / nvme.Page; n > 2 {
		slot += int64(listBytes(n - 1))
	}
	return int64(drives)*int64(a.slots())*slot + a.pinnedBytes(), arena.Used()
}

// pinnedBytes returns the bytes of the control block and of all outcomes.
func (a *Array) pinnedBytes() int64 { return int64(4*ControlWords + a.o.Batches*8*a.outcomes()) }

// registers is a transport with its registers in host memory.
type registers interface{ Registers() []byte }

// Open makes an array of the queues of the controllers, on which no command may have been submitted, and
// loads the kernels. All drives must have the same block size and depth of queues. The drive with the
// fewest blocks or queues determines the number used on each. The controllers stay the caller's; it may
// Reset or Close them after Close of the array. The calling goroutine must be attached.
func Open(d *cuda.Device, drives []*nvme.Controller, o Options) (a *Array, err error) {
	a = &Array{o: o, device: d, drives: drives}
	if err := a.size(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			a.release()
			a = nil
		}
	}()
	if err = a.borrow(); err != nil {
		return a, err
	}
	if a.functions, err = d.Load(Code); err != nil {
		return a, err
	}
	if a.stream, err = d.NewStream(); err != nil {
		return a, err
	}
	return a, a.take()
}

// size determines the queues and slots of each drive.
func (a *Array) size() error {
	if len(a.drives) < 1 || len(a.drives) > MaxDrives {
		return fault.New(fault.ErrUsage, "an array of %d drives; 1 to %d are possible", len(a.drives), MaxDrives)
	}
	o := &a.o
	if o.RequestBytes == 0 {
		o.RequestBytes = nvme.Page
	}
	if o.Batches == 0 {
		o.Batches = 16
	}
	if o.CompleteBlocks == 0 {
		o.CompleteBlocks = 32
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	for i, c := range a.drives {
		space, queues := c.Namespace(), c.Queues()
		if len(queues) <= o.Shared {
			return fmt.Errorf("%s has no queues for a GPU", c.Transport().Name())
		}
		queues = queues[o.Shared:]
		if o.Queues > 0 {
			queues = queues[:min(o.Queues, len(queues))]
		}
		if i == 0 {
			a.namespace, a.perDrive, a.per, a.depth = space.ID, space.Blocks, len(queues), queues[0].Depth()
			for 1<<a.shift < space.BlockBytes {
				a.shift++
			}
		}
		if space.ID != a.namespace {
			return fault.New(fault.ErrUsage, "%s has the namespace %d, but %s has %d", c.Transport().Name(), space.ID, a.drives[0].Transport().Name(), a.namespace)
		}
		if space.BlockBytes != 1<<a.shift {
			return fault.New(fault.ErrUsage, "%s has blocks of %d bytes, but %s has blocks of %d", c.Transport().Name(), space.BlockBytes, a.drives[0].Transport().Name(), 1<<a.shift)
		}
		a.perDrive, a.per = min(a.perDrive, space.Blocks), min(a.per, len(queues))
		if queues[0].Depth() != a.depth {
			return fault.New(fault.ErrUsage, "%s has queues of %d entries, but other drives have queues of %d", c.Transport().Name(), queues[0].Depth(), a.depth)
		}
		if most := c.Identity().MaxTransfer; o.RequestBytes > most {
			return fault.New(fault.ErrUsage, "requests of %d bytes are too large for %s, which takes %d", o.RequestBytes, c.Transport().Name(), most)
		}
	}
	a.per = min(a.per, MaxQueues/len(a.drives))
	if o.Requests == 0 {
		o.Requests = a.slots()
	}
	if o.RequestBytes%nvme.Page != 0 || o.RequestBytes < 0 || o.Requests < 0 || o.Batches < 0 || o.CompleteBlocks < 0 || o.Timeout < 0 || o.Queues < 0 {
		return fault.New(fault.ErrUsage, "the options of an array are not possible: %+v", *o)
	}
	a.slotBytes = o.RequestBytes
	return nil
}

// borrow lends the queues from the controllers.
func (a *Array) borrow() error {
	a.lent = make([][]nvme.Rings, len(a.drives))
	for d, c := range a.drives {
		for _, q := range c.Queues()[a.o.Shared:][:a.per] {
			r, err := q.Lend()
			if err == nil && r.Depth != a.depth {
				err = fmt.Errorf("it has %d entries, but other queues have %d", r.Depth, a.depth)
			}
			if err != nil {
				return fmt.Errorf("queue %d of %s: %w", q.ID(), c.Transport().Name(), err)
			}
			a.lent[d] = append(a.lent[d], r)
		}
	}
	return nil
}

// buffers takes the array's device memory from the arena, and returns the buffers for the states of all
// slots and for their pages' addresses.
func (a *Array) buffers(arena *cuda.Arena) (states, pages cuda.Buffer, err error) {
	n := int64(a.count())
	for _, want := range []struct {
		to    *cuda.Buffer
		bytes int64
	}{
		{&a.queues, 8 * QueueWords * n}, {&states, 4 * n * int64(a.depth-1)}, {&pages, 24 * n * int64(a.depth-1)},
	} {
		if *want.to, err = arena.Take(want.bytes); err != nil {
			return states, pages, err
		}
	}
	for _, b := range a.batches {
		for _, want := range []struct {
			to    *cuda.Buffer
			bytes int64
		}{
			{&b.counts, 4 * BinBlocks * int64(len(a.drives))}, {&b.starts, 4 * int64(len(a.drives)+1)}, {&b.order, 4 * int64(a.o.Requests)},
		} {
			if *want.to, err = arena.Take(want.bytes); err != nil {
				return states, pages, err
			}
		}
	}
	return states, pages, nil
}

// take allocates all memory, and writes the descriptions of the queues for the kernels.
func (a *Array) take() error {
	var err error
	for range a.o.Batches {
		b := &batch{}
		a.batches, a.free = append(a.batches, b), append(a.free, b)
		for _, e := range []**cuda.Event{&b.wasSubmitted, &b.wasLanded} {
			if *e, err = a.device.NewEvent(); err != nil {
				return err
			}
		}
	}
	var counting cuda.Arena
	if _, _, err := a.buffers(&counting); err != nil {
		return err
	}
	if a.arena, err = a.device.NewArena(counting.Used()); err != nil {
		return err
	}
	states, pages, err := a.buffers(a.arena)
	if err != nil {
		return err
	}
	each := 8 * a.outcomes()
	host, err := a.device.NewPinned(a.pinnedBytes())
	if err != nil {
		return err
	}
	a.pinned = append(a.pinned, host)
	clear(host.Bytes())
	seen, err := host.Buffer()
	if err != nil {
		return err
	}
	a.control, a.controlWord = seen.Slice(0, 4*ControlWords), (*uint32)(unsafe.Pointer(&host.Bytes()[0]))
	for i, b := range a.batches {
		at := 4*ControlWords + i*each
		b.words, b.outcomes = host.Bytes()[at:][:each], seen.Slice(int64(at), int64(each))
	}

	table := make([]byte, a.queues.Bytes())
	addresses := make([]byte, pages.Bytes())
	for d, c := range a.drives {
		own, ok := c.Transport().(registers)
		if !ok {
			return fmt.Errorf("%w: %s", ErrUnreachable, c.Transport().Name())
		}
		doorbells, err := a.register(own.Registers())
		if err != nil {
			return err
		}
		for i, rings := range a.lent[d] {
			if err := a.describe(c.Transport(), rings, d*a.per+i, doorbells, states, pages, table, addresses); err != nil {
				return fmt.Errorf("queue %d of %s: %w", rings.ID, c.Transport().Name(), err)
			}
		}
	}
	if err := errors.Join(a.stream.CopyIn(a.queues, table), a.stream.CopyIn(pages, addresses), a.stream.Fill(states, SlotFree)); err != nil {
		return err
	}
	if err := a.stream.Synchronize(); err != nil {
		return err
	}
	return a.warm()
}

// warm launches every kernel once without work. A driver that loads a kernel at its first launch might
// otherwise wait for kernels that wait for a drive.
func (a *Array) warm() error {
	b := a.batches[0]
	b.in = Reads{Requests: a.queues, To: a.queues, Status: b.order}
	if err := inTurn(b, a.stream, a.bin, a.submit, a.complete, a.read); err != nil {
		return err
	}
	b.in = Reads{}
	return a.stream.Synchronize()
}

// register registers memory of a transport with the device.
func (a *Array) register(mem []byte) (cuda.Buffer, error) {
	p, err := a.device.Register(mem)
	if err != nil {
		return cuda.Buffer{}, err
	}
	a.pinned = append(a.pinned, p)
	return p.Buffer()
}

// alloc allocates memory of a transport, and registers it with the device.
func (a *Array) alloc(t nvme.Transport, bytes int) (*nvme.Memory, cuda.Buffer, error) {
	m, err := t.Alloc(bytes)
	if err != nil {
		return nil, cuda.Buffer{}, err
	}
	a.memory = append(a.memory, allocated{t, m})
	b, err := a.register(m.Bytes)
	return m, b, err
}

// describe allocates staging buffers and lists of pages for a queue's slots, and writes the queue's
// description for the kernels.
func (a *Array) describe(t nvme.Transport, r nvme.Rings, i int, doorbells, states, pages cuda.Buffer, table, addresses []byte) error {
	sq, err := a.register(r.SQ.Bytes)
	if err != nil {
		return err
	}
	cq, err := a.register(r.CQ.Bytes)
	if err != nil {
		return err
	}
	slots := a.depth - 1
	data, seen, err := a.alloc(t, slots*a.slotBytes)
	if err != nil {
		return err
	}
	perSlot := a.slotBytes / nvme.Page
	each := listBytes(perSlot - 1)
	lists := new(nvme.Memory)
	if perSlot > 2 { // written once: kernels name them by their addresses alone
		if lists, err = t.Alloc((slots*each + nvme.Page - 1) / nvme.Page * nvme.Page); err != nil {
			return err
		}
		a.memory = append(a.memory, allocated{t, lists})
	}
	for s := range slots {
		of := data.Pages[s*perSlot:][:perSlot]
		words := addresses[24*(i*slots+s):]
		binary.LittleEndian.PutUint64(words, of[0])
		if perSlot > 1 {
			binary.LittleEndian.PutUint64(words[8:], of[1])
		}
		if perSlot > 2 {
			binary.LittleEndian.PutUint64(words[16:], lists.Address(s*each))
			for k, page := range of[1:] {
				binary.LittleEndian.PutUint64(lists.Bytes[s*each+8*k:], page)
			}
		}
	}
	words := table[8*QueueWords*i:]
	for word, v := range map[int]uint64{
		WordSQ: sq.Address(), WordCQ: cq.Address(),
		WordSubmission: doorbells.Slice(int64(r.Submission), 4).Address(), WordCompletion: doorbells.Slice(int64(r.Completion), 4).Address(),
		WordData: seen.Address(), WordPages: pages.Slice(int64(24*i*slots), int64(24*slots)).Address(),
		WordStates: states.Slice(int64(4*i*slots), int64(4*slots)).Address(), WordDepth: uint64(a.depth),
	} {
		binary.LittleEndian.PutUint64(words[8*word:], v)
	}
	return nil
}

// listBytes returns the distance in bytes between lists of the given number of addresses: a power of two,
// so that no list crosses a page.
func listBytes(addresses int) int {
	n := 8
	for n < 8*addresses {
		n *= 2
	}
	return n
}

// Abort ends the waits of kernels, now and later. It may be called from any goroutine.
func (a *Array) Abort() {
	if a.controlWord != nil {
		atomic.StoreUint32(a.controlWord, 1)
	}
}

// Close disables the controllers, so that they do not write to the array's memory any more, and frees the
// memory. Only Reset and Close of the controllers are then allowed. Shared controllers stay enabled; if a
// completion is missing, or a ticket was not ended, the transport keeps the staging buffers until it is
// closed. No work of the array may be under way on a stream. Closing again does nothing.
func (a *Array) Close() error { return a.release() }

func (a *Array) release() error {
	var errs []error
	kept := a.o.Shared > 0 && (a.lost || len(a.free) < len(a.batches))
	for d, lent := range a.lent {
		if len(lent) > 0 && a.o.Shared == 0 {
			errs = append(errs, a.drives[d].Stop(context.Background()))
		}
	}
	for _, p := range a.pinned {
		p.Free()
	}
	for _, m := range a.memory {
		if !kept {
			errs = append(errs, m.t.Free(m.m))
		}
	}
	for _, b := range a.batches {
		for _, e := range []*cuda.Event{b.wasSubmitted, b.wasLanded} {
			if e != nil {
				e.Free()
			}
		}
	}
	if a.arena != nil {
		a.arena.Free()
	}
	if a.stream != nil {
		a.stream.Free()
	}
	a.lent, a.pinned, a.memory, a.batches, a.free, a.reserved, a.arena, a.stream = nil, nil, nil, nil, nil, nil, nil, nil
	a.control, a.controlWord = cuda.Buffer{}, nil
	return errors.Join(errs...)
}
