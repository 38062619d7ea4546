package packed

import (
	"context"
	"errors"
	"slices"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// refills restore the cache of policy min to its content before a batch.
type refills struct {
	src   *source
	cold  *chunk
	cache cache
	file  rowFile
}

func (l *refills) open() (err error) {
	if l.file, err = l.src.rows(packfile.RefillFile, packfile.RefillSums); err != nil {
		return err
	}
	if want := l.src.facts.RefillRecords() * 8 * l.src.facts.HotRows; l.file.sums.Size != want {
		return fault.New(fault.ErrCorrupt, "%s has %d bytes instead of %d", l.src.pack.Path(packfile.RefillFile), l.file.sums.Size, want)
	}
	return nil
}

func (l *refills) close() error { return l.file.close() }

// loadHome reads the rows of the entries after the last batch.
func (l *refills) loadHome(ctx context.Context, home *[]uint32) (int64, error) {
	rows := l.src.facts.HotRows
	bad := func(entry, batch, row uint32) error {
		return fault.New(fault.ErrCorrupt, "%s: after the last batch, entry %d has row %d of batch %d instead of a hot row of its own", l.file.Name(), entry, row, batch)
	}
	*home = binio.Grow(*home, int(rows))
	seen := make([]uint64, (rows+63)/64)
	return l.readRefill(ctx, l.src.facts.RefillRecords()-1, func(entry, batch, row uint32) error {
		if batch != packfile.RefillHot || int64(row) >= rows || seen[row/64]>>(row%64)&1 != 0 {
			return bad(entry, batch, row)
		}
		seen[row/64] |= 1 << (row % 64)
		(*home)[entry] = row
		return nil
	})
}

// readRefill reads and checks a record of refill.bin, calls do for each entry, and returns the bytes read.
func (l *refills) readRefill(ctx context.Context, record int64, do func(entry, batch, row uint32) error) (int64, error) {
	size := 8 * l.src.facts.HotRows
	from, to := record*size, (record+1)*size
	buf, err := device.NewHost(int(min(1<<20, binio.AlignUp(size, binio.Page)+binio.Page)))
	if err != nil {
		return 0, err
	}
	defer buf.Free()
	read := int64(0)
	for lo := from / binio.Page * binio.Page; lo < to; {
		hi := min(lo+int64(buf.Len()), binio.AlignUp(to, binio.Page), l.file.sums.Size)
		b := buf.Bytes()[:hi-lo]
		var g iostack.Group
		if err := l.src.stack.Submit(&g, []iostack.Request{{File: l.file.File, Offset: lo, Buf: b}}); err != nil {
			return 0, err
		}
		if err := l.src.stack.Wait(ctx, &g); err != nil {
			return 0, err
		}
		if err := l.file.sums.Verify(l.file.Name(), lo, b); err != nil {
			return 0, err
		}
		read += hi - lo
		first := max(lo, from)
		pairs := binio.View[uint32](b[first-lo : min(hi, to)-lo])
		for i := 0; i < len(pairs); i += 2 {
			if err := do(uint32((first-from)/8)+uint32(i/2), pairs[i], pairs[i+1]); err != nil {
				return 0, err
			}
		}
		lo = hi
	}
	return read, nil
}

// replayer has the buffers for batches with rows for the cache alone.
type replayer struct {
	*refills
	b     batch
	graph graphReader
	group iostack.Group
	chunk *device.Host // in the form on disk
	apart *device.Host // rows of the chunk, if it is compressed
}

// replay changes the cache from its first content to its content before the batch.
func (l *refills) replay(ctx context.Context, batch int, rep progress.Reporter) (int64, error) {
	if batch == 0 {
		return 0, nil
	}
	var m memory
	defer m.free()
	f, c := &l.src.facts, l.cold
	r := &replayer{refills: l, graph: newGraphReader(l.src.pack, trainGraphs{l.src.pack, packfile.Needs{Through: 1}}, &m), chunk: m.land(c.most()), apart: m.take(c.codec.apart(f.ChunkBytes))}
	if m.err != nil {
		return 0, m.err
	}
	r.b.src, r.b.decoded, r.b.plan = l.src, f.TrainSizes.NewBatch(f.TargetBytes), l.src.pack.NewPlan()
	first := batch / packfile.RefillBatches * packfile.RefillBatches
	read, err := r.record(ctx, first, rep)
	for i := first; i < batch && err == nil; i++ {
		err = r.admit(ctx, i)
		read += r.b.BytesRead
	}
	return read, err
}

// inReadingOrder compares arrivals by batch, then by row.
func inReadingOrder(a, b arrival) int {
	return int(int64(a.batch)<<32|int64(a.row)) - int(int64(b.batch)<<32|int64(b.row))
}

// record admits the rows of the refill record that ends before the given batch, if any.
func (r *replayer) record(ctx context.Context, first int, rep progress.Reporter) (int64, error) {
	if first == 0 {
		return 0, nil
	}
	list := make([]arrival, 0, r.src.facts.HotRows)
	read, err := r.readRefill(ctx, int64(first/packfile.RefillBatches)-1, func(entry, b, row uint32) error {
		if b == packfile.RefillHot && row == entry {
			return nil // not changed
		}
		if int64(b) >= int64(first) || !r.admits(int(b), row) {
			return fault.New(fault.ErrCorrupt, "%s: entry %d has row %d of batch %d, which is not admitted before batch %d", r.file.Name(), entry, row, b, first)
		}
		list = append(list, arrival{b, row, entry})
		return nil
	})
	if err != nil {
		return 0, err
	}
	slices.SortFunc(list, inReadingOrder)
	task := rep.Task("refill the cache", int64(len(list)), progress.Rows)
	defer task.Done()
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].batch == list[0].batch {
			n++
		}
		r.b.begin(featurestore.Ref{Index: int(list[0].batch)})
		if err := r.arrive(ctx, list[:n]); err != nil {
			return 0, err
		}
		read += r.b.BytesRead
		task.Add(int64(n))
		list = list[n:]
	}
	return read, nil
}

