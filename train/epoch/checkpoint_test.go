package epoch

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"diskgnn/featurestore/onthefly"
	"diskgnn/internal/fault"
	"diskgnn/train/collective"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// stands returns where the checkpoints are: epoch and batch of each.
func stands(list []*Point) (at [][2]int) {
	for _, c := range list {
		at = append(at, [2]int{c.At.Epoch, c.At.Batch})
	}
	return at
}

// TestCheckpointsByHand: where checkpoints are, and what one within the second epoch holds.
func TestCheckpointsByHand(t *testing.T) {
	w := newWorld(t)
	w.late = true
	w.every = rundir.Interval{Batches: 2}
	w.result.PreloadBytes, w.result.PreloadSeconds = 11, 12
	w.held = []byte("rows")
	w.begin()
	w.dir.MetricsEnd = rundir.MetricsEnd{Bytes: 5, CRC: 6}
	w.must()
	list := w.checkpoints()
	// After batches 2 and 4 of the run; the last step's is that of the last epoch too.
	if d := cmp.Diff([][2]int{{0, 2}, {1, 1}, {1, 3}}, stands(list)); d != "" {
		t.Fatal(d)
	}
	c := list[1]
	run, _ := w.dir.File.Identity()
	p := c.At
	if p.Run != run || p.Loss != 3 || p.SeedNodes != 1 || p.BestEpoch != 0 || p.ValidAccuracy != 0.5 || p.PreloadBytes != 11 || p.PreloadSeconds != 12 ||
		p.Seconds <= 0 || p.Seconds > 600 || p.Metrics != w.dir.MetricsEnd || p.Sums.BytesRead != 100 || p.Sums.Epoch != 1 || p.Sums.Batches != 3 || p.Sums.Seconds <= 0 {
		t.Errorf("%+v", p)
	}
	// A batch counts in the times once it has left the pipeline: the first of these has.
	if l := list[0].At.Sums.Links; len(l) != 4 || l[3].Link != LinkCompute || l[3].Busy <= 0 {
		t.Errorf("%+v", l)
	}
	weight := func(name string) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(c.Sections[name])) }
	if len(c.Sections) != 5 || string(c.Sections["store/fake"]) != "rows" || weight("engine/weight") != 3.5 || weight(SectionBest) != 3 || string(c.Sections["engine/moment"]) != "\x07" || c.Sections[SectionScorer] == nil {
		t.Errorf("%v", c.Sections)
	}
	if err := p.Check(2, Limits{PerEpoch: 3, Accumulate: 1, Seeds: 100}); err != nil {
		t.Error(err)
	}
	if err := p.CheckSections(c.Sections); err != nil {
		t.Error(err)
	}
	if _, ok := list[0].Sections[SectionBest]; ok {
		t.Error("the best weights before the first epoch ended")
	}
	if !w.dir.Extensible {
		t.Error("the run cannot be made longer")
	}
}

// TestGoesOn: from any checkpoint a run ends as it would have; the files of weights are again what
// they were.
func TestGoesOn(t *testing.T) {
	whole := newWorld(t)
	whole.every = rundir.Interval{Batches: 1}
	whole.scores = []int{5, 4}
	whole.must()
	list := whole.checkpoints()
	if d := cmp.Diff([][2]int{{0, 1}, {0, 2}, {0, 3}, {1, 1}, {1, 2}, {1, 3}}, stands(list)); d != "" {
		t.Fatal(d)
	}
	whole.result.Seconds = 0
	for _, c := range list {
		w := newWorld(t)
		w.scores = whole.scores
		w.begin()
		if err := w.dir.Replace(rundir.WeightsFile, func(io.Writer) error { return nil }); err != nil {
			t.Fatal(err)
		}
		w.result.BestEpoch, w.result.ValidAccuracy = c.At.BestEpoch, c.At.ValidAccuracy
		w.result.Epochs = slices.Clone(whole.result.Epochs[:c.At.Epoch])
		c.Sections["store/other"] = []byte("other's")
		c.Sections["store/fake"] = []byte("held")
		tr, err := w.trainer(collective.One(), c)
		if err != nil {
			t.Fatal(err)
		}
		if string(w.store.state) != "held" || tr.From != nil || tr.Kept() == nil || *tr.Kept() != tr.Stands() || tr.Stands() != (Standing{c.At.Epoch, c.At.Batch, 2, 3}) {
			t.Errorf("%s: %+v, store %q", c.Name, tr.Stands(), w.store.state)
		}
		_, err = os.Stat(w.dir.Name(rundir.WeightsFile))
		if there := err == nil; there != (c.At.Epoch > 0) {
			t.Errorf("%s: there are weights: %t", c.Name, there)
		}
		if c.At.Epoch > 0 {
			if weight, epoch := w.weights(rundir.WeightsFile); weight != 3 || epoch != "0" {
				t.Errorf("%s: the best weight is %v of epoch %s", c.Name, weight, epoch)
			}
		}
		w.engine.rounds = c.At.Epoch
		if err := tr.Start(context.Background(), w.slots); err != nil {
			t.Fatal(err)
		}
		if err := tr.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		tr.Close()
		if got := w.events[3]; !strings.HasPrefix(got, "started train: ") || !strings.HasSuffix(got, ", true, "+string(rune('0'+c.At.Batch))) {
			t.Errorf("%s: %s", c.Name, got)
		}
		last, want := w.result.Epochs[1], whole.result.Epochs[1]
		if last.Loss != want.Loss || last.TrainAccuracy != want.TrainAccuracy || last.BytesRead != want.BytesRead || w.engine.weight != 6 ||
			w.result.TestAccuracy != whole.result.TestAccuracy || w.result.BestEpoch != 0 || w.result.Epochs[0].Loss != whole.result.Epochs[0].Loss {
			t.Errorf("%s: %+v, want %+v", c.Name, last, want)
		}
	}
}

