package train

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"diskgnn/internal/progress"
	"diskgnn/pipeline"
	"diskgnn/train/epoch"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

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
	p := newTerminal(r, &recipe.Recipe{Metric: recipe.MetricAccuracy, Schedule: recipe.ScheduleConstant}, true, true)
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
			"says bound by compute: it is at work for 90% of the time/records epoch 4"},
		{&epoch.EvaluationBegan{Name: "validate", Batches: visibleBatches - 1}, ""},
		{&epoch.Evaluated{}, ""},
		{&epoch.EvaluationEnded{}, ""},
		{&epoch.EvaluationBegan{Name: "test", Batches: visibleBatches}, "test: 32 batches"},
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
	p := newTerminal(progress.Discard, &recipe.Recipe{}, true, true)
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

// TestMonitoredPhases: the monitor has a name for each phase.
func TestMonitoredPhases(t *testing.T) {
	var names []string
	for p := epoch.Filling; p <= epoch.Testing; p++ {
		names = append(names, string(monitored[p]))
	}
	if got, want := strings.Join(names, ", "), "filling the cache, training, validating, testing"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}
