package render

import (
	"fmt"
	"io"
	"time"

	"diskgnn/internal/progress"
)

const (
	// announceAfter is the time until the first line of a task: a shorter task gets only the line of its end.
	announceAfter = time.Second
	// reportEvery is the interval of lines of a task.
	reportEvery = 10 * time.Second
)

// lines renders for log files: lines at intervals while a task runs, and one line at its end.
type lines struct {
	running[*lineTask]
	w io.Writer
}

type lineTask struct {
	meter
	r     *lines
	start time.Time
	next  time.Time // of the next line
}

func newLines(w io.Writer) *lines {
	r := &lines{w: w}
	r.watch(announceAfter, func(t *lineTask, now time.Time) {
		if now.Before(t.next) {
			return
		}
		t.next = now.Add(reportEvery)
		r.print("%s: %s", t.name, status(t.done.Load(), t.total, t.unit, now.Sub(t.start), t.said()))
	})
	return r
}

// print writes one line in one call. The lock is held.
func (r *lines) print(format string, args ...any) {
	// A failing display must not stop the work.
	_, _ = io.WriteString(r.w, fmt.Sprintf(format, args...)+"\n")
}

// Task implements progress.Reporter.
func (r *lines) Task(name string, total int64, unit progress.Unit) progress.Task {
	now := time.Now()
	t := &lineTask{meter: meter{name: name, total: total, unit: unit}, r: r, start: now, next: now.Add(announceAfter)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin(t)
	return t
}

// Logf implements progress.Reporter.
func (r *lines) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.print(format, args...)
}

// Done implements progress.Task.
func (t *lineTask) Done() {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	if t.r.end(t) {
		t.r.print("%s: %s", t.name, summary(t.meter.done.Load(), t.unit, time.Since(t.start)))
	}
}
