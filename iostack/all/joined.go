package all

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"diskgnn/iostack"
)

// part is a stack that can be joined with another one, such as a stack of the frontend.
type part interface {
	iostack.Stack
	OpenStriped(paths []string, unit int) (iostack.File, error)
	// Owns reports whether the stack has opened the file.
	Owns(iostack.File) bool
	// Check returns the error with which Submit would refuse the requests, or nil.
	Check([]iostack.Request) error
	// Drop ends the requests of a group that have not begun.
	Drop(*iostack.Group)
}

// joined is one storage stack made of two: the first reads the files on its own drives, and the second all
// others. A group may have requests for both.
type joined struct {
	first, second part

	use    sync.RWMutex // held for reading to submit, for writing to close
	closed bool
}

var _ iostack.Stack = (*joined)(nil)

// join joins two stacks, which the result closes. The second stack opens the files for which the first
// returns iostack.ErrElsewhere.
func join(first, second part) *joined { return &joined{first: first, second: second} }

// Name returns the first stack's name.
func (s *joined) Name() string { return s.first.Name() }

// Caps returns the capabilities that both stacks have. Depth is the sum of both.
func (s *joined) Caps() iostack.Caps {
	a, b := s.first.Caps(), s.second.Caps()
	return iostack.Caps{Align: max(a.Align, b.Align), MaxIO: min(a.MaxIO, b.MaxIO), Depth: a.Depth + b.Depth}
}

// Open opens a file with the stack that has it.
func (s *joined) Open(path string) (iostack.File, error) {
	f, err := s.first.Open(path)
	if errors.Is(err, iostack.ErrElsewhere) {
		return s.second.Open(path)
	}
	return f, err
}

// OpenStriped opens files, all of one stack, as one.
func (s *joined) OpenStriped(paths []string, unit int) (iostack.File, error) {
	f, err := s.first.OpenStriped(paths, unit)
	if errors.Is(err, iostack.ErrElsewhere) {
		return s.second.OpenStriped(paths, unit)
	}
	return f, err
}

// Register registers memory with both stacks.
func (s *joined) Register(bufs ...[]byte) error {
	return errors.Join(s.first.Register(bufs...), s.second.Register(bufs...))
}

// Unregister unregisters memory from both stacks.
func (s *joined) Unregister(bufs ...[]byte) error {
	return errors.Join(s.first.Unregister(bufs...), s.second.Unregister(bufs...))
}

func (s *joined) owner(r *iostack.Request) part {
	if s.first.Owns(r.File) {
		return s.first
	}
	return s.second
}

// run returns the owner of the first request, and the number of requests from the first on with this owner.
func (s *joined) run(reqs []iostack.Request) (of part, n int) {
	of = s.owner(&reqs[0])
	for n = 1; n < len(reqs) && s.owner(&reqs[n]) == of; n++ {
	}
	return of, n
}

// Submit queues each request with the stack that has its file; see iostack.Stack.
func (s *joined) Submit(g *iostack.Group, reqs []iostack.Request) error {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.closed {
		return fmt.Errorf("%s: submit: %w", s.Name(), iostack.ErrClosed)
	}
	if len(reqs) == 0 {
		return s.first.Submit(g, reqs)
	}
	of, n := s.run(reqs)
	if n == len(reqs) {
		return of.Submit(g, reqs)
	}
	for rest := reqs; len(rest) > 0; rest = rest[n:] { // all of them, or none
		of, n = s.run(rest)
		if err := of.Check(rest[:n]); err != nil {
			return err
		}
	}
	for rest := reqs; len(rest) > 0; rest = rest[n:] {
		of, n = s.run(rest)
		if err := of.Submit(g, rest[:n]); err != nil {
			return err
		}
	}
	return nil
}

// Wait waits for a group; see iostack.Stack.
func (s *joined) Wait(ctx context.Context, g *iostack.Group) error {
	stopped := g.Await(ctx)
	if stopped == nil {
		return g.Take()
	}
	s.first.Drop(g)
	s.second.Drop(g)
	_ = g.Await(context.Background())
	_ = g.Take()
	return fmt.Errorf("%s: wait: %w", s.Name(), stopped)
}

// Held returns the bytes that both stacks hold; see iostack.Held.
func (s *joined) Held() int64 { return iostack.Held(s.first) + iostack.Held(s.second) }

// Stats adds the counts of both stacks. Time with reads in flight in both counts twice.
func (s *joined) Stats() iostack.Stats {
	a, b := s.first.Stats(), s.second.Stats()
	return iostack.Stats{
		Requests:    a.Requests + b.Requests,
		BytesAsked:  a.BytesAsked + b.BytesAsked,
		DeviceReads: a.DeviceReads + b.DeviceReads,
		BytesRead:   a.BytesRead + b.BytesRead,
		InFlight:    a.InFlight + b.InFlight,
		UnderWay:    a.UnderWay + b.UnderWay,
	}
}

// Close closes both stacks; see iostack.Stack.
func (s *joined) Close() error {
	s.use.Lock()
	s.closed = true
	s.use.Unlock()
	return errors.Join(s.first.Close(), s.second.Close())
}
