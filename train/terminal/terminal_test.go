package terminal

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"diskgnn/internal/progress"
	"diskgnn/pipeline"
	"diskgnn/train/epoch"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

func TestEpochLine(t *testing.T) {
	usual := rundir.Epoch{Epoch: 12, LR: 0.003, Loss: 0.43214, TrainAccuracy: 0.865, ValidAccuracy: 0.825, Seconds: 74, BytesRead: 74 << 30}
	for _, c := range []struct {
		change func(e *rundir.Epoch, o *recipe.Recipe)
		best   bool
		want   string
	}{
		{func(*rundir.Epoch, *recipe.Recipe) {}, true, "epoch 12: loss 0.4321, train 86.50%, valid 82.50% (best), 1 min 14 s, 1.00 GiB/s"},
		{func(e *rundir.Epoch, o *recipe.Recipe) { o.Metric = recipe.MetricAUC }, false, "epoch 12: loss 0.4321, train 0.8650, valid 0.8250, 1 min 14 s, 1.00 GiB/s"},
		{func(e *rundir.Epoch, o *recipe.Recipe) { o.Schedule = recipe.ScheduleCosine }, true, "epoch 12: lr 0.003, loss 0.4321, train 86.50%, valid 82.50% (best), 1 min 14 s"},
		{func(e *rundir.Epoch, o *recipe.Recipe) {
			o.Schedule, e.Seconds, e.LR = recipe.ScheduleCosine, 741, 0.000123
		}, true, "epoch 12: loss 0.4321, train 86.50%, valid 82.50% (best), 12 min 21 s"},
		{func(e *rundir.Epoch, o *recipe.Recipe) { e.ValidAccuracy, e.Loss = score.Undefined, 31.4159 }, false, "epoch 12: loss 31.42, train 86.50%, valid –, 1 min 14 s, 1.00 GiB/s"},
		{func(e *rundir.Epoch, o *recipe.Recipe) {
			e.Epoch, e.Seconds, e.TrainAccuracy, e.Loss = 123456, 3599, 1, 12345
		}, true, "epoch 123456: loss 12345, train 100.00%, valid 82.50% (best), 59 min 59 s"},
	} {
		o := recipe.Defaults()
		e := usual
		c.change(&e, &o)
		said := Terminal{recipe: &o, computes: true, validates: true}
		got := said.line(&e, c.best)
		if got != c.want || utf8.RuneCountInString(got) > 80 {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	o := recipe.Defaults()
	if got := (&Terminal{recipe: &o}).line(&usual, false); got != "epoch 12: 1 min 14 s, 1.00 GiB/s" {
		t.Errorf("without an engine: %q", got)
	}
}

// The slowest link is named once, and again when it is another.
func TestBoundIsSaid(t *testing.T) {
	said := &transcript{}
	on := Terminal{report: said}
	after := func(read, compute float64) {
		table := pipeline.Table{Seconds: 10, Links: []pipeline.LinkTime{{Link: "read features", Workers: 1, Busy: read}, {Link: "compute", Workers: 1, Busy: compute}}}
		on.sayBound(&table)
	}
	after(1, 9)
	after(2, 8)
	after(9.5, 8)
	after(0, 0)
	want := "says bound by compute: it is busy for 90% of the time\nsays bound by read features: it is busy for 95% of the time"
	if got := strings.Join(said.lines, "\n"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestMeter(t *testing.T) {
	var m meter
	if got := m.String(); got != "" {
		t.Errorf("before anything: %q", got)
	}
	m.found(epoch.Found{Seeds: 0, Loss: math.NaN()})
	m.found(epoch.Found{Seeds: 1, Loss: 1})
	m.found(epoch.Found{Seeds: 3, Loss: 2})
	if got := m.String(); got != "loss 1.7500" {
		t.Errorf("%q", got)
	}
	m.reset()
	m.runs(time.Now().Add(-10 * time.Second))
	m.read(5 << 20)
	m.read(15 << 20)
	if got := m.String(); got != "loss 1.7500 · 2.0 MiB/s" && got != "loss 1.7500 · 1.9 MiB/s" && got != "loss 1.7500 · 2.00 MiB/s" {
		t.Errorf("in the next epoch: %q", got)
	}
	m.found(epoch.Found{Seeds: 2, Loss: 0.5})
	if got := m.String()[:11]; got != "loss 0.5000" {
		t.Errorf("%q", got)
	}
}

// TestEpochLineLeavesOut: without a score to improve there is no best, nor a rate without time.
func TestEpochLineLeavesOut(t *testing.T) {
	p := Terminal{recipe: &recipe.Recipe{Metric: recipe.MetricF1, Schedule: recipe.ScheduleCosine}, computes: true}
	e := rundir.Epoch{Epoch: 1, LR: 0.25, Loss: 31.4, TrainAccuracy: 0.5, ValidAccuracy: 1, BytesRead: 5}
	if got, want := p.line(&e, true), "epoch 1: lr 0.25, loss 31.40, train 50.00%, valid 100.00%, 0 s"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	e.Seconds, e.BytesRead = 0.5, 1<<20
	if got := p.line(&e, false); !strings.HasSuffix(got, ", 500 ms, 2.0 MiB/s") {
		t.Errorf("of half a second: %q", got)
	}
	for loss, want := range map[float64]string{9.5: "9.5000", 9.99994: "9.9999", 9.999951: "10.00", 10: "10.00", 99.996: "100.00", 999: "999.00",
		999.994: "999.99", 999.996: "1000", 1000: "1000", 0: "0.0000", 999999.4: "999999"} {
		if got := lossText(loss); got != want {
			t.Errorf("%v: %s, not %s", loss, got, want)
		}
	}
}

// TestBoundOfNothing: links without time say nothing of what holds the run up.
func TestBoundOfNothing(t *testing.T) {
	r := &transcript{}
	on := Terminal{report: r}
	on.sayBound(&pipeline.Table{Links: []pipeline.LinkTime{{Link: "compute", Workers: 1}}})
	if len(r.lines) > 0 || on.bound != "" {
		t.Errorf("%q, by %q", r.lines, on.bound)
	}
}

// transcript is a Reporter that writes down in one list what it is told.
type transcript struct{ lines []string }

func (r *transcript) add(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *transcript) Task(name string, total int64, unit progress.Unit) progress.Task {
	r.add("%s: %d %s", name, total, unit)
	return &transcribed{r, name}
}

func (r *transcript) Logf(format string, args ...any) { r.add("says "+format, args...) }

func (r *transcript) Record(kind string, v any) { r.add("records %s %d", kind, v.(rundir.Epoch).Epoch) }

// transcribed is a task of a transcript.
type transcribed struct {
	to   *transcript
	name string
}

func (t *transcribed) Add(n int64)              { t.to.add("%s: %d more", t.name, n) }
func (t *transcribed) Done()                    { t.to.add("%s: done", t.name) }
func (t *transcribed) Describe(f func() string) { t.to.add("%s: described %q", t.name, f()) }

// TestTerminal: what a terminal makes of each event, in their order.
func TestTerminal(t *testing.T) {
	r := &transcript{}
	p := New(r, &recipe.Recipe{Metric: recipe.MetricAccuracy, Schedule: recipe.ScheduleConstant}, true, true)
	table := pipeline.Table{Seconds: 10, Links: []pipeline.LinkTime{{Link: "compute", Workers: 1, Busy: 9}}}
	e := rundir.Epoch{Epoch: 4, Loss: 0.5, TrainAccuracy: 0.25, ValidAccuracy: 0.75, Seconds: 2}
	for _, c := range []struct {
		e    epoch.Event
		want string
	}{
		{&epoch.Computed{BytesRead: 1}, ""}, // nothing has started: no bar moves
		{&epoch.Evaluated{}, ""},
		{&epoch.Started{Name: "train", Items: 7, Whole: true}, `train: 7 batches/train: described ""`},
		{&epoch.PhaseBegan{Phase: epoch.Training}, ""},
		{&epoch.Computed{BytesRead: 1}, "train: 1 more"},
		{&epoch.Outcome{Found: epoch.Found{Loss: 2, Seeds: 3}}, ""},
		{&epoch.StepTaken{}, ""},
		{&epoch.Started{Name: "again", Items: 8, Whole: true}, `again: 8 batches/again: described "loss 2.0000"`},
		{&epoch.Started{Name: "a few", Items: 3}, "a few: 3 batches"},
		{&epoch.Ended{}, "a few: done"},
		{&epoch.Judged{Epoch: &e, Best: true, Table: &table}, "says epoch 4: loss 0.5000, train 25.00%, valid 75.00% (best), 2.00 s, 0 B/s/" +
			"says bound by compute: it is busy for 90% of the time/records epoch 4"},
		{&epoch.EvaluationBegan{Name: "validate", Batches: VisibleBatches - 1}, ""},
		{&epoch.Evaluated{}, ""},
		{&epoch.EvaluationEnded{}, ""},
		{&epoch.EvaluationBegan{Name: "test", Batches: VisibleBatches}, "test: 32 batches"},
		{&epoch.Evaluated{}, "test: 1 more"},
		{&epoch.EvaluationEnded{}, "test: done"},
		{&epoch.Note{Text: "100% of it"}, "says 100% of it"},
		{&epoch.Filled{Bytes: 1, Seconds: 2}, ""},
	} {
		r.lines = nil
		if err := p.On(c.e); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.lines, "/"); got != c.want {
			t.Errorf("%T: %q, not %q", c.e, got, c.want)
		}
	}
}

// TestMeterOfEvents: an epoch's rate is that of the bytes since its batches run, and its loss the
// mean of what was found in it.
func TestMeterOfEvents(t *testing.T) {
	p := New(progress.Discard, &recipe.Recipe{}, true, true)
	for _, c := range []struct {
		e    epoch.Event
		want string
	}{
		{&epoch.Computed{BytesRead: 1 << 40}, ""}, // before the batches run there is no rate
		{&epoch.Began{}, ""},
		{&epoch.BatchesRan{Since: time.Now().Add(-1000 * time.Second)}, "0 B/s"},
		{&epoch.Computed{BytesRead: 3000 << 20}, "3.0 MiB/s"},
		{&epoch.Computed{BytesRead: 2000 << 20}, "5.0 MiB/s"},
		{&epoch.Outcome{Found: epoch.Found{Loss: 1, Seeds: 1}}, "loss 1.0000 · 5.0 MiB/s"},
		{&epoch.Outcome{Found: epoch.Found{Loss: 4, Seeds: 2}}, "loss 3.0000 · 5.0 MiB/s"},
		{&epoch.Began{}, "loss 3.0000"},
		{&epoch.Outcome{Found: epoch.Found{Loss: 5, Seeds: 1}}, "loss 5.0000"},
	} {
		if err := p.On(c.e); err != nil {
			t.Fatal(err)
		}
		// The clock goes on, so that the rate may be a little less.
		if got := strings.ReplaceAll(strings.ReplaceAll(p.meter.String(), "4.9 ", "5.0 "), "2.9 ", "3.0 "); got != c.want {
			t.Errorf("%T: %q, not %q", c.e, got, c.want)
		}
	}
}
