package train

import (
	"math"
	"testing"
	"time"
	"unicode/utf8"

	"diskgnn/pipeline"
	"diskgnn/train/epoch"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

func TestEpochLine(t *testing.T) {
	usual := rundir.Epoch{Epoch: 12, LR: 0.003, Loss: 0.43214, TrainAccuracy: 0.865, ValidAccuracy: 0.825, Seconds: 74, BytesRead: 74 << 30}
	for _, c := range []struct {
		change func(e *rundir.Epoch, o *Options)
		best   bool
		want   string
	}{
		{func(*rundir.Epoch, *Options) {}, true, "epoch 12: loss 0.4321, train 86.50%, valid 82.50% (best), 1 min 14 s, 1.00 GiB/s"},
		{func(e *rundir.Epoch, o *Options) { o.Metric = recipe.MetricAUC }, false, "epoch 12: loss 0.4321, train 0.8650, valid 0.8250, 1 min 14 s, 1.00 GiB/s"},
		{func(e *rundir.Epoch, o *Options) { o.Schedule = recipe.ScheduleCosine }, true, "epoch 12: lr 0.003, loss 0.4321, train 86.50%, valid 82.50% (best), 1 min 14 s"},
		{func(e *rundir.Epoch, o *Options) { o.Schedule, e.Seconds, e.LR = recipe.ScheduleCosine, 741, 0.000123 }, true, "epoch 12: loss 0.4321, train 86.50%, valid 82.50% (best), 12 min 21 s"},
		{func(e *rundir.Epoch, o *Options) { e.ValidAccuracy, e.Loss = score.Undefined, 31.4159 }, false, "epoch 12: loss 31.42, train 86.50%, valid –, 1 min 14 s, 1.00 GiB/s"},
		{func(e *rundir.Epoch, o *Options) {
			e.Epoch, e.Seconds, e.TrainAccuracy, e.Loss = 123456, 3599, 1, 12345
		}, true, "epoch 123456: loss 12345, train 100.00%, valid 82.50% (best), 59 min 59 s"},
	} {
		o := Defaults()
		e := usual
		c.change(&e, &o)
		said := terminal{recipe: &o.Recipe, computes: true, validates: true}
		got := said.line(&e, c.best)
		if got != c.want || utf8.RuneCountInString(got) > 80 {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	o := Defaults()
	if got := (&terminal{recipe: &o.Recipe}).line(&usual, false); got != "epoch 12: 1 min 14 s, 1.00 GiB/s" {
		t.Errorf("without an engine: %q", got)
	}
}

// The slowest link is named once, and again when it is another.
func TestBoundIsSaid(t *testing.T) {
	var said logged
	on := terminal{report: &said}
	after := func(read, compute float64) {
		table := pipeline.Table{Seconds: 10, Links: []pipeline.LinkTime{{Link: "read features", Workers: 1, Busy: read}, {Link: "compute", Workers: 1, Busy: compute}}}
		on.sayBound(&table)
	}
	after(1, 9)
	after(2, 8)
	after(9.5, 8)
	after(0, 0)
	want := "bound by compute: it is at work for 90% of the time\nbound by read features: it is at work for 95% of the time"
	if got := said.String(); got != want {
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
	p := terminal{recipe: &recipe.Recipe{Metric: recipe.MetricF1, Schedule: recipe.ScheduleCosine}, computes: true}
	e := rundir.Epoch{Epoch: 1, LR: 0.25, Loss: 31.4, TrainAccuracy: 0.5, ValidAccuracy: 1, BytesRead: 5}
	if got, want := p.line(&e, true), "epoch 1: lr 0.25, loss 31.40, train 50.00%, valid 100.00%, 0 s"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	for loss, want := range map[float64]string{9.5: "9.5000", 10: "10.00", 999: "999.00", 1000: "1000", 0: "0.0000"} {
		if got := lossText(loss); got != want {
			t.Errorf("%v: %s, not %s", loss, got, want)
		}
	}
}

// TestBoundOfNothing: links without time say nothing of what holds the run up.
func TestBoundOfNothing(t *testing.T) {
	r := &transcript{}
	on := terminal{report: r}
	on.sayBound(&pipeline.Table{Links: []pipeline.LinkTime{{Link: "compute", Workers: 1}}})
	if len(r.lines) > 0 || on.bound != "" {
		t.Errorf("%q, by %q", r.lines, on.bound)
	}
}
