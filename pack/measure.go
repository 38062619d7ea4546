package pack

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/driverate"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
)

const (
	// mostScratch is the most that the scratch file takes, an eighth of the free space if that is less:
	// data that is written twice may stay in some cache.
	mostScratch = 8 << 30
	// leastScratch is the least that is written: a shorter write mostly measures overhead.
	leastScratch = 16 << 20
	// leastSustained is the smallest table with which the drives are loaded for the time of
	// driverate.Limited. A smaller one is read once: it stays in a cache then, and an epoch reads it in no
	// time.
	leastSustained = 256 << 20
	// planScratch is written beside the pack and removed.
	planScratch = ".diskgnn-plan.tmp"
)

// MakePlan predicts the outcome of Run with the options, and the costs of other options. It reads the
// samples once and measures the drives; it leaves nothing behind, unless the options name a plan file.
// Its memory is the memory of a census.
func MakePlan(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (cut.Plan, error) {
	o.planning = true
	if st, err := fsys.Stat(o.PlanFile); o.PlanFile != "" && err == nil && st.IsDir() { // before rates are measured
		return cut.Plan{}, fault.New(fault.ErrUsage, "--plan-file %s is a directory: name a file", o.PlanFile)
	}
	r, err := open(ctx, fsys, o, rep)
	if err != nil {
		return cut.Plan{}, err
	}
	defer r.close()
	plan, err := r.plan(ctx)
	if err == nil && o.PlanFile != "" {
		err = plan.Save(fsys, o.PlanFile)
	}
	if err != nil {
		return cut.Plan{}, fmt.Errorf("plan: %w", err)
	}
	return plan, nil
}

func (r *request) plan(ctx context.Context) (plan cut.Plan, err error) {
	if r.params.Policy == packfile.PolicyMin {
		return plan, fault.New(fault.ErrUsage, "--plan --policy min: packs of policy min cannot be planned; they read no more than the static plan of the same --cache says")
	}
	c, err := cut.Count(ctx, r.cutRequest())
	if err != nil {
		return plan, err
	}
	if err := c.TakeCensus(ctx); err != nil {
		return plan, err
	}
	m, err := r.measure(ctx, c)
	if err != nil {
		return plan, err
	}
	d, err := c.Decide(ctx)
	if err != nil {
		return plan, err
	}
	if plan, err = c.Plan(ctx, d, m); err != nil {
		return plan, err
	}
	beside, err := vfs.Nearest(r.fs, r.o.Out)
	if err != nil {
		return plan, err
	}
	free, err := r.fs.Free(beside)
	if err != nil {
		return plan, err
	}
	plan.FreeBytes = free
	plan.Recommend(r.o.Memory, free)
	return plan, nil
}

// measure times the drives, the first pass and the chosen codec.
func (r *request) measure(ctx context.Context, c *cut.Counts) (m cut.Measured, err error) {
	m.DType, m.Ratio = r.ds.Facts().DType, 1
	if m.Drive, m.Table, err = r.measureDrive(ctx); err != nil {
		return m, err
	}
	if r.form().Compressed() {
		codecs, err := r.measureCodecs(ctx)
		if err != nil {
			return m, err
		}
		for _, c := range codecs {
			if c.codec == r.params.Codec {
				m.Ratio = c.ratio
			}
		}
	}
	// The number of batches in memory is limited by the room beside the census.
	s := r.samples.Facts()
	held, slot := cut.HeldMemory(r.facts.Nodes)+cut.RecordMemory(s), cut.SlotBytes(s)
	if err := budget.Check("renumbering a batch", held+slot, r.o.Memory); err != nil {
		return m, err
	}
	var slots []*graphSlot
	for range min(r.o.Workers, int((r.o.Memory-held)/slot)) {
		slots = append(slots, &graphSlot{renumberer: renumberer{rank: c.Rank, edges: c.Edges(), classes: c.Classes}})
	}
	m.GraphSeconds, err = r.graphPassSeconds(ctx, slots)
	return m, err
}

// planEffort returns the duration of each rate's measurement, for a table of the given bytes.
func planEffort(table int64) driverate.Effort {
	if table < leastSustained {
		return driverate.Effort{}
	}
	return driverate.Limited
}

// readRate measures the sequential read rate of the feature table's drive, once for a request.
func (r *request) readRate(ctx context.Context, table string, effort driverate.Effort) (driverate.Rate, error) {
	const depth, size = 32, 1 << 20
	if r.read.PerSecond > 0 {
		return r.read, nil
	}
	held := cut.HeldMemory(r.facts.Nodes) + cut.RecordMemory(r.samples.Facts())
	if err := budget.Check("measuring the drive", held+depth*size, r.o.Memory); err != nil {
		return r.read, err
	}
	var err error
	r.read, err = iostack.Sequential(ctx, r.stack, iostack.Reads{Paths: []string{table}, Bytes: size, Depth: depth, Load: effort})
	return r.read, err
}

// measureDrive reads a part of the feature table and writes a scratch file beside the
// pack to be. It also returns the bytes of the table's file.
//
// The user waits for the plan: each drive is loaded for only a few seconds. The plan has the number of
// seconds.
func (r *request) measureDrive(ctx context.Context) (d cut.Drive, table int64, err error) {
	effort := planEffort(r.facts.TableBytes)
	if !effort.Once() {
		loads := 3 // reads one after the other, single pages, writes
		if r.read.PerSecond > 0 {
			loads--
		}
		r.rep.Logf("measuring the drives takes %s", units.Duration(time.Duration(loads)*effort.Total()))
	}
	task := r.rep.Task("measure the drive", 3, progress.Rates)
	defer task.Done()
	source, err := r.ds.Features()
	if err != nil {
		return d, table, err
	}
	table = source.Extent(0, r.facts.Nodes).Size
	name := source.Path()
	f, err := r.stack.Open(name)
	if err = errors.Join(err, source.Close()); err != nil {
		return d, table, err
	}
	d.Backend = r.stack.Name()
	d.Direct, _ = f.Direct()
	if err := f.Close(); err != nil {
		return d, table, err
	}
	rate, err := r.readRate(ctx, name, effort)
	if err != nil {
		return d, table, err
	}
	task.Add(1)
	d.Sequential, d.Seconds, d.Drained = rate.PerSecond, rate.Seconds, rate.Drained
	rate, err = iostack.Random(ctx, r.stack, name, binio.Page, 1, effort)
	if d.Pages = rate.PerSecond; errors.Is(err, fault.ErrInput) { // no page long
		d.Pages, err = d.Sequential/binio.Page, nil
	}
	if err != nil {
		return d, table, err
	}
	task.Add(1)
	beside, err := vfs.Nearest(r.fs, r.o.Out)
	if err != nil {
		return d, table, err
	}
	free, err := r.fs.Free(beside)
	if err != nil {
		return d, table, err
	}
	scratch := filepath.Join(beside, planScratch)
	bytes := min(mostScratch, free/8)
	if effort.Once() {
		bytes = min(bytes, r.facts.TableBytes)
	}
	rate, err = driverate.Write(ctx, r.fs, scratch, driverate.Writes{Bytes: max(bytes, leastScratch), Load: effort})
	task.Add(1)
	d.Write = rate.PerSecond
	return d, table, errors.Join(err, r.fs.RemoveAll(scratch))
}

// graphPassSeconds times the renumbering of a few batches by all workers, and scales
// it to all.
func (r *request) graphPassSeconds(ctx context.Context, slots []*graphSlot) (float64, error) {
	f := r.samples.Facts()
	n := min(2*len(slots), f.TrainBatches)
	if n == 0 {
		return 0, nil
	}
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for w, s := range slots {
		g.Go(func() (err error) {
			for k := w; k < n; k += len(slots) {
				if s.raw, err = r.samples.Read(ctx, k*f.TrainBatches/n, s.raw, &s.batch); err != nil {
					return err
				}
				s.train(&s.batch)
				s.out, s.parts = s.append(s.out[:0], s.parts[:0], &s.batch)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return time.Since(began).Seconds() * float64(f.Batches()) / float64(n), nil
}
