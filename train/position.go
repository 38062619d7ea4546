package train

import (
	"fmt"
	"strings"
	"time"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// position is the head of a checkpoint: where a run stands, and what it has summed up.
type position struct {
	// Run is a hash over what the weights follow from: only that run goes on from here.
	Run string `json:"run"`
	// Epoch is under way, Batch of its batches are trained on, in whole steps. If all are, it
	// is yet to be validated.
	Epoch int `json:"epoch"`
	Batch int `json:"batch"`

	Sums      rundir.Epoch `json:"sums"` // of the epoch under way, so far
	Loss      float64      `json:"loss"` // summed over its labelled seed nodes
	SeedNodes int          `json:"seed_nodes"`

	BestEpoch      int         `json:"best_epoch"`
	ValidAccuracy  score.Score `json:"valid_accuracy"` // of the best epoch
	PreloadBytes   int64       `json:"preload_bytes"`
	PreloadSeconds float64     `json:"preload_seconds"`
	Seconds        float64     `json:"seconds"` // of the whole run

	Metrics rundir.MetricsEnd `json:"metrics"`
}

// check refuses a position that no run with so many epochs can be at.
func (p *position) check(epochs int, l limits) error {
	whole := func(v int64, most float64) bool { return v >= 0 && float64(v) <= most }
	const long = 1 << 60 // bytes that no run reads, and seconds that none takes
	s := &p.Sums
	switch {
	case p.Epoch < 0 || p.Epoch > epochs || p.Batch < 0 || p.Batch > l.perEpoch || p.Epoch == epochs && p.Batch > 0:
		return fmt.Errorf("epoch %d, batch %d of %d epochs of %d batches", p.Epoch, p.Batch, epochs, l.perEpoch)
	case p.Batch < l.perEpoch && p.Batch%l.accumulate != 0:
		return fmt.Errorf("batch %d is within a step of %d", p.Batch, l.accumulate)
	case s.Epoch != p.Epoch || s.Batches != l.perEpoch:
		return fmt.Errorf("sums of epoch %d, of %d batches, in epoch %d of %d", s.Epoch, s.Batches, p.Epoch, l.perEpoch)
	case !whole(int64(p.SeedNodes), float64(l.seeds)):
		return fmt.Errorf("%d seed nodes of at most %d", p.SeedNodes, l.seeds)
	case p.BestEpoch < -1 || p.BestEpoch >= max(p.Epoch, 0):
		return fmt.Errorf("epoch %d is the best of %d", p.BestEpoch, p.Epoch)
	case !whole(p.PreloadBytes, long) || !whole(s.BytesRead, long) || !whole(s.UsefulBytes, long) || !whole(s.SSDBytesRead, long) ||
		!whole(s.SSDUsefulBytes, long) || !whole(s.GraphBytesRead, long) || !whole(s.RAMBytes, long) || !whole(s.GPUServedBytes, long) || !whole(s.BufferBytes, long) ||
		!whole(s.TopologyBytesRead, long) || !whole(s.TopologyRequests, long):
		return fmt.Errorf("impossible numbers of bytes")
	case !whole(s.InputNodes, long) || !whole(s.Requests, long):
		return fmt.Errorf("impossible numbers of rows and requests")
	case !whole(s.PageHits, long) || !whole(s.PageMisses, long):
		return fmt.Errorf("impossible numbers of accesses of pages")
	case !(p.PreloadSeconds >= 0 && p.PreloadSeconds < 1e9) || !(p.Seconds >= 0 && p.Seconds < 1e9) || !(s.Seconds >= 0 && s.Seconds < 1e9):
		return fmt.Errorf("impossible times")
	}
	return nil
}

// Sections of a checkpoint, beside the engine's.
const (
	sectionEngine = "engine/" // begins the names of the engine's parts
	sectionBest   = "best"    // weights of the best epoch, absent before the first
	sectionScorer = "scorer"
	sectionStore  = "store/" // begins the name of what a store holds, which its own ends
)

// checkSections refuses sections that are not those of the position.
func (p *position) checkSections(sections map[string][]byte) error {
	for name := range sections {
		if name != sectionBest && name != sectionScorer && !strings.HasPrefix(name, sectionEngine) && !strings.HasPrefix(name, sectionStore) {
			return fmt.Errorf("the section %.40q", name)
		}
	}
	if _, ok := sections[sectionScorer]; !ok {
		return fmt.Errorf("no section %q", sectionScorer)
	}
	if _, ok := sections[sectionBest]; ok != (p.BestEpoch >= 0) {
		return fmt.Errorf("epoch %d is the best, and the section %q is there: %t", p.BestEpoch, sectionBest, ok)
	}
	return nil
}

// checkpointArrays are the arrays as long as the weights in a checkpoint: these, two
// moments, and the best weights.
const checkpointArrays = 4

// position returns how many of the run's batches are done.
func (t *trainer) position() int { return t.now.Epoch*t.schedule.perEpoch + t.done }

// checkpointDue tells whether it is time for a checkpoint once so many of the epoch's batches
// are done.
func (t *trainer) checkpointDue(done int, epochEnds bool) bool {
	batches := t.now.Epoch*t.schedule.perEpoch + done
	return t.options.CheckpointEvery.Due(batches, done-t.schedule.begun(done), time.Since(t.saved), epochEnds)
}

// checkpoint writes where the run stands after the last step.
func (t *trainer) checkpoint() error {
	if err := t.settle(); err != nil {
		return err
	}
	run, err := t.dir.File.Identity()
	if err != nil {
		return err
	}
	t.tally(0)
	p := position{
		Run: run, Epoch: t.now.Epoch, Batch: t.done, Sums: t.now, Loss: t.loss, SeedNodes: t.seeds,
		BestEpoch: t.result.BestEpoch, ValidAccuracy: t.result.ValidAccuracy,
		PreloadBytes: t.result.PreloadBytes, PreloadSeconds: t.result.PreloadSeconds,
		Seconds: time.Since(t.began).Seconds(), Metrics: t.dir.MetricsEnd,
	}
	p.Sums.Seconds, p.Sums.Links = t.table.Seconds+t.preload, t.table.Links
	if !t.running.IsZero() {
		p.Sums.Seconds += time.Since(t.running).Seconds()
	}
	t.gpu.idle(t.table, p.Sums.Seconds-t.preload)
	sections := map[string][]byte{sectionScorer: t.scorer.State()}
	if t.best != nil {
		sections[sectionBest] = binio.Bytes(t.best)
	}
	if t.engine != nil {
		state, err := t.engine.State()
		if err != nil {
			return err
		}
		for name, b := range state {
			sections[sectionEngine+name] = b
		}
	}
	held, err := t.store.State()
	if err != nil {
		return err
	}
	if held != nil {
		sections[sectionStore+t.dir.File.Store] = held
	}
	if err := t.dir.saveCheckpoint(int64(t.position()), &p, sections, t.options.Keep); err != nil {
		return err
	}
	t.saved, t.fresh, t.kept = time.Now(), false, &standing{t.now.Epoch, t.done}
	return nil
}

// engineSections returns the engine's parts of a checkpoint.
func engineSections(sections map[string][]byte) map[string][]byte {
	state := make(map[string][]byte)
	for name, b := range sections {
		if part, ok := strings.CutPrefix(name, sectionEngine); ok {
			state[part] = b
		}
	}
	return state
}

// goOn takes over what a checkpoint holds, before memory is needed for batches. What it has
// summed up is rank 0's.
func (t *trainer) goOn(c *resumePoint) error {
	t.done, t.shared = c.at.Batch, c.at.Batch
	if !t.root() {
		t.begin(c.at.Epoch)
		t.done, t.shared = c.at.Batch, c.at.Batch
		if t.engine == nil {
			return nil
		}
		return t.engine.LoadState(engineSections(c.sections))
	}
	state := engineSections(c.sections)
	if err := t.scorer.Load(c.sections[sectionScorer]); err != nil {
		return fmt.Errorf("%s: %s: %w", c.name, sectionScorer, err)
	}
	// Another store of the same samples takes over nothing, and begins with an empty cache.
	if held, ok := c.sections[sectionStore+t.dir.File.Store]; ok {
		if err := t.store.LoadState(held); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	t.now, t.done, t.loss, t.seeds = c.at.Sums, c.at.Batch, c.at.Loss, c.at.SeedNodes
	if t.engine == nil {
		return nil
	}
	if err := t.goOnBest(c); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if err := t.engine.LoadState(state); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

// takeTimes continues the table of links with those of an earlier process.
func (t *trainer) takeTimes(sums *rundir.Epoch) {
	t.table.Seconds = sums.Seconds
	for i := range t.table.Links {
		for _, was := range sums.Links {
			if s := &t.table.Links[i]; s.Link == was.Link {
				s.Busy, s.Blocked = was.Busy, was.Blocked
			}
		}
	}
}

// goOnBest takes over the best weights, and makes weights.safetensors what it was.
func (t *trainer) goOnBest(c *resumePoint) error {
	b, ok := c.sections[sectionBest]
	if !ok {
		return t.dir.Remove(rundir.WeightsFile)
	}
	count := 0
	for _, p := range t.engine.Params() {
		count += p.Len()
	}
	if len(b) != 4*count {
		return fault.New(fault.ErrCorrupt, "%q has %d bytes of %d weights", sectionBest, len(b), count)
	}
	t.best = make([]float32, len(b)/4)
	copy(binio.Bytes(t.best), b)
	if err := t.engine.Restore(t.best); err != nil {
		return err
	}
	return t.saveWeights(rundir.WeightsFile, c.at.BestEpoch)
}
