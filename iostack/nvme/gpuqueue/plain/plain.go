// Package plain implements package gpuqueue's kernels in Go, over the same memory, with loops instead of
// blocks and threads. An emulated device runs them (Emulator.Run is a cuda.Emulation), with a controller in
// software behind the queues.
package plain

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"diskgnn/iostack/nvme/gpuqueue"
	"diskgnn/iostack/nvme/spec"
)

// Emulator computes launches of the kernels. The zero value is ready for use, also by several devices.
type Emulator struct {
	// Now is the device's clock, in nanoseconds; nil: the clock of the machine.
	Now func() uint64
	// Others computes the kernels of other packages; nil: there are none.
	Others func(kernel string, args []uint64, at func(address uint64) []byte)
}

// Run is a cuda.Emulation: it computes the launch of a kernel of gpuqueue, or passes it to Others.
func (e *Emulator) Run(kernel string, args []uint64, at func(address uint64) []byte) {
	a := &arguments{args, at}
	switch kernel {
	case "nvme_count":
		count(a)
	case "nvme_place":
		place(a)
	case "nvme_submit":
		submit(a)
	case "nvme_complete":
		e.complete(a)
	case "nvme_read":
		e.read(a)
	default:
		if e.Others == nil {
			panic("plain: no kernel " + kernel)
		}
		e.Others(kernel, args, at)
	}
}

func (e *Emulator) now() uint64 {
	if e.Now != nil {
		return e.Now()
	}
	return uint64(time.Since(began))
}

var began = time.Now()

// arguments are the remaining arguments of a launch.
type arguments struct {
	words []uint64
	at    func(address uint64) []byte
}

