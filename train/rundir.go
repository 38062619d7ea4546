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

// runDir is the directory of this process' run, which makes its own report and trace.
type runDir struct {
	*rundir.Dir
	note     func(format string, args ...any) // what people should know, not errors
	reports  throttle
	recorder *pipeline.Recorder // of this process; nil: no trace was wanted
}

// beginRun makes the run's directory.
func beginRun(fsys vfs.FS, out string, force bool, file rundir.File) (*runDir, error) {
	d, err := rundir.Begin(fsys, out, force, file)
	if err != nil {
		return nil, err
	}
	return &runDir{Dir: d, note: progress.Discard.Logf}, nil
}

// renew makes a run of an earlier version, all of whose files were written anew, one of this version.
func (d *runDir) renew() error {
	if d == nil || d.File.Format == rundir.Format {
		return nil
	}
	d.File.Format = rundir.Format
	return d.Save()
}

// writeTrace writes what this process recorded, if it did.
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

// finish says that the run is complete: after everything else is.
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

// settle does what a process that was killed right after finish had saved the run left to do: the
// report and the removal of the lock's file. Nothing is done where that lock is held, or where
// this process may not write.
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

// keepLast removes the checkpoints of a finished run, but for the one from which it can be made
// longer. Those that stay behind do no harm.
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

// abandon records why the run ended early and leaves nothing that could be taken for
// a finished one. It returns why, with what went wrong on the way.
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
		d.note("no trace: %v", err)
	}
	errs = append(errs, d.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w (and then: %s)", why, fault.Text(err))
	}
	return why
}

// throttle keeps what is done between epochs to a hundredth of the time.
type throttle struct{ next time.Time }

func (t *throttle) do(f func()) {
	began := time.Now()
	if began.Before(t.next) {
		return
	}
	f()
	t.next = time.Now().Add(99 * time.Since(began))
}

// reportProgress renews the report of a run under way, unless that was done lately.
func (d *runDir) reportProgress() { d.reports.do(d.report) }

// report renews the report. No run fails for want of one: what went wrong is a note.
func (d *runDir) report() {
	r, err := report.Read(d.FS, d.Path)
	if err == nil {
		err = d.Replace(rundir.ReportFile, func(w io.Writer) error { return report.Write(w, r) })
	}
	if err != nil {
		d.note("no %s: %v", rundir.ReportFile, err)
	}
}
