package array

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"diskgnn/iostack/nvme"
)

// drive is a controller, which all workers use, each by a queue of its own.
//
// A drive that fails is down: every worker leaves its queue alone and parks. The last one
// resets the controller, which begins another life, with new queues.
type drive struct {
	s      *Stack
	name   string
	notify nvme.Notifier // nil: the transport does not tell of completions
	maps   mappings
	down   atomic.Bool  // workers are to park
	life   atomic.Int64 // of the controller; raised once it was reset
	lent   atomic.Bool  // somebody else drives some of its queues

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

// fail takes the drive down. The first cause of a life is the one that is reported.
func (d *drive) fail(cause error) {
	d.mu.Lock()
	if !d.down.Load() {
		d.cause = fmt.Errorf("%s: %w", d.name, cause)
		d.down.Store(true)
	}
	d.mu.Unlock()
	d.s.wakeAll()
}

// park says that a worker leaves its queue alone for the rest of this life.
func (d *drive) park() {
	d.mu.Lock()
	d.parked++
	d.mend()
	d.mu.Unlock()
}

// leave says that a worker has ended.
func (d *drive) leave(parked bool, life int64) {
	d.mu.Lock()
	d.users--
	if parked && life == d.life.Load() {
		d.parked--
	}
	d.mend()
	d.mu.Unlock()
}

// mend resets the controller, once nobody uses its queues. A controller that cannot be reset
// is given back, so that it writes to no memory any more.
func (d *drive) mend() {
	if !d.down.Load() || d.parked < d.users || d.users == 0 {
		return
	}
	if d.lent.Load() {
		// Whoever drives the other queues writes to rings that a reset would take away. The
		// controller is left as it is until the stack is closed.
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

// abort asks the controller to give a command up; it is not so bad if it does not.
func (d *drive) abort(q *nvme.Queue, id uint16) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down.Load() {
		return nil
	}
	_, err := d.c.Abort(q, id)
	return err
}
