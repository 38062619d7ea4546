package train

import (
	"context"
	"errors"
	"syscall"
	"time"

	"diskgnn/featurestore"
	"diskgnn/featurestore/onthefly"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pipeline"
	"diskgnn/train/collective"
	"diskgnn/train/decide"
	"diskgnn/train/exact"
	"diskgnn/train/rundir"
)

// plannedBatches is the number of training batches, and of validation batches, that a plan
// computes.
const plannedBatches = 3

// Plan is the predicted time, memory and disk space of a run. The JSON keys are stable.
type Plan struct {
	Store  string `json:"store"`
	IO     string `json:"io"`
	Engine string `json:"engine"`

	Epochs          int `json:"epochs"`
	BatchesPerEpoch int `json:"batches_per_epoch"`
	Measured        int `json:"measured_batches"` // of training, after one that was not measured

	Slots       int   `json:"slots"`
	MemoryBytes int64 `json:"memory_bytes"`          // held at most
	CacheRows   int64 `json:"cache_rows"`            // held of the rows, the GPU's included
	CacheBytes  int64 `json:"cache_bytes"`           // in RAM
	HeldBytes   int64 `json:"held_bytes"`            // of further rows in RAM, for evaluation batches alone
	ExactBytes  int64 `json:"exact_bytes,omitempty"` // of an exact validation
	GPUBytes    int64 `json:"gpu_memory_bytes"`

	DiskBytes int64 `json:"disk_bytes"` // of the run's directory at most
	FreeBytes int64 `json:"free_bytes"` // where it would be made

	PreloadBytes   int64   `json:"preload_bytes"` // read into the cache before the first step
	PreloadSeconds float64 `json:"preload_seconds"`

	// Of an epoch of training, extrapolated from the measured batches: bytes read from disk, the
	// bytes of them that were used, and seconds, if links overlap perfectly. With EmptyCache the
	// measurement began with an empty cache, which batches fill: a whole epoch, and more so a later
	// one, may read less.
	EpochBytes   int64   `json:"epoch_bytes"`
	UsefulBytes  int64   `json:"epoch_useful_bytes"`
	EpochSeconds float64 `json:"epoch_seconds"`
	EmptyCache   bool    `json:"empty_cache,omitempty"`
	// ValidSeconds is the time of one validation.
	ValidSeconds float64 `json:"valid_seconds"`
	// Drawn are counts of an epoch of batches that are drawn while training.
	Drawn *onthefly.Drawn `json:"drawn,omitempty"`
	// Exact is the plan of one exact validation, if that is the kind.
	Exact *exact.Plan `json:"exact_validation,omitempty"`

	// Types and TypeInputs are of a typed graph, as in featurestore.Facts.
	Types      *graph.Types `json:"types,omitempty"`
	TypeInputs []int64      `json:"type_input_nodes,omitempty"`

	Links []LinkSeconds `json:"stages"`
	// Bound names the link that the others wait for.
	Bound string `json:"bound_stage"`

	Seconds float64 `json:"seconds"` // of all epochs and validations, with filling the cache
}

// LinkSeconds is the time that a link of the pipeline takes for a batch.
type LinkSeconds struct {
	Link    string  `json:"stage"`
	Seconds float64 `json:"batch_seconds"`
}

// MakePlan predicts the time, memory and disk space of Run with the options. It prepares a run as
// Run does, fills its cache, and loads and computes a few batches, but writes nothing.
func MakePlan(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (Plan, error) {
	g := newGPUDevice(0)
	defer g.close()
	return makePlan(ctx, fsys, o, nil, rep, usual(g.openStack, g.newEngine))
}

// Plannable refuses options of runs that MakePlan cannot plan.
func (o *Options) Plannable() error {
	switch {
	case o.Resume:
		return fault.New(fault.ErrUsage, "--plan is for a new run: leave --resume out")
	case o.Replicas != 0 && o.Replicas != 1 || o.world() > 1:
		return fault.New(fault.ErrUsage, "--plan is for one process and one device: leave --rank and --gpus out; each rank takes the same memory, and computes its part of the batches")
	}
	return nil
}

func makePlan(ctx context.Context, fsys vfs.FS, o Options, consumer func(*featurestore.Facts) decide.Needs, rep progress.Reporter, parts parts) (Plan, error) {
	if err := o.Plannable(); err != nil {
		return Plan{}, err
	}
	o.CheckpointEvery = rundir.Interval{}
	o.EnsureDefaults()
	unsummed, err := o.hashWeights(fsys)
	if err != nil {
		return Plan{}, err
	}
	if err := o.Validate(); err != nil {
		return Plan{}, err
	}
	// A trace is not written, but counts in the memory, and its name is checked.
	if _, err := newRecording(fsys, o.Record, o.Out); err != nil {
		return Plan{}, err
	}
	free := int64(0)
	where, err := vfs.Nearest(fsys, o.Out)
	if err == nil {
		free, err = fsys.Free(where)
	}
	if err != nil {
		return Plan{}, err
	}
	p := &process{fs: vfs.ReadOnly(fsys), report: rep, parts: parts, group: collective.One()}
	defer p.drawing.close()
	var plan Plan
	err = p.attempts(func() (err error) {
		r := &runner{process: p, out: o.Out, source: o.source(), root: true, began: time.Now(), planning: true, consumer: consumer, unsummed: unsummed}
		defer r.close()
		if err := r.prepare(ctx, &o); err != nil {
			return p.drawing.noRoom(r.remake(err), o.Out)
		}
		plan, err = r.measure(ctx)
		return r.remake(err)
	})
	plan.FreeBytes = free
	return plan, planError(ctx, err)
}

// planError adds advice to a plan's error.
func planError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case fault.EndedBy(ctx, err):
		return fault.New(fault.ErrInterrupted, "interrupted; nothing was kept")
	case errors.Is(err, syscall.EROFS):
		return fault.New(fault.ErrUsage, "--plan writes nothing, but this store writes a file before it reads: train with it once, or plan with another --store (%v)", err)
	}
	return err
}

