package packed

import (
	"context"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// rowList lists rows of a file: the row that begins at byte base + ids[k]·row bytes goes to the k-th place of
// `to`. All of them lie in the file: the pack's reader has checked the graph against the index, and the index
// against the sizes of the files.
type rowList struct {
	file       iostack.File
	sums       *binio.Sums
	ids        []uint32
	base       int64
	descending bool // ids descend; else they ascend
	to         places
}

// at returns the offset of the k-th row in ascending order, and its place in ids.
func (l *rowList) at(k int, rowBytes int64) (off int64, place int) {
	if l.descending {
		k = len(l.ids) - 1 - k
	}
	return l.base + int64(l.ids[k])*rowBytes, k
}

// pageReader reads lists of rows, one after the other, as runs of pages, through two staging buffers: the
// pages of one are checked and copied out while the pages of the other are read.
type pageReader struct {
	staging [2]*device.Host
	lists   []rowList // the present list, then the lists left
	rounds  [2]round
	next    int // the first row, in ascending order, without a submitted read
}

// round is a set of page runs that fill one staging buffer together.
type round struct {
	group       iostack.Group
	runs        []pageRun
	first, last int // rows first ≤ row < last, in ascending order
}

// pageRun is a range of a file's pages in a staging buffer.
type pageRun struct {
	off   int64 // in the file, a multiple of a page
	bytes []byte
	last  int // the first row, in ascending order, after the run
}

// stagingBytes returns the size of a staging buffer, in bytes. It does not depend on the number of rows.
func stagingBytes(rowBytes int) int64 {
	return max(8<<20, binio.AlignUp(int64(rowBytes), binio.Page)+2*binio.Page)
}

// newPageReader returns a reader with staging buffers of the given size.
func newPageReader(m *memory, bytes int64) pageReader {
	return pageReader{staging: [2]*device.Host{m.land(bytes), m.land(bytes)}, lists: make([]rowList, 0, 2)}
}

// start submits reads of the first list with rows, as far as the staging buffers have room. After an error of
// start or of finish, call drop.
func (r *pageReader) start(b *batch, lists ...rowList) error {
	r.lists = r.lists[:0]
	for _, l := range lists {
		if len(l.ids) > 0 {
			r.lists = append(r.lists, l)
		}
	}
	return r.startList(b)
}

func (r *pageReader) startList(b *batch) error {
	if len(r.lists) == 0 {
		return nil
	}
	r.next = 0
	for turn := range r.rounds {
		if err := r.submit(b, turn); err != nil {
			return err
		}
	}
	return nil
}

// finish returns when all rows of all lists are in their places.
func (r *pageReader) finish(ctx context.Context, b *batch) error {
	for len(r.lists) > 0 {
		for turn := 0; r.rounds[turn].first < r.rounds[turn].last; turn = 1 - turn {
			if err := b.src.stack.Wait(ctx, &r.rounds[turn].group); err != nil {
				return err
			}
			if err := r.take(b, &r.rounds[turn]); err != nil {
				return err
			}
			if err := r.submit(b, turn); err != nil {
				return err
			}
		}
		r.lists = append(r.lists[:0], r.lists[1:]...)
		if err := r.startList(b); err != nil {
			return err
		}
	}
	return nil
}

// drop gives the reads up. No page lands after it returns.
func (r *pageReader) drop(b *batch) {
	for turn := range r.rounds {
		round := &r.rounds[turn]
		iostack.Drop(b.src.stack, &round.group)
		round.first, round.last = 0, 0
	}
	r.lists = r.lists[:0]
}

// submit submits reads of page runs from the next row on, up to the size of a staging buffer.
func (r *pageReader) submit(b *batch, turn int) error {
	l, round, room := &r.lists[0], &r.rounds[turn], r.staging[turn].Bytes()
	rb, size := int64(b.src.facts.RowBytes), l.sums.Size
	k := r.next
	round.runs, round.first = round.runs[:0], k
	b.req = b.req[:0]
	for k < len(l.ids) {
		off, _ := l.at(k, rb)
		lo := off / binio.Page * binio.Page
		hi := lo
		for k < len(l.ids) {
			off, _ := l.at(k, rb)
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
		round.runs = append(round.runs, pageRun{off: lo, bytes: room[:hi-lo], last: k})
		b.req = append(b.req, iostack.Request{File: l.file, Offset: lo, Buf: room[:hi-lo]})
		b.BytesRead += iostack.Extent(l.file, lo, hi-lo)
		room = room[binio.AlignUp(hi-lo, binio.Page):]
	}
	round.last, r.next = k, k
	if len(b.req) == 0 {
		return nil
	}
	b.Requests += int64(len(b.req))
	return b.src.stack.Submit(&round.group, b.req)
}

// take checks the pages of a round and copies its rows to their places.
func (r *pageReader) take(b *batch, round *round) error {
	l, rb := &r.lists[0], int64(b.src.facts.RowBytes)
	k := round.first
	for i := range round.runs {
		run := &round.runs[i]
		if err := l.sums.Verify(l.file.Name(), run.off, run.bytes); err != nil {
			return err
		}
		for ; k < run.last; k++ {
			off, place := l.at(k, rb)
			b.matrix.put(l.to, place, run.bytes[off-run.off:off-run.off+rb])
		}
	}
	b.UsefulBytes += int64(round.last-round.first) * rb
	return nil
}
