package presample

import (
	"context"
	"errors"
	"fmt"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/ordered"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
)

// Run samples a dataset. It resumes an interrupted run, does nothing when the
// samples exist, and refuses when they exist with other parameters. Cancelling
// the context leaves what a later run resumes from.
func Run(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (Result, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	d, err := dataset.Open(fsys, o.Dataset)
	if err != nil {
		return Result{}, err
	}
	s := &sampling{o: o, out: o.Shard.DirName(o.Out), fs: fsys, data: d, rep: rep, start: time.Now(), watch: budget.StartWatch(ctx)}
	defer s.watch.Stop()
	if s.params, err = o.params(); err != nil {
		return Result{}, err
	}
	state, err := s.run(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("presample: %w", err)
	}
	return s.describe(state)
}

// sampling is one run of the stage.
type sampling struct {
	o      Options
	out    string // the directory to make
	params mbfile.Params
	fs     vfs.FS
	data   *dataset.Dataset
	rep    progress.Reporter
	start  time.Time
	watch  *budget.Watch
	res    Result

	seeds    *seeds
	layout   mbfile.Layout
	lo, hi   int   // the batches to sample: all, or the shard's
	free     int64 // bytes of memory for the workers
	topology *dataset.Topology
	writer   *mbfile.Writer
	task     progress.Task
}

func (s *sampling) run(ctx context.Context) (stage.State, error) {
	whole := stage.Spec{
		Format: mbfile.FormatFor(s.data.TargetBytes()), Params: s.params, Parents: map[string]string{stage.RoleDataset: s.data.Fingerprint()},
		Check: func(dir string, m *stage.Meta, look stage.Look) error { return mbfile.Check(ctx, s.fs, dir, m, look) },
		Words: words,
	}
	spec, err := s.o.Shard.Spec(whole)
	if err != nil {
		return 0, err
	}
	dir, state, err := stage.Begin(s.fs, s.out, spec, s.o.Force)
	if err != nil {
		return state, err
	}
	if state == stage.StateDone {
		s.rep.Logf("%s is finished already: nothing to do", s.out)
		return state, nil
	}
	if note := dir.Note(); note != "" {
		s.rep.Logf("%s", note)
	}
	return state, errors.Join(s.write(ctx, dir), dir.Close())
}

// write makes the directory's content and commits it.
func (s *sampling) write(ctx context.Context, dir *stage.Dir) (err error) {
	defer budget.LimitHeap(s.o.Memory, 0)()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if s.topology, err = s.data.Topology(ctx, s.rep, s.o.Workers); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.topology.Close()) }()
	s.res.VerifySeconds = time.Since(s.start).Seconds()
	if err := s.seeds.localize(ctx, s.topology, s.o.Workers, s.rep); err != nil {
		return err
	}

	if s.writer, err = mbfile.NewWriter(ctx, dir, s.layout, s.rep); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.writer.Close()) }()
	if s.res.Resumed = s.writer.Next() - s.lo; s.res.Resumed > 0 {
		s.rep.Logf("resuming: %d of %d batches are sampled already", s.res.Resumed, s.hi-s.lo)
	}
	files, facts, err := s.sampleAll(ctx, dir)
	if err != nil {
		return err
	}
	_, err = dir.Commit(files, facts, s.runFacts())
	return err
}

// sampleAll samples what is not there yet and makes it durable.
func (s *sampling) sampleAll(ctx context.Context, dir *stage.Dir) ([]stage.File, mbfile.Facts, error) {
	began := time.Now()
	edges, err := s.samplePhases(ctx, dir)
	if err != nil {
		return nil, mbfile.Facts{}, err
	}
	files, facts, err := s.writer.Finish(s.params.Epochs)
	if err != nil {
		return nil, facts, err
	}
	r := &s.res
	r.SampleSeconds = time.Since(began).Seconds()
	r.EdgesPerSecond = float64(edges) / r.SampleSeconds
	r.BatchesPerSecond = float64(s.hi-s.lo-r.Resumed) / r.SampleSeconds
	r.BytesWritten = -s.writer.ResumedBytes()
	for _, f := range files {
		r.BytesWritten += f.Size
	}
	return files, facts, nil
}

