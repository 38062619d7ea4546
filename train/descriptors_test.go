//go:build linux

package train

import (
	"context"
	"runtime/debug"
	"testing"

	"diskgnn/internal/limittest"
	"diskgnn/internal/progress"
	"diskgnn/train/rundir"
)

// TestRunsCloseWhatTheyOpen, finished or interrupted and gone on with.
func TestRunsCloseWhatTheyOpen(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // lest the collector closes files
	w := newWorld(t, worldParams{nodes: 150, batch: 15})
	o := w.options(w.pack(20), func(o *Options) { o.CheckpointEvery, o.Keep = rundir.Interval{Batches: 2}, 2 })
	check := func(when string) {
		t.Helper()
		if open := limittest.OpenFiles(t, w.dir); len(open) > 0 {
			t.Errorf("%s: open are %v", when, open)
		}
	}
	if _, err := Run(context.Background(), disk, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	check("finished")
	going := w.fresh(o)
	w.interrupt(going, 9)
	check("interrupted")
	going.Resume = true
	if _, err := Run(context.Background(), disk, going, progress.Discard); err != nil {
		t.Fatal(err)
	}
	check("gone on with")
}
