package qemutest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/nvmetest"
	"diskgnn/iostack/nvme/spec"
)

// kase is a kind of command, with what the specification (NVM Express base, revision 1.4)
// demands that it ends with.
type kase struct {
	name string
	want spec.Status
	// draw returns a command; nil where none of the case is possible now.
	draw func(r *rand.Rand, q *queues) maker

	// QEMU ends it otherwise; the specification's clause about that. Empty: it does not.
	qemu   spec.Status
	clause string
}

// maker returns a command, with addresses that are of a world's memory, and whether it is an
// admin command.
type maker func(w *world) (cmd spec.Command, admin bool)

// queues are what a trace has created beside the driver's own: by identifier, completion
// queues, and submission queues with theirs.
type queues struct {
	cq map[int]bool
	sq map[int]int
}

// Identifiers of queues: 1 is the driver's, others the trace's, up to the last.
const lastQueue = 16

// world is a controller on which a trace runs.
type world struct {
	c     *nvme.Controller
	data  *nvme.Memory // of commands
	lists *nvme.Memory // PRP lists
	rings *nvme.Memory // of queues that are created: two pages of each
}

// nowhere is an address without memory.
const nowhere = 1 << 44

// transferMost is the most blocks of a command to the small drive.
const transferMost = 256

var smallBlocks = uint64(drives[small].size / drives[small].blockBytes)

// transfer draws a read or a write of some blocks, and changes it.
func transfer(least, most int, change func(cmd *spec.Command, w *world)) func(*rand.Rand, *queues) maker {
	return func(r *rand.Rand, q *queues) maker {
		opcode := byte(spec.Read)
		if r.IntN(2) == 0 {
			opcode = spec.Write
		}
		return one(opcode, least, most, change)(r, q)
	}
}

// read draws a read: a write that some controllers carry out would change the drive.
func read(least, most int, change func(cmd *spec.Command, w *world)) func(*rand.Rand, *queues) maker {
	return one(spec.Read, least, most, change)
}

// one draws a transfer by one opcode.
func one(opcode byte, least, most int, change func(cmd *spec.Command, w *world)) func(*rand.Rand, *queues) maker {
	return func(r *rand.Rand, _ *queues) maker {
		n, seed := least+r.IntN(most-least+1), r.Uint64()
		first := r.Uint64N(smallBlocks - uint64(n) + 1)
		return func(w *world) (spec.Command, bool) {
			paint(w.data.Bytes[:min(len(w.data.Bytes), (n+16)*drives[small].blockBytes)], seed)
			cmd := (&nvme.Namespace{ID: 1}).Transfer(opcode, first, n)
			point(&cmd, w.data, n*drives[small].blockBytes, w.lists)
			change(&cmd, w)
			return cmd, false
		}
	}
}

// paint fills memory, whatever commands left there, with bytes that are a seed's.
func paint(b []byte, seed uint64) {
	binary.LittleEndian.PutUint64(b, seed)
	for n := 8; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
		b[n]++
	}
}

// plain draws a command to the namespace that has no data.
func plain(opcode byte, namespace uint32) func(*rand.Rand, *queues) maker {
	return func(*rand.Rand, *queues) maker {
		return func(*world) (cmd spec.Command, _ bool) {
			cmd.SetHead(opcode, 0, namespace)
			return cmd, false
		}
	}
}

// ask draws an admin command, with a page of data, and changes it.
func ask(opcode byte, namespace, ten, eleven uint32, change func(cmd *spec.Command, w *world)) func(*rand.Rand, *queues) maker {
	return func(*rand.Rand, *queues) maker {
		return func(w *world) (cmd spec.Command, _ bool) {
			cmd.SetHead(opcode, 0, namespace)
			cmd.SetWord(10, ten)
			cmd.SetWord(11, eleven)
			cmd.SetPRP(w.data.Pages[0], 0)
			if change != nil {
				change(&cmd, w)
			}
			return cmd, true
		}
	}
}

