package train

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"diskgnn/internal/progress"
	"diskgnn/pipeline"
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
	p := newTerminal(r, &recipe.Recipe{Metric: recipe.MetricAccuracy, Schedule: recipe.ScheduleConstant})
	p.computes, p.validates = true, true
	table := pipeline.Table{Seconds: 10, Links: []pipeline.LinkTime{{Link: "compute", Workers: 1, Busy: 9}}}
	epoch := rundir.Epoch{Epoch: 4, Loss: 0.5, TrainAccuracy: 0.25, ValidAccuracy: 0.75, Seconds: 2}
	for _, c := range []struct {
		e    event
		want string
	}{
		{&computed{bytesRead: 1}, ""}, // nothing has started: no bar moves
		{&evaluated{}, ""},
		{&started{name: "train", items: 7, whole: true}, `train: 7 batches/train: described ""`},
		{&phaseBegan{phaseTraining}, ""},
		{&computed{bytesRead: 1}, "train: 1 more"},
		{&outcome{found{Loss: 2, Seeds: 3}}, ""},
		{&stepTaken{}, ""},
		{&started{name: "again", items: 8, whole: true}, `again: 8 batches/again: described "loss 2.0000"`},
		{&started{name: "a few", items: 3}, "a few: 3 batches"},
		{&ended{}, "a few: done"},
		{&epochJudged{&epoch, true, &table}, "says epoch 4: loss 0.5000, train 25.00%, valid 75.00% (best), 2.00 s, 0 B/s/" +
			"says bound by compute: it is at work for 90% of the time/records epoch 4"},
		{&evaluationBegan{"validate", visibleBatches - 1}, ""},
		{&evaluated{}, ""},
		{&evaluationEnded{}, ""},
		{&evaluationBegan{"test", visibleBatches}, "test: 32 batches"},
		{&evaluated{}, "test: 1 more"},
		{&evaluationEnded{}, "test: done"},
		{&note{"100% of it"}, "says 100% of it"},
		{&filled{bytes: 1, seconds: 2}, ""},
	} {
		r.lines = nil
		if err := p.on(c.e); err != nil {
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
	p := newTerminal(progress.Discard, &recipe.Recipe{})
	for _, c := range []struct {
		e    event
		want string
	}{
		{&computed{bytesRead: 1 << 40}, ""}, // before the batches run there is no rate
		{&epochBegan{}, ""},
		{&batchesRan{time.Now().Add(-100 * time.Second)}, "0 B/s"},
		{&computed{bytesRead: 300 << 20}, "3.0 MiB/s"},
		{&computed{bytesRead: 200 << 20}, "5.0 MiB/s"},
		{&outcome{found{Loss: 1, Seeds: 1}}, "loss 1.0000 · 5.0 MiB/s"},
		{&outcome{found{Loss: 4, Seeds: 2}}, "loss 3.0000 · 5.0 MiB/s"},
		{&epochBegan{}, "loss 3.0000"},
		{&outcome{found{Loss: 5, Seeds: 1}}, "loss 5.0000"},
	} {
		if err := p.on(c.e); err != nil {
			t.Fatal(err)
		}
		// The clock goes on, so that the rate may be a little less.
		if got := strings.ReplaceAll(strings.ReplaceAll(p.meter.String(), "4.9 ", "5.0 "), "2.9 ", "3.0 "); got != c.want {
			t.Errorf("%T: %q, not %q", c.e, got, c.want)
		}
	}
}

// failing is a subscriber that counts, and fails by its error.
type failing struct {
	n   int
	err error
}

func (f *failing) on(event) error { f.n++; return f.err }

// TestPublish: subscribers take an event in turn, up to the first that fails.
func TestPublish(t *testing.T) {
	boom := errors.New("no")
	first, second, third := &failing{}, &failing{err: boom}, &failing{}
	if err := (stream{first, second, third}).publish(&ended{}); err != boom || first.n != 1 || second.n != 1 || third.n != 0 {
		t.Errorf("%v: %d, %d, %d", err, first.n, second.n, third.n)
	}
	if err := (stream{first, third}).publish(&ended{}); err != nil || first.n != 2 || third.n != 1 {
		t.Errorf("%v: %d, %d", err, first.n, third.n)
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
