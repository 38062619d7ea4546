package epoch

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/train/cpu"
	"diskgnn/train/rundir"
)

// CheckpointArrays is the number of arrays in a checkpoint that are as long as the weights: the
// weights, Adam's two moments, and the best weights.
const CheckpointArrays = 4

// position returns the number of the run's batches that are done.
func (t *Trainer) position() int { return t.now.Epoch*t.schedule.PerEpoch + t.done }

// checkpointDue reports whether a checkpoint is due once done of the epoch's batches are done.
func (t *Trainer) checkpointDue(done int, epochEnds bool) bool {
	batches := t.now.Epoch*t.schedule.PerEpoch + done
	return t.CheckpointEvery.Due(batches, done-t.schedule.begun(done), time.Since(t.saved), epochEnds)
}

// written waits for the files that are written while the run goes on.
func (t *Trainer) written() error {
	if t.Dir == nil {
		return nil
	}
	return t.Dir.Wait()
}

// checkpoint copies the run's state after the last step, and writes it while the run goes on. Earlier
// checkpoints must be written: the copies take their memory.
func (t *Trainer) checkpoint() error {
	if err := t.settle(); err != nil {
		return err
	}
	run, err := t.Dir.File.Identity()
	if err != nil {
		return err
	}
	t.tally(t.batches, 0)
	p := Position{
		Run: run, Epoch: t.now.Epoch, Batch: t.done, Sums: t.soFar(), Loss: t.loss, SeedNodes: t.seeds,
		BestEpoch: t.Result.BestEpoch, ValidAccuracy: t.Result.ValidAccuracy,
		PreloadBytes: t.Result.PreloadBytes, PreloadSeconds: t.Result.PreloadSeconds,
		Seconds: time.Since(t.Began).Seconds(),
	}
	p.Sums.Seconds += t.preload
	p.Sums.Links = slices.Clone(p.Sums.Links) // the epoch under way adds to them
	sections := map[string][]byte{SectionScorer: t.scorer.State()}
	if t.best != nil {
		sections[SectionBest] = binio.Bytes(t.best)
	}
	if t.Engine != nil {
		state, err := t.Engine.State()
		if err != nil {
			return err
		}
		for name, b := range state {
			name = SectionEngine + name
			t.copies[name] = append(t.copies[name][:0], b...)
			sections[name] = t.copies[name]
		}
	}
	held, err := t.Store.State()
	if err != nil {
		return err
	}
	if held != nil {
		sections[SectionStore+t.Dir.File.Store] = held
	}
	position, standing := int64(t.position()), t.standing(t.now.Epoch, t.done)
	t.Dir.Later(func() error {
		p.Metrics = t.Dir.MetricsEnd
		if err := t.Dir.SaveCheckpoint(position, &p, sections, t.Keep); err != nil {
			return err
		}
		t.kept = standing
		return nil
	})
	t.saved, t.fresh = time.Now(), false
	return nil
}

// checkpointNow writes a checkpoint before it returns.
func (t *Trainer) checkpointNow() error {
	if err := t.written(); err != nil {
		return err
	}
	if err := t.checkpoint(); err != nil {
		return err
	}
	return t.written()
}

// leave writes a checkpoint of the work since the latest one, since the run ends here. A plan, which
// has no directory, keeps nothing.
func (t *Trainer) leave() {
	if !t.fresh || t.Dir == nil {
		return
	}
	if err := t.checkpointNow(); err != nil {
		t.note("the work since the latest checkpoint is lost: %v", err)
	}
}

// checkpointLast writes a checkpoint of the last epoch before it is judged. From it the run can be
// extended as if it had been begun with more epochs: the last epoch may be validated only because
// it is the last. If the checkpoint cannot be written, the run continues without it.
func (t *Trainer) checkpointLast() {
	if t.Engine == nil || t.now.Epoch != t.schedule.Epochs-1 || t.Recipe.Bound() != "" {
		return
	}
	if err := t.checkpointNow(); err != nil {
		_ = t.Dir.Checkpoints().Remove() // a partial file: the weights may need its disk space
		t.note("the checkpoint that could make the run longer was not written: %v", err)
		return
	}
	t.Dir.Extensible = true
}

// goOn restores the trainer from a checkpoint, before memory is needed for batches. Rank 0 alone
// takes over the sums.
func (t *Trainer) goOn(c *Point) error {
	t.done, t.shared = c.At.Batch, c.At.Batch
	if !t.Root() {
		t.begin(c.At.Epoch)
		t.done, t.shared = c.At.Batch, c.At.Batch
		if t.Engine == nil {
			return nil
		}
		return t.Engine.LoadState(engineSections(c.Sections))
	}
	state := engineSections(c.Sections)
	if err := t.scorer.Load(c.Sections[SectionScorer]); err != nil {
		return fmt.Errorf("%s: %s: %w", c.Name, SectionScorer, err)
	}
	// Another store of the same samples ignores the state, and begins with an empty cache.
	if held, ok := c.Sections[SectionStore+t.Dir.File.Store]; ok {
		if err := t.Store.LoadState(held); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	t.now, t.done, t.loss, t.seeds = c.At.Sums, c.At.Batch, c.At.Loss, c.At.SeedNodes
	if t.Engine == nil {
		return nil
	}
	if err := t.goOnBest(c); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	if err := t.Engine.LoadState(state); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return nil
}

// goOnBest restores the best weights, and weights.safetensors.
func (t *Trainer) goOnBest(c *Point) error {
	b, ok := c.Sections[SectionBest]
	if !ok {
		return t.Dir.Remove(rundir.WeightsFile)
	}
	count := 0
	for _, p := range t.Engine.Params() {
		count += p.Len()
	}
	if len(b) != 4*count {
		return fault.New(fault.ErrCorrupt, "the section %q has %d bytes, which does not fit %d weights", SectionBest, len(b), count)
	}
	t.best = make([]float32, len(b)/4)
	copy(binio.Bytes(t.best), b)
	if err := t.Engine.Restore(t.best); err != nil {
		return err
	}
	return errors.Join(t.saveWeights(rundir.WeightsFile, c.At.BestEpoch), t.written())
}

// saveWeights writes a copy of the weights after an epoch, while the run goes on. No loss reflects the last update of an epoch, so
// the weights are checked for finite values.
func (t *Trainer) saveWeights(name string, epoch int) error {
	weights, err := t.Engine.Snapshot(nil)
	if err != nil {
		return err
	}
	list := rundir.ToTensors(t.Engine.Params(), weights)
	for i := range list {
		if !cpu.Finite(list[i].Data) {
			return t.diverged(fmt.Sprintf("after epoch %d the weights %s are not finite", epoch, list[i].Name))
		}
	}
	t.Dir.Later(func() error { return t.Dir.SaveWeights(name, list, epoch) })
	return nil
}
