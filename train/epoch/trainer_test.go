package epoch

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/pipeline"
	"diskgnn/train/collective"
	"diskgnn/train/engine"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/safetensors"
	"diskgnn/train/score"
)

// TestEvents: what a run says, in this order.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	w.plan.Accumulate = 2
	w.must()
	want := strings.Split(`began
opened train
opened evaluate
started train: 6, true, 0
training
ran
outcome 0 of 1
computed 0, 100 bytes
outcome 1 of 2
computed 1, 101 bytes
step 2
outcome 3.5 of 3
computed 2, 102 bytes
step 3
validating
validate 1
evaluated
evaluation ended
judged 0, true
began
training
ran
outcome 3 of 1
computed 0, 100 bytes
outcome 4 of 2
computed 1, 101 bytes
step 2
outcome 6.5 of 3
computed 2, 102 bytes
step 3
validating
validate 1
evaluated
evaluation ended
judged 1, true
began
testing
test 2
evaluated
evaluated
evaluation ended
ended
closed train
closed evaluate`, "\n")
	if d := cmp.Diff(want, w.events); d != "" {
		t.Error(d)
	}
	if len(w.engine.places) != 6 || w.engine.places[4].Epoch != 1 || w.engine.places[4].Batch != 1 {
		t.Errorf("batches at %v", w.engine.places)
	}
}

// TestResultByHand: the sums of epochs, and the weights' files, as they follow from the batches.
func TestResultByHand(t *testing.T) {
	w := newWorld(t)
	w.facts.Valid = 2
	w.scores = []int{6, 5, 0}
	w.must()
	// The weight rises by 0.5, 1 and 1.5: losses of the first epoch are 0, 1.5 and 3.5, of 1, 2 and 3 nodes.
	r := &w.result
	if len(r.Epochs) != 2 || r.BestEpoch != 0 || r.ValidAccuracy != 0.75 || r.TestAccuracy != 3./8 || r.StoppedEarly {
		t.Fatalf("%+v", r)
	}
	for i, e := range r.Epochs {
		if want := score.Score(0*1+1.5*2+3.5*3)/6 + 3*score.Score(i); e.Loss != want || e.TrainAccuracy != 4./6 || e.LR != 0.5 {
			t.Errorf("epoch %d: loss %v, want %v, accuracy %v, rate %v", i, e.Loss, want, e.TrainAccuracy, e.LR)
		}
		if e.Epoch != i || e.Batches != 3 || e.BytesRead != 303 || e.UsefulBytes != 150 || e.RAMBytes != 30 || e.InputNodes != 18 || e.Requests != 9 || e.ValidBytesRead != 201 || e.ReadRate != []score.Score{1000. / 3, 200}[i] {
			t.Errorf("%+v", e)
		}
		if e.ValidAccuracy != []score.Score{0.75, 0.625}[i] || e.ValidSeconds <= 0 || e.Seconds <= 0 || len(e.Links) != 4 || e.BoundLink == "" {
			t.Errorf("%+v", e)
		}
	}
	if w.engine.weight != 6 {
		t.Errorf("after the test the weight is %v", w.engine.weight)
	}
	for name, want := range map[string]struct {
		weight float32
		epoch  string
	}{rundir.WeightsFile: {3, "0"}, rundir.FinalFile: {6, "1"}} {
		weight, epoch := w.weights(name)
		if weight != want.weight || epoch != want.epoch {
			t.Errorf("%s has %v of epoch %s", name, weight, epoch)
		}
	}
}

// weights returns the weight of a file, and the epoch that it is of.
func (w *world) weights(name string) (float32, string) {
	w.t.Helper()
	b, err := os.ReadFile(w.dir.Name(name))
	if err != nil {
		w.t.Fatal(err)
	}
	list, metadata, err := safetensors.Decode(b)
	if err != nil {
		w.t.Fatal(err)
	}
	return list[0].Data[0], metadata["epoch"]
}

