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
	// measureBytes is the most that is read, and written, to measure the drives.
	measureBytes = 1 << 30
	// leastMeasure is written at least: less would tell of overheads.
	leastMeasure = 16 << 20
	// measureTime is given to reading pages at random.
	measureTime = 2 * time.Second
	// planScratch is written beside the pack and removed.
	planScratch = ".diskgnn-plan.tmp"
)

// measureDrive reads a part of the feature table and writes a scratch file beside the
// pack to be.
func (p *packing) measureDrive(ctx context.Context) (d Drive, err error) {
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
	if d.Sequential, err = iostack.SequentialHead(ctx, p.stack, table, 16<<20, 4, measureBytes); err != nil {
		return d, err
	}
	d.Pages, err = iostack.Random(ctx, p.stack, table, binio.Page, 1, measureTime)
	if errors.Is(err, fault.ErrInput) { // no page long
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
	d.Write, err = driverate.Write(ctx, p.fs, scratch, max(min(measureBytes, p.facts.TableBytes, free/8), leastMeasure))
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
