package nvme

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"diskgnn/iostack/nvme/spec"
)

// Queue is a queue pair: a ring of commands and a ring of completions. It is for one
// goroutine at a time.
type Queue struct {
	c       *Controller
	id      int
	depth   int
	sq, cq  *Memory
	lists   *Memory // a slot's PRP lists after another's
	perSlot int     // bytes of them

	tail   int    // where the next command is written
	rung   int    // tail at the last ring of the doorbell
	head   int    // where the next completion is expected
	read   int    // head at the last ring of the doorbell
	phase  bool   // of new completions
	sqHead uint16 // that the last completion had

	slots []slot
	free  []uint16
	dead  error
}

// slot is a command that may be under way; its index is the command's identifier.
type slot struct {
	busy     bool
	tag      uint64
	deadline time.Time
	opcode   byte
}

// Depth returns the number of entries of the rings. At most one less can be under way.
func (q *Queue) Depth() int { return q.depth }

// ID returns the queue's identifier, which is 0 for the admin queue.
func (q *Queue) ID() int { return q.id }

// Room returns the number of commands that may be submitted now.
func (q *Queue) Room() int { return len(q.free) }

// Busy returns the number of commands under way.
func (q *Queue) Busy() int { return q.depth - 1 - len(q.free) }

// Submit writes a command to the ring. Its data is the n bytes of m from an offset on; m is nil for a
// command without data. Submit sets the command's identifier and its PRPs. Poll returns tag with the
// completion. The controller sees the command after Ring. The memory belongs to the command until it is
// completed. Without room it returns ErrFull.
func (q *Queue) Submit(cmd *spec.Command, m *Memory, offset, n int, tag uint64) error {
	if q.dead != nil {
		return q.dead
	}
	if len(q.free) == 0 {
		return ErrFull
	}
	id := q.free[len(q.free)-1]
	cmd.SetID(id)
	if m != nil {
		if listBytes(n) > q.perSlot { // it would go on in the next slot's lists
			return fmt.Errorf("%w: a command of %d bytes is above the limit of %d", ErrUnsupported, n, maxTransfer)
		}
		if err := setPRP(cmd, m, offset, n, q.lists, int(id)*q.perSlot); err != nil {
			return err
		}
	}
	q.free = q.free[:len(q.free)-1]
	q.slots[id] = slot{busy: true, tag: tag, deadline: q.c.now().Add(q.c.o.Timeout), opcode: cmd.Opcode()}
	copy(q.sq.Bytes[q.tail*spec.CommandBytes:], cmd[:])
	if q.tail++; q.tail == q.depth {
		q.tail = 0
	}
	return nil
}

// Ring rings the doorbell for the commands that were submitted since the last Ring.
func (q *Queue) Ring() {
	if q.rung != q.tail && q.dead == nil {
		q.c.t.Store32(spec.SubmissionDoorbell(q.id, q.c.stride), uint32(q.tail))
		q.rung = q.tail
	}
}

// Poll calls done for every command that was completed since the last Poll, with its tag, and returns their
// number. If a command is past its deadline, the queue is dead: Poll returns an error with the queue's
// state that wraps ErrTimeout or ErrFatal, and every later call of the queue returns it again.
func (q *Queue) Poll(done func(tag uint64, c spec.Completion)) (n int, err error) {
	if q.dead != nil {
		return 0, q.dead
	}
	for {
		entry := q.cq.Bytes[q.head*spec.CompletionBytes:][:spec.CompletionBytes]
		last := atomic.LoadUint32((*uint32)(unsafe.Pointer(&entry[12])))
		if last>>16&1 == 1 != q.phase {
			break
		}
		var whole [spec.CompletionBytes]byte
		copy(whole[:12], entry)
		binary.LittleEndian.PutUint32(whole[12:], last)
		c, _ := spec.Parse(whole[:])
		if int(c.ID) >= len(q.slots) || !q.slots[c.ID].busy {
			q.dead = fmt.Errorf("%w: it completes command %d, which is not under way; %s", ErrFatal, c.ID, q.state())
			return n, q.dead
		}
		q.sqHead = c.SQHead
		tag := q.slots[c.ID].tag
		q.slots[c.ID].busy = false
		q.free = append(q.free, c.ID)
		if q.head++; q.head == q.depth {
			q.head, q.phase = 0, !q.phase
		}
		n++
		done(tag, c)
	}
	if q.read != q.head {
		q.c.t.Store32(spec.CompletionDoorbell(q.id, q.c.stride), uint32(q.head))
		q.read = q.head
	}
	if n == 0 {
		return 0, q.overdue()
	}
	return n, nil
}

// overdue ends the queue if a command is late, or the controller has failed.
func (q *Queue) overdue() error {
	if q.Busy() == 0 {
		return nil
	}
	now := q.c.now()
	for id := range q.slots {
		s := &q.slots[id]
		if !s.busy || now.Before(s.deadline) {
			continue
		}
		kind := ErrTimeout
		status := q.c.t.Load32(spec.CSTS)
		if status&spec.Fatal != 0 || status == ^uint32(0) {
			kind = ErrFatal
		}
		q.dead = fmt.Errorf("%w: command %d (opcode %02xh) was not completed in %v; CSTS %08xh, %s", kind, id, s.opcode, q.c.o.Timeout, status, q.state())
		return q.dead
	}
	return nil
}

