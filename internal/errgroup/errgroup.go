// Package errgroup is golang.org/x/sync/errgroup with other panics: a panic in a goroutine becomes an
// error of the group. Ranges divides a range of numbers among goroutines. Ordered passes on the
// results of goroutines in order.
package errgroup

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"diskgnn/internal/fault"
)

// Group is a collection of goroutines that work on parts of one task. A zero Group is
// valid, and cancels nothing. It must not be copied.
type Group struct {
	own errgroup.Group
	of  *errgroup.Group // with a context; nil: own
}

// WithContext returns a group, and a context that ends with the first error of one of its
// goroutines, or when Wait returns.
func WithContext(ctx context.Context) (*Group, context.Context) {
	of, ctx := errgroup.WithContext(ctx)
	return &Group{of: of}, ctx
}

func (g *Group) group() *errgroup.Group {
	if g.of != nil {
		return g.of
	}
	return &g.own
}

// Go calls f in a goroutine. A panic of f becomes an error, a *fault.PanicError.
func (g *Group) Go(f func() error) {
	g.group().Go(func() (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fault.Recovered(v)
			}
		}()
		return f()
	})
}

// SetLimit limits the number of goroutines at a time to n: Go then waits for a free one. It must not be
// called while goroutines run.
func (g *Group) SetLimit(n int) { g.group().SetLimit(n) }

// Wait waits for all goroutines and returns the first error.
func (g *Group) Wait() error { return g.group().Wait() }

// Ranges calls do for ranges of grain numbers, the last one shorter, that cover 0 to n, on up to workers goroutines
// (at least one), which take the next range when they have done one. worker is a goroutine's number, below workers.
// The first error ends everything and is returned; the end of ctx is one, as ctx.Err().
func Ranges(ctx context.Context, workers, n, grain int, do func(worker, from, to int) error) error {
	var next atomic.Int64
	g, ctx := WithContext(ctx)
	for worker := range min(max(workers, 1), (n+grain-1)/grain) {
		g.Go(func() error {
			for {
				from := int(next.Add(int64(grain))) - grain
				if from >= n {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := do(worker, from, min(from+grain, n)); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// Ordered calls work for every i below n, on len(slots)-1 goroutines (at least one), and emit for every i
// in order, one at a time. A slot belongs to one i from the beginning of its work to the end of its emit,
// so it can have the buffers of both. At most len(slots) values of i are under way. The first error ends
// everything and is returned.
func Ordered[S any](ctx context.Context, n int, slots []S, work func(ctx context.Context, slot S, i int) error, emit func(slot S, i int) error) error {
	g, ctx := WithContext(ctx)
	type piece struct {
		slot S
		i    int
		done chan struct{}
	}
	free := make(chan S, len(slots))
	for _, s := range slots {
		free <- s
	}
	jobs := make(chan *piece)
	queue := make(chan *piece, len(slots)) // pieces under way, in order
	g.Go(func() error {
		defer close(jobs)
		defer close(queue)
		for i := range n {
			var p *piece
			select {
			case s := <-free:
				p = &piece{s, i, make(chan struct{})}
			case <-ctx.Done():
				return ctx.Err()
			}
			queue <- p // never blocks: every piece in the queue holds a slot
			select {
			case jobs <- p:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range max(len(slots)-1, 1) {
		g.Go(func() error {
			for p := range jobs {
				if err := work(ctx, p.slot, p.i); err != nil {
					return err
				}
				close(p.done)
			}
			return nil
		})
	}
	g.Go(func() error {
		for p := range queue {
			select {
			case <-p.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := emit(p.slot, p.i); err != nil {
				return err
			}
			free <- p.slot
		}
		return nil
	})
	return g.Wait()
}