func (s *sampling) samplePhases(ctx context.Context, dir *stage.Dir) (edges int64, err error) {
	phases, err := s.plan(ctx)
	if err != nil {
		return 0, err
	}
	if err := s.checkFree(ctx, dir, phases); err != nil {
		return 0, err
	}
	s.task = s.rep.Task("sample", int64(s.hi-s.lo-s.res.Resumed), progress.Batches)
	defer s.task.Done()
	for _, p := range phases {
		n, err := s.samplePhase(ctx, p)
		if err != nil {
			return 0, err
		}
		edges += n
	}
	return edges, ctx.Err()
}

// prepare reads the seed nodes and adds up what is held beside the workers' part
// of memory.
func (s *sampling) prepare(ctx context.Context) error {
	f := s.data.Facts()
	labels := 4*f.Nodes + int64(s.data.TargetBytes())*(f.Train+f.Valid+f.Test)
	if err := budget.Check("reading the labels", baseMemory+labels, s.o.Memory); err != nil {
		return err
	}
	var err error
	if s.seeds, err = loadSeeds(ctx, s.data, s.params, s.rep); err != nil {
		return err
	}
	perFile := s.o.batchesPerFile
	if perFile == 0 {
		perFile = batchesPerFile(f.Nodes, f.Edges, s.params)
	}
	s.layout = s.seeds.layout(f.Nodes, perFile)
	if n := s.layout.Batches(); n > mbfile.MaxBatches {
		return fault.New(fault.ErrUsage, "%d batches, at most %d can be listed: sample fewer --epochs, or larger batches (--batch-size)", n, mbfile.MaxBatches)
	}
	s.layout.Shard = s.o.Shard
	s.lo, s.hi = s.layout.Span()
	if err := s.seeds.checkMemory(f.Nodes, s.o.Memory); err != nil {
		return err
	}
	s.free = s.o.Memory - baseMemory - s.layout.Memory() - s.seeds.memory(s.o.Workers+spareSlots)
	least := plan{workers: 1}.need(bound(f.Nodes, 0, s.o.BatchSize, s.params.Fanout), 0)
	return budget.Check("sampling", s.o.Memory-s.free+least, s.o.Memory)
}

// slot holds a batch from its drawing to its writing.
type slot struct {
	nodes   []uint32
	labels  []int32
	targets []byte
	encoded mbfile.Encoded
}

// samplePhase samples a phase. A batch that outgrows its worker's share is sampled
// again, with those after it, by half the workers; what is written stays.
func (s *sampling) samplePhase(ctx context.Context, p phase) (edges int64, err error) {
	for {
		n, err := s.sample(ctx, p)
		edges += n
		if err == nil || p.workers == 1 || !errors.Is(err, fault.ErrBudget) {
			return edges, err
		}
		p.plan = p.halved()
		s.rep.Logf("going on with %d workers: %v", p.workers, err)
	}
}

// sample draws and writes the batches of a phase that are not there yet, and
// returns the number of their edges.
func (s *sampling) sample(ctx context.Context, p phase) (edges int64, err error) {
	first := max(p.lo, s.writer.Next())
	if first >= p.hi {
		return 0, nil
	}
	// ordered runs more workers than there are samplers: while one waits for its
	// turn to hand on a batch, another samples.
	samplers := make(chan *sampler, p.workers)
	for range p.workers {
		samplers <- newSampler(&s.topology.CSC, p.newTable(s.layout.Nodes), p.plan, p.fanout)
	}
	slots := make([]*slot, p.workers+spareSlots)
	for i := range slots {
		slots[i] = new(slot)
	}
	work := func(ctx context.Context, t *slot, i int) error {
		by := <-samplers
		defer func() { samplers <- by }()
		if err := s.draw(ctx, by, t, first+i, p.fanout); err != nil {
			return err
		}
		t.encoded.Encode(&by.batch)
		return nil
	}
	emit := func(t *slot, i int) error {
		for _, e := range t.encoded.Edges {
			edges += int64(e)
		}
		s.seeds.done(first + i)
		s.task.Add(1)
		return s.writer.Append(&t.encoded)
	}
	err = ordered.Run(ctx, p.hi-first, slots, work, emit)
	return edges, err
}

// draw samples batch i into the sampler's batch, with the slot's seed nodes.
func (s *sampling) draw(ctx context.Context, by *sampler, t *slot, i int, fanout []int) error {
	key := s.seeds.batch(i, t)
	by.batch.Labels, by.batch.Targets = t.labels, t.targets
	err := s.topology.Guard(func() error { return by.sample(ctx, &by.batch, t.nodes, fanout, key) })
	if err != nil {
		return fmt.Errorf("batch %d: %w", i, err)
	}
	return nil
}
