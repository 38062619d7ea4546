// Package progress carries the progress of stages to the display: stages report, the command line
// renders. Reporting is safe from any goroutine and costs an atomic addition.
package progress

// Unit is the unit of a task's count.
type Unit string

// Units of tasks.
const (
	Bytes   Unit = "bytes"
	Batches Unit = "batches"
	Nodes   Unit = "nodes"
	Edges   Unit = "edges"
	Rows    Unit = "rows"
	Rates   Unit = "rates"   // that are measured
	Choices Unit = "choices" // that are compared
)

// Reporter receives a stage's progress.
type Reporter interface {
	// Task announces a piece of work. A total of 0 means unknown.
	Task(name string, total int64, unit Unit) Task
	// Logf reports a fact that the user should know, in one line without a newline: a choice made by
	// measuring, a resumed run, a fallback.
	Logf(format string, args ...any)
}

// Recorder is a Reporter that takes facts for programs, too.
type Recorder interface {
	// Record takes a fact of a kind, which JSON can hold. Facts for people go to Logf as well.
	Record(kind string, v any)
}

// Record gives a fact to a reporter that takes such; others never see it.
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

// Describe adds to the display of a task under way a few words, which say returns whenever it is
// shown. say is called from another goroutine, until the task is done. Of reporters that have no
// place for it, it is never called.
func Describe(t Task, say func() string) {
	if t, ok := t.(interface{ Describe(func() string) }); ok {
		t.Describe(say)
	}
}

// Discard ignores everything.
var Discard Reporter = discard{}

type discard struct{}

func (discard) Task(string, int64, Unit) Task { return discard{} }
func (discard) Logf(string, ...any)           {}
func (discard) Add(int64)                     {}
func (discard) Done()                         {}
