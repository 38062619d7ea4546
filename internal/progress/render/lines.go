package render

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

const (
	// A task that ends before announceAfter gets one line, at its end.
	announceAfter = time.Second
	// A task under way gets a line this often.
	reportEvery = 10 * time.Second
)

// lines renders for log files: a line when a task is under way, one now and then,
// one at its end.
type lines struct {
	w    io.Writer
	stop chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex
	tasks  []*lineTask
	closed bool
}

type lineTask struct {
	meter
	r     *lines
	start time.Time
	next  time.Time // of the next line
}

func newLines(w io.Writer) *lines {
	r := &lines{w: w, stop: make(chan struct{})}
	r.done.Go(func() {
		defer fault.Crash()
		r.watch()
	})
	return r
}

// watch reports on tasks that take long.
func (r *lines) watch() {
	tick := time.NewTicker(announceAfter)
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			return
		case now := <-tick.C:
			r.mu.Lock()
			for _, t := range r.tasks {
				if now.Before(t.next) {
					continue
				}
				t.next = now.Add(reportEvery)
				r.print("%s: %s", t.name, status(t.done.Load(), t.total, t.unit, now.Sub(t.start), t.said()))
			}
			r.mu.Unlock()
		}
	}
}

// print writes one line in one call. The lock is held.
func (r *lines) print(format string, args ...any) {
	// What cannot be shown is no reason to stop working.
	_, _ = io.WriteString(r.w, fmt.Sprintf(format, args...)+"\n")
}

// Task implements progress.Reporter.
func (r *lines) Task(name string, total int64, unit progress.Unit) progress.Task {
	now := time.Now()
	t := &lineTask{meter: meter{name: name, total: total, unit: unit}, r: r, start: now, next: now.Add(announceAfter)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.tasks = append(r.tasks, t)
	}
	return t
}

// Logf implements progress.Reporter.
func (r *lines) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.print(format, args...)
}

// Close implements Reporter. Tasks that did not end are not said to have ended.
func (r *lines) Close() {
	r.mu.Lock()
	again := r.closed
	r.closed, r.tasks = true, nil
	r.mu.Unlock()
	if !again {
		close(r.stop)
	}
	r.done.Wait()
}

// Done implements progress.Task.
func (t *lineTask) Done() {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	i := slices.Index(t.r.tasks, t)
	if i < 0 {
		return
	}
	t.r.tasks = slices.Delete(t.r.tasks, i, i+1)
	t.r.print("%s: %s", t.name, summary(t.meter.done.Load(), t.unit, time.Since(t.start)))
}
