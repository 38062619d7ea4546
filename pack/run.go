package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

func defaultWorkers() int { return runtime.GOMAXPROCS(0) }

// Run packs samples. It resumes an interrupted run, does nothing when the pack
// exists, and refuses when it exists with other parameters. Cancelling the
// context leaves what a later run resumes from.
func Run(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (Result, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	ds, err := dataset.Open(fsys, o.Dataset)
	if err != nil {
		return Result{}, err
	}
	samples, err := mbfile.Open(fsys, o.Samples)
	if err != nil {
		return Result{}, err
	}
	defer samples.Close()
	if err := stage.CheckParent(o.Samples, samples.Meta(), stage.RoleDataset, o.Dataset, ds.Fingerprint()); err != nil {
		return Result{}, err
	}
	p := packing{o: o, fs: fsys, ds: ds, samples: samples, rep: rep, start: time.Now(), watch: budget.StartWatch(ctx)}
	defer p.watch.Stop()
	if err := p.resolve(); err != nil {
		return Result{}, err
	}
	res, err := p.run(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("pack: %w", err)
	}
	return res, nil
}

// packing is one run of the stage.
type packing struct {
	o       Options
	fs      vfs.FS
	ds      *dataset.Dataset
	samples *mbfile.Reader
	rep     progress.Reporter
	start   time.Time
	watch   *budget.Watch

	to     dtype.Type
	params packfile.Params
	facts  packfile.Facts
	index  packfile.Index
	rank   []uint32
	eval   *bitset
	dir    *stage.Dir
	files  []stage.File
	plan   memoryPlan

	requests uint32 // the CRC-32C of the scratch list of rows

	graphSeconds, rowSeconds float64
}

// resolve turns the options into content parameters.
func (p *packing) resolve() error {
	f := p.ds.Facts()
	to, err := p.o.target(f.DType)
	if err != nil {
		return err
	}
	p.to = to
	rowBytes := to.RowBytes(f.Dim)
	rows, err := p.o.Cache.Rows(f.Nodes, rowBytes)
	if err != nil {
		return fmt.Errorf("--cache: %w", err)
	}
	p.params = packfile.Params{CacheRows: rows, Bands: p.o.bandsDescending(), DType: to, Policy: p.o.Policy, Codec: packfile.CodecNone}
	s := p.samples.Facts()
	if s.Nodes != f.Nodes {
		return fault.New(fault.ErrLineage, "%s samples a graph of %d nodes, %s has %d", p.o.Samples, s.Nodes, p.o.Dataset, f.Nodes)
	}
	p.facts = packfile.Facts{
		Nodes: f.Nodes, Classes: f.Classes, Dim: f.Dim, DType: to, RowBytes: rowBytes, Metric: f.Metric,
		TableBytes: f.Nodes * int64(p.ds.RowBytes()), Segment: 1, Segments: s.TrainBatches,
		Train: s.TrainBatches, Valid: s.ValidBatches, Test: s.TestBatches,
		Epochs: s.Epochs, BatchesPerEpoch: s.BatchesPerEpoch,
		Fanout: p.samples.Params().Fanout, EvalFanout: p.samples.Params().EvalFanout,
		TrainSizes: s.Train.Max, TrainMeans: s.Train.Mean, EvalSizes: s.Eval.Max,
	}
	return nil
}

// form returns the form of the chunks that the ranges write.
func (p *packing) form() packfile.Form {
	return packfile.Form{RowBytes: p.facts.RowBytes, Codec: packfile.CodecNone}
}

func (p *packing) run(ctx context.Context) (Result, error) {
	spec := stage.Spec{Format: packfile.Format, Params: p.params, Parents: map[string]string{
		stage.RoleDataset: p.ds.Fingerprint(), stage.RoleSamples: p.samples.Fingerprint(),
	}}
	dir, state, err := stage.Begin(p.fs, p.o.Out, spec, p.o.Force)
	if err != nil {
		return Result{}, err
	}
	if state == stage.StateDone {
		p.rep.Logf("%s is finished already: nothing to do", p.o.Out)
		return p.describe("done")
	}
	p.dir = dir
	res, err := p.write(ctx, state)
	return res, errors.Join(err, dir.Close())
}

// write makes the directory's content and commits it.
func (p *packing) write(ctx context.Context, state stage.State) (Result, error) {
	if n := p.dir.Note(); n != "" {
		p.rep.Logf("%s", n)
	}
	if err := p.prepare(ctx, state); err != nil {
		return Result{}, err
	}
	undo := budget.LimitHeap(p.o.Memory, p.plan.outside)
	defer undo()
	began := time.Now()
	if err := p.graphs(ctx); err != nil {
		return Result{}, err
	}
	p.graphSeconds = time.Since(began).Seconds()
	debug.FreeOSMemory() // the first pass's buffers make room for the ranges
	began = time.Now()
	ranges, err := p.rows(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := p.commit(ranges, began); err != nil {
		return Result{}, err
	}
	name := "new"
	if state == stage.StateResumed {
		name = "resumed"
	}
	res, err := p.describe(name)
	res.Ranges = ranges
	return res, err
}

// prepare ranks the nodes, cuts the bands, plans memory, and refuses work that
// memory or disk cannot hold.
func (p *packing) prepare(ctx context.Context, state stage.State) error {
	f := &p.facts
	if err := budget.Check("ranking the nodes", 8*f.Nodes+baseMemory, p.o.Memory); err != nil {
		return err
	}
	hotness, err := p.samples.Hotness()
	if err != nil {
		return err
	}
	var touched int64
	p.rank, touched = rankNodes(hotness)
	p.index.Edges = bandEdges(f.Nodes, touched, p.params.CacheRows, p.params.Bands)
	p.index.Bands = len(p.index.Edges)
	f.HotRows = p.index.Edges[0]
	cold := int64(0)
	least := p.index.Edges[len(p.index.Edges)-1]
	for v, n := range hotness {
		if int64(p.rank[v]) >= least {
			cold += int64(n)
		}
	}
	if p.eval, err = evalNodes(ctx, p.samples, p.rank, f.HotRows); err != nil {
		return err
	}
	f.EvalRows = p.eval.count()
	if p.plan, err = planMemory(&p.o, f, p.samples.Facts(), p.ds.RowBytes()); err != nil {
		return err
	}
	return p.checkDisk(cold, state)
}

// checkDisk compares what the pack will take with the budget and the free space.
func (p *packing) checkDisk(cold int64, state stage.State) error {
	f, s := &p.facts, p.samples.Facts()
	rb := int64(f.RowBytes)
	batches := int64(s.Batches())
	graphs := s.Train.Bytes + s.Eval.Bytes + batches*binio.Page
	if s.TrainBatches > 0 {
		graphs += int64(s.TrainBatches) * 4 * int64(s.Train.Mean.Dst[0])
	}
	need := (f.HotRows+f.EvalRows+cold)*rb + int64(s.TrainBatches)*binio.Page + graphs
	table := f.TableBytes
	if p.o.MaxDisk.Unit != budget.UnitUnlimited {
		limit := int64(p.o.MaxDisk.Value)
		if p.o.MaxDisk.Unit != budget.UnitBytes {
			limit = int64(p.o.MaxDisk.Value * float64(table))
		}
		if need > limit {
			return fault.New(fault.ErrBudget, "the pack needs about %s (%.2fx the features) and --max-disk allows %s; sharing rows between batches to meet a budget is not in this version: allow more, or use --dtype bf16, a larger --cache, or fewer presampled epochs",
				budget.FormatBytes(need), float64(need)/float64(table), budget.FormatBytes(limit))
		}
	}
	if state == stage.StateResumed {
		return nil // part of the need is on the disk already
	}
	scratch := 4 * cold
	if p.plan.spill {
		scratch += f.HotRows * (rb + 4)
	}
	free, err := p.fs.Free(p.dir.Path())
	if err != nil {
		return err
	}
	if need+scratch > free {
		return fault.New(fault.ErrBudget, "the pack needs about %s of disk and %s of scratch, %s has %s free; use --dtype bf16, a larger --cache, or fewer presampled epochs",
			budget.FormatBytes(need), budget.FormatBytes(scratch), p.o.Out, budget.FormatBytes(free))
	}
	return nil
}

// graphs runs the first pass, or takes over what an interrupted run finished.
func (p *packing) graphs(ctx context.Context) error {
	var j journal
	if _, err := p.dir.Progress(&j); err != nil {
		return err
	}
	if j.Graphs && j.Facts != nil {
		b, err := vfs.ReadFile(p.fs, p.dir.File(partFile))
		if errors.Is(err, fs.ErrNotExist) {
			return touched(p.dir.File(partFile), err)
		}
		if err != nil {
			return err
		}
		x, err := packfile.DecodeIndex(b, p.form())
		if err != nil {
			return touched(p.dir.File(partFile), err)
		}
		p.index, p.facts, p.files, p.requests = *x, *j.Facts, j.Files, j.Requests
		p.rep.Logf("resuming: the graphs are packed already")
		return nil
	}
	s := p.samples.Facts()
	task := p.rep.Task("renumber graphs", int64(s.Batches()), progress.Batches)
	defer task.Done()
	g := &graphPass{samples: p.samples, dir: p.dir, index: &p.index, facts: &p.facts, task: task}
	for range p.plan.slots {
		g.slots = append(g.slots, &graphSlot{renumberer: renumberer{rank: p.rank, edges: p.index.Edges, hot: p.facts.HotRows, eval: p.eval}})
	}
	if err := g.run(ctx); err != nil {
		return err
	}
	p.files, p.requests = g.files, g.requests
	p.index.SharePieces(p.form(), make([]uint32, pieces(&p.index, p.form())), nil)
	if err := vfs.WriteFile(p.fs, p.dir.File(partFile), p.index.Encode()); err != nil {
		return err
	}
	if err := p.fs.SyncDir(p.dir.Path()); err != nil {
		return err
	}
	return p.dir.SaveProgress(journal{Graphs: true, Facts: &p.facts, Files: p.files, Requests: p.requests})
}

// rows runs the second pass and returns the number of ranges.
func (p *packing) rows(ctx context.Context) (int, error) {
	f := p.ds.Facts()
	source, err := p.ds.Features()
	if err != nil {
		return 0, err
	}
	defer source.Close()
	task := p.rep.Task("pack rows", p.facts.TableBytes, progress.Bytes)
	defer task.Done()
	pass := &rangePass{
		source: source, table: filepath.Join(p.o.Dataset, dataset.FeaturesFile), from: f.DType, to: p.to, dim: f.Dim, nodes: f.Nodes,
		dir: p.dir, facts: &p.facts, index: &p.index, form: p.form(), workers: p.o.Workers, task: task, rows: p.plan.rangeRows, requestsCRC: p.requests,
	}
	if err := pass.state.load(p.fs, p.dir.File(stateFile), len(p.index.Edges), len(p.index.Train)); err != nil {
		return 0, err
	}
	if pass.state.Next > 0 {
		p.rep.Logf("resuming: the chunks of rows below %d are packed already", pass.state.Next)
	}
	if pass.hot, err = newHotWriter(p.dir, p.rank, p.facts.HotRows, p.facts.RowBytes, p.plan.hotWindow, p.plan.spillBuf); err != nil {
		return 0, err
	}
	evalOut, err := newSummedFile(p.dir, packfile.EvalFile)
	if err != nil {
		return 0, err
	}
	defer evalOut.close()
	pass.eval = &evalWriter{set: p.eval, out: evalOut, rowBytes: p.facts.RowBytes}
	if err := pass.run(ctx); err != nil {
		return 0, err
	}
	p.rank, p.eval = nil, nil
	hot, err := pass.hot.finish(p.plan.hotWindow)
	if err != nil {
		return 0, fmt.Errorf("hot rows: %w", err)
	}
	eval, err := evalOut.finish(packfile.EvalSums)
	if err != nil {
		return 0, fmt.Errorf("evaluation rows: %w", err)
	}
	p.files = append(append(p.files, hot...), eval...)
	return pass.ranges, nil
}

// commit writes the index and publishes the directory.
func (p *packing) commit(ranges int, began time.Time) error {
	for g := range groups(&p.facts) {
		lo, hi := groupSpan(&p.facts, g)
		size := coldSize(p.index.Train[lo:hi])
		if size == 0 {
			continue
		}
		var sums []uint32
		for i := lo; i < hi; i++ {
			sums = append(sums, p.index.Train[i].Sums...)
		}
		p.files = append(p.files, stage.File{Name: packfile.ColdFile(g), Size: size, Checksum: binio.HashSums(sums)})
	}
	b := p.index.Encode()
	if err := vfs.WriteFile(p.fs, p.dir.File(packfile.IndexFile), b); err != nil {
		return fmt.Errorf("write %s: %w", packfile.IndexFile, err)
	}
	p.files = append(p.files, stage.File{Name: packfile.IndexFile, Size: int64(len(b)), Checksum: binio.Hash(b)})
	p.rowSeconds = time.Since(began).Seconds()
	host, _ := os.Hostname()
	run := map[string]any{
		"host": host, "finished": time.Now().UTC().Format(time.RFC3339), "seconds": time.Since(p.start).Seconds(),
		"workers": p.o.Workers, "memory_bytes": p.o.Memory, "ranges": ranges,
	}
	_, err := p.dir.Commit(p.files, p.facts, run)
	return err
}