// create draws a command that creates a queue. which chooses its identifier, and of a
// submission queue the completion queue's; the former is -1 where there is none.
func create(opcode byte, which func(r *rand.Rand, q *queues) (id, of int), change func(cmd *spec.Command, w *world)) func(*rand.Rand, *queues) maker {
	return func(r *rand.Rand, q *queues) maker {
		id, of := which(r, q)
		if id < 0 {
			return nil
		}
		size := 1 + r.IntN(63)
		return func(w *world) (spec.Command, bool) {
			cmd := admin(opcode, uint32(size)<<16|uint32(id), uint32(of)<<16|1, w.rings.Pages[2*(id&15)+int(opcode&1)])
			if change != nil {
				change(&cmd, w)
			}
			return cmd, true
		}
	}
}

// remove draws a command that deletes a queue.
func remove(opcode byte, which func(r *rand.Rand, q *queues) int) func(*rand.Rand, *queues) maker {
	return func(r *rand.Rand, q *queues) maker {
		id := which(r, q)
		if id < 0 {
			return nil
		}
		return func(*world) (spec.Command, bool) { return admin(opcode, uint32(id), 0, 0), true }
	}
}

// pick returns one of the trace's identifiers for which ok holds, or -1.
func pick(r *rand.Rand, ok func(id int) bool) int {
	var all []int
	for id := 2; id <= lastQueue; id++ {
		if ok(id) {
			all = append(all, id)
		}
	}
	if len(all) == 0 {
		return -1
	}
	return all[r.IntN(len(all))]
}

func (q *queues) hasSQ(id int) bool { _, is := q.sq[id]; return is }
func (q *queues) used(cq int) bool {
	for _, of := range q.sq {
		if of == cq {
			return true
		}
	}
	return false
}

func newCQ(r *rand.Rand, q *queues) (int, int) {
	id := pick(r, func(id int) bool { return !q.cq[id] })
	if id > 0 && len(q.cq) < 8 {
		return id, 0
	}
	return -1, 0
}

func newSQ(r *rand.Rand, q *queues) (int, int) {
	id, of := pick(r, func(id int) bool { return !q.hasSQ(id) }), pick(r, func(id int) bool { return q.cq[id] })
	if of < 0 {
		return -1, 0
	}
	return id, of
}

// freeIDs are a submission queue's that is new, for a completion queue that is none.
func freeIDs(r *rand.Rand, q *queues) (int, int) {
	return pick(r, func(id int) bool { return !q.hasSQ(id) }), pick(r, func(id int) bool { return !q.cq[id] })
}

func always(id int) func(*rand.Rand, *queues) (int, int) {
	return func(*rand.Rand, *queues) (int, int) { return id, 1 }
}

func same(*spec.Command, *world) {}

func namespace(id uint32) func(*spec.Command, *world) {
	return word(1, id)
}

func from(first uint64) func(*spec.Command, *world) {
	return func(cmd *spec.Command, _ *world) {
		_, n := cmd.Blocks()
		cmd.SetBlocks(first, n)
	}
}

func two(change func(two uint64) uint64) func(*spec.Command, *world) {
	return func(cmd *spec.Command, _ *world) { cmd.SetPRP(cmd.PRP1(), change(cmd.PRP2())) }
}

func entry(i int, change func(uint64) uint64) func(*spec.Command, *world) {
	return func(_ *spec.Command, w *world) {
		b := w.lists.Bytes[8*i:]
		binary.LittleEndian.PutUint64(b, change(binary.LittleEndian.Uint64(b)))
	}
}

func word(i int, v uint32) func(*spec.Command, *world) {
	return func(cmd *spec.Command, _ *world) { cmd.SetWord(i, v) }
}

func add(n uint64) func(uint64) uint64 { return func(a uint64) uint64 { return a + n } }
func to(n uint64) func(uint64) uint64  { return func(uint64) uint64 { return n } }

