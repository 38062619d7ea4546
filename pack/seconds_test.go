package pack_test

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"diskgnn/internal/progress"
	"diskgnn/pack"
)

// clocked is a reporter that adds up how long each task takes.
type clocked map[string]float64

type clock struct {
	of    clocked
	name  string
	began time.Time
}

func (c clocked) Task(name string, _ int64, _ progress.Unit) progress.Task {
	return &clock{c, name, time.Now()}
}

func (clocked) Logf(string, ...any) {}

func (*clock) Add(int64) {}

func (c *clock) Done() {
	if !c.began.IsZero() {
		c.of[c.name] += time.Since(c.began).Seconds()
		c.began = time.Time{}
	}
}

// The parts of the time of a packing add up to all of it, and each contains its tasks.
func TestSecondsAddUp(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	for what, o := range map[string]pack.Options{
		"static": options(ds, samples, filepath.Join(t.TempDir(), "P")),
		"min":    minOptions(ds, samples, filepath.Join(t.TempDir(), "P")),
	} {
		tasks := clocked{}
		r, err := pack.Run(t.Context(), disk, o, tasks)
		if err != nil {
			t.Fatal(err)
		}
		if sum := r.DecideSeconds + r.GraphSeconds + r.RowSeconds; math.Abs(sum-r.Seconds) > 1e-9 {
			t.Errorf("%s: %v seconds in all, of the parts %v", what, r.Seconds, sum)
		}
		if what == "min" && tasks["simulate the cache"] == 0 || tasks["renumber graphs"] == 0 || tasks["pack rows"] == 0 {
			t.Errorf("%s: tasks that are not timed: %v", what, tasks)
		}
		if r.DecideSeconds < tasks["simulate the cache"] || r.GraphSeconds < tasks["renumber graphs"] || r.RowSeconds < tasks["pack rows"] {
			t.Errorf("%s: parts of %v, %v and %v seconds, tasks of %v", what, r.DecideSeconds, r.GraphSeconds, r.RowSeconds, tasks)
		}
		again, err := pack.Run(t.Context(), disk, o, progress.Discard)
		if err != nil || again.DecideSeconds != 0 || again.GraphSeconds != 0 || again.RowSeconds != 0 {
			t.Errorf("%s: nothing to do: %+v, %v", what, again, err)
		}
	}
}
