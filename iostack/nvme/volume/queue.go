package volume

import (
	"errors"
	"fmt"
	"runtime"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/spec"
)

// queueBytes bounds the memory of a QueueDrive in bytes, and so the commands under way, each of the largest
// transfer: at least 4 and at most 32.
const queueBytes = 8 << 20

// retries is the number of further attempts of a command if its status permits a retry.
const retries = 3

// QueueDrive is a Drive: the first namespace of a controller, through one queue.
type QueueDrive struct {
	c      *nvme.Controller
	q      *nvme.Queue
	space  nvme.Namespace
	most   int // bytes of a command
	memory *nvme.Memory
	slots  []transfer
	free   []uint64 // indexes of slots
	err    error    // the first of the commands that are under way
}

// transfer is a command under way, with its part of the caller's buffer.
type transfer struct {
	first uint64
	b     []byte
	tries int
}

// OnQueue returns the first namespace of a controller as a drive, through one of its queues, which must
// have no other user. It allocates up to 8 MiB of memory from the transport, or four transfers of the
// largest size; Close of the drive or of the transport frees it.
func OnQueue(c *nvme.Controller, q *nvme.Queue) (*QueueDrive, error) {
	d := &QueueDrive{c: c, q: q, space: c.Namespace(), most: c.Identity().MaxTransfer}
	n := min(max(queueBytes/d.most, 4), 32, q.Depth()-1)
	var err error
	if d.memory, err = c.Transport().Alloc(n * d.most); err != nil {
		return nil, err
	}
	d.slots = make([]transfer, n)
	for i := range n {
		d.free = append(d.free, uint64(i))
	}
	return d, nil
}

// Tables opens the volume on the drives of the controllers for its table of files only: the volume cannot
// read the files. During the call it uses the first queue of each controller.
func Tables(controllers []*nvme.Controller) (v *Volume, err error) {
	var drives []Drive
	for _, c := range controllers {
		d, derr := OnQueue(c, c.Queues()[0])
		if derr != nil {
			return nil, derr
		}
		defer func() { err = errors.Join(err, d.Close()) }()
		drives = append(drives, d)
	}
	return Open(drives)
}

// Close frees the drive's memory. Later reads and writes fail. It does not close the queue. Closing again
// does nothing.
func (d *QueueDrive) Close() error {
	if d.memory == nil {
		return nil
	}
	m := d.memory
	d.memory = nil
	return d.c.Transport().Free(m)
}

// Name implements Drive, as do the other methods.
func (d *QueueDrive) Name() string     { return d.c.Transport().Name() }
func (d *QueueDrive) Blocks() uint64   { return d.space.Blocks }
func (d *QueueDrive) BlockBytes() int  { return d.space.BlockBytes }
func (d *QueueDrive) MaxTransfer() int { return d.most }

func (d *QueueDrive) ReadBlocks(first uint64, b []byte) error {
	return d.carry(spec.Read, first, b)
}

func (d *QueueDrive) WriteBlocks(first uint64, b []byte) error {
	return d.carry(spec.Write, first, b)
}

func (d *QueueDrive) Flush() error {
	cmd := d.space.Flush()
	if _, err := d.q.Do(&cmd, nil, 0, 0); err != nil {
		return fmt.Errorf("flush %s: %w", d.Name(), err)
	}
	return nil
}

// carry reads or writes blocks with commands, one at a time for each slot.
func (d *QueueDrive) carry(opcode byte, first uint64, b []byte) error {
	if d.memory == nil {
		return fmt.Errorf("%s: %w", d.Name(), nvme.ErrClosed)
	}
	if len(b)%d.space.BlockBytes != 0 || first > d.space.Blocks || uint64(len(b)/d.space.BlockBytes) > d.space.Blocks-first {
		return fmt.Errorf("%d bytes from block %d on are not whole blocks of %s", len(b), first, d.Name())
	}
	d.err = nil
	for len(b) > 0 || len(d.free) < len(d.slots) {
		for len(b) > 0 && len(d.free) > 0 && d.err == nil {
			slot := d.free[len(d.free)-1]
			d.free = d.free[:len(d.free)-1]
			t := &d.slots[slot]
			*t = transfer{first: first, b: b[:min(len(b), d.most)]}
			if err := d.submit(opcode, slot); err != nil {
				return err
			}
			b = b[len(t.b):]
			first += uint64(len(t.b) / d.space.BlockBytes)
		}
		if d.err != nil {
			b = nil // commands under way are awaited
			if len(d.free) == len(d.slots) {
				return d.err
			}
		}
		d.q.Ring()
		var failed error
		n, err := d.q.Poll(func(slot uint64, done spec.Completion) {
			failed = errors.Join(failed, d.finish(opcode, slot, done.Status))
		})
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", d.Name(), err) // the queue is dead, and so is this drive
		case failed != nil:
			return failed
		case n == 0:
			runtime.Gosched()
		}
	}
	return d.err
}

func (d *QueueDrive) submit(opcode byte, slot uint64) error {
	t := &d.slots[slot]
	at := int(slot) * d.most
	if opcode == spec.Write {
		copy(d.memory.Bytes[at:], t.b)
	}
	cmd := d.space.Transfer(opcode, t.first, len(t.b)/d.space.BlockBytes)
	if err := d.q.Submit(&cmd, d.memory, at, len(t.b), slot); err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	return nil
}

// finish ends a command, or submits it again. It returns an error if the queue is dead.
func (d *QueueDrive) finish(opcode byte, slot uint64, status spec.Status) error {
	t := &d.slots[slot]
	switch {
	case !status.Failed():
		if opcode == spec.Read {
			at := int(slot) * d.most
			copy(t.b, d.memory.Bytes[at:])
		}
	case status.Retry() && t.tries < retries && d.err == nil:
		t.tries++
		return d.submit(opcode, slot)
	case d.err == nil:
		what := "read"
		if opcode == spec.Write {
			what = "write"
		}
		d.err = fmt.Errorf("%s %s, blocks %d to %d: %w", what, d.Name(), t.first, t.first+uint64(len(t.b)/d.space.BlockBytes), status)
	}
	d.free = append(d.free, slot)
	return nil
}