// Why QEMU 7.2 ends some commands otherwise.
const (
	unclaimed = "4.3, and 4.6.1.2.1, 04h: an error of the transfer itself. On QEMU's bus, transfers to an address that nothing claims do not fail: " +
		"what is written is dropped"
	dwords = "4.3, PRP entry: the offset shall be of dwords, and controllers are not required to check that bits 1:0 are 0"
	lists  = "4.3, PRP list: its address shall be of qwords; 4.6.1.2.1, 13h, demands no check of it"
	cqids  = "5.4, CDW11.CQID: 0 or outside of the range is an invalid queue identifier; QEMU does not tell that from a queue " +
		"that was not created. Its error, not an option: both are errors of the same field"
	logs      = "5.14, status values: invalid log page; 4.2 has invalid field for a reserved value of any field"
	deletions = "5.5, status values: invalid queue identifier alone; QEMU answers as for a submission queue without one. " +
		"Its error, not an option"
)

// wellFormed are commands that succeed.
var wellFormed = []kase{
	{name: "transfer of a page or less", draw: transfer(1, 8, same)},
	{name: "transfer of two pages", draw: transfer(9, 16, same)},
	{name: "transfer with a list", draw: transfer(17, transferMost, same)},
	{name: "transfer that begins in a page", draw: transfer(1, 4, func(cmd *spec.Command, _ *world) { cmd.SetPRP(cmd.PRP1()+2048, 0) })},
	{name: "transfer with a list that begins in a page", draw: transfer(24, 200, func(cmd *spec.Command, w *world) {
		copy(w.lists.Bytes[512:], w.lists.Bytes[:512])
		cmd.SetPRP(cmd.PRP1(), cmd.PRP2()+512)
	})},
	{name: "transfer of a page with a PRP2 of nowhere", draw: transfer(1, 8, two(to(nowhere+3)))},
	{name: "transfer with garbage in fields that it does not have", draw: transfer(1, 8, func(cmd *spec.Command, _ *world) {
		for _, i := range []int{2, 3, 4, 5, 13, 14, 15} {
			cmd.SetWord(i, 0xdeadbeef)
		}
		cmd[1] |= 0x3c
	})},
	{name: "transfer with limited retries", draw: transfer(1, 8, func(cmd *spec.Command, _ *world) { cmd.SetWord(12, cmd.Word(12)|1<<31) })},
	{name: "flush", draw: plain(spec.Flush, 1)},
	{name: "flush of all namespaces", draw: plain(spec.Flush, spec.AllNamespaces)},
	{name: "identify controller", draw: ask(spec.Identify, 0, spec.IdentifyController, 0, nil)},
	{name: "identify namespace", draw: ask(spec.Identify, 1, spec.IdentifyNamespace, 0, nil)},
	{name: "identify over two pages", draw: ask(spec.Identify, 1, spec.IdentifyNamespace, 0, func(cmd *spec.Command, w *world) {
		cmd.SetPRP(w.data.Pages[0]+1024, w.data.Pages[1])
	})},
	{name: "identify a namespace's names", draw: ask(spec.Identify, 1, spec.IdentifyNames, 0, nil)},
	{name: "identify active namespaces", draw: ask(spec.Identify, 0, spec.IdentifyNamespaces, 0, nil)},
	{name: "get the number of queues", draw: ask(spec.GetFeatures, 0, spec.NumberOfQueues, 0, nil)},
	{name: "get a feature", draw: ask(spec.GetFeatures, 0, 1, 0, nil)},
	{name: "set a feature", draw: ask(spec.SetFeatures, 0, 4, 350, nil)},
	{name: "get the error log", draw: ask(spec.GetLogPage, 0, 15<<16|spec.ErrorLog, 0, nil)},
	{name: "get the health log", draw: ask(spec.GetLogPage, spec.AllNamespaces, 127<<16|spec.HealthLog, 0, nil)},
	{name: "get the firmware log", draw: ask(spec.GetLogPage, 0, 127<<16|spec.FirmwareLog, 0, nil)},
	{name: "abort of a command that is none", draw: ask(spec.Abort, 0, 77<<16|1, 0, nil)},
	{name: "create a completion queue", draw: create(spec.CreateCQ, newCQ, nil)},
	{name: "create a submission queue", draw: create(spec.CreateSQ, newSQ, nil)},
	{name: "delete a submission queue", draw: remove(spec.DeleteSQ, func(r *rand.Rand, q *queues) int { return pick(r, q.hasSQ) })},
	{name: "delete a completion queue", draw: remove(spec.DeleteCQ, func(r *rand.Rand, q *queues) int {
		return pick(r, func(id int) bool { return q.cq[id] && !q.used(id) })
	})},
}

