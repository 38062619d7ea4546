// Package stall notices that nothing moves: a Reporter of its own passes a stage's reports on, and says
// where the work stands when neither a count of a task nor watched work has moved for a minute.
//
//	stage ── Task, Add, Watch ──► stall.Reporter ──► another reporter
//	                                    └── every 5 s: did anything move?
//
// It says so again after two minutes, after four, and so on, at most an hour apart, and once when things
// move again. Without a task under way it says nothing. It ends nothing: a slow drive and a large batch are
// no errors.
package stall

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
)

const (
	every   = 5 * time.Second // between two looks
	first   = time.Minute     // without movement, until the first report
	longest = time.Hour       // between two reports
)

// Kind is the kind of the facts that are recorded: each is a Stall.
const Kind = "stalled"

// Stall says that nothing has moved.
type Stall struct {
	Seconds float64        `json:"seconds"`        // without movement; time in which the process is stopped does not count
	Tasks   []Task         `json:"tasks"`          // under way, in the order in which they began
	Work    []fmt.Stringer `json:"work,omitempty"` // where it stands
}

// Task is a task under way.
type Task struct {
	Task  string        `json:"task"`
	Done  int64         `json:"done"`
	Total int64         `json:"total"` // 0: unknown
	Unit  progress.Unit `json:"unit"`
}

// String describes the stall in a line.
func (s Stall) String() string {
	parts := make([]string, 0, len(s.Tasks)+len(s.Work))
	for _, t := range s.Tasks {
		parts = append(parts, t.String())
	}
	for _, w := range s.Work {
		parts = append(parts, w.String())
	}
	return "nothing has moved for " + units.Seconds(s.Seconds) + ": " + strings.Join(parts, "; ")
}

func (t Task) String() string {
	amount := func(n int64) string {
		if t.Unit == progress.Bytes {
			return budget.FormatBytes(n)
		}
		return units.Count(n)
	}
	text := t.Task + " is at " + amount(t.Done)
	if t.Total > 0 {
		text += " of " + amount(t.Total)
	}
	if t.Unit != progress.Bytes {
		text += " " + string(t.Unit)
	}
	return text
}

// Shower is a reporter that shows its reports until Close.
type Shower interface {
	progress.Reporter
	Close()
}

// Reporter passes reports on to another reporter, and watches for stalls until Close.
type Reporter struct {
	to   Shower
	stop chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex
	closed bool
	moved  bool // a task or work began or ended since the latest look
	tasks  []*task
	work   []*watched

	// Of the goroutine that looks.
	still time.Duration // looks without movement, as a time
	next  time.Duration // the still of the next report
}

// task passes a task's reports on, and counts them.
type task struct {
	progress.Task
	r     *Reporter
	name  string
	total int64
	unit  progress.Unit
	count atomic.Int64
	seen  int64 // the count at the latest look
}

type watched struct {
	progress.Work
	seen time.Time // Moved at the latest look
}

// Watch returns a Reporter that passes reports on to another one.
func Watch(to Shower) *Reporter {
	r := &Reporter{to: to, stop: make(chan struct{}), next: first}
	r.done.Go(func() {
		defer fault.Crash()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-r.stop:
				return
			case <-tick.C:
				r.look()
			}
		}
	})
	return r
}

// look reports a stall if one is due. It counts looks, not the time between them: a process that is
// stopped, or that gets no processor, has not stalled.
func (r *Reporter) look() {
	if r.moves() {
		if r.still >= first {
			r.to.Logf("it moves again, after %s", units.Duration(r.still))
		}
		r.still, r.next = 0, first
		return
	}
	if r.still += every; r.still < r.next {
		return
	}
	r.next += min(r.still, longest)
	s := r.stands()
	r.to.Logf("%s", s)
	progress.Record(r.to, Kind, s)
}

// moves reports whether anything has moved since the latest call. Without a task nothing has to move.
func (r *Reporter) moves() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	moved := r.moved || len(r.tasks) == 0
	r.moved = false
	for _, t := range r.tasks {
		n := t.count.Load()
		moved = moved || n != t.seen
		t.seen = n
	}
	for _, w := range r.work {
		at := w.Moved()
		moved = moved || !at.Equal(w.seen)
		w.seen = at
	}
	return moved
}

// stands returns the state of the tasks and the work.
func (r *Reporter) stands() Stall {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Stall{Seconds: r.still.Seconds()}
	for _, t := range r.tasks {
		s.Tasks = append(s.Tasks, Task{t.name, t.count.Load(), t.total, t.unit})
	}
	for _, w := range r.work {
		s.Work = append(s.Work, w.Stands())
	}
	return s
}

// Task implements progress.Reporter.
func (r *Reporter) Task(name string, total int64, unit progress.Unit) progress.Task {
	t := &task{Task: r.to.Task(name, total, unit), r: r, name: name, total: total, unit: unit}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks, r.moved = append(r.tasks, t), true
	return t
}

// Add implements progress.Task.
func (t *task) Add(n int64) {
	t.count.Add(n)
	t.Task.Add(n)
}

// Describe takes the function of progress.Describe.
func (t *task) Describe(say func() string) { progress.Describe(t.Task, say) }

// Done implements progress.Task.
func (t *task) Done() {
	t.r.mu.Lock()
	t.r.tasks = slices.DeleteFunc(t.r.tasks, func(other *task) bool { return other == t })
	t.r.moved = true
	t.r.mu.Unlock()
	t.Task.Done()
}

// Watch takes the work of progress.Watch. Its functions are not called after end has returned.
func (r *Reporter) Watch(w progress.Work) (end func()) {
	own := &watched{Work: w}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.work, r.moved = append(r.work, own), true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.work = slices.DeleteFunc(r.work, func(other *watched) bool { return other == own })
		r.moved = true
	}
}

// Logf implements progress.Reporter.
func (r *Reporter) Logf(format string, args ...any) { r.to.Logf(format, args...) }

// Record implements progress.Recorder.
func (r *Reporter) Record(kind string, v any) { progress.Record(r.to, kind, v) }

// Close ends watching, and closes the other reporter. It may be called again.
func (r *Reporter) Close() {
	r.mu.Lock()
	again := r.closed
	r.closed = true
	r.mu.Unlock()
	if !again {
		close(r.stop)
	}
	r.done.Wait()
	r.to.Close()
}
