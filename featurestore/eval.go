package featurestore

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/internal/binio"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// maxGap is the most pages that a read passes over to reach the next row: below
// it, reading on is cheaper than a request of its own.
const maxGap = 16

// LoadEval loads a whole evaluation batch: its graph, and its rows from eval.bin,
// hot.bin and RAM. Rows on disk are read as runs of pages, checked page by page.
func (s *Store) LoadEval(ctx context.Context, sl *Slot, test bool, i int) (err error) {
	list, what := s.pack.Index().Valid, "validation"
	if test {
		list, what = s.pack.Index().Test, "test"
	}
	e := &list[i]
	sl.BytesRead, sl.UsefulBytes = 0, 0
	file, err := s.files.take(s.pack.Path(packfile.EvalGraphFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.files.give(file)) }()
	raw, err := s.readGraph(ctx, sl, file, e.GraphOffset, e.GraphBytes)
	if err != nil {
		return fmt.Errorf("graph of %s batch %d: %w", what, i, err)
	}
	if err := s.pack.DecodeEvalGraph(e, raw, &sl.Batch); err != nil {
		return err
	}
	if err := s.evalRows(ctx, sl, e.Rows); err != nil {
		return fmt.Errorf("rows of %s batch %d: %w", what, i, err)
	}
	return nil
}

// evalRows fills the matrix of an evaluation batch whose first n rows lie in
// eval.bin; the others descend in rank, those beyond the RAM cache first.
func (s *Store) evalRows(ctx context.Context, sl *Slot, n int) error {
	ids := sl.Batch.Input
	x, dim := sl.X(), s.facts.Dim
	onDisk := n
	for onDisk < len(ids) && int64(ids[onDisk]) >= s.layout.CacheRows {
		onDisk++
	}
	err := s.readRows(ctx, sl, rowList{file: s.eval, sums: &s.evalSums, ids: ids[:n], base: s.facts.HotRows, x: x[:n*dim]})
	if err != nil {
		return err
	}
	err = s.readRows(ctx, sl, rowList{file: s.hot, sums: &s.hotSums, ids: ids[n:onDisk], x: x[n*dim : onDisk*dim], descending: true})
	if err != nil {
		return err
	}
	s.copies.gather(x[onDisk*dim:], s.cache.Bytes(), ids[onDisk:], s.facts.DType, dim)
	return nil
}

// rowList names rows of a file: row ids[k]-base goes to row k of x.
type rowList struct {
	file       iostack.File
	sums       *binio.Sums
	ids        []uint32
	base       int64
	descending bool // ids descend; else they ascend
	x          []float32
}

// at returns the k-th row in ascending order and its place in x.
func (l *rowList) at(k int) (row int64, place int) {
	if l.descending {
		k = len(l.ids) - 1 - k
	}
	return int64(l.ids[k]) - l.base, k
}

// round is a set of page runs that fill one staging buffer together.
type round struct {
	group       iostack.Group
	runs        []pageRun
	first, last int // rows, in ascending order
}

// pageRun is a range of a file's pages in a staging buffer.
type pageRun struct {
	off   int64 // in the file, a multiple of a page
	bytes []byte
	last  int // the first row, in ascending order, that it does not hold
}

// readRows reads a list of rows through the two staging buffers: while one
// round's pages are checked and copied out, the next round's are read.
func (s *Store) readRows(ctx context.Context, sl *Slot, l rowList) error {
	if len(l.ids) == 0 {
		return nil
	}
	next, err := s.submitRound(sl, 0, &l, 0)
	for turn := 0; err == nil && sl.rounds[turn].first < len(l.ids); turn = 1 - turn {
		sl.rounds[1-turn].first = len(l.ids) // nothing, unless submitted below
		if next < len(l.ids) {
			if next, err = s.submitRound(sl, 1-turn, &l, next); err != nil {
				break
			}
		}
		if err = s.stack.Wait(ctx, &sl.rounds[turn].group); err != nil {
			break
		}
		err = s.takeRound(sl, &sl.rounds[turn], &l)
	}
	if err != nil { // nothing may land any more once this returns
		done, cancel := context.WithCancel(ctx)
		cancel()
		for i := range sl.rounds {
			_ = s.stack.Wait(done, &sl.rounds[i].group)
		}
	}
	return err
}

// submitRound fills a staging buffer with page runs from row first on, submits
// their reads, and returns the first row that found no room.
func (s *Store) submitRound(sl *Slot, turn int, l *rowList, first int) (int, error) {
	r, room := &sl.rounds[turn], sl.staging[turn].Bytes()
	r.runs, r.first = r.runs[:0], first
	rb, size := int64(s.facts.RowBytes), l.file.Size()
	k := first
	for k < len(l.ids) {
		row, _ := l.at(k)
		lo := row * rb / binio.Page * binio.Page
		hi := lo
		for k < len(l.ids) {
			row, _ := l.at(k)
			from, to := row*rb/binio.Page*binio.Page, min(binio.AlignUp((row+1)*rb, binio.Page), size)
			if from > hi+maxGap*binio.Page || to-lo > int64(len(room)) {
				break
			}
			hi = max(hi, to)
			k++
		}
		if hi == lo {
			break // no room for another run
		}
		r.runs = append(r.runs, pageRun{off: lo, bytes: room[:hi-lo], last: k})
		room = room[binio.AlignUp(hi-lo, binio.Page):]
	}
	r.last = k
	for i := range r.runs {
		if err := s.submit(sl, &r.group, l.file, r.runs[i].off, r.runs[i].bytes); err != nil {
			return k, err
		}
	}
	return k, nil
}

// takeRound checks a round's pages and copies its rows into the matrix.
func (s *Store) takeRound(sl *Slot, r *round, l *rowList) error {
	rb, dim := int64(s.facts.RowBytes), s.facts.Dim
	k := r.first
	for i := range r.runs {
		run := &r.runs[i]
		if err := l.sums.Verify(l.file.Name(), run.off, run.bytes); err != nil {
			return err
		}
		for ; k < run.last; k++ {
			row, place := l.at(k)
			src := run.bytes[row*rb-run.off : (row+1)*rb-run.off]
			widen(l.x[place*dim:(place+1)*dim], src, s.facts.DType)
		}
	}
	sl.UsefulBytes += int64(r.last-r.first) * rb
	return nil
}
