package pack

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"diskgnn/graph/batchcodec"
	"diskgnn/internal/binio"
	"diskgnn/internal/driverate"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

const (
	// mostScratch is the most that the scratch file takes, an eighth of the free space if
	// that is less: what is written twice may stay in some cache.
	mostScratch = 8 << 30
	// leastScratch is written at least: less would tell of overheads.
	leastScratch = 16 << 20
	// leastSustained is the smallest table with which the drives are loaded for the time of
	// driverate.Limited. A smaller one is read once: it lies in some cache from then on, and
	// reading it takes an epoch no time.
	leastSustained = 256 << 20
	// planScratch is written beside the pack and removed.
	planScratch = ".diskgnn-plan.tmp"
)

// planEffort returns how long each rate is measured with a table of so many bytes.
func planEffort(table int64) driverate.Effort {
	if table < leastSustained {
		return driverate.Effort{}
	}
	return driverate.Limited
}

// measureDrive reads a part of the feature table and writes a scratch file beside the
// pack to be.
//
// The user waits for a plan: the drives are loaded for a few seconds each, and the plan
// says for how many.
func (p *packing) measureDrive(ctx context.Context) (d Drive, err error) {
	effort := planEffort(p.facts.TableBytes)
	if !effort.Once() {
		p.rep.Logf("measuring the drives takes %.0f seconds", (3 * effort.Total()).Seconds())
	}
	task := p.rep.Task("measure the drive", 0, "")
	defer task.Done()
	source, err := p.ds.Features()
	if err != nil {
		return d, err
	}
	p.tableRead = source.Extent(0, p.facts.Nodes).Size
	table := source.Path()
	f, err := p.stack.Open(table)
	if err = errors.Join(err, source.Close()); err != nil {
		return d, err
	}
	d.Backend = p.stack.Name()
	d.Direct, _ = f.Direct()
	if err := f.Close(); err != nil {
		return d, err
	}
	rate, err := iostack.Sequential(ctx, p.stack, iostack.Reads{Paths: []string{table}, Bytes: 4 << 20, Depth: 16, Load: effort})
	if err != nil {
		return d, err
	}
	d.Sequential, d.Seconds, d.Drained = rate.PerSecond, rate.Seconds, rate.Drained
	rate, err = iostack.Random(ctx, p.stack, table, binio.Page, 1, effort)
	if d.Pages = rate.PerSecond; errors.Is(err, fault.ErrInput) { // no page long
		d.Pages, err = d.Sequential/binio.Page, nil
	}
	if err != nil {
		return d, err
	}
	beside := filepath.Dir(filepath.Clean(p.o.Out))
	free, err := p.fs.Free(beside)
	if err != nil {
		return d, err
	}
	scratch := filepath.Join(beside, planScratch)
	bytes := min(mostScratch, free/8)
	if effort.Once() {
		bytes = min(bytes, p.facts.TableBytes)
	}
	rate, err = driverate.Write(ctx, p.fs, scratch, driverate.Writes{Bytes: max(bytes, leastScratch), Load: effort})
	d.Write = rate.PerSecond
	return d, errors.Join(err, p.fs.RemoveAll(scratch))
}

// graphPassSeconds times the renumbering of a few batches by all workers, and scales
// it to all.
func (p *packing) graphPassSeconds(ctx context.Context, slots []*graphSlot) (float64, error) {
	f := p.samples.Facts()
	n := min(2*len(slots), f.TrainBatches)
	if n == 0 {
		return 0, nil
	}
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for w, s := range slots {
		g.Go(func() (err error) {
			for k := w; k < n; k += len(slots) {
				if s.raw, err = p.samples.Read(ctx, k*f.TrainBatches/n, s.raw, &s.batch); err != nil {
					return err
				}
				s.train(&s.batch)
				s.out = batchcodec.Append(s.out[:0], &s.batch)
				binio.CRC(s.out)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return time.Since(began).Seconds() * float64(f.Batches()) / float64(n), nil
}