// measure fills the cache, and trains and validates on a few batches.
func (r *runner) measure(ctx context.Context) (p Plan, err error) {
	t, err := r.newTrainer(r.replicas[0], nil)
	if err != nil {
		return p, err
	}
	defer t.Close()
	if p.PreloadBytes, err = t.Fill(ctx, r.report); err != nil {
		return p, err
	}
	p.PreloadSeconds = r.result.PreloadSeconds
	slots := r.slots()
	slots.Few = plannedBatches
	if err := t.Start(ctx, slots); err != nil {
		return p, err
	}
	n, sums, table, err := t.Sample(ctx, plannedBatches)
	if err != nil {
		return p, err
	}
	r.describe(&p, n, &sums, table)
	validated, seconds, err := t.SampleValidation(ctx)
	if err != nil {
		return p, err
	}
	if r.exact != nil {
		scores, err := r.exact.Plan(ctx)
		if err != nil {
			return p, err
		}
		p.Exact, p.ValidSeconds = &scores, scores.Seconds
		p.DiskBytes += scores.DiskBytes
	} else if validated > 0 {
		p.ValidSeconds = seconds * float64(r.facts.Valid) / float64(validated)
	}
	times := (p.Epochs + r.decision.Options.ValidateEvery - 1) / r.decision.Options.ValidateEvery
	p.Seconds = p.PreloadSeconds + float64(p.Epochs)*p.EpochSeconds + float64(times)*p.ValidSeconds
	return p, nil
}

// describe fills in the run's memory, and the cost of n batches.
func (r *runner) describe(p *Plan, n int, sums *rundir.Epoch, table pipeline.Table) {
	o, s := &r.decision.Options, r.setup()
	p.Store, p.IO, p.Engine = r.found.Name(), s.IO, s.Engine
	if source := r.drawing.source; source != nil {
		drawn := source.Drawn()
		p.Drawn = &drawn
	}
	p.Types, p.TypeInputs = r.facts.Types, r.facts.TypeInputs
	p.Epochs, p.BatchesPerEpoch, p.Measured = o.Epochs, r.facts.BatchesPerEpoch, n
	p.Slots, p.MemoryBytes = s.Slots, r.decision.Memory.Total
	p.CacheRows, p.CacheBytes, p.HeldBytes, p.GPUBytes = s.CacheRows, s.CacheSize, s.HeldSize, s.GPUBytes
	p.ExactBytes = s.ExactSize
	p.EmptyCache = r.decision.Memory.Layout.ByUse && p.CacheRows > 0
	p.DiskBytes = r.runBytes()

	scale := float64(p.BatchesPerEpoch) / float64(n)
	p.EpochBytes, p.UsefulBytes = int64(float64(sums.BytesRead)*scale), int64(float64(sums.UsefulBytes)*scale)
	for _, l := range table.Links {
		p.Links = append(p.Links, LinkSeconds{l.Link, l.Alone() / float64(n)})
	}
	p.Bound = table.Bound().Link
	p.EpochSeconds = chained(table, n, p.BatchesPerEpoch, p.Slots)
}

// chained returns the seconds that a chain takes for batches, if it took the table's times for n:
// the slowest link is always at work, and the others add to it once. With one slot nothing
// overlaps.
func chained(t pipeline.Table, n, batches, slots int) float64 {
	var all float64 // of a batch
	for _, l := range t.Links {
		all += l.Busy / float64(n) // which one worker does
	}
	if slots == 1 {
		return all * float64(batches)
	}
	return all + t.Bound().Alone()/float64(n)*float64(batches-1)
}

// runBytes returns the largest size of the run's directory: the weights of two epochs, the kept
// checkpoints and the one being written, and lines and pictures of the epochs.
func (r *runner) runBytes() int64 {
	o := &r.decision.Options
	n := int64(o.Epochs) * decide.EpochBytes
	if r.engine() == nil {
		return n
	}
	var weights int64
	for _, p := range r.engine().Params() {
		weights += 4 * int64(p.Len())
	}
	return n + 2*weights + int64(o.Keep+1)*r.decision.Checkpoint()
}
