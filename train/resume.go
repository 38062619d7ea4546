package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/train/checkpoint"
	"diskgnn/train/epoch"
	"diskgnn/train/rundir"
)

// continueRun locks the directory of an earlier run and returns the checkpoint to resume from: nil
// if there is none yet, so that the run begins anew.
func continueRun(fsys vfs.FS, out string, was *rundir.File, file rundir.File, limits epoch.Limits, rep progress.Reporter) (d *runDir, c *epoch.Point, err error) {
	dir, err := rundir.Lock(fsys, out, file)
	if err != nil {
		return nil, nil, err
	}
	d = &runDir{Dir: dir, note: progress.Discard.Logf}
	if c, err = d.reopen(was, limits, rep); err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return d, c, nil
}

// reopen restores the locked directory to its state at the latest checkpoint. It may be repeated
// after an interruption, with the same outcome.
func (d *runDir) reopen(was *rundir.File, limits epoch.Limits, rep progress.Reporter) (*epoch.Point, error) {
	now, err := rundir.Read(d.FS, d.Path)
	if err != nil {
		return nil, err
	}
	if now.State != was.State || !now.Begun.Equal(was.Begun) {
		return nil, fault.New(fault.ErrLocked, "another process has just changed %s; run the command again", d.Path)
	}
	c, err := d.latest(limits, rep)
	if err != nil {
		return nil, err
	}
	if c == nil && was.State == rundir.StateFinished {
		return nil, fault.New(fault.ErrInput, "%s is finished, and has no checkpoint to make it longer from: train another run, which may begin with its weights: --init-from %s", d.Path, d.Path)
	}
	if note := was.Note(d.Path); note != "" {
		rep.Logf("%s; this program adds checksums, and the earlier version cannot resume the run any more", note)
	}
	if c == nil {
		rep.Logf("%s has no checkpoint yet: training begins anew", d.Path)
		return nil, d.Clear(true)
	}
	// Earlier versions of this program leave a checkpoint that follows the judgement of the last
	// epoch.
	if p, had := &d.File.Params, was.Params.Epochs; p.Epochs > had && c.At.Epoch == had && had%p.ValidateEvery != 0 {
		return nil, fault.New(fault.ErrInput, "%s cannot be made longer: its checkpoint was written after the validation of the last of its %d epochs, which a longer run would skip; train another run, which may begin with its weights: --init-from %s", d.Path, had, d.Path)
	}
	// The version rises once the weights are written anew.
	d.File.Format, d.File.State, d.File.Begun, d.File.Resumed = was.Format, rundir.StateRunning, was.Begun, was.Resumed+1
	d.MetricsEnd = c.At.Metrics
	if err := d.Save(); err != nil {
		return nil, err
	}
	// Damaged checkpoints would hide later ones.
	if err := d.Checkpoints().Remove(c.Damaged...); err != nil {
		return nil, err
	}
	if err := d.Remove(rundir.FinalFile); err != nil {
		return nil, fmt.Errorf("clear %s: %w", d.Path, err)
	}
	if err := d.DropScratch(); err != nil {
		return nil, err
	}
	return c, d.OpenMetrics(c.At.Metrics)
}

// latest returns the newest usable checkpoint, nil if there never was one.
func (d *runDir) latest(limits epoch.Limits, rep progress.Reporter) (*epoch.Point, error) {
	dir := d.Checkpoints()
	names, err := dir.List()
	if err != nil {
		return nil, err
	}
	var damaged []string
	var first error
	for _, name := range names {
		c, err := d.resumePoint(dir, name, limits)
		if err == nil {
			c.Damaged = damaged
			return c, nil
		}
		if !errors.Is(err, fault.ErrCorrupt) {
			return nil, err
		}
		rep.Logf("passed over a damaged checkpoint: %v", err)
		damaged = append(damaged, name)
		if first == nil {
			first = err
		}
	}
	if first != nil {
		return nil, fmt.Errorf("none of the %d checkpoints in %s can be used (--force starts over): %w", len(names), dir.Path, first)
	}
	return nil, nil
}

// resumePoint reads a checkpoint, and the epochs of metrics.jsonl that it covers.
func (d *runDir) resumePoint(dir checkpoint.Dir, name string, limits epoch.Limits) (*epoch.Point, error) {
	head, sections, err := dir.Read(name, limits.Sections)
	if err != nil {
		return nil, err
	}
	c := &epoch.Point{Name: dir.File(name), Sections: sections}
	if err := json.Unmarshal(head, &c.At); err != nil {
		return nil, fault.New(fault.ErrCorrupt, "%s: head: %v", c.Name, err)
	}
	run, err := d.File.Identity()
	if err != nil {
		return nil, err
	}
	p := &c.At
	if p.Run != run {
		return nil, fault.New(fault.ErrLineage, "%s is a checkpoint of another run", c.Name)
	}
	if err := errors.Join(p.Check(d.File.Params.Epochs, limits), p.CheckSections(sections)); err != nil {
		return nil, fault.New(fault.ErrCorrupt, "%s: %s", c.Name, fault.Unrepeated(err))
	}
	if c.Epochs, err = rundir.ReadMetrics(d.FS, d.Name(rundir.MetricsFile), p.Metrics, p.Epoch); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return c, nil
}

// goOn sets the result and the clock of a run to the checkpoint's.
func (r *runner) goOn(c *epoch.Point) {
	r.from = c
	r.result.State = rundir.ResultResumed
	r.result.Epochs, r.result.BestEpoch, r.result.ValidAccuracy = c.Epochs, c.At.BestEpoch, c.At.ValidAccuracy
	r.result.PreloadBytes, r.result.PreloadSeconds = c.At.PreloadBytes, c.At.PreloadSeconds
	r.began = r.began.Add(-time.Duration(c.At.Seconds * float64(time.Second)))
}
