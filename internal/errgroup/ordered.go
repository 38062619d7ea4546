package errgroup

import "context"

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
