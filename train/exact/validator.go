package exact

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/all"
	"diskgnn/train/cpu"
	"diskgnn/train/decide"
	"diskgnn/train/model"
	"diskgnn/train/score"
	"diskgnn/train/trained"
)

// ValidationOptions choose the nodes that a run scores exactly while it trains, and the resources.
type ValidationOptions struct {
	Run     string // directory of the run, which errors name
	Scratch string // directory for hidden states on disk, which a score makes and removes
	Dataset string // directory of the dataset
	Batches string // directory of the training batches
	Lineage string // fingerprint of the dataset that they are of
	Model   model.Model
	Metric  string
	Splits  []string // to score, which have nodes
	Memory  int64    // bytes that all of the validator may hold
	Threads int
	IO      string // a kind that iostack/all knows
	BLAS    string
	// GPU computes the layers, and is the caller's; nil: the CPU does.
	GPU device.GPU
}

// Validator scores weights on the nodes of splits, each computed from all of its neighbours: to the bit as Evaluate
// scores them on the same engine. It has opened and checked its inputs once, and keeps them open. It is for one
// goroutine at a time. The scores of an interrupted process are computed anew.
type Validator struct {
	job  *job
	sets []*set
}

// set is the scored nodes of a split, and the steps up to their logits.
type set struct {
	split string
	exam  *exam
	steps []step
}

