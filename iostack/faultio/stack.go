package faultio

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

var (
	errCancelled = errors.New("given up") // never seen: Wait reports the context instead
	errClosed    = fmt.Errorf("faultio: %w", iostack.ErrClosed)
)

type inner = iostack.Stack

// Stack implements iostack.Stack with another stack. Its files are the files of that stack. Each request
// runs in a goroutine of its own.
type Stack struct {
	inner     // methods not implemented here
	injectors []Injector

	mu      sync.Mutex // orders Submits, guards the fields below
	flights map[*iostack.Group]flight
	ended   bool

	closed   chan struct{}
	running  sync.WaitGroup
	injected atomic.Int64
	requests atomic.Int64
	bytes    atomic.Int64
}

var _ iostack.Stack = (*Stack)(nil)

// flight is a group between its first Submit and its Wait.
type flight struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// Wrap returns a stack that reads through inner, with faults. A request suffers the effects of all
// injectors with a condition that holds, in the given order. Closing the result closes inner.
func Wrap(inner iostack.Stack, injectors ...Injector) *Stack {
	return &Stack{
		inner:     inner,
		injectors: injectors,
		flights:   make(map[*iostack.Group]flight),
		closed:    make(chan struct{}),
	}
}

// String lists the injectors.
func (s *Stack) String() string {
	texts := make([]string, len(s.injectors))
	for i, in := range s.injectors {
		texts[i] = in.String()
	}
	return s.Name() + " with " + strings.Join(texts, "; ")
}

// Injected returns the number of effects on requests so far.
func (s *Stack) Injected() int64 { return s.injected.Load() }

// OpenStriped opens files of the wrapped stack as one.
func (s *Stack) OpenStriped(paths []string, unit int) (iostack.File, error) {
	return iostack.OpenStriped(s.inner, paths, unit)
}

// Stats counts the requests as submitted, and the device reads that inner carried out.
func (s *Stack) Stats() iostack.Stats {
	stats := s.inner.Stats()
	stats.Requests, stats.BytesAsked = s.requests.Load(), s.bytes.Load()
	return stats
}

// Submit starts the requests with their effects.
func (s *Stack) Submit(g *iostack.Group, reqs []iostack.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return errClosed
	}
	if err := s.validate(reqs); err != nil {
		return err
	}
	if len(reqs) == 0 {
		return nil
	}
	f, ok := s.flights[g]
	if !ok {
		f.ctx, f.cancel = context.WithCancel(context.Background())
		s.flights[g] = f
	}
	first := g.Add(len(reqs))
	for i, r := range reqs {
		effects := s.effects(Call{File: r.File.Name(), Offset: r.Offset, Length: r.Len()})
		s.requests.Add(1)
		s.bytes.Add(int64(r.Len()))
		s.running.Go(func() {
			defer fault.Crash()
			g.Done(s.serve(f.ctx, r, first+i, effects))
		})
	}
	return nil
}

// validate submits the requests to inner without any bytes to read: inner then refuses invalid ones.
func (s *Stack) validate(reqs []iostack.Request) error {
	var g iostack.Group
	empty := make([]iostack.Request, len(reqs))
	for i, r := range reqs {
		empty[i] = head(r, 0)
	}
	if err := s.inner.Submit(&g, empty); err != nil {
		return err
	}
	return s.inner.Wait(context.Background(), &g)
}

// head returns the request for the first n bytes of another one's.
func head(r iostack.Request, n int) iostack.Request {
	if r.Device != (device.Buffer{}) {
		r.Device = r.Device.Slice(0, min(int64(n), r.Device.Bytes()))
	}
	if r.Scatter != nil && n < r.Len() {
		r.Scatter = r.Scatter[:0:0] // validate alone asks: serve reads into one piece
	}
	n = min(n, len(r.Buf))
	r.Buf = r.Buf[:n:n]
	return r
}

// effects returns the effects on a request. Every condition sees every request.
func (s *Stack) effects(c Call) []Effect {
	var effects []Effect
	for _, in := range s.injectors {
		if in.when.match(c) {
			effects = append(effects, in.effect)
		}
	}
	s.injected.Add(int64(len(effects)))
	return effects
}

// serve carries out one request under its effects.
func (s *Stack) serve(ctx context.Context, r iostack.Request, index int, effects []Effect) *iostack.ReadError {
	fail := func(err error) *iostack.ReadError {
		return &iostack.ReadError{File: r.File.Name(), Offset: r.Offset, Length: r.Len(), Index: index, At: r.Offset, Err: err}
	}
	pieces, length := r.Scatter, r.Len()
	if pieces != nil {
		r.Buf, r.Scatter = make([]byte, length), nil
	}
	for _, e := range effects {
		if e.before != nil {
			if err := e.before(stop{cancelled: ctx.Done(), closed: s.closed}); err != nil {
				return fail(err)
			}
		}
		if e.limit != nil {
			length = min(length, e.limit(length))
		}
	}
	var g iostack.Group
	if err := s.inner.Submit(&g, []iostack.Request{head(r, length)}); err != nil {
		return fail(err)
	}
	if err := s.inner.Wait(ctx, &g); err != nil {
		var read *iostack.ReadError
		if errors.As(err, &read) {
			err = read.Err
		}
		return fail(err)
	}
	for _, e := range effects {
		switch {
		case e.after == nil:
		case r.Device != (device.Buffer{}):
			return fail(fmt.Errorf("faultio: %s: device memory is out of reach", e))
		default:
			e.after(r.Buf[:length])
		}
	}
	for from := r.Buf; len(pieces) > 0; pieces = pieces[1:] {
		from = from[copy(pieces[0], from):]
	}
	if length < r.Len() {
		return fail(iostack.Truncated(r.Len(), int64(length), r.Offset+int64(length)))
	}
	return nil
}

// Wait waits for a group; see iostack.Stack. The end of ctx ends Hang, but not a Gate.
func (s *Stack) Wait(ctx context.Context, g *iostack.Group) error {
	stopped := g.Await(ctx)
	s.mu.Lock()
	f, ok := s.flights[g]
	delete(s.flights, g)
	s.mu.Unlock()
	if ok {
		f.cancel()
	}
	if stopped == nil {
		return g.Take()
	}
	_ = g.Await(context.Background())
	_ = g.Take()
	return fmt.Errorf("faultio: wait: %w", stopped)
}

// Close ends Hang, then the wrapped stack, and waits for every gate.
func (s *Stack) Close() error {
	s.mu.Lock()
	if !s.ended {
		s.ended = true
		close(s.closed)
	}
	s.mu.Unlock()
	err := s.inner.Close()
	s.running.Wait()
	return err
}