func (a *arguments) word() uint64 {
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

func (a *arguments) bytes() []byte     { return a.at(a.word()) }
func (a *arguments) words32() []uint32 { return view[uint32](a.bytes()) }
func (a *arguments) words64() []uint64 { return view[uint64](a.bytes()) }

// view returns memory as numbers or requests.
func view[T uint32 | uint64 | gpuqueue.Request](b []byte) []T {
	n := len(b) / int(unsafe.Sizeof(*new(T)))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// batch has the requests to sort by drive.
type batch struct {
	requests              []gpuqueue.Request
	drives                int
	perDrive, most, shift uint64
	room                  uint64
}

func takeBatch(a *arguments) *batch {
	all := view[gpuqueue.Request](a.bytes())
	b := &batch{drives: int(a.word()), perDrive: a.word(), most: a.word(), shift: a.word(), room: a.word()}
	at, n := a.words32(), uint32(a.word())
	if at != nil {
		n = min(n, at[0])
	}
	b.requests = all[:n]
	return b
}

// part returns the range of requests that a block of the kernels bins.
func (b *batch) part(block int) (from, to int) {
	n := len(b.requests)
	each := ((n+gpuqueue.BinBlocks-1)/gpuqueue.BinBlocks + 255) / 256 * 256
	return min(n, block*each), min(n, (block+1)*each)
}

// drive returns the drive of a request, and false if the request cannot be carried out.
func (b *batch) drive(r gpuqueue.Request) (int, bool) {
	switch {
	case r.Block/b.perDrive >= uint64(b.drives), r.Blocks == 0, r.Blocks > b.most, r.Offset%16 != 0, r.Offset > b.room, r.Blocks<<b.shift > b.room-r.Offset:
		return 0, false
	}
	return int(r.Block / b.perDrive), true
}

func count(a *arguments) {
	counts := a.words32()
	b := takeBatch(a)
	clear(counts[:gpuqueue.BinBlocks*b.drives])
	for block := range gpuqueue.BinBlocks {
		for from, to := b.part(block); from < to; from++ {
			if d, ok := b.drive(b.requests[from]); ok {
				counts[block*b.drives+d]++
			}
		}
	}
}

// place sorts the requests by drive, in a stable order.
func place(a *arguments) {
	order, starts, status, outcomes, _ := a.words32(), a.words32(), a.words32(), a.words64(), a.words32()
	b := takeBatch(a)
	byDrive := make([][]uint32, b.drives)
	for block := range gpuqueue.BinBlocks {
		outcomes[block] = gpuqueue.NoFailure
		for from, to := b.part(block); from < to; from++ {
			if d, ok := b.drive(b.requests[from]); ok {
				byDrive[d] = append(byDrive[d], uint32(from))
				continue
			}
			status[from] = uint32(gpuqueue.StatusRefused)
			fail(&outcomes[block], uint32(from), gpuqueue.StatusRefused)
		}
	}
	n := 0
	for d, list := range byDrive {
		starts[d] = uint32(n)
		n += copy(order[n:], list)
	}
	starts[b.drives] = uint32(n)
}

func fail(outcome *uint64, request uint32, s gpuqueue.Status) {
	*outcome = min(*outcome, uint64(request)<<32|uint64(s))
}

// queue is a queue's memory.
type queue struct {
	words                  []uint64
	sq, cq, pages          []byte
	submission, completion *uint32
	data                   []byte
	states                 []uint32
	depth                  uint64
}

func (a *arguments) queue(words []uint64) *queue {
	at := func(word int) []byte { return a.at(words[word]) }
	return &queue{words: words, sq: at(gpuqueue.WordSQ), cq: at(gpuqueue.WordCQ), pages: at(gpuqueue.WordPages), data: at(gpuqueue.WordData),
		submission: &view[uint32](at(gpuqueue.WordSubmission))[0], completion: &view[uint32](at(gpuqueue.WordCompletion))[0],
		states: view[uint32](at(gpuqueue.WordStates)), depth: words[gpuqueue.WordDepth]}
}

// write writes the command of a read at a position of the ring.
func (q *queue) write(position uint64, slot int, space uint32, block, blocks, shift uint64) {
	var c spec.Command
	c.SetHead(spec.Read, uint16(slot), space)
	c.SetBlocks(block, int(blocks))
	addresses := view[uint64](q.pages)[3*slot:]
	switch bytes := blocks << shift; {
	case bytes <= 4096:
		c.SetPRP(addresses[0], 0)
	case bytes <= 2*4096:
		c.SetPRP(addresses[0], addresses[1])
	default:
		c.SetPRP(addresses[0], addresses[2])
	}
	copy(q.sq[position%q.depth*spec.CommandBytes:], c[:])
}

// completed returns the completion at a position, if there is one.
func (q *queue) completed(position uint64) (slot int, s uint32, ok bool) {
	at := position % q.depth * spec.CompletionBytes
	last := atomic.LoadUint32(&view[uint32](q.cq[at:])[3])
	newer := last>>16&1 == 1
	return int(last & 0xffff), last >> 17, newer == (position/q.depth%2 == 0)
}

func (q *queue) ring(doorbell *uint32, position uint64) {
	atomic.StoreUint32(doorbell, uint32(position%q.depth))
}

// slots has a queue's share of the requests of its drive, and their slots.
type slots struct{ base, per, of, mine int }

// each calls do for the queue's requests among n, with their numbers and slots.
func (s slots) each(n int, do func(k, slot int)) {
	for k := range n {
		if at := (s.base + k) % s.of; at%s.per == s.mine {
			do(k, at/s.per)
		}
	}
}

// drives is the state common to kernels that drive queues.
type drives struct {
	drives, per int
	queues      []uint64
	requests    []gpuqueue.Request
	order       []uint32
	starts      []uint32
}

func takeDrives(a *arguments) *drives {
	d := &drives{queues: a.words64()}
	d.drives, d.per = int(a.word()), int(a.word())
	d.requests, d.order, d.starts = view[gpuqueue.Request](a.bytes()), a.words32(), a.words32()
	return d
}

func (d *drives) all(a *arguments, base int, do func(i int, q *queue, list []uint32, s slots)) {
	for i := range d.drives * d.per {
		q := a.queue(d.queues[i*gpuqueue.QueueWords:][:gpuqueue.QueueWords])
		drive := i / d.per
		do(i, q, d.order[d.starts[drive]:d.starts[drive+1]], slots{base, d.per, d.per * int(q.depth-1), i % d.per})
	}
}

func submit(a *arguments) {
	d := takeDrives(a)
	base, perDrive, space, shift := int(a.word()), a.word(), uint32(a.word()), a.word()
	d.all(a, base, func(_ int, q *queue, list []uint32, s slots) {
		tail := &q.words[gpuqueue.WordTail]
		if q.words[gpuqueue.WordDead] != 0 {
			return
		}
		was := *tail
		s.each(len(list), func(k, slot int) {
			r := d.requests[list[k]]
			q.states[slot] = gpuqueue.SlotBusy
			q.write(*tail, slot, space, r.Block%perDrive, r.Blocks, shift)
			*tail++
		})
		if *tail != was {
			q.ring(q.submission, *tail)
		}
	})
}

// landing has the destinations of the data, and the time limit.
type landing struct {
	to        []byte
	status    []uint32
	outcomes  []uint64
	slotBytes int
	shift     uint64
	timeout   uint64
	control   []uint32
}

func takeLanding(a *arguments) *landing {
	return &landing{a.bytes(), a.words32(), a.words64(), int(a.word()), a.word(), a.word(), a.words32()}
}

// over returns the reason for the end of a wait that began at a time, 0 if it has not ended.
func (l *landing) over(e *Emulator, since uint64) gpuqueue.Status {
	runtime.Gosched()
	switch {
	case atomic.LoadUint32(&l.control[gpuqueue.ControlAbort]) != 0:
		return gpuqueue.StatusAborted
	case e.now()-since > l.timeout:
		return gpuqueue.StatusTimeout
	}
	return 0
}

// land stores a request's status and, if it succeeded, its data.
func (l *landing) land(q *queue, slot int, request uint32, r gpuqueue.Request, s gpuqueue.Status, outcome *uint64) {
	l.status[request] = uint32(s)
	if s != 0 {
		fail(outcome, request, s)
		return
	}
	copy(l.to[r.Offset:], q.data[slot*l.slotBytes:][:r.Blocks<<l.shift])
}

func (e *Emulator) complete(a *arguments) {
	d := takeDrives(a)
	base := int(a.word())
	l := takeLanding(a)
	d.all(a, base, func(i int, q *queue, list []uint32, s slots) {
		fate := e.reap(q, l, func() bool {
			missing := false
			s.each(len(list), func(_, slot int) { missing = missing || q.states[slot]&gpuqueue.SlotDone == 0 })
			return missing
		})
		outcome := gpuqueue.NoFailure
		s.each(len(list), func(k, slot int) {
			state, r := q.states[slot], d.requests[list[k]]
			if state&gpuqueue.SlotDone == 0 {
				l.land(q, slot, list[k], r, fate, &outcome)
				return
			}
			l.land(q, slot, list[k], r, gpuqueue.Status(state&^gpuqueue.SlotDone), &outcome)
			q.states[slot] = gpuqueue.SlotFree
		})
		l.outcomes[gpuqueue.BinBlocks+i] = outcome
	})
}

// reap consumes a queue's completions while some are missing.
func (e *Emulator) reap(q *queue, l *landing, missing func() bool) (fate gpuqueue.Status) {
	head := &q.words[gpuqueue.WordHead]
	fate = gpuqueue.Status(q.words[gpuqueue.WordDead])
	since := e.now()
	for fate == 0 && missing() {
		slot, status, ok := q.completed(*head)
		switch {
		case !ok:
			fate = l.over(e, since)
			continue
		case slot >= int(q.depth-1) || q.states[slot] != gpuqueue.SlotBusy:
			fate = gpuqueue.StatusProtocol
			continue
		}
		q.states[slot] = gpuqueue.SlotDone | status
		*head++
		q.ring(q.completion, *head)
	}
	q.words[gpuqueue.WordDead] = uint64(fate)
	return fate
}

// read passes a queue's requests through its slots, all slots at a time.
func (e *Emulator) read(a *arguments) {
	d := takeDrives(a)
	l := takeLanding(a)
	perDrive, space := a.word(), uint32(a.word())
	d.all(a, 0, func(i int, q *queue, list []uint32, s slots) {
		var mine []uint32
		s.each(len(list), func(k, _ int) { mine = append(mine, list[k]) })
		outcome := gpuqueue.NoFailure
		each := int(min(q.depth-1, 1024))
		for len(mine) > 0 {
			now := mine[:min(each, len(mine))]
			mine = mine[len(now):]
			fates := e.turn(q, l, d.requests, now, perDrive, space)
			for slot, request := range now {
				l.land(q, slot, request, d.requests[request], fates[slot], &outcome)
			}
		}
		l.outcomes[gpuqueue.BinBlocks+i] = outcome
	})
}

// turn reads at most one request for each slot, and returns their statuses.
func (e *Emulator) turn(q *queue, l *landing, requests []gpuqueue.Request, now []uint32, perDrive uint64, space uint32) []gpuqueue.Status {
	const waiting = ^gpuqueue.Status(0)
	fates := make([]gpuqueue.Status, len(now))
	for slot := range fates {
		fates[slot] = waiting
	}
	tail, head, dead := &q.words[gpuqueue.WordTail], &q.words[gpuqueue.WordHead], &q.words[gpuqueue.WordDead]
	fate := gpuqueue.Status(*dead)
	if fate == 0 {
		for slot, request := range now {
			r := requests[request]
			q.write(*tail+uint64(slot), slot, space, r.Block%perDrive, r.Blocks, l.shift)
		}
		q.ring(q.submission, *tail+uint64(len(now)))
	}
	since := e.now()
	for done := 0; fate == 0 && done < len(now); {
		slot, status, ok := q.completed(*head + uint64(done))
		switch {
		case !ok:
			fate = l.over(e, since)
		case slot >= len(now) || fates[slot] != waiting:
			fate = gpuqueue.StatusProtocol
		default:
			fates[slot] = gpuqueue.Status(status)
			done++
		}
	}
	if *dead = uint64(fate); fate == 0 {
		*tail += uint64(len(now))
		*head += uint64(len(now))
		q.ring(q.completion, *head)
	}
	for slot := range fates {
		if fates[slot] == waiting {
			fates[slot] = fate
		}
	}
	return fates
}