// malformed are commands that are wrong in one way.
var malformed = []kase{
	{name: "I/O command that is none", want: spec.InvalidOpcode, draw: plain(0x7f, 1)},
	{name: "I/O command of a vendor", want: spec.InvalidOpcode, draw: plain(0xc1, 1)},
	{name: "transfer without a namespace", want: spec.InvalidNamespace, draw: transfer(1, 16, namespace(0))},
	{name: "transfer of a namespace behind the last", want: spec.InvalidNamespace, draw: transfer(1, 16, namespace(300))},
	{name: "transfer of all namespaces", want: spec.InvalidField, draw: transfer(1, 16, namespace(spec.AllNamespaces))},
	{name: "flush of no namespace", want: spec.InvalidNamespace, draw: plain(spec.Flush, 0)},
	{name: "flush of a namespace behind the last", want: spec.InvalidNamespace, draw: plain(spec.Flush, 300)},
	{name: "transfer from behind the last block", want: spec.LBAOutOfRange, draw: transfer(1, 16, from(smallBlocks))},
	{name: "transfer across the last block", want: spec.LBAOutOfRange, draw: transfer(2, 16, from(smallBlocks-1))},
	{name: "transfer from block 2^63", want: spec.LBAOutOfRange, draw: transfer(1, 16, from(1<<63))},
	{name: "transfer of blocks whose numbers wrap around", want: spec.LBAOutOfRange, draw: transfer(2, 16, from(^uint64(0)))},
	{name: "transfer of a block too many", want: spec.InvalidField, draw: transfer(1, 1, word(12, transferMost))},
	{name: "transfer of 65536 blocks", want: spec.InvalidField, draw: transfer(1, 1, word(12, 0xffff))},
	{name: "first of a fused pair", want: spec.InvalidField, draw: transfer(1, 16, func(cmd *spec.Command, _ *world) { cmd[1] |= 1 })},
	{name: "second of a fused pair", want: spec.InvalidField, draw: transfer(1, 16, func(cmd *spec.Command, _ *world) { cmd[1] |= 2 })},
	{name: "read to nowhere", want: spec.DataTransferError, qemu: spec.Success, clause: unclaimed, draw: read(1, 8, func(cmd *spec.Command, _ *world) { cmd.SetPRP(nowhere, 0) })},
	{name: "read to an odd address", want: spec.InvalidPRPOffset, qemu: spec.Success, clause: dwords, draw: read(1, 4, func(cmd *spec.Command, _ *world) { cmd.SetPRP(cmd.PRP1()+1, 0) })},
	{name: "read to nowhere in its second page", want: spec.DataTransferError, qemu: spec.Success, clause: unclaimed, draw: read(9, 16, two(to(nowhere)))},
	{name: "transfer to the middle of its second page", want: spec.InvalidPRPOffset, draw: transfer(9, 16, two(add(512)))},
	{name: "transfer with a list of nowhere", want: spec.DataTransferError, draw: transfer(17, transferMost, two(to(nowhere)))},
	{name: "transfer with a list at an odd address", want: spec.InvalidPRPOffset, draw: transfer(17, transferMost, two(add(1)))},
	{name: "read with a list in the middle of a word", want: spec.InvalidPRPOffset, qemu: spec.Success, clause: lists, draw: read(17, transferMost, two(add(4)))},
	{name: "read with an entry of nowhere", want: spec.DataTransferError, qemu: spec.Success, clause: unclaimed, draw: read(17, transferMost, entry(1, to(nowhere)))},
	{name: "transfer with an entry in the middle of a page", want: spec.InvalidPRPOffset, draw: transfer(17, transferMost, entry(0, add(2048)))},

	{name: "admin command that is none", want: spec.InvalidOpcode, draw: ask(0x7f, 0, 0, 0, nil)},
	{name: "identify what is none", want: spec.InvalidField, draw: ask(spec.Identify, 0, 0x77, 0, nil)},
	{name: "identify no namespace", want: spec.InvalidNamespace, draw: ask(spec.Identify, 0, spec.IdentifyNamespace, 0, nil)},
	{name: "identify a namespace behind the last", want: spec.InvalidNamespace, draw: ask(spec.Identify, 300, spec.IdentifyNamespace, 0, nil)},
	{name: "identify the names of no namespace", want: spec.InvalidNamespace, draw: ask(spec.Identify, 0, spec.IdentifyNames, 0, nil)},
	{name: "identify the names of all namespaces", want: spec.InvalidNamespace, draw: ask(spec.Identify, spec.AllNamespaces, spec.IdentifyNames, 0, nil)},
	{name: "identify to nowhere", want: spec.DataTransferError, qemu: spec.Success, clause: unclaimed, draw: ask(spec.Identify, 0, spec.IdentifyController, 0, func(cmd *spec.Command, _ *world) { cmd.SetPRP(nowhere, 0) })},
	{name: "identify to the middle of its second page", want: spec.InvalidPRPOffset, draw: ask(spec.Identify, 1, spec.IdentifyNamespace, 0, func(cmd *spec.Command, w *world) {
		cmd.SetPRP(w.data.Pages[0]+1024, w.data.Pages[1]+512)
	})},
	{name: "get a feature that is none", want: spec.InvalidField, draw: ask(spec.GetFeatures, 0, 0x77, 0, nil)},
	{name: "set a feature that is none", want: spec.InvalidField, draw: ask(spec.SetFeatures, 0, 0x77, 0, nil)},
	{name: "get a log that is none", want: spec.InvalidLogPage, qemu: spec.InvalidField, clause: logs, draw: ask(spec.GetLogPage, 0, 15<<16|0x6f, 0, nil)},
	{name: "list namespaces behind the last", want: spec.InvalidNamespace, draw: ask(spec.Identify, spec.AllNamespaces, spec.IdentifyNamespaces, 0, nil)},
	{name: "set the number of queues when there are some", want: spec.CommandSequenceError, draw: ask(spec.SetFeatures, 0, spec.NumberOfQueues, 3<<16|3, nil)},
	{name: "completion queue 0", want: spec.InvalidQueueID, draw: create(spec.CreateCQ, always(0), nil)},
	{name: "completion queue that exists", want: spec.InvalidQueueID, draw: create(spec.CreateCQ, always(1), nil)},
	{name: "completion queue behind the last", want: spec.InvalidQueueID, draw: create(spec.CreateCQ, always(lastQueue+1), nil)},
	{name: "completion queue of one entry", want: spec.InvalidQueueSize, draw: create(spec.CreateCQ, newCQ, func(cmd *spec.Command, _ *world) { cmd.SetWord(10, cmd.Word(10)&0xffff) })},
	{name: "completion queue of too many entries", want: spec.InvalidQueueSize, draw: create(spec.CreateCQ, newCQ, func(cmd *spec.Command, _ *world) { cmd.SetWord(10, cmd.Word(10)&0xffff|2048<<16) })},
	{name: "completion queue in pieces", want: spec.InvalidField, draw: create(spec.CreateCQ, newCQ, word(11, 0))},
	{name: "completion queue in the middle of a page", want: spec.InvalidPRPOffset, draw: create(spec.CreateCQ, newCQ, func(cmd *spec.Command, _ *world) { cmd.SetPRP(cmd.PRP1()+64, 0) })},
	{name: "completion queue with an interrupt that is none", want: spec.InvalidInterruptVector, draw: create(spec.CreateCQ, newCQ, word(11, 0xfff0<<16|3))},
	{name: "submission queue 0", want: spec.InvalidQueueID, draw: create(spec.CreateSQ, always(0), nil)},
	{name: "submission queue that exists", want: spec.InvalidQueueID, draw: create(spec.CreateSQ, always(1), nil)},
	{name: "submission queue behind the last", want: spec.InvalidQueueID, draw: create(spec.CreateSQ, always(lastQueue+1), nil)},
	{name: "submission queue of one entry", want: spec.InvalidQueueSize, draw: create(spec.CreateSQ, newSQ, func(cmd *spec.Command, _ *world) { cmd.SetWord(10, cmd.Word(10)&0xffff) })},
	{name: "submission queue of too many entries", want: spec.InvalidQueueSize, draw: create(spec.CreateSQ, newSQ, func(cmd *spec.Command, _ *world) { cmd.SetWord(10, cmd.Word(10)&0xffff|2048<<16) })},
	{name: "submission queue in pieces", want: spec.InvalidField, draw: create(spec.CreateSQ, newSQ, func(cmd *spec.Command, _ *world) { cmd.SetWord(11, cmd.Word(11)&^1) })},
	{name: "submission queue in the middle of a page", want: spec.InvalidPRPOffset, draw: create(spec.CreateSQ, newSQ, func(cmd *spec.Command, _ *world) { cmd.SetPRP(cmd.PRP1()+64, 0) })},
	{name: "submission queue of a completion queue that is none", want: spec.CQInvalid, draw: create(spec.CreateSQ, freeIDs, nil)},
	{name: "submission queue of completion queue 0", want: spec.InvalidQueueID, qemu: spec.CQInvalid, clause: cqids, draw: create(spec.CreateSQ, func(r *rand.Rand, q *queues) (int, int) {
		return pick(r, func(id int) bool { return !q.hasSQ(id) }), 0
	}, nil)},
	{name: "submission queue of a completion queue behind the last", want: spec.InvalidQueueID, qemu: spec.CQInvalid, clause: cqids, draw: create(spec.CreateSQ, func(r *rand.Rand, q *queues) (int, int) {
		return pick(r, func(id int) bool { return !q.hasSQ(id) }), lastQueue + 1
	}, nil)},
	{name: "delete submission queue 0", want: spec.InvalidQueueID, draw: remove(spec.DeleteSQ, func(*rand.Rand, *queues) int { return 0 })},
	{name: "delete a submission queue that is none", want: spec.InvalidQueueID, draw: remove(spec.DeleteSQ, func(r *rand.Rand, q *queues) int { return pick(r, func(id int) bool { return !q.hasSQ(id) }) })},
	{name: "delete a submission queue behind the last", want: spec.InvalidQueueID, draw: remove(spec.DeleteSQ, func(*rand.Rand, *queues) int { return 0xfffe })},
	{name: "delete completion queue 0", want: spec.InvalidQueueID, qemu: spec.CQInvalid, clause: deletions, draw: remove(spec.DeleteCQ, func(*rand.Rand, *queues) int { return 0 })},
	{name: "delete a completion queue that is none", want: spec.InvalidQueueID, qemu: spec.CQInvalid, clause: deletions, draw: remove(spec.DeleteCQ, func(r *rand.Rand, q *queues) int { return pick(r, func(id int) bool { return !q.cq[id] }) })},
	{name: "delete a completion queue that is used", want: spec.InvalidQueueDeletion, draw: remove(spec.DeleteCQ, func(r *rand.Rand, q *queues) int { return pick(r, q.used) })},
}

