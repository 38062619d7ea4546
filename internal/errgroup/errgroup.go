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
