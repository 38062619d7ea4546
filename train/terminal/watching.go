package terminal

import (
	"fmt"

	"diskgnn/internal/progress"
	"diskgnn/train/epoch"
)

// Watching has a reporter watch the pipelines of one replica, from Opened to Closed.
type Watching struct {
	report progress.Reporter
	name   string
	ends   map[string]func() // of the open pipelines, by name
}

// Watch returns the subscriber of a replica. Its name is put before the pipelines' names; it may be empty.
func Watch(report progress.Reporter, name string) *Watching {
	return &Watching{report, name, make(map[string]func())}
}

// On implements epoch.Subscriber.
func (w *Watching) On(e epoch.Event) error {
	switch e := e.(type) {
	case *epoch.Opened:
		stands := e.Stands
		w.ends[e.Name] = progress.Watch(w.report, progress.Work{Moved: e.Moved, Stands: func() fmt.Stringer {
			at := stands()
			at.Pipeline = w.name + at.Pipeline
			return at
		}})
	case *epoch.Closed:
		if end := w.ends[e.Name]; end != nil {
			end()
			delete(w.ends, e.Name)
		}
	}
	return nil
}