// TestGoesOnRefuses: parts of a checkpoint that cannot be taken over.
func TestGoesOnRefuses(t *testing.T) {
	whole := newWorld(t)
	whole.every = rundir.Interval{Batches: 1}
	whole.must()
	for what, change := range map[string]func(w *world, c *Point){
		`"best" has 8 bytes, which does not fit 1 weights`: func(_ *world, c *Point) { c.Sections[SectionBest] = make([]byte, 8) },
		`"best" has 0 bytes, which does not fit 1 weights`: func(_ *world, c *Point) { c.Sections[SectionBest] = []byte{} },
		"scorer":    func(_ *world, c *Point) { c.Sections[SectionScorer] = []byte("x") },
		"the state": func(_ *world, c *Point) { delete(c.Sections, "engine/moment") },
		"broken":    func(w *world, _ *Point) { w.fails = "LoadState" },
		"broken ":   func(w *world, c *Point) { w.fails, c.Sections["store/fake"] = "Store.LoadState", nil },
		" broken":   func(w *world, _ *Point) { w.fails = "Restore" },
	} {
		w, c := newWorld(t), whole.checkpoints()[4]
		change(w, c)
		if _, err := w.trainer(collective.One(), c); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(what)) || !strings.HasPrefix(err.Error(), c.Name+": ") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// interruptAt runs until the n-th event of a kind, which cancels the run.
func (w *world) interruptAt(event string, n int) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.on = func(s string) {
		if s == event {
			if n--; n == 0 {
				cancel()
			}
		}
	}
	return w.run(ctx, collective.One(), nil)
}

// TestInterruptedByHand: where the checkpoint is that an interrupted run leaves.
func TestInterruptedByHand(t *testing.T) {
	for _, c := range []struct {
		accumulate int
		event      string
		n          int
		want       [][2]int
	}{
		{2, "judged 0, true", 1, [][2]int{{1, 0}}},
		// The last epoch can be trained longer from before it was judged: nothing is written after.
		{1, "testing", 1, [][2]int{{1, 3}}},
		{1, "training", 1, nil}, // nothing was done
		{1, "step 1", 1, [][2]int{{0, 1}}},
		{1, "step 3", 1, [][2]int{{0, 3}}},
		{1, "step 2", 2, [][2]int{{1, 2}}},
		{2, "outcome 0 of 1", 1, [][2]int{{0, 2}}}, // once the step is over
		{2, "outcome 3.5 of 3", 1, [][2]int{{0, 3}}},
		{1, "validating", 1, [][2]int{{0, 3}}},
		{1, "validating", 2, [][2]int{{1, 3}}},
		{1, "judged 0, true", 1, [][2]int{{1, 0}}},
	} {
		w := newWorld(t)
		w.every = rundir.Interval{Time: time.Hour}
		w.plan.Accumulate = c.accumulate
		err := w.interruptAt(c.event, c.n)
		if err == nil || !errors.Is(err, context.Canceled) && !errors.Is(err, fault.ErrInterrupted) {
			t.Errorf("%s: %v", c.event, err)
		}
		if d := cmp.Diff(c.want, stands(w.checkpoints())); d != "" {
			t.Errorf("steps of %d, %s: %s", c.accumulate, c.event, d)
		}
	}
}

// TestLeavesNothingTwice: an interrupted run writes no checkpoint over one of the same step.
func TestLeavesNothingTwice(t *testing.T) {
	w := newWorld(t)
	tr, err := w.trainer(collective.One(), nil)
	if err != nil {
		t.Fatal(err)
	}
	tr.leave()
	if len(w.checkpoints()) != 0 {
		t.Error("a checkpoint of nothing")
	}
	w = newWorld(t) // at the ends of epochs: of the first, and of the last before and after it is judged
	w.begin()
	w.must()
	if d := cmp.Diff([][2]int{{1, 0}, {1, 3}}, stands(w.checkpoints())); d != "" {
		t.Error(d)
	}
}

