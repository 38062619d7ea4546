package pack

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/stage"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/packfile"
)

// ssdPiece is the number of places that a worker goes through at a time: whole pages for every row size.
const ssdPiece = 16 * binio.Page

// ssdWriter writes the rows of the SSD level while their range of the table is in memory. The writes of a
// range do not depend on the file's content, so an interrupted range is simply written again. Rows come in
// the order of nodes and share pages: the checksum of a page is computed from its parts, in any order.
type ssdWriter struct {
	open     *rowfile.Set
	facts    *packfile.Facts
	segments []packfile.Segment
	workers  int

	lists rowList          // the rows of every segment, by place
	out   []*rowfile.File  // by group; nil where the level has no rows
	sums  []*binio.Scatter // likewise: of the rows written so far
}

func groupSegments(f *packfile.Facts, group int) (lo, hi int) {
	n := packfile.GroupBatches(f.Segment) / f.Segment
	return group * n, min((group+1)*n, f.Segments)
}

func ssdSize(segments []packfile.Segment, rowBytes int) int64 {
	last := &segments[len(segments)-1]
	return last.Offset + binio.AlignUp(int64(last.Rows)*int64(rowBytes), binio.Page)
}

// newSSDWriter creates the files at their full sizes. Given the state of an interrupted run, it checks the
// rows written to them. crc is the checksum of the scratch list.
func newSSDWriter(ctx context.Context, open *rowfile.Set, x *packfile.Index, f *packfile.Facts, workers int, crc uint32, state *rangeState) (_ *ssdWriter, err error) {
	w := &ssdWriter{open: open, facts: f, segments: x.Segments, workers: workers}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	start := make([]int64, len(w.segments)+1)
	for i := range w.segments {
		start[i+1] = start[i] + int64(w.segments[i].Rows)
	}
	if w.lists, err = openRowList(ctx, open.Dir, ssdRequestsFile, start, crc); err != nil {
		return nil, err
	}
	w.out, w.sums = make([]*rowfile.File, f.Groups()), make([]*binio.Scatter, f.Groups())
	for g := range w.out {
		size := w.size(g)
		if size == 0 {
			continue
		}
		w.sums[g] = binio.NewScatter(size, binio.Page)
		if state.Next > 0 {
			w.out[g] = open.File(packfile.SSDFile(g))
		} else if w.out[g], err = open.Create(packfile.SSDFile(g), size); err != nil {
			return nil, err
		}
	}
	if state.Next == 0 {
		return w, nil
	}
	return w, w.check(ctx, state)
}

func (w *ssdWriter) size(group int) int64 {
	lo, hi := groupSegments(w.facts, group)
	return ssdSize(w.segments[lo:hi], w.facts.RowBytes)
}

// digests returns, by group, the CRC-32C of the pages' checksums. A resumed run compares them with the
// digests of the rows in the files.
func (w *ssdWriter) digests() []uint32 {
	list := make([]uint32, len(w.sums))
	for g, s := range w.sums {
		if s != nil {
			list[g] = binio.CRC(binio.Bytes(s.Sums().CRC))
		}
	}
	return list
}

