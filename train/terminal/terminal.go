// Package terminal writes the progress of training and of evaluation to a terminal: a line for each
// epoch, bars, and for scripts the lines of --progress json. It subscribes to the events of
// package epoch.
package terminal

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/pipeline"
	"diskgnn/train/epoch"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// VisibleBatches is the least number of batches for which an evaluation has a progress bar.
const VisibleBatches = 32

// Terminal writes lines and bars, or the lines of --progress json.
type Terminal struct {
	report    progress.Reporter
	recipe    *recipe.Recipe
	computes  bool // there is an engine
	validates bool // there are batches to evaluate on
	meter     meter
	bound     string // the link that was last said to be the slowest
	training  progress.Task
	scoring   progress.Task
}

// New returns the terminal of a run with a resolved recipe. computes means that the run has an
// engine, validates that it has validation batches.
func New(report progress.Reporter, r *recipe.Recipe, computes, validates bool) *Terminal {
	none := progress.Discard.Task("", 0, progress.Batches)
	return &Terminal{report: report, recipe: r, computes: computes, validates: validates, training: none, scoring: none}
}

func (p *Terminal) On(e epoch.Event) error {
	switch e := e.(type) {
	case *epoch.Started:
		p.training = p.report.Task(e.Name, int64(e.Items), progress.Batches)
		if e.Whole {
			progress.Describe(p.training, p.meter.String)
		}
	case *epoch.Ended:
		p.training.Done()
	case *epoch.Began:
		p.meter.reset()
	case *epoch.BatchesRan:
		p.meter.runs(e.Since)
	case *epoch.Computed:
		p.training.Add(1)
		p.meter.read(e.BytesRead)
	case *epoch.Outcome:
		p.meter.found(e.Found)
	case *epoch.Judged:
		p.report.Logf("%s", p.line(e.Epoch, e.Best))
		p.sayBound(e.Table)
		progress.Record(p.report, "epoch", *e.Epoch)
	case *epoch.EvaluationBegan:
		p.scoring = progress.Discard.Task(e.Name, 0, progress.Batches)
		if e.Batches >= VisibleBatches {
			p.scoring = p.report.Task(e.Name, int64(e.Batches), progress.Batches)
		}
	case *epoch.Evaluated:
		p.scoring.Add(1)
	case *epoch.EvaluationEnded:
		p.scoring.Done()
	case *epoch.Note:
		p.report.Logf("%s", e.Text)
	}
	return nil
}

// lineWidth is the most columns of an epoch's line.
const lineWidth = 80

// line summarises an epoch in one line. To fit, it omits the rate of reading first, then the
// learning rate.
func (p *Terminal) line(e *rundir.Epoch, isBest bool) string {
	var rate, lr string
	if e.Seconds > 0 {
		rate = units.BytesPerSecond(float64(e.BytesRead) / e.Seconds)
	}
	if p.computes && p.recipe.RateVaries() {
		lr = fmt.Sprintf("lr %.3g", float64(e.LR))
	}
	compose := func(lr, rate string) string {
		parts := []string{lr}
		if p.computes {
			valid := "valid " + p.say(e.ValidAccuracy)
			if isBest && p.validates {
				valid += " (best)"
			}
			parts = append(parts, "loss "+lossText(float64(e.Loss)), "train "+p.say(e.TrainAccuracy), valid)
		}
		var said []string
		for _, part := range append(parts, units.Seconds(e.Seconds), rate) {
			if part != "" {
				said = append(said, part)
			}
		}
		return fmt.Sprintf("epoch %d: %s", e.Epoch, strings.Join(said, ", "))
	}
	for _, s := range []string{compose(lr, rate), compose(lr, "")} {
		if utf8.RuneCountInString(s) <= lineWidth {
			return s
		}
	}
	return compose("", "")
}

// lossText writes a loss in at most six characters, or more from 999,999.5 on. The bounds are the
// losses that rounding would give one more digit before the point.
func lossText(loss float64) string {
	switch {
	case math.IsNaN(loss):
		return "–"
	case loss >= 999.995:
		return fmt.Sprintf("%.0f", loss)
	case loss >= 9.99995:
		return fmt.Sprintf("%.2f", loss)
	}
	return fmt.Sprintf("%.4f", loss)
}

// say writes a score for people.
func (p *Terminal) say(s score.Score) string {
	switch {
	case !s.Defined():
		return "–"
	case p.recipe.Metric == recipe.MetricAUC:
		return fmt.Sprintf("%.4f", float64(s))
	}
	return fmt.Sprintf("%.2f%%", 100*float64(s))
}

// sayBound reports the slowest link, after the first epoch and whenever it changes.
func (p *Terminal) sayBound(t *pipeline.Table) {
	b := t.Bound()
	if b.Link == p.bound || t.Slowdown() == 0 {
		return
	}
	p.bound = b.Link
	p.report.Logf("bound by %s: it is busy for %.0f%% of the time", b.Link, 100*t.Share(b))
}

// meter is the progress of the epoch under way: the mean loss so far, and the rate of reading. The
// trainer writes it; any goroutine may read it.
type meter struct {
	seeds int     // with a label, of the batches so far
	loss  float64 // summed over these

	known atomic.Bool   // there is a mean loss: of the epoch before, until the next has one
	mean  atomic.Uint64 // its bits
	bytes atomic.Int64  // read by the batches so far
	since atomic.Int64  // when they began to run, in ns; 0: they did not
}

func (m *meter) reset() {
	m.seeds, m.loss = 0, 0
	m.bytes.Store(0)
	m.since.Store(0)
}

func (m *meter) runs(since time.Time) { m.since.Store(since.UnixNano()) }

func (m *meter) read(bytes int64) { m.bytes.Add(bytes) }

func (m *meter) found(f epoch.Found) {
	if f.Seeds == 0 {
		return
	}
	m.seeds, m.loss = m.seeds+f.Seeds, m.loss+float64(f.Seeds)*f.Loss
	m.mean.Store(math.Float64bits(m.loss / float64(m.seeds)))
	m.known.Store(true)
}

// String returns "loss 0.4321 · 1.02 GiB/s", without the parts that are unknown.
func (m *meter) String() string {
	var parts []string
	if m.known.Load() {
		parts = append(parts, "loss "+lossText(math.Float64frombits(m.mean.Load())))
	}
	if since := m.since.Load(); since > 0 {
		if s := time.Since(time.Unix(0, since)).Seconds(); s > 0 {
			parts = append(parts, units.BytesPerSecond(float64(m.bytes.Load())/s))
		}
	}
	return strings.Join(parts, " · ")
}