// OpenValidator opens the inputs, and takes all memory but the memory for a score. A dataset other than the one of the
// training batches is an error of kind fault.ErrLineage. The caller closes the validator before the GPU.
func OpenValidator(ctx context.Context, fsys vfs.FS, o ValidationOptions, rep progress.Reporter) (*Validator, error) {
	j := &job{fs: fsys, report: quiet{rep}, parts: parts{stack: all.Open, gpu: cuda.DeviceOf(o.GPU)}, model: o.Model, states: o.Scratch,
		options: Options{Run: o.Run, Dataset: o.Dataset, Memory: o.Memory, Threads: o.Threads, IO: o.IO, BLAS: o.BLAS, Engine: decide.EngineCPU}}
	if o.GPU != nil {
		j.options.Engine = decide.EngineGPU
	}
	j.options.EnsureDefaults()
	v := &Validator{job: j}
	if err := v.open(ctx, &o); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

func (v *Validator) open(ctx context.Context, o *ValidationOptions) (err error) {
	j := v.job
	if j.data, err = dataset.OpenAny(j.fs, o.Dataset); err != nil {
		return j.ofDataset(err)
	}
	if got := j.data.Fingerprint(); got != o.Lineage {
		return fault.New(fault.ErrLineage, "%s is of the dataset %.12s…, but --dataset %s is %.12s…: exact validation needs the dataset of the batches", o.Batches, o.Lineage, o.Dataset, got)
	}
	f := j.data.Facts()
	if err := j.checkTypes(&f); err != nil {
		return err
	}
	err = j.openLayers(ctx, func(e trained.EngineOptions, held, memory int64) (*cpu.Engine, int64, error) {
		return trained.EmptyEngine(o.Model, e, held, memory)
	})
	if err != nil {
		return err
	}
	held, making := examBytes(&f, o.Metric, o.Splits)
	if err := budget.Check("exact validation", j.fixed+held+making, o.Memory); err != nil {
		return err
	}
	for _, split := range o.Splits {
		e, err := newExam(ctx, j.data, o.Metric, []string{split})
		if err != nil {
			return j.ofDataset(err)
		}
		t := j.everyNode(&f)
		t.ids = e.nodes
		if err := j.makeSteps(ctx, j.model.Layers()-1, t); err != nil {
			return err
		}
		v.sets = append(v.sets, &set{split, e, j.steps})
		release() // the labels of all nodes
	}
	j.fixed += held + j.beside()
	return j.takeGraph(ctx)
}

// each yields the sets; the job's steps are the present set's.
func (v *Validator) each() iter.Seq[*set] {
	return func(yield func(*set) bool) {
		for _, s := range v.sets {
			if v.job.steps = s.steps; !yield(s) {
				return
			}
		}
	}
}

// Needs returns the memory that the validator holds, and that a score takes: at least as much that it reads no more
// than is read by default.
func (v *Validator) Needs() decide.Exact {
	j, f := v.job, v.job.data.Facts()
	n := decide.Exact{Fixed: j.fixed - budget.Reserve, Opening: 4 * f.Nodes}
	for s := range v.each() {
		least, _ := j.least()
		if !j.place(least) || j.readsTooMuch() {
			least = j.leastMemory(least) - j.fixed
		}
		n.Least, n.Most = max(n.Least, least), max(n.Most, j.most())
		if j.gpu == nil {
			continue
		}
		onGPU, _ := j.leastGPU()
		n.GPULeast = max(n.GPULeast, onGPU)
		for k := range s.steps {
			n.GPUMost = max(n.GPUMost, s.steps[k].sizes.MostGPU())
		}
	}
	return n
}

// Arrange plans the scores within bytes of the host's memory and of the GPU's, at least the least ones of Needs. It
// refuses hidden states for which the disk has no room.
func (v *Validator) Arrange(host, gpu int64) error {
	j := v.job
	for s := range v.each() {
		for k := range s.steps {
			if g := s.steps[k].sizes.GPU; g != nil {
				g.Memory = gpu
			}
		}
		if !j.place(host) {
			return fmt.Errorf("no plan of exact validation fits in %s, and %s of the GPU", budget.FormatBytes(host), budget.FormatBytes(gpu))
		}
		if err := checkFree(j.fs, j.states, j.onDisk(), "raise --memory, or give another --out"); err != nil {
			return err
		}
	}
	return nil
}

// Outside returns the most bytes that are held outside of Go's heap.
func (v *Validator) Outside() (n int64) {
	for range v.each() {
		n = max(n, v.job.outside())
	}
	return n
}

// Score returns the score of weights on the nodes of a split, and the bytes read. Weights are in the order of an
// engine's Snapshot. The score of a split that is not among the options' is undefined.
func (v *Validator) Score(ctx context.Context, weights []float32, split string) (_ score.Score, read int64, err error) {
	s := v.set(split)
	if s == nil {
		return score.Undefined, 0, nil
	}
	err = v.compute(ctx, s, weights, func(_ context.Context, lo int, logits []float32) error {
		s.exam.add(lo, logits, v.job.model.Classes())
		return nil
	})
	for _, c := range v.job.costs {
		read += c.BytesRead
	}
	result := s.exam.scorers[0].Score() // which clears the scorer, also after an error
	if err != nil {
		return score.Undefined, read, fmt.Errorf("exact validation: %w", err)
	}
	return result, read, nil
}

// compute computes the logits of a set.
func (v *Validator) compute(ctx context.Context, s *set, weights []float32, emit emitting) (err error) {
	defer release()
	j := v.job
	j.steps, j.costs = s.steps, nil
	if j.gpu != nil {
		j.gpu.weights = weights
	} else if err := j.engine.Restore(weights); err != nil {
		return err
	}
	if bytes := j.onDisk(); bytes > 0 {
		if j.scratch, err = openScratch(j.fs, j.states, bytes); err != nil {
			return err
		}
		defer func() {
			err = errors.Join(err, j.scratch.close())
			j.scratch = nil
		}()
	}
	return j.compute(ctx, emit)
}

func (v *Validator) set(split string) *set {
	for _, s := range v.sets {
		if s.split == split {
			return s
		}
	}
	return nil
}

// String describes the scores in a line.
func (v *Validator) String() string {
	text := "exact"
	for s := range v.each() {
		text += fmt.Sprintf(", %s nodes: %s, reads %s", s.split, units.Count(int64(len(s.exam.nodes))), budget.FormatBytes(v.job.reads().bytes))
	}
	if n := v.onDisk(); n > 0 {
		text += fmt.Sprintf(", hidden states on disk: %s", budget.FormatBytes(n))
	}
	return text
}

// onDisk returns the most bytes of hidden states on disk at a time.
func (v *Validator) onDisk() (n int64) {
	for range v.each() {
		n = max(n, v.job.onDisk())
	}
	return n
}

// Plan predicts the memory, the reads and the seconds of a score on the first of the splits, as arranged. It computes
// samples.
func (v *Validator) Plan(ctx context.Context) (p Plan, err error) {
	j := v.job
	j.steps, j.began = v.sets[0].steps, time.Now()
	if err := j.fill(&p); err != nil {
		return Plan{}, err
	}
	if err := j.foretell(ctx, &p, 0); err != nil {
		return Plan{}, err
	}
	return p, nil
}

// Close releases everything.
func (v *Validator) Close() error { return v.job.close() }

// quiet passes on long tasks, and no lines: they would come with every score.
type quiet struct{ progress.Reporter }

// visibleRows is the least number of rows that pass by in a task with a progress bar.
const visibleRows = 1 << 20

func (q quiet) Task(name string, total int64, unit progress.Unit) progress.Task {
	if total < visibleRows {
		return progress.Discard.Task(name, total, unit)
	}
	return q.Reporter.Task("exact validation, "+name, total, unit)
}

func (quiet) Logf(string, ...any) {}
