package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

func defaultWorkers() int { return runtime.GOMAXPROCS(0) }

// Run packs samples. It resumes an interrupted run, does nothing when the pack
// exists, and refuses when it exists with other parameters. Cancelling the
// context leaves what a later run resumes from.
func Run(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (Result, error) {
	p, err := open(ctx, fsys, o, rep)
	if err != nil {
		return Result{}, err
	}
	defer p.close()
	res, err := p.run(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("pack: %w", err)
	}
	return res, nil
}

// open opens what is packed and settles how.
func open(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (_ *packing, err error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p := &packing{o: o, out: o.Shard.DirName(o.Out), fs: fsys, rep: rep, start: time.Now()}
	if p.ds, err = dataset.Open(fsys, o.Dataset); err != nil {
		return nil, err
	}
	if p.samples, err = mbfile.Open(fsys, o.Samples); err != nil {
		return nil, err
	}
	p.watch = budget.StartWatch(ctx)
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if err := stage.CheckParent(o.Samples, p.samples.Meta(), stage.RoleDataset, o.Dataset, p.ds.Fingerprint()); err != nil {
		return nil, err
	}
	if err := p.resolve(); err != nil {
		return nil, err
	}
	if p.stack, p.how, err = all.Open(o.IO, iostack.Options{}); err != nil {
		return nil, err
	}
	return p, p.settleCodec(ctx)
}

// close gives back what open took.
func (p *packing) close() {
	if p.stack != nil {
		_ = p.stack.Close()
	}
	_ = p.samples.Close() // only read from
	p.watch.Stop()
}

// packing is one run of the stage.
type packing struct {
	o       Options
	out     string // the directory to make
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
	open   *fileSet // of dir, while it is written
	files  []stage.File
	plan   memoryPlan
	packed bool // the first pass is done

	requests, ssdRequests uint32 // the CRC-32C of the scratch lists of rows

	ownCold, ownSSD int64 // rows that are packed here, about

	sharedMost int64 // no segment shares more nodes
	scratch    int64 // bytes of the scratch lists

	codes    *batchLists // under policy min: what becomes of every access
	minSlots uint32      // the CRC-32C of the list of the cache's first content
	minBytes int64       // of the scratch lists that the cache was simulated with

	stack iostack.Stack // reads the table
	how   string        // it does so

	tableRead int64 // bytes of the table's file
	back      int64 // bytes of uncompressed chunks that were written and read back

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
	limit, err := p.o.maxDisk(f.Nodes * int64(p.ds.RowBytes()))
	if err != nil {
		return err
	}
	p.params = packfile.Params{MaxDisk: limit, CacheRows: rows, Bands: p.o.bandsDescending(), DType: to, Policy: p.o.Policy, Codec: p.o.Compress}
	s := p.samples.Facts()
	if s.Nodes != f.Nodes {
		return fault.New(fault.ErrLineage, "%s samples a graph of %d nodes, %s has %d", p.o.Samples, s.Nodes, p.o.Dataset, f.Nodes)
	}
	if s.TargetBytes != f.TargetBytes() {
		return fault.New(fault.ErrLineage, "%s has %d bytes of classes per node, %s %d", p.o.Samples, s.TargetBytes, p.o.Dataset, f.TargetBytes())
	}
	if err := checkBatches(p.o.Samples, s.Batches(), p.samples.Info); err != nil {
		return err
	}
	p.facts = packfile.Facts{
		Nodes: f.Nodes, Classes: f.Classes, TargetBytes: s.TargetBytes, Dim: f.Dim, DType: to, RowBytes: rowBytes, Metric: f.Metric,
		TableBytes: f.Nodes * int64(p.ds.RowBytes()), Segment: 1, Segments: s.TrainBatches,
		Train: s.TrainBatches, Valid: s.ValidBatches, Test: s.TestBatches,
		Epochs: s.Epochs, BatchesPerEpoch: s.BatchesPerEpoch,
		Fanout: p.samples.Params().Fanout, EvalFanout: p.samples.Params().EvalFanout,
		TrainSizes: s.Train.Max, TrainMeans: s.Train.Mean, EvalSizes: s.Eval.Max,
	}
	return nil
}

// packedForm returns the form of the pack's chunks.
func (p *packing) packedForm() packfile.Form {
	return packfile.Form{RowBytes: p.facts.RowBytes, Codec: p.params.Codec}
}

// form returns the form of the chunks that the ranges write.
func (p *packing) form() packfile.Form {
	return packfile.Form{RowBytes: p.facts.RowBytes, Codec: packfile.CodecNone}
}

// whole returns what decides the bytes of the whole pack.
func (p *packing) whole() stage.Spec {
	return stage.Spec{Format: packfile.FormatFor(p.facts.TargetBytes), Params: p.params, Parents: map[string]string{
		stage.RoleDataset: p.ds.Fingerprint(), stage.RoleSamples: p.samples.Fingerprint(),
	}}
}

func (p *packing) run(ctx context.Context) (Result, error) {
	dir, state, err := p.begin(ctx)
	if err != nil {
		return Result{}, err
	}
	if state == stage.StateDone {
		p.rep.Logf("%s is finished already: nothing to do", p.out)
		return p.describe("done")
	}
	p.dir, p.open = dir, newFileSet(dir, p.o.openFiles)
	res, err := p.write(ctx, state)
	p.open.close()
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
	p.rep.Logf("I/O: %s", p.how)
	debug.FreeOSMemory() // the first pass's buffers make room for the ranges
	began = time.Now()
	ranges, err := p.rows(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := p.commit(ranges, began); err != nil {
		return Result{}, err
	}
	p.index, p.files = packfile.Index{}, nil // the finished ones are read
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
	hotness, touched, err := p.ranking()
	if err != nil {
		return err
	}
	if err := p.takeOver(); err != nil {
		return err
	}
	if p.params.Policy == packfile.PolicyMin {
		return p.prepareMin(ctx, state, touched)
	}
	if p.packed {
		if p.plan, err = planMemory(&p.o, p.planned(), p.samples.Facts(), p.ledger(0, f.ColdRows, f.SSDRows)); err != nil || !p.part().Common {
			return err
		}
		if p.eval, err = p.evalNodes(ctx, f.HotRows); err == nil {
			p.eval.count()
		}
		return err
	}
	d, accesses, err := p.diskCosts(ctx, hotness, touched)
	if err != nil {
		return err
	}
	need, err := p.chooseCut(ctx, d, accesses)
	if err != nil {
		return err
	}
	p.eval.retain(p.rank, f.HotRows)
	p.eval.count()
	lane := int64(0)
	if f.Segment > 1 {
		lane = segmentMemory(f.Nodes, p.sharedMost)
	}
	if p.plan, err = planMemory(&p.o, p.planned(), p.samples.Facts(), p.ledger(lane, p.ownCold, p.ownSSD)); err != nil {
		return err
	}
	return p.checkFree(need, state)
}

// ranking reads the hotness, which it returns, and ranks the nodes; so many are touched.
func (p *packing) ranking() (hotness []uint32, touched int64, err error) {
	s := p.samples.Facts()
	need := baseMemory + recordMemory(s) + 8*s.Nodes + 8*int64(s.TrainBatches+2)
	if err := budget.Check("ranking the nodes", need, p.o.Memory); err != nil {
		return nil, 0, err
	}
	if hotness, err = p.samples.Hotness(); err != nil {
		return nil, 0, err
	}
	if most := slices.Max(hotness); int64(most) > int64(s.TrainBatches) { // ranking counts up to it
		return nil, 0, fault.New(fault.ErrCorrupt, "%s: a node that %d of %d training batches touch", p.o.Samples, most, s.TrainBatches)
	}
	p.rank, touched = rankNodes(hotness)
	return hotness, touched, nil
}

// diskCosts finds what the size of a pack follows from, the evaluation's nodes ranked at
// the lowest edge or above, and how often training uses such nodes.
func (p *packing) diskCosts(ctx context.Context, hotness []uint32, touched int64) (d *diskCosts, accesses int64, err error) {
	d = &diskCosts{facts: p.facts, form: p.packedForm(), graphs: graphBytesOf(p.samples)}
	d.edges = bandEdges(p.facts.Nodes, touched, p.params.CacheRows, p.params.Bands)
	least := d.edges[len(d.edges)-1]
	for v, n := range hotness {
		if int64(p.rank[v]) >= least {
			accesses += int64(n)
		}
	}
	if p.eval, err = p.evalNodes(ctx, least); err != nil {
		return nil, 0, err
	}
	d.eval = evalCounts(p.eval, p.rank, d.edges)
	return d, accesses, nil
}

// takeOver takes over what an interrupted run's first pass finished.
func (p *packing) takeOver() error {
	var j journal
	if _, err := p.dir.Progress(&j); err != nil || !j.Graphs || j.Facts == nil {
		return err
	}
	b, err := vfs.ReadFile(p.fs, p.dir.File(partFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the run before was about to publish what it made: all is made again
	}
	if err != nil {
		return err
	}
	x, err := packfile.DecodeIndex(b, p.form())
	if err != nil {
		return touched(p.dir.File(partFile), err)
	}
	p.index, p.facts, p.files, p.requests, p.ssdRequests, p.minSlots = *x, *j.Facts, j.Files, j.Requests, j.SSDRequests, j.Slots
	p.packed = true
	return nil
}

// graphs runs the first pass, or takes over what an interrupted run finished.
func (p *packing) graphs(ctx context.Context) (err error) {
	if p.packed {
		p.rep.Logf("resuming: the graphs are packed already")
		return p.checkFirstPass(ctx)
	}
	// What an earlier run noted of its second pass is of no use without its first.
	for _, name := range []string{stateFile, compressFile} {
		if err := p.fs.Remove(p.dir.File(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	part := p.part()
	lo, hi := part.Batches(&p.facts)
	batches := hi - lo
	if part.Common {
		batches += p.facts.Valid + p.facts.Test
	}
	task := p.rep.Task("renumber graphs", int64(batches), progress.Batches)
	defer task.Done()
	defer func() { err = errors.Join(err, p.codes.remove()) }()
	g := &graphPass{samples: p.samples, part: part, open: p.open, index: &p.index, facts: &p.facts, files: p.files, task: task, codes: p.codes}
	hot := p.facts.HotRows
	if p.codes != nil {
		hot = 0 // evaluation does not look at the cache
	}
	for range p.plan.slots {
		g.slots = append(g.slots, &graphSlot{renumberer: renumberer{rank: p.rank, edges: p.index.Edges, hot: hot, base: uint32(p.facts.HotRows), eval: p.eval}})
	}
	if p.facts.Segment > 1 {
		g.segments = newSegmentPass(p.samples, lo, hi, p.rank, p.index.Edges, p.facts.Segment, p.plan.lanes, p.plan.slots)
	}
	if err := g.run(ctx); err != nil {
		return err
	}
	p.files, p.requests, p.ssdRequests = g.files, g.requests, g.ssdRequests
	p.index.SharePieces(p.form(), make([]uint32, pieces(&p.index, p.form())), nil)
	b, err := p.index.Encode()
	if err != nil {
		return err
	}
	if err := vfs.WriteFile(p.fs, p.dir.File(partFile), b); err != nil {
		return err
	}
	if err := p.fs.SyncDir(p.dir.Path()); err != nil {
		return err
	}
	return p.dir.SaveProgress(journal{Graphs: true, Facts: &p.facts, Files: p.files, Requests: p.requests, SSDRequests: p.ssdRequests, Slots: p.minSlots})
}

// rows runs the second pass and returns the number of ranges.
func (p *packing) rows(ctx context.Context) (int, error) {
	part := p.part()
	if part.Lo == part.Hi && !part.Common {
		return 0, nil // there are more shards than groups
	}
	f := p.ds.Facts()
	source, err := p.ds.Features()
	if err != nil {
		return 0, err
	}
	defer source.Close()
	p.tableRead = source.Extent(0, f.Nodes).Size
	task := p.rep.Task("pack rows", p.facts.TableBytes, progress.Bytes)
	defer task.Done()
	table, err := newTableReader(source, p.stack, f.DType, p.to, f.Dim, p.o.Workers)
	if err != nil {
		return 0, err
	}
	defer table.close()
	out, err := newWriters(p.o.Workers)
	if err != nil {
		return 0, err
	}
	defer out.close()
	pass := &rangePass{
		table: table, out: out, nodes: f.Nodes,
		dir: p.dir, open: p.open, facts: &p.facts, index: &p.index, form: p.form(), compressed: p.packedForm().Compressed(), workers: p.o.Workers, task: task, rows: p.plan.rangeRows, requestsCRC: p.requests,
	}
	groups := 0
	if len(p.index.Segments) > 0 {
		groups = p.facts.Groups()
	}
	if err := pass.state.load(p.fs, p.dir.File(stateFile), p.index.Bands*len(p.index.Train), pieces(&p.index, p.form()), groups); err != nil {
		return 0, err
	}
	if pass.state.Next > 0 {
		p.rep.Logf("resuming: the chunks of rows below %d are packed already", pass.state.Next)
	}
	if part.Common {
		if pass.common, err = p.newCommonRows(out); err != nil {
			return 0, err
		}
		defer pass.common.close()
	}
	if len(p.index.Segments) > 0 {
		if pass.ssd, err = newSSDWriter(ctx, p.open, &p.index, &p.facts, p.o.Workers, p.ssdRequests, &pass.state); err != nil {
			return 0, err
		}
		defer pass.ssd.close()
	}
	if err := pass.run(ctx); err != nil {
		return 0, err
	}
	p.rank, p.eval = nil, nil
	common, err := pass.common.finish(ctx, out)
	if err != nil {
		return 0, err
	}
	p.files = append(p.files, common...)
	if pass.ssd != nil {
		ssd, err := pass.ssd.finish()
		if err != nil {
			return 0, fmt.Errorf("SSD level: %w", err)
		}
		p.files = append(p.files, ssd...)
	}
	return pass.ranges, p.compress(ctx)
}

// compress compresses the chunks, if they are to be.
func (p *packing) compress(ctx context.Context) error {
	if !p.packedForm().Compressed() {
		return nil
	}
	task := p.rep.Task("compress chunks", p.facts.ColdRows*int64(p.facts.RowBytes), progress.Bytes)
	defer task.Done()
	c := &compression{
		dir: p.dir, open: p.open, stack: p.stack, part: p.part(), facts: &p.facts, index: &p.index, raw: p.form(), form: p.packedForm(),
		workers: p.o.Workers, task: task,
	}
	if err := c.load(); err != nil {
		return err
	}
	if err := c.run(ctx); err != nil {
		return err
	}
	p.back = c.bytesRead
	return nil
}

// commit writes the index and publishes the directory.
func (p *packing) commit(ranges int, began time.Time) error {
	for g := range p.facts.Groups() {
		lo, hi := p.facts.GroupSpan(g)
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
	b, err := p.index.Encode()
	if err != nil {
		return err
	}
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
	_, err = p.dir.Commit(p.files, p.facts, run)
	return err
}
