package train

import (
	"errors"
	"fmt"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pipeline"
	"diskgnn/train/rundir"
)

// runDir is the directory of this process' run, which makes its own report and trace.
type runDir struct {
	*rundir.Dir
	note     func(format string, args ...any) // what people should know, not errors
	reports  throttle
	recorder *pipeline.Recorder // of this process; nil: no trace was wanted

	extensible bool // the latest checkpoint is of the last epoch: the run can be made longer
}

// beginRun makes the run's directory.
func beginRun(fsys vfs.FS, out string, force bool, file rundir.File) (*runDir, error) {
	d, err := rundir.Begin(fsys, out, force, file)
	if err != nil {
		return nil, err
	}
	return &runDir{Dir: d, note: progress.Discard.Logf}, nil
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

// keepLast removes the checkpoints of a finished run, but for the one from which it can be made
// longer. Those that stay behind do no harm.
func (d *runDir) keepLast() {
	c := d.Checkpoints()
	if !d.extensible {
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
		return fmt.Errorf("%w (and then: %s)", why, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return why
}
