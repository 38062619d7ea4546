package nccl

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
)

// Comm is one rank of a communicator. Its methods are for one goroutine at a time, which is
// attached to the rank's device; Abort may be called from any other.
type Comm struct {
	library  *Library
	rank     int
	world    int
	patience time.Duration
	clock    Clock

	mu    sync.Mutex
	at    *comm // where the library writes the communicator
	lost  error // why it was given up
	asked Status
}

// kept holds the variables of communicators that were aborted before they were made: the library may still
// write to them.
var kept struct {
	sync.Mutex
	places []*comm
}

// Join joins a communicator of world ranks as the given rank, from 0. All ranks join with the same id, each
// on a device of its own. Join returns when all have joined. It returns an error of kind fault.ErrDevice
// when ctx ends, when it takes longer than o.Patience, or when a rank fails. The calling goroutine must be
// attached to the device.
func (l *Library) Join(ctx context.Context, id ID, world, rank int, o Options) (*Comm, error) {
	if world < 1 || rank < 0 || rank >= world {
		return nil, fault.New(fault.ErrDevice, "NCCL: rank %d is not one of %d ranks", rank, world)
	}
	if o.Patience == 0 {
		o.Patience = 2 * time.Minute
	}
	if o.Clock == nil {
		o.Clock = wallClock{}
	}
	c := &Comm{library: l, rank: rank, world: world, patience: o.Patience, clock: o.Clock, at: new(comm)}
	what := fmt.Sprintf("join as rank %d of %d", rank, world)
	config := nonBlocking
	if s := l.api.join(c.at, int32(world), int32(rank), &id, &config); s != Success && s != InProgress {
		return nil, c.give(what, s)
	}
	return c, c.settle(ctx, what)
}

// Rank returns the rank, from 0, and World the number of ranks.
func (c *Comm) Rank() int  { return c.rank }
func (c *Comm) World() int { return c.world }

// AllReduce enqueues on s the replacement of x, an array of float32, by its sum over all ranks. All ranks
// get the same bits. All ranks must enqueue the same collectives in the same order.
func (c *Comm) AllReduce(ctx context.Context, s device.Stream, x device.Buffer) error {
	return c.enqueue(ctx, cuda.StreamOf(s), "all-reduce", func(api api, at comm, stream uintptr) Status {
		return api.allReduce(uintptr(x.Address()), int(x.Bytes()/4), float32Type, sum, at, stream)
	})
}

// Broadcast enqueues on s the replacement of the bytes of x by the bytes of x on rank root. All ranks must
// enqueue the same collectives in the same order.
func (c *Comm) Broadcast(ctx context.Context, s *cuda.Stream, x cuda.Buffer, root int) error {
	return c.enqueue(ctx, s, "broadcast", func(api api, at comm, stream uintptr) Status {
		return api.broadcast(uintptr(x.Address()), int(x.Bytes()), bytesType, int32(root), at, stream)
	})
}

func (c *Comm) enqueue(ctx context.Context, s *cuda.Stream, what string, call func(api api, at comm, stream uintptr) Status) error {
	c.mu.Lock()
	if c.lost != nil {
		c.mu.Unlock()
		return c.lost
	}
	status := call(c.library.api, *c.at, s.Handle())
	c.mu.Unlock()
	s.Gave(what)
	switch status {
	case Success:
		return nil
	case InProgress:
		return c.settle(ctx, what)
	}
	return c.give(what, status)
}

// settle waits until the library has begun the enqueued work.
func (c *Comm) settle(ctx context.Context, what string) error {
	return c.poll(ctx, what, func() (bool, error) {
		s, err := c.state()
		return s == Success, err
	})
}

// Wait polls done until it returns true, such as for an event after a collective. It aborts the
// communicator and returns an error when a rank fails, when Options.Patience is over, or when ctx ends.
// Call it before any other wait for the stream: such a wait might never return. Errors name the work with
// the given text.
func (c *Comm) Wait(ctx context.Context, what string, done func() (bool, error)) error {
	return c.poll(ctx, what, func() (bool, error) {
		ok, err := done()
		if ok || err != nil {
			return ok, err
		}
		_, err = c.state()
		return false, err
	})
}

// state returns the status of the communicator. An error may come from any rank.
func (c *Comm) state() (Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		return Success, c.lost
	}
	c.asked = InternalError
	if s := c.library.api.state(*c.at, &c.asked); s != Success {
		return s, s
	}
	if c.asked != Success && c.asked != InProgress {
		return c.asked, c.asked
	}
	return c.asked, nil
}

// Polls are made without a pause at first, as most collectives take less than one.
const eager = 2000

// poll calls step until it reports true.
func (c *Comm) poll(ctx context.Context, what string, step func() (bool, error)) error {
	began := c.clock.Now()
	pause := 20 * time.Microsecond
	for i := 0; ; i++ {
		ok, err := step()
		switch {
		case err != nil:
			return c.give(what, err)
		case ok:
			return nil
		case ctx.Err() != nil:
			return c.give(what, context.Cause(ctx))
		case i < eager && i%100 != 0:
			runtime.Gosched()
			continue
		}
		if waited := c.clock.Now().Sub(began); waited > c.patience {
			return c.give(what, fault.New(ErrDeadline, "%w (%s): a rank died, hangs, or was never started", ErrDeadline, c.patience))
		}
		if i >= eager {
			c.clock.Sleep(pause)
			pause = min(2*pause, time.Millisecond)
		}
	}
}

// give aborts the communicator. The first reason is kept as its error.
func (c *Comm) give(what string, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		return c.lost
	}
	c.lost = c.library.failed(what, *c.at, err)
	c.abort()
	return c.lost
}

// abort ends the library's work. The lock is held.
func (c *Comm) abort() {
	if *c.at != 0 {
		_ = c.library.api.abort(*c.at) // nothing is left to be done about it
	}
	kept.Lock()
	kept.places = append(kept.places, c.at)
	kept.Unlock()
}

// Abort aborts the communicator for the given reason. Enqueued work ends with undefined results, and
// waiting calls return. It may be called from any goroutine.
func (c *Comm) Abort(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost == nil {
		c.lost = fault.New(fault.ErrDevice, "NCCL: given up: %w", why)
		c.abort()
	}
}

// Close ends the communicator after the enqueued work. All ranks must close; if one does not, Close aborts
// the communicator after Options.Patience.
func (c *Comm) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.lost != nil {
		defer c.mu.Unlock()
		return c.lost
	}
	s := c.library.api.finalize(*c.at)
	c.mu.Unlock()
	if s != Success && s != InProgress {
		return c.give("close", s)
	}
	if err := c.settle(ctx, "close"); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		return c.lost
	}
	c.lost = fault.New(fault.ErrDevice, "NCCL: the communicator is closed")
	if s := c.library.api.destroy(*c.at); s != Success {
		return c.library.failed("close", 0, s)
	}
	return nil
}

// Check returns the communicator's error if a failure of any rank is known. It does not wait.
func (c *Comm) Check() error {
	if _, err := c.state(); err != nil {
		return c.give("look", err)
	}
	return nil
}
