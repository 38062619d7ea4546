package packed

import (
	"context"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// rowList names rows of a file: the row that begins at byte base + ids[k]·row bytes
// goes to the k-th place of to.
type rowList struct {
	file       iostack.File
	sums       *binio.Sums
	ids        []uint32
	base       int64
	descending bool // ids descend; else they ascend
	to         places
}

// places are where the CPU puts rows: widened into x or, where the GPU widens them, as
// they are packed into rows.
type places struct {
	x    []float32
	rows []byte
}

func (p places) put(place int, row []byte, from dtype.Type, dim int) {
	if p.rows != nil {
		copy(p.rows[place*len(row):], row)
		return
	}
	kernel.Widen(p.x[place*dim:(place+1)*dim], row, from, dim)
}

// places returns those of some rows: at first in the feature matrix, at sent in the slot
// among those that are sent to the GPU.
func (sl *Slot) places(first, sent, rows int) places {
	f := &sl.store.facts
	if sl.store.gpu != nil {
		return places{rows: sl.matrix.Bytes()[sent*f.RowBytes : (sent+rows)*f.RowBytes]}
	}
	return places{x: sl.X()[first*f.Dim : (first+rows)*f.Dim]}
}

// at returns where the k-th row in ascending order begins, and its place.
func (l *rowList) at(k int, rowBytes int64) (off int64, place int) {
	if l.descending {
		k = len(l.ids) - 1 - k
	}
	return l.base + int64(l.ids[k])*rowBytes, k
}

// rowReader reads a list of rows as runs of pages, through two staging buffers: while
// one's pages are checked and copied out, the other's are read.
type rowReader struct {
	list   rowList
	rounds [2]round
	next   int // the first row, in ascending order, that no read was submitted for
}

// round is a set of page runs that fill one staging buffer together.
type round struct {
	group       iostack.Group
	runs        []pageRun
	first, last int // rows, in ascending order; none when equal
}

// pageRun is a range of a file's pages in a staging buffer.
type pageRun struct {
	off   int64 // in the file, a multiple of a page
	bytes []byte
	last  int // the first row, in ascending order, that it does not hold
}

// readRows reads a list of rows.
func (s *Store) readRows(ctx context.Context, sl *Slot, l rowList) error {
	if len(l.ids) == 0 {
		return nil
	}
	err := s.startRows(sl, l)
	if err == nil {
		err = s.finishRows(ctx, sl)
	}
	if err != nil {
		s.dropRows(sl)
	}
	return err
}

// startRows submits what the staging buffers have room for. After an error, as after
// one of finishRows, dropRows must follow.
func (s *Store) startRows(sl *Slot, l rowList) error {
	r := &sl.rows
	r.list, r.next = l, 0
	for turn := range r.rounds {
		if err := s.submitRound(sl, turn); err != nil {
			return err
		}
	}
	return nil
}

// finishRows returns when all rows are in the matrix.
func (s *Store) finishRows(ctx context.Context, sl *Slot) error {
	r := &sl.rows
	for turn := 0; r.rounds[turn].first < r.rounds[turn].last; turn = 1 - turn {
		if err := s.stack.Wait(ctx, &r.rounds[turn].group); err != nil {
			return err
		}
		if err := s.takeRound(sl, &r.rounds[turn]); err != nil {
			return err
		}
		if err := s.submitRound(sl, turn); err != nil {
			return err
		}
	}
	return nil
}

// dropRows gives a reading up: nothing lands any more once it returns.
func (s *Store) dropRows(sl *Slot) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for turn := range sl.rows.rounds {
		r := &sl.rows.rounds[turn]
		_ = s.stack.Wait(ended, &r.group)
		r.first, r.last = 0, 0
	}
}

// submitRound fills a staging buffer with page runs from the next row on, and submits
// their reads.
func (s *Store) submitRound(sl *Slot, turn int) error {
	l, r, room := &sl.rows.list, &sl.rows.rounds[turn], sl.staging[turn].Bytes()
	rb, size := int64(s.facts.RowBytes), l.sums.Size
	k := sl.rows.next
	r.runs, r.first = r.runs[:0], k
	sl.req = sl.req[:0]
	for k < len(l.ids) {
		off, _ := l.at(k, rb)
		lo := off / binio.Page * binio.Page
		hi := lo
		for k < len(l.ids) {
			off, _ := l.at(k, rb)
			if off < 0 || off+rb > size { // no read could hold it
				return fault.New(fault.ErrCorrupt, "%s: a row at byte %d, beyond its %d bytes", l.file.Name(), off, size)
			}
			from, to := off/binio.Page*binio.Page, min(binio.AlignUp(off+rb, binio.Page), size)
			if from > hi+packfile.MaxGap*binio.Page || to-lo > int64(len(room)) {
				break
			}
			hi = max(hi, to)
			k++
		}
		if hi == lo {
			break // no room for another run
		}
		r.runs = append(r.runs, pageRun{off: lo, bytes: room[:hi-lo], last: k})
		sl.req = append(sl.req, iostack.Request{File: l.file, Offset: lo, Buf: room[:hi-lo]})
		sl.BytesRead += extent(l.file, lo, hi-lo)
		room = room[binio.AlignUp(hi-lo, binio.Page):]
	}
	r.last, sl.rows.next = k, k
	if len(sl.req) == 0 {
		return nil
	}
	return s.stack.Submit(&r.group, sl.req)
}

// takeRound checks a round's pages and copies its rows into the matrix.
func (s *Store) takeRound(sl *Slot, r *round) error {
	l := &sl.rows.list
	rb, dim := int64(s.facts.RowBytes), s.facts.Dim
	k := r.first
	for i := range r.runs {
		run := &r.runs[i]
		if err := l.sums.Verify(l.file.Name(), run.off, run.bytes); err != nil {
			return err
		}
		for ; k < run.last; k++ {
			off, place := l.at(k, rb)
			l.to.put(place, run.bytes[off-run.off:off-run.off+rb], s.facts.DType, dim)
		}
	}
	sl.UsefulBytes += int64(r.last-r.first) * rb
	return nil
}