// admits reports whether the cache admits a row of a batch's matrix.
func (r *replayer) admits(batch int, row uint32) bool {
	t := &r.src.pack.Index().Train[batch]
	return int(row) >= t.Bands[0] && int(row) < t.Bands[0]+t.Bands[1]
}

func (r *replayer) admit(ctx context.Context, i int) error {
	r.b.begin(featurestore.Ref{Index: i})
	err := r.graph.start(&r.b)
	if err == nil {
		err = r.graph.load(ctx, &r.b)
	}
	if err != nil {
		return errors.Join(err, r.graph.end(ctx, &r.b))
	}
	list := make([]arrival, 0, len(r.b.plan.Admit))
	for k, entry := range r.b.plan.Admit {
		list = append(list, arrival{uint32(i), uint32(r.b.train().Bands[0] + k), entry})
	}
	return r.arrive(ctx, list)
}

// arrive reads rows of the batch's chunk, in ascending order, and puts them into their entries. It reads
// only the pieces with these rows.
func (r *replayer) arrive(ctx context.Context, list []arrival) (err error) {
	if len(list) == 0 {
		return nil
	}
	b, t, c := &r.b, r.b.train(), r.cold
	rb := int64(r.src.facts.RowBytes)
	file, err := r.src.files.Take(c.file(b))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.src.files.Give(file)) }()
	// each calls do for the pieces that hold parts of the rows.
	each := func(do func(p packfile.Piece) error) error {
		k := 0
		return t.Pieces(r.src.pack.Form(), c.through, func(p packfile.Piece) error {
			for k < len(list) && int64(list[k].row+1)*rb <= p.Row {
				k++
			}
			if k == len(list) || int64(list[k].row)*rb >= p.Row+int64(p.RowLen) {
				return nil
			}
			return do(p)
		})
	}
	chunk := r.chunk.Bytes()
	b.req = b.req[:0]
	_ = each(func(p packfile.Piece) error {
		off := t.ChunkOffset + p.Offset
		b.req = append(b.req, iostack.Request{File: file.File, Offset: off, Buf: chunk[p.Offset : p.Offset+int64(p.Len)]})
		b.BytesRead += iostack.Extent(file.File, off, int64(p.Len))
		return nil
	})
	if err := r.src.stack.Submit(&r.group, b.req); err != nil {
		return err
	}
	if err := r.src.stack.Wait(ctx, &r.group); err != nil {
		return err
	}
	rows := c.codec.rows(chunk, r.apart.Bytes())
	if err := each(func(p packfile.Piece) error {
		return c.codec.load(t, file.Name(), chunk, p, rows[p.Row:p.Row+int64(p.RowLen)])
	}); err != nil {
		return err
	}
	return r.cache.set(list, rows)
}
