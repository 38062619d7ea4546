package exact

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack/all"
	"diskgnn/train/model"
)

// TestTopologyChangesMeanwhile changes the topology after it was verified, before the first layer,
// and after the last: nothing is scored, and no prediction is left.
func TestTopologyChangesMeanwhile(t *testing.T) {
	for _, kind := range []model.Kind{model.SAGE, model.GCN} {
		raw := datasettest.Params{Nodes: 60, AvgDegree: 4, Dim: 5, Classes: 3, Seed: 3}.Raw()
		w := newWorldOf(t, vfstest.TempDir(t), raw, model.Model{Kind: kind, Dims: []int{5, 4, 3}})
		room := w.tight(t, 0.3)
		for _, m := range []struct {
			task  string
			ended bool
		}{{"verify topology", true}, {"layer 1 of 2", false}, {"layer 2 of 2", true}} {
			for _, c := range datasettest.Changes() {
				for what, work := range map[string]func(do func()) error{
					"eval": func(do func()) error {
						_, err := evaluate(context.Background(), disk, w.options(), datasettest.At(m.task, m.ended, do), parts{stack: all.Open, room: room})
						return err
					},
					"predict": func(do func()) error {
						_, err := predict(context.Background(), disk, PredictOptions{Options: w.options(), Out: w.path("out.npy")},
							datasettest.At(m.task, m.ended, do), parts{stack: all.Open, room: room})
						return err
					},
				} {
					datasettest.Age(t, w.path("dataset"))
					undo := func() { t.Fatalf("%s: nothing was changed", m.task) }
					err := work(func() { undo = c.Do(t, w.path("dataset")) })
					if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), c.File) {
						t.Errorf("%s, %s, %s after %s: %v", kind, what, c.Name, m.task, err)
					}
					w.gone(t, what)
					undo()
				}
			}
		}
	}
}

// Ids that changed after they were verified are refused where out-degrees are counted; grid refuses the
// others.
func TestOutOfRange(t *testing.T) {
	if err := countOut(t.Context(), &graph.CSC{Indices: []uint32{1, 2}}, make([]uint32, 2)); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("counted: %v", err)
	}
}
