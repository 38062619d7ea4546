package train

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore/agnes"
	"diskgnn/featurestore/gids"
	"diskgnn/featurestore/memory"
	"diskgnn/featurestore/mmap"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/train/rundir"
)

// TestTopologyChangesMeanwhile changes the topology from which batches are drawn, during the dry
// pass, after the first batch, and after everything but the end. The run ends, and has nothing of
// the change: with the topology as it was it goes on to the bytes of a run that nothing disturbed.
func TestTopologyChangesMeanwhile(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 400, epochs: 2})
	whole := w.options("", w.live, dry("0.5"), func(o *Options) { o.LayerOrder, o.CheckpointEvery = "aggregate", rundir.Interval{Batches: 1} })
	w.mustRun(whole, nil)
	want := w.ending(whole.Out)
	for i, store := range []string{memory.Name, mmap.Name, "rows", "ginex", "gnndrive", agnes.Name, gids.Name, "hyperion"} {
		changes := datasettest.Changes()
		for j, c := range changes {
			if i > 0 && j != i && j != len(changes)-1-i { // stores draw alike
				continue
			}
			for _, m := range []struct {
				task  string
				ended bool
			}{{"dry pass", false}, {"train", false}, {"train", true}} {
				what := fmt.Sprintf("%s, %s at %s (ended: %t)", store, c.Name, m.task, m.ended)
				o := w.fresh(whole, func(o *Options) { o.Store = store })
				datasettest.Age(t, w.path("dataset"))
				undo := func() { t.Fatalf("%s: nothing was changed", what) }
				_, err := w.run(context.Background(), o, datasettest.At(m.task, m.ended, func() { undo = c.Do(t, w.path("dataset")) }), nil)
				if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), c.File) || strings.Contains(fmt.Sprint(err), "\n") {
					t.Errorf("%s: %v", what, err)
				}
				undo()
				if began, err := vfs.Exists(vfs.OS, o.Out); began && err == nil {
					if f := state(t, o.Out); f.State != rundir.StateFailed {
						t.Errorf("%s: the run is %s", what, f.State)
					}
					o = Options{Stores: builtin, Out: o.Out, Resume: true}
				}
				w.mustRun(o, nil)
				got := w.ending(o.Out)
				got.metrics = want.metrics // stores read other bytes
				got.compare(t, what, want)
			}
		}
	}
}

// TestRankedTopologyChanges changes the topology while gids ranks the nodes of samples.
func TestRankedTopologyChanges(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 400, dim: 20})
	for _, c := range datasettest.Changes() {
		o := w.options("", w.paging)
		datasettest.Age(t, w.path("dataset"))
		var undo func()
		_, err := w.run(context.Background(), o, datasettest.At("verify topology", true, func() { undo = c.Do(t, w.path("dataset")) }), nil)
		if seen := c.Name != "another file takes the name" && c.Name != "removed"; seen && (!errors.Is(err, fault.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), c.File)) || !seen && err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		undo()
	}
}
