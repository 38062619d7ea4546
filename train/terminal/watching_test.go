package terminal

import (
	"slices"
	"testing"
	"time"

	"diskgnn/internal/progress"
	"diskgnn/train/epoch"
)

// watcher is a reporter that knows the work that it is to watch.
type watcher struct {
	progress.Reporter
	open []progress.Work
}

func (w *watcher) Watch(work progress.Work) func() {
	w.open = append(w.open, work)
	i := len(w.open) - 1
	return func() { w.open[i] = progress.Work{} }
}

// A reporter watches the pipelines of a replica as long as they are open.
func TestWatching(t *testing.T) {
	at := time.Unix(7, 0)
	opened := func(name string) *epoch.Opened {
		return &epoch.Opened{Name: name, Moved: func() time.Time { return at }, Stands: func() epoch.Place { return epoch.Place{Pipeline: name} }}
	}
	var r watcher
	w := Watch(&r, "rank 1, ")
	see := func(want ...string) {
		t.Helper()
		var got []string
		for _, work := range r.open {
			if work.Stands != nil {
				got = append(got, work.Stands().String())
				if !work.Moved().Equal(at) {
					t.Errorf("moved at %v", work.Moved())
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	on := func(e epoch.Event) {
		t.Helper()
		if err := w.On(e); err != nil {
			t.Error(err)
		}
	}
	on(opened("train"))
	on(opened("evaluate"))
	on(&epoch.Began{})
	see("rank 1, train: no batch is under way", "rank 1, evaluate: no batch is under way")
	on(&epoch.Closed{Name: "train"})
	see("rank 1, evaluate: no batch is under way")
	on(&epoch.Closed{Name: "train"})
	on(&epoch.Closed{Name: "evaluate"})
	see()
	w = Watch(progress.Discard, "")
	on(opened("train"))
	on(&epoch.Closed{Name: "train"})
}
