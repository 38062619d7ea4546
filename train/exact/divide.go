package exact

import (
	"context"

	"diskgnn/internal/errgroup"
)

// divideGrain is the number of rows that a thread takes at a time.
const divideGrain = 1 << 9

// divide calls do for parts of n rows, on up to some threads, until the context ends.
func divide(ctx context.Context, threads, n int, do func(from, to int) error) error {
	if n <= divideGrain || threads <= 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		return do(0, n)
	}
	return errgroup.Ranges(ctx, threads, n, divideGrain, func(_, from, to int) error { return do(from, to) })
}
