package presample

import (
	"context"
	"errors"
	"fmt"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/budget"
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
	s := &sampling{o: o, fs: fsys, data: d, rep: rep, start: time.Now(), watch: budget.StartWatch(ctx)}
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
	params mbfile.Params
	fs     vfs.FS
	data   *dataset.Dataset
	rep    progress.Reporter
	start  time.Time
	watch  *budget.Watch
	res    Result

	seeds    *seeds
	layout   mbfile.Layout
	held     int64 // bytes beside the workers'
	topology *dataset.Topology
	writer   *mbfile.Writer
	task     progress.Task
}

func (s *sampling) run(ctx context.Context) (stage.State, error) {
	spec := stage.Spec{Format: mbfile.Format, Params: s.params, Parents: map[string]string{stage.RoleDataset: s.data.Fingerprint()}}
	dir, state, err := stage.Begin(s.fs, s.o.Out, spec, s.o.Force)
	if err != nil {
		return state, err
	}
	if state == stage.StateDone {
		s.rep.Logf("%s is finished already: nothing to do", s.o.Out)
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
	phases, err := s.prepare()
	if err != nil {
		return err
	}
	if s.topology, err = s.data.Topology(ctx, s.rep, s.o.Workers); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.topology.Close()) }()
	s.res.VerifySeconds = time.Since(s.start).Seconds()

	if s.writer, err = mbfile.NewWriter(ctx, dir, s.layout, s.rep); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.writer.Close()) }()
	if s.res.Resumed = s.writer.Next(); s.res.Resumed > 0 {
		s.rep.Logf("resuming: %d of %d batches are sampled already", s.res.Resumed, s.layout.Batches())
	}
	began := time.Now()
	s.task = s.rep.Task("sample", int64(s.layout.Batches()-s.res.Resumed), progress.Batches)
	defer s.task.Done()
	var edges int64
	for _, p := range phases {
		n, err := s.sample(ctx, p)
		if err != nil {
			return err
		}
		edges += n
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	files, facts, err := s.writer.Finish(s.params.Epochs)
	if err != nil {
		return err
	}
	s.res.SampleSeconds = time.Since(began).Seconds()
	s.res.EdgesPerSecond = float64(edges) / s.res.SampleSeconds
	s.res.BatchesPerSecond = float64(s.layout.Batches()-s.res.Resumed) / s.res.SampleSeconds
	for _, f := range files {
		s.res.BytesWritten += f.Size
	}
	s.res.BytesWritten -= s.writer.ResumedBytes()
	_, err = dir.Commit(files, facts, s.runFacts())
	return err
}

// phase is a range of batches with one fanout.
type phase struct {
	lo, hi int
	fanout []int
	plan
}

// prepare reads the seed nodes and fits both phases into memory.
func (s *sampling) prepare() ([]phase, error) {
	f := s.data.Facts()
	if err := budget.Check("reading the labels", baseMemory+4*f.Nodes, s.o.Memory); err != nil {
		return nil, err
	}
	var err error
	if s.seeds, err = loadSeeds(s.data, s.params, s.rep); err != nil {
		return nil, err
	}
	s.layout = s.seeds.layout(f.Nodes, s.o.batchesPerFile)
	s.held = baseMemory + s.layout.Memory() + s.seeds.memory(s.o.Workers+spareSlots)
	phases := []phase{
		{lo: 0, hi: s.layout.Train, fanout: s.params.Fanout},
		{lo: s.layout.Train, hi: s.layout.Batches(), fanout: s.params.EvalFanout},
	}
	for i := range phases {
		p := &phases[i]
		if p.plan, err = divide(&s.o, s.held, f.Nodes, worstCase(f.Nodes, f.Edges, s.o.BatchSize, p.fanout)); err != nil {
			return nil, err
		}
		if p.lo < p.hi && p.workers < s.o.Workers {
			s.rep.Logf("--memory allows %d of %d workers at fanout %v", p.workers, s.o.Workers, p.fanout)
		}
	}
	s.res.Workers, s.res.Table = phases[0].workers, phases[0].table()
	return phases, nil
}

// slot holds a batch from its drawing to its writing.
type slot struct {
	nodes   []uint32
	labels  []int32
	encoded mbfile.Encoded
}

// sample draws and writes the batches of a phase that are not there yet, and
// returns the number of their edges.
func (s *sampling) sample(ctx context.Context, p phase) (edges int64, err error) {
	first := max(p.lo, s.writer.Next())
	if first >= p.hi {
		return 0, nil
	}
	// There are more workers than samplers: while one of them waits for its turn
	// to hand on a batch, another one samples.
	samplers := make(chan *sampler, p.workers)
	for range p.workers {
		samplers <- newSampler(&s.topology.CSC, p.newTable(s.layout.Nodes), p.share, p.fanout)
	}
	slots := make([]*slot, p.workers+spareSlots)
	for i := range slots {
		slots[i] = new(slot)
	}
	work := func(ctx context.Context, t *slot, i int) error {
		i += first
		sampler := <-samplers
		defer func() { samplers <- sampler }()
		var key uint64
		t.nodes, t.labels, key = s.seeds.batch(i, t.nodes[:0], t.labels[:0])
		sampler.batch.Labels = t.labels
		err := s.topology.Guard(func() error { return sampler.sample(ctx, &sampler.batch, t.nodes, p.fanout, key) })
		if err != nil {
			return fmt.Errorf("batch %d: %w", i, err)
		}
		t.encoded.Encode(&sampler.batch)
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

// newTable makes a table of the kind planned.
func (p plan) newTable(nodes int64) table {
	if p.hash {
		return newHashTable(0)
	}
	return newArrayTable(nodes)
}
