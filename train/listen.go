package train

import (
	"io"
	"time"

	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/train/monitor"
	"diskgnn/train/report"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// Listening is the fact of kind "listening": where a run under way is to be seen.
type Listening struct {
	URL     string `json:"url"`     // of the report
	Metrics string `json:"metrics"` // of the metrics
}

// listen serves the run under way, if that is wanted. Of several ranks rank 0 does. A nil
// monitor serves nothing.
func (o *Options) listen(rep progress.Reporter) (*monitor.Monitor, error) {
	if o.Listen == "" {
		return nil, nil
	}
	if !o.root() {
		rep.Logf("--listen: rank 0 listens")
		return nil, nil
	}
	m, err := monitor.Listen(o.Listen, rep.Logf)
	if err != nil {
		return nil, err
	}
	at := Listening{URL: m.URL(), Metrics: m.URL() + "metrics"}
	rep.Logf("listening: the report is at %s, metrics are at %s", at.URL, at.Metrics)
	if !m.Loopback() {
		rep.Logf("--listen %s: whoever reaches this address can read them", o.Listen)
	}
	progress.Record(rep, "listening", at)
	return m, nil
}

// pageOf returns what writes the report of a run under way.
func pageOf(fsys vfs.FS, dir string) func(io.Writer) error {
	return func(w io.Writer) error {
		r, err := report.Read(fsys, dir)
		if err != nil {
			return err
		}
		return report.Write(w, r)
	}
}

// timesEvery is how often the times of links are looked at while batches run; tests look after
// every step.
var timesEvery = time.Second

// sums returns what the monitor shows of the epoch under way.
func (t *trainer) sums() rundir.Epoch {
	if now := time.Now(); now.Sub(t.looked) >= timesEvery {
		t.tally(0)
		t.looked = now
	}
	e := t.now
	e.Seconds = t.table.Seconds
	if !t.running.IsZero() {
		e.Seconds += time.Since(t.running).Seconds()
	}
	t.gpu.idle(t.table, e.Seconds)
	e.Links, e.Loss = t.table.Links, score.Undefined
	if t.seeds > 0 {
		e.Loss = score.Score(t.loss / float64(t.seeds))
	}
	return e
}

// observe shows the epoch under way to whoever watches the run.
func (t *trainer) observe() {
	if t.monitor != nil {
		e := t.sums()
		t.monitor.Step(&e, t.done)
	}
}
