package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/spec"
)

// work is the number and the sizes of reads: batches of micro-batches of reads.
type work struct {
	batches, micro, reads, bytes int
}

// batch returns the number of reads of a batch.
func (w work) batch() int { return w.micro * w.reads }

// first returns the first block of a read of a batch, at a random place of the drive.
func (w work) first(blocks uint64, blockBytes, batch, read int) uint64 {
	n := uint64(w.bytes / blockBytes)
	return rand.New(rand.NewPCG(uint64(batch), uint64(read))).Uint64N(blocks/n) * n
}

// overlap reads into two slots in turn, and computes on the other slot meanwhile.
type overlap struct {
	work
	c      *nvme.Controller
	slots  []*nvme.Memory
	kernel kernel
	failed error // of a read
}

func newOverlap(c *nvme.Controller, w work) (*overlap, error) {
	block := c.Namespace().BlockBytes
	switch {
	case w.batches < 1 || w.micro < 1 || w.reads < 1:
		return nil, fmt.Errorf("%d batches of %d × %d reads: all numbers must be at least 1", w.batches, w.micro, w.reads)
	case w.bytes < block || w.bytes%block != 0 || w.bytes > c.Identity().MaxTransfer || uint64(w.bytes/block) > c.Namespace().Blocks:
		return nil, fmt.Errorf("reads of %d bytes: the drive takes multiples of %d bytes up to %d", w.bytes, block, c.Identity().MaxTransfer)
	case w.batch() >= c.Queues()[0].Depth():
		return nil, fmt.Errorf("a batch of %d reads: the queues of the drive take at most %d", w.batch(), c.Queues()[0].Depth()-1)
	}
	o := &overlap{work: w, c: c}
	for range 2 {
		m, err := c.Transport().Alloc(w.batch() * w.bytes)
		if err != nil {
			return nil, err
		}
		o.slots = append(o.slots, m)
	}
	var err error
	o.kernel, err = newKernel(o.slots, w)
	return o, err
}

// close ends the kernel; the slots' memory is given back with the controller.
func (o *overlap) close() { o.kernel.close() }

// run returns the checksums of all reads of all batches. If batches overlap, the reads of one
// are under way while the kernel computes on the one before.
func (o *overlap) run(ctx context.Context, overlapped bool) (sums []uint32, err error) {
	if err := o.submit(0); err != nil {
		return nil, err
	}
	if err := o.complete(ctx); err != nil {
		return nil, err
	}
	for i := range o.batches {
		next := i+1 < o.batches
		if next && overlapped {
			if err := o.submit(i + 1); err != nil {
				return nil, err
			}
		}
		if err := o.kernel.start(i % 2); err != nil {
			return nil, err
		}
		if next && overlapped {
			err = o.complete(ctx)
		}
		s, e := o.kernel.wait() // also after an error, since the kernel must not continue
		if err != nil || e != nil {
			return nil, fmt.Errorf("batch %d: %w", i, firstOf(err, e))
		}
		sums = append(sums, s...)
		if next && !overlapped {
			if err := o.submit(i + 1); err != nil {
				return nil, err
			}
			if err := o.complete(ctx); err != nil {
				return nil, err
			}
		}
	}
	return sums, nil
}

// submit begins the reads of a batch. It announces each micro-batch to the drive by itself, so that the
// drive begins while the next one is written to the queue.
func (o *overlap) submit(batch int) error {
	q, space := o.c.Queues()[0], o.c.Namespace()
	for micro := range o.micro {
		for i := range o.reads {
			read := micro*o.reads + i
			cmd := space.Transfer(spec.Read, o.first(space.Blocks, space.BlockBytes, batch, read), o.bytes/space.BlockBytes)
			if err := q.Submit(&cmd, o.slots[batch%2], read*o.bytes, o.bytes, uint64(read)); err != nil {
				return err
			}
		}
		q.Ring()
	}
	return nil
}

// complete waits for all reads that are under way. It waits no longer than the deadline of a command,
// after which a read without an answer is an error.
func (o *overlap) complete(ctx context.Context) error {
	q := o.c.Queues()[0]
	for q.Busy() > 0 {
		n, err := q.Poll(o.ended)
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case n == 0:
			runtime.Gosched()
		}
	}
	err := o.failed
	o.failed = nil
	return err
}

func (o *overlap) ended(read uint64, c spec.Completion) {
	if c.Status.Failed() {
		o.failed = firstOf(o.failed, fmt.Errorf("read %d: %w", read, c.Status))
	}
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