// TestOtherTimes: an epoch has the seconds of filling the cache before it, and those of the earlier
// process that began it, and the next has neither.
func TestOtherTimes(t *testing.T) {
	w := newWorld(t)
	w.every = rundir.Interval{Batches: 1}
	tr, err := w.trainer(collective.One(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	tr.now.Seconds = 1000 // of an earlier process
	if err := tr.Start(context.Background(), w.slots); err != nil {
		t.Fatal(err)
	}
	tr.preload = 5000
	if err := tr.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if e := w.result.Epochs; e[0].Seconds < 6000 || e[0].Seconds > 7000 || e[1].Seconds > 1000 {
		t.Errorf("%v and %v seconds", e[0].Seconds, e[1].Seconds)
	}
	for _, c := range w.checkpoints() {
		if s := c.At.Sums.Seconds; (s >= 6000) != (c.At.Epoch == 0) || c.At.Epoch > 0 && s >= 1000 {
			t.Errorf("%s has %v seconds", c.Name, s)
		}
	}
}

// TestFill: the cache is filled for the batch that comes next; an error of the store is the pack's.
func TestFill(t *testing.T) {
	w := newWorld(t)
	tr, err := w.trainer(collective.One(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.result.PreloadBytes, w.result.PreloadSeconds = 23, 1000
	tr.schedule.begin(1, 2)
	if n, err := tr.Fill(context.Background(), progress.Discard); n != 77 || err != nil || !slices.Equal(w.filled, []int{2}) {
		t.Errorf("%d bytes, for %v: %v", n, w.filled, err)
	}
	if r := &w.result; r.PreloadBytes != 100 || tr.preload <= 0 || r.PreloadSeconds != 1000+tr.preload {
		t.Errorf("%+v", r)
	}
	if want := []string{"began", "filling", "filled 77"}; !slices.Equal(w.events, want) {
		t.Errorf("%v", w.events)
	}
	w.fails = "Fill"
	if _, err := tr.Fill(context.Background(), progress.Discard); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	tr.schedule.begin(2, 0)
	w.fails = ""
	if _, err := tr.Fill(context.Background(), progress.Discard); err != nil || w.filled[len(w.filled)-1] != 0 {
		t.Errorf("a run at its end fills for batch %v: %v", w.filled, err)
	}
}

// TestWhatFails: whatever fails ends the run by its error, and no slot stays.
func TestWhatFails(t *testing.T) {
	for _, what := range []string{"NewSlot 1", "NewSlot 2", "NewSlot 3", "NewWork false", "NewWork true", "Start", "LoadGraph", "Wait", "Assemble", "Prepare",
		"Backward", "Apply", "Finish", "Infer", "SetLR", "Snapshot", "Restore", "computed 1, 101 bytes", "judged 1, true"} {
		w := newWorld(t)
		w.fails = what
		if err := w.run(context.Background(), collective.One(), nil); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", what, err)
		}
		if strings.HasPrefix(what, "New") != !slices.Contains(w.events, "ended") {
			t.Errorf("%s: %v", what, w.events)
		}
	}
	for _, what := range []string{"State", "Store.State"} {
		w := newWorld(t)
		w.every, w.fails = rundir.Interval{Batches: 1}, what
		if err := w.run(context.Background(), collective.One(), nil); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, says := range map[string]string{"NaN": "the loss is NaN", "Inf": "the loss is +Inf", "logits": "the logits are not finite", "diverge": "after epoch 0 the weights w are not finite"} {
		w := newWorld(t)
		w.fails = what
		if err := w.run(context.Background(), collective.One(), nil); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
		w = newWorld(t)
		w.begin()
		w.fails, w.dir.Sources = what, func() error { return errBroken }
		if err := w.run(context.Background(), collective.One(), nil); !errors.Is(err, errBroken) || errors.Is(err, fault.ErrUsage) {
			t.Errorf("%s, of files that have changed: %v", what, err)
		}
	}
}

// TestWatch: whoever watches the slots sees those of training; its error gives them back.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	seen := 0
	w.slots.Watch = func(slots []*Slot) error { seen = len(slots); return nil }
	w.must()
	if seen != 2 {
		t.Errorf("%d slots are watched", seen)
	}
	w = newWorld(t)
	w.slots.Watch = func([]*Slot) error { return errBroken }
	if err := w.run(context.Background(), collective.One(), nil); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}

// TestStopsEarlyByHand: patience of one ends after the epoch that follows the best one.
func TestStopsEarlyByHand(t *testing.T) {
	for _, c := range []struct {
		patience, every int
		epochs          int
	}{{0, 1, 6}, {1, 1, 3}, {2, 1, 4}, {1, 2, 4}} {
		w := newWorld(t)
		w.recipe.Epochs, w.plan.Epochs = 6, 6
		w.recipe.Patience, w.recipe.ValidateEvery = c.patience, c.every
		w.scores = []int{4, 5, 5, 5, 5, 5}
		if c.every == 2 {
			w.scores = []int{5, 5, 5}
		}
		w.must()
		if len(w.result.Epochs) != c.epochs || w.result.BestEpoch != 1 || w.result.StoppedEarly != (c.epochs < 6) {
			t.Errorf("%+v: %d epochs, the best is %d", c, len(w.result.Epochs), w.result.BestEpoch)
		}
		if c.every == 2 && (!slices.Contains(w.events, "judged 0, false") || w.result.Epochs[0].ValidAccuracy.Defined()) {
			t.Errorf("%+v: %v", c, w.events)
		}
	}
}

// TestRateWithoutValidation: a plateau is one of losses, of all epochs, where there is nothing to
// validate with.
func TestRateWithoutValidation(t *testing.T) {
	for valid, want := range []score.Score{0.25, 0.5} {
		w := newWorld(t)
		w.facts.Valid, w.recipe.ValidateEvery = valid, 2
		w.recipe.Schedule, w.recipe.PlateauFactor = recipe.SchedulePlateau, 0.5
		w.result.Epochs = lost(1, 2)
		tr, err := w.trainer(collective.One(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.setRate(); err != nil || tr.now.LR != want || w.engine.rate != float64(want) {
			t.Errorf("%d validation batches: a rate of %v, %v", valid, tr.now.LR, err)
		}
	}
}

// TestValidationIsNamed: an error names the epoch that is validated.
func TestValidationIsNamed(t *testing.T) {
	w := newWorld(t)
	w.on = func(s string) {
		if s == "judged 0, true" {
			w.broken("Infer")
		}
	}
	if err := w.run(context.Background(), collective.One(), nil); err == nil || err.Error() != "epoch 1, validation batch 0: compute: broken" {
		t.Error(err)
	}
}

// TestWithoutValidation: the latest epoch is the best, and what is tested.
func TestWithoutValidation(t *testing.T) {
	w := newWorld(t)
	w.facts.Valid = 0
	w.must()
	if r := &w.result; r.BestEpoch != 1 || r.ValidAccuracy.Defined() || r.TestAccuracy != 6./8 || r.Epochs[0].ValidAccuracy.Defined() || slices.Contains(w.events, "validate 0") {
		t.Errorf("%+v", r)
	}
	w = newWorld(t)
	w.slots.Eval = 0
	w.must()
	if r := &w.result; r.BestEpoch != 1 || r.TestAccuracy != 0 || slices.Contains(w.events, "testing") {
		t.Errorf("%+v", r)
	}
}

// TestWithoutEngine: batches are loaded and thrown away, and nothing is written.
func TestWithoutEngine(t *testing.T) {
	w := newWorld(t)
	w.none, w.slots.Eval = true, 0
	w.must()
	if e := w.result.Epochs; len(e) != 2 || e[1].BytesRead != 303 || e[1].Loss.Defined() || e[1].LR.Defined() || e[1].TrainAccuracy.Defined() || e[1].ValidAccuracy.Defined() {
		t.Errorf("%+v", e)
	}
	if _, err := os.Stat(w.dir.Name(rundir.FinalFile)); err == nil {
		t.Error("weights of no engine")
	}
}

// TestSerial: with one slot an outcome is known before the next batch; else the last one's is at the end.
func TestSerial(t *testing.T) {
	for _, serial := range []bool{false, true} {
		w := newWorld(t)
		w.late, w.serial, w.plan.Epochs, w.recipe.Epochs = true, serial, 1, 1
		w.must()
		first, second := slices.Index(w.events, "outcome 0 of 1"), slices.Index(w.events, "computed 0, 100 bytes")
		if first < 0 || (first < second) != serial || w.result.Epochs[0].Loss != score.Score(0*1+1.5*2+3.5*3)/6 {
			t.Errorf("serial %t: loss %v, %v", serial, w.result.Epochs[0].Loss, w.events)
		}
	}
}

// TestDeviceLinks: a device's streams are links, which were blocked for the rest of an epoch's seconds.
func TestDeviceLinks(t *testing.T) {
	w := newWorld(t)
	w.device, w.times = new(cuda.Device), engine.Times{Copy: engine.Period{Took: time.Hour}}
	tr, err := w.trainer(collective.One(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.on = func(s string) {
		switch {
		case s == "validating" && !tr.running.IsZero():
			t.Error("batches run while the epoch is validated")
		case s == "step 3":
			e := tr.sums()
			if blocked := e.Links[6].Blocked; len(e.Links) != 7 || blocked <= 0 || blocked > e.Seconds {
				t.Errorf("%+v", e.Links)
			}
			for i := range e.Links {
				e.Links[i].Blocked = 0
			}
		}
	}
	if err := tr.Start(context.Background(), w.slots); err != nil {
		t.Fatal(err)
	}
	if err := tr.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	tr.Close()
	for _, e := range w.result.Epochs {
		if l := e.Links; len(l) != 7 || l[3].Link != LinkLaunch || l[6].Link != LinkCompute || l[6].Blocked != e.Seconds || l[4].Busy != 3*3600 || l[4].Blocked != 0 {
			t.Errorf("%+v, of %v seconds", l, e.Seconds)
		}
	}
}

// TestTimelineOfEpochs: run.json has the spans of the latest epoch that ran to its end.
func TestTimelineOfEpochs(t *testing.T) {
	for _, fails := range []string{"", "computed 1, 101 bytes"} {
		w := newWorld(t)
		w.fails, w.record = fails, pipeline.NewRecorder(1000)
		if err := w.run(context.Background(), collective.One(), nil); (err == nil) != (fails == "") {
			t.Fatal(err)
		}
		if l := w.dir.File.Timeline; fails != "" && l != nil || fails == "" && (l == nil || l.Epoch != 1 || len(l.Spans) != 3*4) {
			t.Errorf("%q: %+v", fails, l)
		}
	}
}

// TestStartRefused: a pipeline that cannot be made gives its slots back.
func TestStartRefused(t *testing.T) {
	for _, eval := range []bool{false, true} {
		w := newWorld(t)
		tr, err := w.trainer(collective.One(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if eval {
			w.facts.Test = -10
		} else {
			tr.schedule.first = 100
		}
		if err := tr.Start(context.Background(), w.slots); err == nil {
			t.Errorf("no batches left, for evaluation %t: no error", eval)
		}
		if tr.Close(); w.open != 0 {
			t.Errorf("%d slots and works are not freed", w.open)
		}
	}
}

// TestScorerState: the bound of a scorer's state is that of its metric.
func TestScorerState(t *testing.T) {
	w := newWorld(t)
	w.recipe.Metric = recipe.MetricAUC
	tr, err := w.trainer(collective.One(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, most := score.Bytes(TrainJudging(recipe.MetricAUC, &w.facts)); most == 0 || tr.scorerState != most {
		t.Errorf("%d bytes at most, want %d", tr.scorerState, most)
	}
}

// TestTestFails: an error of the test is the run's, and the weights are as they were.
func TestTestFails(t *testing.T) {
	w := newWorld(t)
	w.scores = []int{5, 4}
	w.on = func(s string) {
		if s == "testing" {
			w.broken("Infer")
		}
	}
	if err := w.run(context.Background(), collective.One(), nil); !errors.Is(err, errBroken) || w.engine.weight != 6 {
		t.Errorf("the weight %v: %v", w.engine.weight, err)
	}
}

// follower is a Watcher of a slot.
type follower struct{ seen []string }

func (f *follower) Enter(link string) { f.seen = append(f.seen, "enter "+link) }
func (f *follower) Leave(link string) { f.seen = append(f.seen, "leave "+link) }
func (f *follower) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, f, true)
}

// TestWatcher: whoever follows a slot sees it enter and leave every link that loads, also one that
// fails, and chooses the context under which it waits.
func TestWatcher(t *testing.T) {
	f := new(follower)
	w := newWorld(t)
	slot := &fakeSlot{world: w}
	sl := &Slot{Slot: slot, Watcher: f}
	w.fails = "Assemble"
	for i, l := range loadingLinks(newSchedule(w.plan).ref, 2) {
		if err := l.Do(context.Background(), sl, 0); (err != nil) != (i == 2) || slot.under.Value(f) == nil {
			t.Errorf("%s: %v", l.Name, err)
		}
	}
	if want := []string{"enter load graph", "leave load graph", "enter read features", "leave read features", "enter assemble", "leave assemble"}; !slices.Equal(f.seen, want) {
		t.Errorf("%q", f.seen)
	}
	slot.under = nil
	if drain(sl); slot.under == nil || slot.under.Err() == nil {
		t.Error("reads in flight are not ended")
	}
}
