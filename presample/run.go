package presample

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/budget"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
)

// Run samples a dataset into a SAMPLES directory or a shard of it. It resumes an interrupted run, and
// does nothing if the samples exist. Samples with other parameters are an error, unless o.Force
// replaces them. Cancelling ctx leaves files that a later run resumes from.
func Run(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (Result, error) {
	s, err := begin(fsys, o, rep)
	if err != nil {
		return Result{}, err
	}
	s.watch = budget.StartWatch(ctx)
	defer s.watch.Stop()
	state, err := s.run(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("presample: %w", err)
	}
	return s.describe(state)
}

// begin checks the options and opens the dataset.
func begin(fsys vfs.FS, o Options, rep progress.Reporter) (*sampling, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	d, err := dataset.OpenLabelled(fsys, o.Dataset)
	if err != nil {
		return nil, err
	}
	s := &sampling{o: o, out: o.Shard.DirName(o.Out), fs: fsys, data: d, rep: rep, start: time.Now()}
	if s.params, err = o.params(); err == nil {
		err = o.settle(&s.params, d.Facts().Types)
	}
	return s, err
}

// spec returns the specification of all samples, of a dataset that decides format and parents.
func (s *sampling) spec(ctx context.Context, format stage.Format, parents map[string]string) stage.Spec {
	return stage.Spec{
		Format: format, Params: s.params, Parents: parents,
		Check: func(dir string, m *stage.Meta, look stage.Look) error { return mbfile.Check(ctx, s.fs, dir, m, look) },
		Words: words,
	}
}

func (s *sampling) run(ctx context.Context) (stage.State, error) {
	spec, err := s.o.Shard.Spec(s.spec(ctx, mbfile.FormatFor(s.data.TargetBytes(), s.data.Facts().Types != nil), map[string]string{stage.RoleDataset: s.data.Fingerprint()}))
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
	return state, dir.End(s.write(ctx, dir))
}

// write makes the directory's content and commits it.
func (s *sampling) write(ctx context.Context, dir *stage.Dir) (err error) {
	defer s.limitHeap()()
	if err := s.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	if s.writer, err = mbfile.NewWriter(ctx, dir, s.layout, s.rep); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.writer.Close()) }()
	if s.res.Resumed = s.writer.Next() - s.lo; s.res.Resumed > 0 {
		s.rep.Logf("resuming: %d of %d batches are sampled already", s.res.Resumed, s.hi-s.lo)
	}
	dir.Watch(s.topology.Unchanged)
	files, facts, err := s.sampleAll(ctx, dir)
	if err != nil {
		return err
	}
	_, err = dir.Commit(files, facts, s.runFacts())
	return err
}

// open makes the seeds and the topology ready to draw with. The caller calls close.
func (s *sampling) open(ctx context.Context) (err error) {
	if err := s.prepare(ctx); err != nil {
		return s.withEnough(err)
	}
	if s.topology, err = topology.Open(ctx, s.data, topology.Options{Level: s.o.Topology.Level, Workers: s.o.Workers}, s.rep); err != nil {
		return err
	}
	s.res.VerifySeconds = time.Since(s.start).Seconds()
	if err := topology.Localize(ctx, s.seeds, s.topology, s.data, s.o.Workers, s.rep); err != nil {
		return errors.Join(err, s.close())
	}
	if err := s.countDegrees(ctx); err != nil {
		return errors.Join(err, s.close())
	}
	return nil
}

// sampleAll samples the missing batches and makes them durable.
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
	phases, err := s.allot(ctx)
	if err != nil {
		return 0, s.withEnough(s.refused(err))
	}
	if err := s.checkFree(ctx, dir, phases); err != nil {
		return 0, err
	}
	s.task = s.rep.Task("sample", int64(s.hi-s.lo-s.res.Resumed), progress.Batches)
	defer s.task.Done()
	for _, p := range phases {
		n, err := s.samplePhase(ctx, p)
		if err != nil {
			return 0, s.withEnough(s.refused(err))
		}
		edges += n
	}
	return edges, ctx.Err()
}

// prepare reads the seed nodes, and computes the memory that is held beside the workers.
func (s *sampling) prepare(ctx context.Context) error {
	f := s.data.Facts()
	if err := s.check("reading the labels", s.labelMemory()); err != nil {
		return err
	}
	var err error
	if s.seeds, err = sampler.Load(ctx, s.data, s.params, s.rep); err != nil {
		return err
	}
	perFile := s.o.batchesPerFile
	if perFile == 0 {
		perFile = batchesPerFile(&f, s.params)
	}
	s.layout = mbfile.Layout{
		Nodes: f.FeatureRows(), Types: f.Types, SeedType: f.LabelledType, Layers: len(s.params.Fanout),
		Train: s.params.Epochs * s.seeds.Batches(sampler.Train), Valid: s.seeds.Batches(sampler.Valid), Test: s.seeds.Batches(sampler.Test),
		BatchesPerFile: perFile, TargetBytes: s.seeds.TargetBytes(),
	}
	if n := s.layout.Batches(); n > mbfile.MaxBatches {
		return fault.New(fault.ErrUsage, "%d batches are more than %d, the limit: sample fewer --epochs, or larger batches (--batch-size)", n, mbfile.MaxBatches)
	}
	s.layout.Shard = s.o.Shard
	s.lo, s.hi = s.layout.Span()
	if n := s.seeds.LocalizeMemory(f.Nodes); n > 0 {
		if err := s.check("--order overlap", budget.Reserve+s.seeds.Memory(0)+n); err != nil {
			return err
		}
	}
	s.room = s.o.Memory - s.beside(&s.layout, s.seeds.Memory(s.underWay()))
	if err := s.reserveTopology(); err != nil {
		return err
	}
	least := allotment{workers: 1}.need(sampler.Bound(f.Nodes, 0, s.o.BatchSize, s.params.Fanout), 0)
	return s.refused(s.check("sampling", s.o.Memory-s.room+least))
}