// step is a command of a trace.
type step struct {
	kase
	make maker
}

// trace draws n commands, of which every third is malformed.
func trace(seed uint64, n int) []step {
	r := rand.New(rand.NewPCG(seed, 0))
	q := &queues{cq: map[int]bool{}, sq: map[int]int{}}
	var steps []step
	for len(steps) < n {
		from := wellFormed
		if len(steps)%3 == 2 {
			from = malformed
		}
		k := from[r.IntN(len(from))]
		m := k.draw(r, q)
		if m == nil {
			continue
		}
		steps = append(steps, step{k, m})
		if !k.want.Failed() { // queues come and go
			cmd, isAdmin := m(blank)
			switch id := int(cmd.Word(10) & 0xffff); {
			case !isAdmin:
			case cmd.Opcode() == spec.CreateCQ:
				q.cq[id] = true
			case cmd.Opcode() == spec.CreateSQ:
				q.sq[id] = int(cmd.Word(11) >> 16)
			case cmd.Opcode() == spec.DeleteCQ:
				delete(q.cq, id)
			case cmd.Opcode() == spec.DeleteSQ:
				delete(q.sq, id)
			}
		}
	}
	return steps
}

// blank is a world without a controller.
var blank = &world{data: noMemory(36), lists: noMemory(2), rings: noMemory(34)}