// TestLeavesAfterOutgrown: a batch too large for its slot ends the run with a checkpoint.
func TestLeavesAfterOutgrown(t *testing.T) {
	for fails, want := range map[string][][2]int{"outgrown": {{0, 2}}, "outgrown within a step": nil, "broken": nil} {
		w := newWorld(t)
		first := 2
		if fails == "outgrown within a step" {
			w.plan.Accumulate, w.plan.PerEpoch, first = 2, 4, 3 // of the second step, whose first batch is computed
		}
		tr, err := w.trainer(collective.One(), nil)
		if err != nil {
			t.Fatal(err)
		}
		w.at = func(i int) error {
			switch {
			case i < first:
				return nil
			case fails == "broken":
				return errBroken
			}
			return &onthefly.Outgrown{}
		}
		w.slots.Train = 1
		if err := tr.Start(context.Background(), w.slots); err != nil {
			t.Fatal(err)
		}
		if err := tr.Run(context.Background()); err == nil {
			t.Error("no error")
		}
		tr.Close()
		if d := cmp.Diff(want, stands(w.checkpoints())); d != "" {
			t.Errorf("%s: %s", fails, d)
		}
	}
}

// TestNotLonger: a run whose rate falls over all epochs together has no checkpoint of its last
// epoch, and neither has one that may not write it.
func TestNotLonger(t *testing.T) {
	w := newWorld(t)
	w.recipe.Schedule = recipe.ScheduleCosine
	w.must()
	if d := cmp.Diff([][2]int{{1, 0}, {2, 0}}, stands(w.checkpoints())); d != "" || w.dir.Extensible {
		t.Errorf("%s, extensible %t", d, w.dir.Extensible)
	}
	w = newWorld(t)
	partial := ""
	w.on = func(s string) {
		if _, err := os.Stat(partial); s == "validating" && partial != "" && !os.IsNotExist(err) {
			t.Errorf("a part of the checkpoint stays: %v", err)
		}
		if s != "step 3" || len(w.result.Epochs) != 1 {
			return
		}
		if err := w.dir.Wait(); err != nil {
			t.Error(err)
		}
		if w.dir.Sources == nil {
			partial = w.dir.Checkpoints().File("step-000000000006.ckpt.partial")
			w.dir.Sources = func() error {
				w.dir.Sources = nil
				return errors.Join(os.WriteFile(partial, nil, 0o600), errBroken)
			}
		}
	}
	w.must()
	if !slices.Contains(w.events, "note: the checkpoint that could make the run longer was not written: broken") || w.dir.Extensible {
		t.Errorf("%v", w.events)
	}
	if partial == "" {
		t.Error("no checkpoint failed")
	}
	if d := cmp.Diff([][2]int{{1, 0}, {2, 0}}, stands(w.checkpoints())); d != "" {
		t.Error(d)
	}
}

// TestEqualScores: of equal scores the earlier epoch is the best, and of an undefined one the next.
func TestEqualScores(t *testing.T) {
	w := newWorld(t)
	w.scores = []int{5, 5}
	w.must()
	if w.result.BestEpoch != 0 || !slices.Contains(w.events, "judged 1, false") {
		t.Errorf("the best is %d", w.result.BestEpoch)
	}
	w = newWorld(t)
	w.result.BestEpoch, w.result.ValidAccuracy = 7, score.Undefined
	w.scores = []int{0, 0}
	w.must()
	if w.result.BestEpoch != 0 || w.result.ValidAccuracy != 0 {
		t.Errorf("the best is %d by %v", w.result.BestEpoch, w.result.ValidAccuracy)
	}
}

// TestFreshAfterJudging: an epoch that is judged is worth a checkpoint, also if its last step has one.
func TestFreshAfterJudging(t *testing.T) {
	w := newWorld(t)
	w.every = rundir.Interval{Batches: 3}
	if err := w.interruptAt("judged 0, true", 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if d := cmp.Diff([][2]int{{1, 0}}, stands(w.checkpoints())); d != "" { // in place of that of the step
		t.Error(d)
	}
}

// TestCheckpointTwice: after a checkpoint nothing is fresh, and time counts anew. The best epoch need
// not be the latest one.
func TestCheckpointTwice(t *testing.T) {
	w := newWorld(t)
	tr, err := w.trainer(collective.One(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if err := tr.Start(context.Background(), w.slots); err != nil {
		t.Fatal(err)
	}
	tr.begin(2)
	tr.done, tr.fresh, tr.saved = 1, true, time.Now().Add(-2*time.Hour)
	w.result.BestEpoch = 0
	if tr.leave(); tr.fresh || time.Since(tr.saved) > time.Hour || *tr.Kept() != (Standing{2, 1, 2, 3}) {
		t.Errorf("fresh: %t, saved at %v, %+v", tr.fresh, tr.saved, tr.Kept())
	}
	if c := w.checkpoints(); len(c) != 1 || c[0].At.BestEpoch != 0 {
		t.Errorf("%+v", c)
	}
}
