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
	"diskgnn/train/rundir"
)

// resumePoint is a checkpoint that a run goes on from.
type resumePoint struct {
	name     string
	at       position
	sections map[string][]byte
	epochs   []rundir.Epoch // those before
	damaged  []string       // newer checkpoints that cannot be used
}

// limits are what a checkpoint of the run cannot go beyond.
type limits struct {
	perEpoch   int   // batches
	accumulate int   // of them in a step
	seeds      int64 // seed nodes of an epoch
	sections   int64 // bytes
}

// continueRun locks the directory of the run that was and returns where it goes on:
// nil if there was no checkpoint yet, and it begins anew.
func continueRun(fsys vfs.FS, out string, was *rundir.File, file rundir.File, limits limits, rep progress.Reporter) (d *runDir, c *resumePoint, err error) {
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

// reopen makes the locked directory what it was at the latest checkpoint. Whenever it
// is cut short, doing it again comes to the same.
func (d *runDir) reopen(was *rundir.File, limits limits, rep progress.Reporter) (*resumePoint, error) {
	now, err := rundir.Read(d.FS, d.Path)
	if err != nil {
		return nil, err
	}
	if now.State != was.State || !now.Begun.Equal(was.Begun) {
		return nil, fault.New(fault.ErrLocked, "another process has changed %s in this moment; run the command again", d.Path)
	}
	c, err := d.latest(limits, rep)
	if err != nil {
		return nil, err
	}
	if c == nil && was.State == rundir.StateFinished {
		return nil, fault.New(fault.ErrInput, "%s is finished, and has no checkpoint from which it could be made longer: train another run, which may begin with its weights: --init-from %s", d.Path, d.Path)
	}
	if note := was.Note(d.Path); note != "" {
		rep.Logf("%s; from here on they have checksums, and that version cannot go on with the run any more", note)
	}
	if c == nil {
		rep.Logf("%s has no checkpoint yet: training begins anew", d.Path)
		return nil, d.Clear(true)
	}
	// Earlier versions of this program leave one that follows the judgement of the last epoch.
	if p, had := &d.File.Params, was.Params.Epochs; p.Epochs > had && c.at.Epoch == had && had%p.ValidateEvery != 0 {
		return nil, fault.New(fault.ErrInput, "%s cannot be made longer: its checkpoint follows the last of its %d epochs, which was validated for being the last; train another run, which may begin with its weights: --init-from %s", d.Path, had, d.Path)
	}
	// The version rises once the weights are written anew.
	d.File.Format, d.File.State, d.File.Begun, d.File.Resumed = was.Format, rundir.StateRunning, was.Begun, was.Resumed+1
	d.MetricsEnd = c.at.Metrics
	if err := d.Save(); err != nil {
		return nil, err
	}
	// Else they would hide what comes.
	if err := d.Checkpoints().Remove(c.damaged...); err != nil {
		return nil, err
	}
	if err := d.Remove(rundir.FinalFile); err != nil {
		return nil, fmt.Errorf("clear %s: %w", d.Path, err)
	}
	return c, d.OpenMetrics(c.at.Metrics)
}

// latest returns the newest checkpoint that can be used, nil if there never was one.
func (d *runDir) latest(limits limits, rep progress.Reporter) (*resumePoint, error) {
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
			c.damaged = damaged
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

// resumePoint reads a checkpoint, and what it says of metrics.jsonl.
func (d *runDir) resumePoint(dir checkpoint.Dir, name string, limits limits) (*resumePoint, error) {
	head, sections, err := dir.Read(name, limits.sections)
	if err != nil {
		return nil, err
	}
	c := &resumePoint{name: dir.File(name), sections: sections}
	if err := json.Unmarshal(head, &c.at); err != nil {
		return nil, fault.New(fault.ErrCorrupt, "%s: head: %v", c.name, err)
	}
	run, err := d.File.Identity()
	if err != nil {
		return nil, err
	}
	p := &c.at
	if p.Run != run {
		return nil, fault.New(fault.ErrLineage, "%s is a checkpoint of another run", c.name)
	}
	if err := errors.Join(p.check(d.File.Params.Epochs, limits), p.checkSections(sections)); err != nil {
		return nil, fault.New(fault.ErrCorrupt, "%s: %s", c.name, once(err))
	}
	if c.epochs, err = rundir.ReadMetrics(d.FS, d.Name(rundir.MetricsFile), p.Metrics, p.Epoch); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return c, nil
}

// restore makes a result what it was there.
func (c *resumePoint) restore(r *rundir.Result) {
	r.State = rundir.ResultResumed
	r.Epochs, r.BestEpoch, r.ValidAccuracy = c.epochs, c.at.BestEpoch, c.at.ValidAccuracy
	r.PreloadBytes, r.PreloadSeconds = c.at.PreloadBytes, c.at.PreloadSeconds
}

// earlier returns how long the run took up to there.
func (c *resumePoint) earlier() time.Duration {
	return time.Duration(c.at.Seconds * float64(time.Second))
}
