package train

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pipeline"
	"diskgnn/train/report"
	"diskgnn/train/rundir"
)

// traceSpans bounds a trace: 40 bytes and one line of JSON each. Beyond, the earliest
// are dropped.
const traceSpans = 1 << 18

// runDir is the directory of this process' run, with its report and trace.
type runDir struct {
	*rundir.Dir
	note     func(format string, args ...any) // notes for the user, not errors
	reports  throttle
	recorder *pipeline.Recorder // of this process; nil: without --trace
}

// beginRun makes the run's directory.
func beginRun(fsys vfs.FS, out string, force bool, file rundir.File) (*runDir, error) {
	d, err := rundir.Begin(fsys, out, force, file)
	if err != nil {
		return nil, err
	}
	return &runDir{Dir: d, note: progress.Discard.Logf}, nil
}

// renew brings a run of an earlier version to this version, once all of its files were written
// anew.
func (d *runDir) renew() error {
	if d == nil || d.File.Format == rundir.Format {
		return nil
	}
	d.File.Format = rundir.Format
	return d.Save()
}

// writeTrace writes the spans that this process recorded, if any.
func (d *runDir) writeTrace() error {
	if d.recorder == nil {
		return nil
	}
	name := rundir.NameTrace(d.File.Resumed)
	if n := d.recorder.Dropped(); n > 0 {
		d.note("%s holds the latest %d spans; %d earlier ones were dropped", name, traceSpans, n)
	}
	return d.Replace(name, d.recorder.WriteTrace)
}

// finish marks the run as complete, after everything else is.
func (d *runDir) finish(r *rundir.Result) error {
	if err := d.CheckSources(); err != nil {
		return err
	}
	if err := d.CloseMetrics(); err != nil {
		return err
	}
	d.End(rundir.StateFinished, nil)
	d.File.Result = r
	if err := d.Save(); err != nil {
		return err
	}
	d.report()
	d.keepLast()
	d.Unlock()
	return nil
}

// settle completes a run that was killed right after finish had saved run.json: it makes the report
// and removes the lock's file. It does nothing if that lock is held, or if this process may not
// write.
func settle(fsys vfs.FS, was *rundir.File, out string) {
	if left, err := vfs.Exists(fsys, filepath.Join(out, rundir.LockFile)); err != nil || !left {
		return
	}
	dir, err := rundir.Lock(fsys, out, *was)
	if err != nil {
		return
	}
	d := &runDir{Dir: dir, note: progress.Discard.Logf}
	d.report()
	d.Unlock()
}

// keepLast removes the checkpoints of a finished run except for the one from which it can be
// extended. Checkpoints that cannot be removed do no harm.
func (d *runDir) keepLast() {
	c := d.Checkpoints()
	if !d.Extensible {
		_ = c.Clear()
		return
	}
	if names, err := c.List(); err == nil && len(names) > 1 {
		_ = c.Remove(names[1:]...)
	}
}

// abandon records why the run ended early, and leaves nothing that looks like a finished run. It
// returns why, joined with errors on the way.
func (d *runDir) abandon(why error) error {
	state := rundir.StateFailed
	if errors.Is(why, fault.ErrInterrupted) {
		state = rundir.StateInterrupted
	}
	errs := []error{d.CloseMetrics()}
	d.End(state, why)
	errs = append(errs, d.Save(), d.Remove(rundir.FinalFile))
	d.report()
	if err := d.writeTrace(); err != nil {
		d.note("the trace was not written: %v", err)
	}
	errs = append(errs, d.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w (and then: %s)", why, fault.Text(err))
	}
	return why
}

// throttle limits work between epochs to a hundredth of the time.
type throttle struct{ next time.Time }

func (t *throttle) do(f func()) {
	began := time.Now()
	if began.Before(t.next) {
		return
	}
	f()
	t.next = time.Now().Add(99 * time.Since(began))
}

// reportProgress renews the report of a run under way, at most as often as throttle permits.
func (d *runDir) reportProgress() error {
	d.reports.do(d.report)
	return nil
}

// report renews the report. A failure is a note, and does not end the run.
func (d *runDir) report() {
	r, err := report.Read(d.FS, d.Path)
	if err == nil {
		err = d.Replace(rundir.ReportFile, func(w io.Writer) error { return report.Write(w, r) })
	}
	if err != nil {
		d.note("%s was not written: %v", rundir.ReportFile, err)
	}
}
