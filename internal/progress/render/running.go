package render

import (
	"slices"
	"sync"
	"time"

	"diskgnn/internal/fault"
)

// running has the tasks under way of a renderer that writes lines, and the goroutine that checks them at
// intervals. The lock also guards the renderer's output.
type running[T comparable] struct {
	stop chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex
	tasks  []T
	closed bool
}

// watch calls look with every task under way, at intervals until Close. The lock is held during a call.
func (r *running[T]) watch(every time.Duration, look func(t T, now time.Time)) {
	r.stop = make(chan struct{})
	r.done.Go(func() {
		defer fault.Crash()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-r.stop:
				return
			case now := <-tick.C:
				r.mu.Lock()
				for _, t := range r.tasks {
					look(t, now)
				}
				r.mu.Unlock()
			}
		}
	})
}

// begin adds a task; after Close it reports false. The lock is held.
func (r *running[T]) begin(t T) bool {
	if !r.closed {
		r.tasks = append(r.tasks, t)
	}
	return !r.closed
}

// end removes a task. It returns false if the task was removed before, also by Close. The lock is held.
func (r *running[T]) end(t T) bool {
	i := slices.Index(r.tasks, t)
	if i >= 0 {
		r.tasks = slices.Delete(r.tasks, i, i+1)
	}
	return i >= 0
}

// Close implements Reporter. It writes nothing about tasks that have not ended.
func (r *running[T]) Close() {
	r.mu.Lock()
	again := r.closed
	r.closed, r.tasks = true, nil
	r.mu.Unlock()
	if !again {
		close(r.stop)
	}
	r.done.Wait()
}
