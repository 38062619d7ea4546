// Package progress is the interface between stages, which report their progress, and the command line,
// which renders it. Reports may come from any goroutine, and cost an atomic addition.
package progress

import (
	"fmt"
	"time"
)

// Unit is the unit of a task's count.
type Unit string

// Units of tasks.
const (
	Bytes   Unit = "bytes"
	Batches Unit = "batches"
	Nodes   Unit = "nodes"
	Edges   Unit = "edges"
	Rows    Unit = "rows"
	Rates   Unit = "rates"   // measured rates
	Choices Unit = "choices" // compared choices
)

// Reporter receives a stage's progress.
type Reporter interface {
	// Task begins a task. A total of 0 means unknown. The caller must call Done on it.
	Task(name string, total int64, unit Unit) Task
	// Logf reports a fact for the user, in one line without a newline: a choice made by measuring, a
	// resumed run, a fallback.
	Logf(format string, args ...any)
}

// Recorder is a Reporter that also records facts for programs.
type Recorder interface {
	// Record records a fact of a kind; v is encoded as JSON. Facts for people go to Logf as well.
	Record(kind string, v any)
}

// Record passes a fact to r if it is a Recorder, and otherwise does nothing.
func Record(r Reporter, kind string, v any) {
	if r, ok := r.(Recorder); ok {
		r.Record(kind, v)
	}
}

// Task is a piece of work under way.
type Task interface {
	Add(n int64)
	// Done ends the task; its line stays. Calling it again does nothing.
	Done()
}

// Describe adds a short text to the display of a task: the result of say, each time the task is shown.
// say is called from another goroutine until the task is done, or never, if the reporter does not show
// such texts.
func Describe(t Task, say func() string) {
	if t, ok := t.(interface{ Describe(func() string) }); ok {
		t.Describe(say)
	}
}

// Work is work that can say where it stands, beside the counts of tasks. Its functions are called from any
// goroutine.
type Work struct {
	Moved  func() time.Time    // when it last moved
	Stands func() fmt.Stringer // where it stands, in a clause; encoded as JSON for programs
}

// Watch has r watch work until end is called. A reporter that watches nothing ignores it.
func Watch(r Reporter, w Work) (end func()) {
	if r, ok := r.(interface{ Watch(Work) func() }); ok {
		return r.Watch(w)
	}
	return func() {}
}

// Discard is a Reporter that ignores all reports.
var Discard Reporter = discard{}

type discard struct{}

func (discard) Task(string, int64, Unit) Task { return discard{} }
func (discard) Logf(string, ...any)           {}
func (discard) Add(int64)                     {}
func (discard) Done()                         {}
