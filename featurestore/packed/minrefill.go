package packed

import (
	"context"
	"errors"
	"slices"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// loadHome reads where the rows are after the last batch.
func (s *Store) loadHome(ctx context.Context) (int64, error) {
	m, rows := s.min, s.facts.HotRows
	bad := func(slot, batch, row uint32) error {
		return fault.New(fault.ErrCorrupt, "%s: after the last batch slot %d has row %d of batch %d", m.refill.Name(), slot, row, batch)
	}
	m.home = binio.Grow(m.home, int(rows))
	seen := make([]uint64, (rows+63)/64)
	return s.readRefill(ctx, m.sums.Size/(8*rows)-1, func(slot, batch, row uint32) error {
		if batch != packfile.RefillHot || int64(row) >= rows || seen[row/64]>>(row%64)&1 != 0 {
			return bad(slot, batch, row)
		}
		seen[row/64] |= 1 << (row % 64)
		m.home[slot] = row
		return nil
	})
}

// readRefill reads a record of refill.bin, checked, and returns the bytes read.
func (s *Store) readRefill(ctx context.Context, record int64, do func(slot, batch, row uint32) error) (int64, error) {
	m := s.min
	size := 8 * s.facts.HotRows
	from, to := record*size, (record+1)*size
	buf, err := device.NewHost(int(min(1<<20, binio.AlignUp(size, binio.Page)+binio.Page)))
	if err != nil {
		return 0, err
	}
	defer buf.Free()
	read := int64(0)
	for lo := from / binio.Page * binio.Page; lo < to; {
		hi := min(lo+int64(buf.Len()), binio.AlignUp(to, binio.Page), m.sums.Size)
		b := buf.Bytes()[:hi-lo]
		var g iostack.Group
		if err := s.stack.Submit(&g, []iostack.Request{{File: m.refill, Offset: lo, Buf: b}}); err != nil {
			return 0, err
		}
		if err := s.stack.Wait(ctx, &g); err != nil {
			return 0, err
		}
		if err := m.sums.Verify(m.refill.Name(), lo, b); err != nil {
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

// arrival is a row of a batch's matrix on its way to a slot.
type arrival struct{ batch, row, slot uint32 }

// replay brings the cache from its first content to what it is before the batch.
func (s *Store) replay(ctx context.Context, batch int, rep progress.Reporter) (read int64, err error) {
	sl, err := s.NewSlot()
	if err != nil {
		return 0, err
	}
	defer sl.Free()
	record := batch / packfile.RefillBatches
	first := record * packfile.RefillBatches
	var list []arrival
	if record > 0 {
		list = make([]arrival, 0, s.facts.HotRows)
		if read, err = s.readRefill(ctx, int64(record)-1, func(slot, b, row uint32) error {
			if b == packfile.RefillHot && row == slot {
				return nil // as it was
			}
			if int64(b) >= int64(first) || !s.admits(int(b), row) {
				return fault.New(fault.ErrCorrupt, "%s: slot %d has row %d of batch %d, which is not admitted before batch %d", s.min.refill.Name(), slot, row, b, first)
			}
			list = append(list, arrival{b, row, slot})
			return nil
		}); err != nil {
			return 0, err
		}
		slices.SortFunc(list, func(a, b arrival) int {
			return int(int64(a.batch)<<32|int64(a.row)) - int(int64(b.batch)<<32|int64(b.row))
		})
	}
	task := rep.Task("refill the cache", int64(len(list)), progress.Rows)
	defer task.Done()
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].batch == list[0].batch {
			n++
		}
		sl.clearCounts()
		if err := s.arrive(ctx, sl, list[:n]); err != nil {
			return 0, err
		}
		read += sl.BytesRead
		task.Add(int64(n))
		list = list[n:]
	}
	for i := first; i < batch; i++ {
		err := s.startGraph(sl, i)
		if err == nil {
			err = s.loadGraph(ctx, sl)
		}
		if err != nil {
			return 0, errors.Join(err, s.endGraph(ctx, sl))
		}
		list = list[:0]
		for k, slot := range sl.plan.Admit {
			list = append(list, arrival{uint32(i), uint32(s.pack.Index().Train[i].Bands[0] + k), slot})
		}
		if err := s.arrive(ctx, sl, list); err != nil {
			return 0, err
		}
		read += sl.BytesRead
	}
	return read, nil
}

// admits reports whether a row of a batch's matrix is one that the cache admits.
func (s *Store) admits(batch int, row uint32) bool {
	t := &s.pack.Index().Train[batch]
	return int(row) >= t.Bands[0] && int(row) < t.Bands[0]+t.Bands[1]
}

// arrive reads rows of one batch's chunk, ascending, and puts them into their slots. Only
// the pieces of the chunk that they lie in are read.
func (s *Store) arrive(ctx context.Context, sl *Slot, list []arrival) (err error) {
	if len(list) == 0 {
		return nil
	}
	batch := int(list[0].batch)
	t := &s.pack.Index().Train[batch]
	rb, last := int64(s.facts.RowBytes), s.pack.Index().Bands-1
	sl.batch, sl.cold = batch, t.ColdRows(last)
	chunk := sl.chunkBytes()
	file, err := s.files.take(packfile.ColdFile(s.pack.Group(batch)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.files.give(file)) }()
	// each calls do for the pieces that hold parts of the rows.
	each := func(do func(p packfile.Piece) error) error {
		k := 0
		return t.Pieces(s.pack.Form(), last, func(p packfile.Piece) error {
			for k < len(list) && int64(list[k].row+1)*rb <= p.Row {
				k++
			}
			if k == len(list) || int64(list[k].row)*rb >= p.Row+int64(p.RowLen) {
				return nil
			}
			return do(p)
		})
	}
	sl.req = sl.req[:0]
	_ = each(func(p packfile.Piece) error {
		off := t.ChunkOffset + p.Offset
		sl.req = append(sl.req, iostack.Request{File: file.File, Offset: off, Buf: chunk[p.Offset : p.Offset+int64(p.Len)]})
		sl.BytesRead += extent(file.File, off, int64(p.Len))
		return nil
	})
	if err := s.stack.Submit(&sl.group, sl.req); err != nil {
		return err
	}
	if err := s.stack.Wait(ctx, &sl.group); err != nil {
		return err
	}
	cache := s.cache.Bytes()
	put := func(a arrival, row []byte) { copy(cache[int64(a.slot)*rb:int64(a.slot+1)*rb], row) }
	if s.pack.Form().Compressed() {
		rest := list
		return each(func(p packfile.Piece) error { // of whole rows
			rows := make([]byte, p.RowLen)
			if err := t.LoadPiece(s.copies.decoder, file.Name(), chunk, p, rows); err != nil {
				return err
			}
			for ; len(rest) > 0 && int64(rest[0].row)*rb < p.Row+int64(p.RowLen); rest = rest[1:] {
				put(rest[0], rows[int64(rest[0].row)*rb-p.Row:])
			}
			return nil
		})
	}
	if err := each(func(p packfile.Piece) error { return t.VerifyPiece(file.Name(), chunk, p) }); err != nil {
		return err
	}
	for _, a := range list {
		put(a, chunk[int64(a.row)*rb:])
	}
	return nil
}
