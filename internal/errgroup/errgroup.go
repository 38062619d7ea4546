// Package errgroup is golang.org/x/sync's, but for panics: the panic of a goroutine is returned
// as an error, which ends its group as any other does. A group can also hand the results of its
// goroutines on in order (Ordered).
package errgroup

import (
	"context"

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

// Go calls f in a goroutine.
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

// SetLimit bounds the goroutines at a time: Go waits then. It must not be called while
// any are active.
func (g *Group) SetLimit(n int) { g.group().SetLimit(n) }

// Wait waits for all goroutines and returns the first error.
func (g *Group) Wait() error { return g.group().Wait() }

// Ordered calls work for every i below n, on len(slots)-1 workers (at least one),
// and emit for every i in order, never two at once. A slot belongs to one i from
// the beginning of its work to the end of its emit, so it can hold the buffers
// of both; no more than len(slots) pieces are ever under way. The first error
// ends everything and is returned.
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
	queue := make(chan *piece, len(slots)) // the pieces under way, in order
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
			queue <- p // has room: a piece holds a slot while it is in here
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
