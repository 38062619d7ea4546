package exact

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// Every row is in one part; an error of a part, and the end of the context, are returned.
func TestDivide(t *testing.T) {
	boom := errors.New("boom")
	for _, n := range []int{0, 1, divideGrain, divideGrain + 1, 3*divideGrain + 5} {
		for _, threads := range []int{0, 1, 2, 8} {
			var mu sync.Mutex
			seen, parts := make([]int, n), 0
			check(t, divide(t.Context(), threads, n, func(from, to int) error {
				mu.Lock()
				defer mu.Unlock()
				parts++
				for i := from; i < to; i++ {
					seen[i]++
				}
				return nil
			}))
			for i, times := range seen {
				if times != 1 {
					t.Fatalf("%d rows, %d threads: row %d comes %d times", n, threads, i, times)
				}
			}
			if several := threads > 1 && n > divideGrain; several != (parts > 1) {
				t.Errorf("%d rows, %d threads: %d parts", n, threads, parts)
			}
			err := divide(t.Context(), threads, n, func(_, to int) error {
				if to == n {
					return boom
				}
				return nil
			})
			if !errors.Is(err, boom) {
				t.Errorf("%d rows, %d threads: %v", n, threads, err)
			}
			ended, cancel := context.WithCancelCause(t.Context())
			cancel(boom)
			if err := divide(ended, threads, n, func(int, int) error { t.Error("a part after the end"); return nil }); !errors.Is(err, context.Canceled) {
				t.Errorf("%d rows, %d threads, after the end: %v", n, threads, err)
			}
		}
	}
}