func noMemory(pages int) *nvme.Memory {
	return &nvme.Memory{Bytes: make([]byte, pages*nvme.Page), Pages: make([]uint64, pages)}
}

// traceLength is the commands of the trace.
const traceLength = 10000

// follow carries a trace out on a drive, command after command, and returns what each ended
// with, and what the drive holds then.
func follow(t *testing.T, c *nvme.Controller, steps []step) (ends []spec.Status, content []byte) {
	t.Helper()
	w := &world{c: c, data: nvmetest.Alloc(t, c.Transport(), len(blank.data.Bytes)), lists: nvmetest.Alloc(t, c.Transport(), len(blank.lists.Bytes)), rings: nvmetest.Alloc(t, c.Transport(), len(blank.rings.Bytes))}
	for i, s := range steps {
		cmd, isAdmin := s.make(w)
		var err error
		if isAdmin {
			_, err = c.Admin(&cmd, nil, 0)
		} else {
			_, err = c.Queues()[0].Do(&cmd, nil, 0, 0)
		}
		end, is := err.(spec.Status)
		if err != nil && !is {
			t.Fatalf("command %d, %s: %v", i, s.name, err)
		}
		ends = append(ends, end)
	}
	m, space := nvmetest.Alloc(t, c.Transport(), 128<<10), c.Namespace()
	for first := uint64(0); first < space.Blocks; first += transferMost {
		cmd := space.Transfer(spec.Read, first, transferMost)
		if _, err := c.Queues()[0].Do(&cmd, m, 0, len(m.Bytes)); err != nil {
			t.Fatal(err)
		}
		content = append(content, m.Bytes...)
	}
	return ends, content
}