// Late calls do with the tag and the identifier of each command that has been under way for at least age.
func (q *Queue) Late(age time.Duration, do func(tag uint64, id uint16)) {
	if q.dead != nil || q.Busy() == 0 {
		return
	}
	since := q.c.now().Add(q.c.o.Timeout - age) // deadline of a command that began age ago
	for id := range q.slots {
		if s := &q.slots[id]; s.busy && !s.deadline.After(since) {
			do(s.tag, uint16(id))
		}
	}
}

func (q *Queue) state() string {
	return fmt.Sprintf("queue %d of %d entries: tail %d (rung %d), %d fetched by the controller, head %d, phase %v, %d under way",
		q.id, q.depth, q.tail, q.rung, q.sqHead, q.head, q.phase, q.Busy())
}

// Do submits one command and waits for it. No other command may be under way on the queue. A failed command
// is an error of type spec.Status.
func (q *Queue) Do(cmd *spec.Command, m *Memory, offset, n int) (spec.Completion, error) {
	var c spec.Completion
	if err := q.Submit(cmd, m, offset, n, 0); err != nil {
		return c, err
	}
	q.Ring()
	for {
		n, err := q.Poll(func(_ uint64, done spec.Completion) { c = done })
		if err != nil {
			return c, err
		}
		if n > 0 {
			break
		}
		q.c.pause()
	}
	if c.Status.Failed() {
		return c, c.Status
	}
	return c, nil
}

// listEntries is the number of addresses in a page of a PRP list. If more follow, the last is the address
// of the next page.
const listEntries = Page / 8

// listBytes returns the bytes of the PRP list of a transfer of the given bytes that begins anywhere
// in a page.
func listBytes(transfer int) int {
	entries := (transfer + Page - 5) / Page // beside PRP1's page, in which data begins at byte Page - 4 at most
	pages := 1
	for entries > listEntries {
		entries -= listEntries - 1
		pages++
	}
	return pages * Page
}

// setPRP sets the PRPs of a command to the n bytes of m from an offset on, a multiple of 4. list has the
// memory of the slot's PRP list, listBytes(n) bytes from at on.
func setPRP(c *spec.Command, m *Memory, offset, n int, list *Memory, at int) error {
	if offset%4 != 0 || n <= 0 || offset < 0 || offset+n > len(m.Pages)*Page {
		return fmt.Errorf("%d bytes from byte %d on are not aligned, or not in the memory of %d bytes", n, offset, len(m.Pages)*Page)
	}
	first, last := offset/Page, (offset+n-1)/Page
	switch last - first {
	case 0:
		c.SetPRP(m.Address(offset), 0)
		return nil
	case 1:
		c.SetPRP(m.Address(offset), m.Pages[last])
		return nil
	}
	c.SetPRP(m.Address(offset), list.Address(at))
	rest := m.Pages[first+1 : last+1]
	for len(rest) > 0 {
		n := min(len(rest), listEntries)
		if len(rest) > listEntries {
			n = listEntries - 1
		}
		page := list.Bytes[at : at+Page]
		for i, address := range rest[:n] {
			binary.LittleEndian.PutUint64(page[8*i:], address)
		}
		if rest = rest[n:]; len(rest) > 0 {
			at += Page
			binary.LittleEndian.PutUint64(page[Page-8:], list.Address(at))
		}
	}
	return nil
}

// Rings is the memory of a lent queue pair, for another user: a GPU.
type Rings struct {
	ID     int
	Depth  int     // entries of each ring; one less may be under way
	SQ, CQ *Memory // of Depth commands, and of Depth completions

	// Submission and Completion are the offsets of the queue's doorbells in the registers.
	Submission, Completion int
}

// ErrLent is the error of all calls of a lent queue.
var ErrLent = errors.New("the queue is lent")

// Lend returns the rings of a queue that was not used yet: both are at their first entry, and new
// completions have phase one. All later calls of the queue return ErrLent. The rings are valid until the
// controller is reset or closed. If their user may still drive the queue then, Stop must come first.
func (q *Queue) Lend() (Rings, error) {
	switch {
	case q.dead != nil:
		return Rings{}, q.dead
	case q.tail != 0 || q.head != 0 || !q.phase || q.Busy() > 0:
		return Rings{}, errors.New("only an unused queue can be lent; " + q.state())
	}
	q.dead = ErrLent
	return Rings{ID: q.id, Depth: q.depth, SQ: q.sq, CQ: q.cq,
		Submission: spec.SubmissionDoorbell(q.id, q.c.stride), Completion: spec.CompletionDoorbell(q.id, q.c.stride)}, nil
}

// Stop disables the controller. When it has returned without an error, the controller carries out no
// command and writes to no memory. Commands that were under way are lost. Only Reset and Close are then
// allowed.
func (c *Controller) Stop(ctx context.Context) error {
	if c.closed {
		return ErrClosed
	}
	c.kill(errors.Join(ErrClosed, errors.New("the controller was stopped")))
	if err := c.enable(ctx, false); err != nil {
		return fmt.Errorf("stop %s: %w", c.t.Name(), err)
	}
	return nil
}
