package pack

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"diskgnn/device"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/pack/cut"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/internal/table"
)

// rows runs the second pass. It returns the files that it has finished: hot rows, evaluation rows and the
// SSD level.
func (p *Packing) rows(ctx context.Context, d *cut.Decision, m allotment, first *firstPass, w *work) ([]stage.File, error) {
	f := p.ds.Facts()
	source, err := p.ds.Features()
	if err != nil {
		return nil, err
	}
	defer source.Close()
	w.tableRead = source.Extent(0, p.facts.Nodes).Size
	task := p.rep.Task("pack rows", p.facts.TableBytes, progress.Bytes)
	defer task.Done()
	rows, err := table.New(source, p.stack, f.DType, p.facts.DType, f.Dim, p.o.Workers)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out, err := rowfile.NewWriters(p.o.Workers)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	pass := &rangePass{table: rows, out: out, nodes: p.facts.Nodes, rowBytes: p.facts.RowBytes, rows: m.rangeRows, task: task}
	c := &pass.chunks
	*c = chunks{dir: p.dir, files: p.files, facts: &first.facts, index: first.index, form: p.rawForm(), raw: p.form().Compressed(), workers: p.o.Workers}
	defer c.close()
	x, groups := first.index, 0
	if len(x.Segments) > 0 {
		groups = first.facts.Groups()
	}
	if err := c.state.load(p.fs, p.dir.File(stateFile), x.Bands*len(x.Train), pieces(x, p.rawForm()), groups); err != nil {
		return nil, err
	}
	if c.state.Next > 0 {
		p.rep.Logf("resuming: the chunks of rows below %d are packed already", c.state.Next)
	}
	if err := c.open(ctx, first.requests); err != nil {
		return nil, err
	}
	if d.Part.Common {
		if pass.once, err = p.newOnceRows(d, m, first, out); err != nil {
			return nil, err
		}
		defer pass.once.close()
	}
	if groups > 0 {
		if pass.ssd, err = newSSDWriter(ctx, p.files, x, &first.facts, p.o.Workers, first.ssdRequests, &c.state); err != nil {
			return nil, err
		}
		defer pass.ssd.close()
	}
	if err := pass.run(ctx); err != nil {
		return nil, err
	}
	w.ranges = pass.ranges
	files, err := pass.once.finish(ctx)
	if err != nil {
		return nil, err
	}
	if pass.ssd != nil {
		ssd, err := pass.ssd.finish()
		if err != nil {
			return nil, fmt.Errorf("SSD level: %w", err)
		}
		files = append(files, ssd...)
	}
	return files, nil
}

// rangePass is batched packing: it reads the feature table once and writes the
// chunks of all batches, the hot rows and the evaluation rows.
type rangePass struct {
	table    *table.Reader
	out      *rowfile.Writers
	nodes    int64
	rowBytes int   // of a row as it is packed
	rows     int64 // of one range, at most
	task     progress.Task

	chunks chunks
	once   *onceRows
	ssd    *ssdWriter // nil without an SSD level
	ranges int
}

// run reads the table range by range. Three things overlap: the next range is
// read while the present one is gathered, and the one before becomes durable.
func (p *rangePass) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var buf [2]*device.Host // the second only if there is a second range
	for i := range buf {
		if i == 0 || p.rows < p.nodes {
			if buf[i], err = device.NewHost(int(p.rows) * p.rowBytes); err != nil {
				return err
			}
			defer buf[i].Free()
		}
	}
	read := func(i int, lo int64) (hi int64, wait func() error) {
		hi = p.table.End(lo, p.rows, p.nodes)
		done := make(chan error, 1)
		go func() {
			defer fault.Crash()
			done <- p.table.Read(ctx, lo, hi, buf[i].Bytes())
		}()
		return hi, func() error { return <-done }
	}
	saver := saver{dir: p.chunks.dir, files: p.chunks.files}
	defer func() { err = saver.join(err) }()
	lo := int64(0)
	hi, wait := read(0, lo)
	for i := 0; lo < p.nodes; i = 1 - i {
		if err := wait(); err != nil {
			return fmt.Errorf("read rows %d to %d: %w", lo, hi, err)
		}
		nextLo, nextHi := hi, hi
		if hi < p.nodes {
			nextHi, wait = read(1-i, hi)
		} else {
			wait = func() error { return nil }
		}
		err := p.pack(ctx, lo, hi, buf[i].Bytes()[:int(hi-lo)*p.rowBytes])
		p.ranges++
		p.task.Add((hi - lo) * p.table.RowBytes())
		if err == nil {
			err = p.save(ctx, &saver, nextLo)
		}
		if err != nil {
			cancel()
			_ = wait() // the other buffer is being read into
			return err
		}
		lo, hi = nextLo, nextHi
	}
	return nil
}

// pack writes the rows lo ≤ v < hi, which are in memory, to all their places: hot and evaluation rows on
// some goroutines, rows of chunks on the workers, and then rows of the SSD level. An earlier run has
// written the chunks and the SSD level of the rows below state.Next.
func (p *rangePass) pack(ctx context.Context, lo, hi int64, rows []byte) error {
	from := max(lo, p.chunks.state.Next)
	g, inner := errgroup.WithContext(ctx)
	g.Go(func() error { return p.once.take(inner, lo, hi, rows) })
	var rest []byte
	if from < hi {
		rest = rows[int(from-lo)*p.rowBytes:]
		g.Go(func() error { return p.chunks.take(inner, p.out, from, hi, rest) })
	}
	if err := g.Wait(); err != nil {
		_ = p.out.Drain() // the rows may be written over now, and files closed
		return errors.Join(err, p.out.Failed())
	}
	if err := p.out.Drain(); err != nil || p.ssd == nil || from >= hi {
		return err
	}
	return p.ssd.take(ctx, from, hi, rest)
}

// save starts to make all rows below next durable, once the previous save has ended.
func (p *rangePass) save(ctx context.Context, s *saver, next int64) error {
	if err := s.join(ctx.Err()); err != nil {
		return err
	}
	state := &p.chunks.state
	if next <= state.Next {
		return nil
	}
	state.Next = next
	files := p.chunks.cold
	if p.ssd != nil {
		state.SSD = p.ssd.digests()
		files = slices.Concat(files, p.ssd.out)
	}
	s.begin(state.clone(), slices.DeleteFunc(slices.Clone(files), func(f *rowfile.File) bool { return f == nil }))
	return nil
}