// samplePhase samples a phase. If a batch outgrows its worker's share, half the workers sample it and
// the following batches again; written batches are kept.
func (s *sampling) samplePhase(ctx context.Context, p phase) (edges int64, err error) {
	for {
		n, err := s.sample(ctx, p)
		edges += n
		if err == nil || p.workers == 1 || !errors.Is(err, fault.ErrBudget) {
			return edges, err
		}
		p.allotment = p.halved()
		s.rep.Logf("continuing with %d workers: %v", p.workers, err)
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
	samplers := make(chan drawer, p.workers)
	defer func() {
		for range len(samplers) {
			s.free(<-samplers)
		}
	}()
	for range p.workers {
		by, err := s.newDrawer(p.allotment, &p)
		if err != nil {
			return 0, err
		}
		samplers <- by
	}
	slots := make([]*mbfile.Encoded, p.workers+spareSlots(p.workers))
	for i := range slots {
		slots[i] = new(mbfile.Encoded)
	}
	work := func(ctx context.Context, slot *mbfile.Encoded, i int) error {
		by := <-samplers
		defer func() { samplers <- by }()
		batch, err := s.draw(ctx, by, first+i)
		if err != nil {
			return err
		}
		err = s.writer.Encode(slot, first+i, batch)
		s.heap.follow(s.o.Memory)
		return err
	}
	perEpoch := s.seeds.Batches(sampler.Train)
	emit := func(slot *mbfile.Encoded, i int) error {
		for _, e := range slot.Edges {
			edges += int64(e)
		}
		s.seeds.Forget((first + i) / perEpoch)
		s.task.Add(1)
		return s.writer.Append(slot)
	}
	err = errgroup.Ordered(ctx, p.hi-first, slots, work, emit)
	for _, slot := range slots { // after an error, some are counted and not written
		s.writer.Discard(slot)
	}
	return edges, err
}

func (s *sampling) runFacts() runFacts {
	host, _ := os.Hostname() // a run without a name is no reason to fail
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	return runFacts{
		Host: host, Started: s.start.UTC().Format(time.RFC3339), Version: version, Go: runtime.Version(),
		Workers: s.res.Workers, Memory: s.o.Memory, Table: s.res.Table,
		Seconds: time.Since(s.start).Seconds(), Rate: s.res.EdgesPerSecond,
	}
}

// describe completes the result from the finished directory.
func (s *sampling) describe(state stage.State) (Result, error) {
	open := mbfile.Open
	if !s.o.Shard.Whole() {
		open = mbfile.OpenShard
	}
	r, err := open(s.fs, s.out)
	if err != nil {
		return Result{}, err
	}
	defer r.Close()
	f, res := r.Facts(), &s.res
	res.Out, res.Fingerprint = s.out, r.Fingerprint()
	res.State = state.String()
	res.Batches, res.Epochs = f.Batches(), f.Epochs
	res.TrainBatches, res.ValidBatches, res.TestBatches = f.TrainBatches, f.ValidBatches, f.TestBatches
	res.SeedNodes = f.Train.SeedNodes + f.Eval.SeedNodes
	res.InputNodes = f.Train.InputNodes + f.Eval.InputNodes
	res.Edges = f.Train.Edges + f.Eval.Edges
	for _, file := range r.Meta().Files {
		res.DiskBytes += file.Size
	}
	facts := s.data.Facts()
	res.FeatureBytes = facts.FeatureRows() * int64(s.data.RowBytes())
	res.Topology, res.TopologyRead, res.TopologyRequests = s.o.Topology.Level, s.reads.Bytes, s.reads.Requests
	res.TopologyHeld, res.TopologyMissed = s.reads.Held, s.reads.Missed
	res.Seconds = time.Since(s.start).Seconds()
	res.PeakAnon, res.PeakRSS = s.watch.Stop()
	return *res, nil
}

// Files of batches are made durable one by one, each while the next is written.
// They are large enough for that to cost nothing, small enough that the last one
// is no long wait and that an interrupted run repeats little.
const (
	fileBytes    = 128 << 20 // about
	leastPerFile = 16
	mostPerFile  = 4096
)

// batchesPerFile returns the number of batches of a file. It determines bytes of the output, so it
// depends on nothing but the graph's counts and the parameters: it estimates the size of batches in a
// graph in which all nodes have the average degree.
func batchesPerFile(f *dataset.Facts, p mbfile.Params) int {
	average := int(max(f.Edges/f.Rows(), 1))
	fanout := make([]int, len(p.Fanout))
	for l, n := range p.Fanout {
		if fanout[l] = n; n == mbfile.AllNeighbours || n > average {
			fanout[l] = average
		}
	}
	x := sampler.BoundOf(f, p.BatchSize, fanout)
	return int(min(max(fileBytes/(8*x.Nodes+4*x.Edges), leastPerFile), mostPerFile))
}