// Commands of a trace end as the specification has it, on QEMU's controller but for the cases
// that say so; and it leaves the same bytes behind as the controller in software.
func TestDriveTrace(t *testing.T) {
	n := traceLength
	if !inGuest {
		n = 3000
	}
	steps := trace(16, n)
	software := nvmetest.Open(t, inSoftware(t, small), nvme.Options{Depth: 16})
	ends, content := follow(t, software, steps)
	judge(t, "soft", steps, ends, func(k *kase) spec.Status { return k.want })
	if !inGuest {
		return
	}
	c := open(t, small, nvme.Options{Depth: 16})
	hard, got := follow(t, c, steps)
	judge(t, "QEMU", steps, hard, func(k *kase) spec.Status {
		if k.clause != "" {
			return k.qemu
		}
		return k.want
	})
	if !bytes.Equal(got, content) {
		t.Error("the drives hold other bytes")
	}
	restore(t, c, nvmetest.Alloc(t, c.Transport(), 1<<20), drives[small].content())
}

// judge compares what commands ended with, a line for each case.
func judge(t *testing.T, who string, steps []step, ends []spec.Status, want func(*kase) spec.Status) {
	t.Helper()
	wrong := map[string]int{}
	seen := map[string]int{}
	for i := range steps {
		s := &steps[i]
		seen[s.name]++
		w := want(&s.kase)
		if errors.Is(ends[i], w) {
			continue
		}
		if wrong[s.name]++; wrong[s.name] == 1 {
			t.Errorf("%s, command %d, %s: %v, want %v", who, i, s.name, ends[i], w)
		}
	}
	for _, k := range slices.Concat(wellFormed, malformed) {
		if seen[k.name] < 5 {
			t.Errorf("%s: %d commands", k.name, seen[k.name])
		}
	}
}
