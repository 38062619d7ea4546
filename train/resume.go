package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/train/checkpoint"
)

// resumePoint is a checkpoint that a run goes on from.
type resumePoint struct {
	name     string
	at       position
	sections map[string][]byte
	epochs   []Epoch  // those before
	damaged  []string // newer checkpoints that cannot be used
}

// resume goes on with the run that is there.
func (r *runner) resume(file runFile) (err error) {
	if err := r.was.sameArithmetic(file.Setup.engineInfo); err != nil {
		return err
	}
	limits := limits{perEpoch: r.facts.BatchesPerEpoch, seeds: trainJudging(r.options.Metric, &r.facts).Rows, sections: r.needs.resume}
	if r.dir, r.from, err = continueRun(r.fs, r.options.Out, r.was, file, limits, r.report); err != nil || r.from == nil {
		return err
	}
	r.result.resume(r.from)
	r.began = r.began.Add(-r.from.earlier())
	r.report.Logf("resumed after %d epochs and %d batches", r.from.at.Epoch, r.from.at.Batch)
	if changed := r.was.changes(&file); changed != "" {
		r.report.Logf("resumed with another setup: %s", changed)
	}
	return nil
}

// checkpoints is where the run keeps its checkpoints.
func (d *runDir) checkpoints() checkpoint.Dir {
	return checkpoint.Dir{FS: d.fs, Path: d.name(CheckpointsDir)}
}

// limits are what a checkpoint of the run cannot go beyond.
type limits struct {
	perEpoch int   // batches
	seeds    int64 // seed nodes of an epoch
	sections int64 // bytes
}

// continueRun locks the directory of the run that was and returns where it goes on:
// nil if there was no checkpoint yet, and it begins anew.
func continueRun(fsys vfs.FS, out string, was *runFile, file runFile, limits limits, rep progress.Reporter) (d *runDir, c *resumePoint, err error) {
	d = &runDir{fs: fsys, path: filepath.Clean(out), file: file}
	if d.lock, err = fsys.Lock(d.name(lockFile)); err != nil {
		return nil, nil, err
	}
	if c, err = d.reopen(was, limits, rep); err != nil {
		if d.metrics != nil {
			err = errors.Join(err, d.metrics.Close())
		}
		return nil, nil, errors.Join(err, d.lock.Close())
	}
	return d, c, nil
}

// reopen makes the locked directory what it was at the latest checkpoint. Whenever it
// is cut short, doing it again comes to the same.
func (d *runDir) reopen(was *runFile, limits limits, rep progress.Reporter) (*resumePoint, error) {
	now, err := readRun(d.fs, d.path)
	if err != nil {
		return nil, err
	}
	if now.State != was.State || !now.Begun.Equal(was.Begun) {
		return nil, fault.New(fault.ErrLocked, "another process has changed %s in this moment; run the command again", d.path)
	}
	c, err := d.latest(limits, rep)
	if err != nil {
		return nil, err
	}
	if c == nil {
		rep.Logf("%s has no checkpoint yet: training begins anew", d.path)
		return nil, d.open(true)
	}
	d.file.Format, d.file.State, d.file.Begun, d.file.Resumed = runFormat, StateRunning, was.Begun, was.Resumed+1
	if err := d.save(); err != nil {
		return nil, err
	}
	// Else they would hide what comes.
	if err := d.checkpoints().Remove(c.damaged...); err != nil {
		return nil, err
	}
	if err := d.remove(FinalFile); err != nil {
		return nil, fmt.Errorf("clear %s: %w", d.path, err)
	}
	return c, d.openMetrics(c.at.Metrics)
}

// latest returns the newest checkpoint that can be used, nil if there never was one.
func (d *runDir) latest(limits limits, rep progress.Reporter) (*resumePoint, error) {
	dir := d.checkpoints()
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
	run, err := d.file.identity()
	if err != nil {
		return nil, err
	}
	p := &c.at
	if p.Run != run {
		return nil, fault.New(fault.ErrLineage, "%s is a checkpoint of another run", c.name)
	}
	if err := errors.Join(p.check(d.file.Params.Epochs, limits), p.checkSections(sections)); err != nil {
		return nil, fault.New(fault.ErrCorrupt, "%s: %s", c.name, once(err))
	}
	if c.epochs, err = readMetrics(d.fs, d.name(MetricsFile), p.Metrics, p.Epoch); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return c, nil
}

// resume makes the result what it was.
func (r *Result) resume(c *resumePoint) {
	r.State = ResultResumed
	r.Epochs, r.BestEpoch, r.ValidAccuracy = c.epochs, c.at.BestEpoch, c.at.ValidAccuracy
	r.PreloadBytes, r.PreloadSeconds = c.at.PreloadBytes, c.at.PreloadSeconds
}

// earlier returns how long the run took up to there.
func (c *resumePoint) earlier() time.Duration {
	return time.Duration(c.at.Seconds * float64(time.Second))
}
