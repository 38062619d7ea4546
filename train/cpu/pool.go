package cpu

import (
	"context"
	"sync"
	"sync/atomic"

	"diskgnn/internal/fault"
)

// body is work over a range of rows. chunk is called once for every chunk, by any worker, in any
// order; worker, below the pool's size, selects scratch memory. chunk's output must depend on the
// chunk alone.
type body interface{ chunk(worker, lo, hi int) }

// pool is a set of goroutines that stay for the engine's life, the caller's own
// being the first. It runs one body at a time.
type pool struct {
	wake    []chan struct{} // one for each goroutine besides the caller
	running sync.WaitGroup

	// The work under way, written before the wake-up.
	ctx      context.Context
	body     body
	n, grain int
	next     atomic.Int64
	panicked atomic.Pointer[fault.PanicError]
}

func newPool(threads int) *pool {
	p := &pool{wake: make([]chan struct{}, threads-1)}
	for i := range p.wake {
		wake := make(chan struct{})
		p.wake[i] = wake
		go func() {
			defer fault.Crash()
			for range wake {
				p.work(i + 1)
			}
		}()
	}
	return p
}

// each cuts [0, n) into chunks of grain rows, independent of the number of goroutines, and returns
// when all are done or, with the context's error, when the context ended. A panic in a chunk comes
// out of each, with the chunk's stack.
func (p *pool) each(ctx context.Context, n, grain int, b body) error {
	p.ctx, p.body, p.n, p.grain = ctx, b, n, grain
	p.next.Store(0)
	helpers := min(len(p.wake), (n+grain-1)/grain-1)
	for i := range helpers {
		p.running.Add(1)
		p.wake[i] <- struct{}{}
	}
	p.running.Add(1)
	p.work(0)
	p.running.Wait()
	p.ctx, p.body = nil, nil
	if v := p.panicked.Swap(nil); v != nil {
		panic(v)
	}
	return ctx.Err()
}

func (p *pool) work(worker int) {
	defer p.running.Done()
	defer func() {
		if v := recover(); v != nil {
			p.panicked.Store(fault.Recovered(v))
		}
	}()
	for p.ctx.Err() == nil {
		lo := int(p.next.Add(int64(p.grain))) - p.grain
		if lo >= p.n {
			return
		}
		p.body.chunk(worker, lo, min(lo+p.grain, p.n))
	}
}

// close ends the goroutines. The pool must be idle.
func (p *pool) close() {
	for _, wake := range p.wake {
		close(wake)
	}
	p.wake = nil
}
