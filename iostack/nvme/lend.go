package nvme

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/iostack/nvme/spec"
)

// Rings is the memory of a queue pair, for somebody else who drives it: a GPU.
type Rings struct {
	ID     int
	Depth  int     // entries of each ring; one less may be under way
	SQ, CQ *Memory // of Depth commands, and of Depth completions

	// Submission and Completion are the offsets of the queue's doorbells in the registers.
	Submission, Completion int
}

// ErrLent is what a queue answers that somebody else drives.
var ErrLent = errors.New("the queue is lent")

// Lend hands over a queue that no command went through yet: both rings are at their first
// entry, and new completions have phase one. The queue answers ErrLent from then on. What it
// lends is valid until the controller is reset or closed; Stop comes first, where somebody may
// drive the queue still.
func (q *Queue) Lend() (Rings, error) {
	switch {
	case q.dead != nil:
		return Rings{}, q.dead
	case q.tail != 0 || q.head != 0 || !q.phase || q.Busy() > 0:
		return Rings{}, errors.New("only a queue that was not used can be lent; " + q.state())
	}
	q.dead = ErrLent
	return Rings{ID: q.id, Depth: q.depth, SQ: q.sq, CQ: q.cq,
		Submission: spec.SubmissionDoorbell(q.id, q.c.stride), Completion: spec.CompletionDoorbell(q.id, q.c.stride)}, nil
}

// Stop disables the controller: it carries out nothing any more, and no memory of a command's
// is written to once Stop has returned without an error. Commands that were under way are lost.
// What is left are Reset and Close.
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
