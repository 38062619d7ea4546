package render

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"diskgnn/internal/progress"
)

// eventEvery is the interval of events of a task that makes progress.
const eventEvery = time.Second

// events renders for programs: one JSON object per line. A task without Done has no event of its end.
// Records may follow Close.
type events struct {
	running[*eventTask]
	w io.Writer
}

type eventTask struct {
	meter
	r     *events
	start time.Time
	said  int64 // count at the latest event
}

// event has the fields of all lines.
type event struct {
	Time  string `json:"time"`  // RFC 3339, UTC, to the millisecond
	Event string `json:"event"` // begin, progress and end of a task; note; or a record's kind
}

type taskEvent struct {
	event
	Task    string        `json:"task"`
	Done    int64         `json:"done"`
	Total   int64         `json:"total"` // 0: unknown
	Unit    progress.Unit `json:"unit"`
	Seconds float64       `json:"seconds"` // since the task began
}

type noteEvent struct {
	event
	Text string `json:"text"`
}

type recordEvent struct {
	event
	Record any `json:"record"`
}

// Events returns a renderer that writes events as JSON to w, one object per line (docs/cli.md, "Progress
// for programs"), with one Write per line.
func Events(w io.Writer) Reporter {
	r := &events{w: w}
	r.watch(eventEvery, func(t *eventTask, _ time.Time) {
		if t.meter.done.Load() != t.said {
			t.say("progress")
		}
	})
	return r
}

func now(kind string) event {
	return event{time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"), kind}
}

// print writes one line. The lock is held.
func (r *events) print(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(noteEvent{now("note"), fmt.Sprintf("an event cannot be encoded: %v", err)})
	}
	// A failing display must not stop the work.
	_, _ = r.w.Write(append(b, '\n'))
}

// say writes an event of the task. The lock is held.
func (t *eventTask) say(kind string) {
	t.said = t.meter.done.Load()
	t.r.print(taskEvent{now(kind), t.name, t.said, t.total, t.unit, time.Since(t.start).Seconds()})
}

// Task implements progress.Reporter.
func (r *events) Task(name string, total int64, unit progress.Unit) progress.Task {
	t := &eventTask{meter: meter{name: name, total: total, unit: unit}, r: r, start: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begin(t) {
		t.say("begin")
	}
	return t
}

// Logf implements progress.Reporter.
func (r *events) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.print(noteEvent{now("note"), fmt.Sprintf(format, args...)})
}

// Record implements progress.Recorder.
func (r *events) Record(kind string, v any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.print(recordEvent{now(kind), v})
}

// Done implements progress.Task.
func (t *eventTask) Done() {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	if t.r.end(t) {
		t.say("end")
	}
}