// check reads the files back and computes the checksums of the rows below state.Next again. They
// equal those of the state, which were computed in memory, only if the files hold the rows that
// were written. All other rows are written again; bytes outside rows are zero.
func (w *ssdWriter) check(ctx context.Context, state *rangeState) error {
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(checkDepth)
	for group := range w.out {
		if w.out[group] == nil {
			continue
		}
		g.Go(func() error {
			return w.lists.guard(func() error { return w.checkGroup(inner, group, state.Next) })
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for group, digest := range w.digests() {
		if name := w.open.Dir.File(packfile.SSDFile(group)); digest != state.SSD[group] {
			return touched(name, errors.New("its rows do not match their checksum"))
		}
	}
	return nil
}

// checkGroup computes the checksums of the rows in a group's file that belong to nodes below next.
func (w *ssdWriter) checkGroup(ctx context.Context, group int, next int64) (err error) {
	f, err := openKept(w.open.Dir, packfile.SSDFile(group), w.size(group))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := keptReader{ctx: ctx, f: f, buf: make([]byte, writeBuffer)}
	rb := int64(w.facts.RowBytes)
	lo, hi := groupSegments(w.facts, group)
	for i := lo; i < hi; i++ {
		s := w.segments[i]
		nodes := w.lists.of(i)
		at, end := s.Offset, s.Offset+int64(s.Rows)*rb
		err := r.each(at, end, func(b []byte) error {
			for len(b) > 0 { // places that are written, or that are not, one after another
				k := (at - s.Offset) / rb
				written, stop := int64(nodes[k]) < next, at+int64(len(b))
				for k < int64(len(nodes)) && int64(nodes[k]) < next == written && s.Offset+k*rb < stop {
					k++
				}
				n := min(s.Offset+k*rb, stop) - at
				if written {
					w.sums[group].Put(at, b[:n])
				}
				at, b = at+n, b[n:]
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := r.zeros(end, binio.AlignUp(end, binio.Page)); err != nil {
			return err
		}
	}
	return nil
}

// take writes the rows lo ≤ v < hi wherever they belong.
func (w *ssdWriter) take(ctx context.Context, lo, hi int64, rows []byte) error {
	type piece struct{ segment, first, last int }
	jobs := make(chan piece)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(jobs)
		for i := range w.segments {
			for first := 0; first < w.segments[i].Rows; first += ssdPiece {
				select {
				case jobs <- piece{i, first, min(first+ssdPiece, w.segments[i].Rows)}:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return nil
	})
	for range w.workers {
		g.Go(func() error {
			buf := make([]byte, 0, max(writeBuffer, w.facts.RowBytes))
			for p := range jobs {
				err := w.lists.guard(func() error { return w.piece(p.segment, p.first, p.last, lo, hi, rows, buf) })
				if err != nil {
					return fmt.Errorf("segment %d: %w", p.segment, err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// piece writes the rows lo ≤ v < hi with places first ≤ k < last in a segment, adjacent rows in one write.
func (w *ssdWriter) piece(segment, first, last int, lo, hi int64, rows, buf []byte) error {
	rb := w.facts.RowBytes
	nodes := w.lists.of(segment)
	group := segment * w.facts.Segment / packfile.GroupBatches(w.facts.Segment)
	flush := func(end int) error {
		if len(buf) == 0 {
			return nil
		}
		off := w.segments[segment].Offset + int64(end)*int64(rb) - int64(len(buf))
		if err := w.out[group].WriteCached(buf, off); err != nil {
			return err
		}
		w.sums[group].Put(off, buf) // no other piece has places in these pages
		buf = buf[:0]
		return nil
	}
	for k := first; k < last; k++ {
		v := int64(nodes[k])
		inside := v >= lo && v < hi
		if !inside || len(buf)+rb > cap(buf) {
			if err := flush(k); err != nil {
				return err
			}
		}
		if inside {
			buf = append(buf, rows[int(v-lo)*rb:int(v-lo+1)*rb]...)
		}
	}
	return flush(last)
}

// finish makes the files durable, writes their tables of checksums, and describes both.
func (w *ssdWriter) finish() ([]stage.File, error) {
	var all []stage.File
	for g, f := range w.out {
		if f == nil {
			continue
		}
		if err := f.Finish(); err != nil {
			return nil, err
		}
		described, err := rowfile.Describe(w.open.Dir, packfile.SSDFile(g), w.sums[g].Sums(), packfile.SSDSums(g))
		if err != nil {
			return nil, err
		}
		all = append(all, described...)
	}
	return all, nil
}

// close closes the open files; files that finish described are durable already.
func (w *ssdWriter) close() {
	for _, f := range w.out {
		if f != nil {
			f.Close()
		}
	}
	w.lists.close()
}
