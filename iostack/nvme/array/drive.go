package array

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"diskgnn/iostack/nvme"
)

// drive is a controller. All workers use it, each with its own queue.
//
// A drive that fails is down: every worker stops using its queue and parks. The last one resets the
// controller, which begins another life with new queues.
type drive struct {
	s      *Stack
	name   string
	notify nvme.Notifier // nil: the transport does not tell of completions
	maps   mappings
	down   atomic.Bool  // workers are to park
	life   atomic.Int64 // of the controller; raised once it was reset
	lent   atomic.Bool  // another user drives some of its queues

	space    nvme.Namespace
	transfer int // bytes of a command

	mu     sync.Mutex       // held for admin commands too
	c      *nvme.Controller // its queues belong to the workers that are not parked
	users  int              // workers that have not ended
	parked int              // of these
	cause  error            // why it is down, or was last
	lost   error            // why it is down for good
}

func newDrive(s *Stack, c *nvme.Controller, t nvme.Transport) *drive {
	d := &drive{s: s, c: c, name: t.Name(), maps: mappings{t: t}}
	d.notify, _ = t.(nvme.Notifier)
	return d
}

// fail takes the drive down. The first cause of each life is reported.
func (d *drive) fail(cause error) {
	d.mu.Lock()
	if !d.down.Load() {
		d.cause = fmt.Errorf("%s: %w", d.name, cause)
		d.down.Store(true)
	}
	d.mu.Unlock()
	d.s.wakeAll()
}

// park records that a worker does not use its queue for the rest of this life.
func (d *drive) park() {
	d.mu.Lock()
	d.parked++
	d.mend()
	d.mu.Unlock()
}

// leave records that a worker has ended.
func (d *drive) leave(parked bool, life int64) {
	d.mu.Lock()
	d.users--
	if parked && life == d.life.Load() {
		d.parked--
	}
	d.mend()
	d.mu.Unlock()
}

// mend resets the controller when no worker uses its queues. A controller that cannot be reset is closed,
// so that it does not write to memory any more.
func (d *drive) mend() {
	if !d.down.Load() || d.parked < d.users || d.users == 0 {
		return
	}
	if d.lent.Load() {
		// The user of the lent queues writes to their rings, which a reset would free. The controller is
		// not reset until the stack is closed.
		d.lost = fmt.Errorf("%w; it was given up: some of its queues are lent, so that it cannot be reset", d.cause)
	} else {
		err := d.c.Reset(context.Background())
		if have := len(d.c.Queues()); err == nil && have < len(d.s.workers) {
			err = fmt.Errorf("%w: it has %d queues after a reset, not %d", nvme.ErrUnsupported, have, len(d.s.workers))
		}
		if err != nil {
			d.lost = fmt.Errorf("%w; it was given up: %w", d.cause, errors.Join(err, d.c.Close()))
		}
	}
	d.parked = 0
	d.life.Add(1)
	d.down.Store(false)
	d.s.wakeAll()
}

// abort asks the controller to abort a command. A failure of the abort is not an error of the drive.
func (d *drive) abort(q *nvme.Queue, id uint16) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down.Load() {
		return nil
	}
	_, err := d.c.Abort(q, id)
	return err
}
