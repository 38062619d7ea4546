package gids

import (
	"context"
	"unsafe"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/binio"
	"diskgnn/iostack"
)

// table is the feature file, which is read page by page.
type table struct {
	*design
	machine.Files
}

// reader reads lists of pages through two staging buffers: the pages of one are checked and used while the
// pages of the other are read.
type reader struct {
	*table
	counts   *featurestore.Counts // BytesRead and Requests grow
	staging  []byte               // for both rounds
	rounds   [2]round
	requests []iostack.Request // of one round

	pages []uint32
	land  func(k int, content []byte) // called with each page that was read
	next  int                         // the first page without a submitted read
}

// round is a group of reads in flight, for pages from first on.
type round struct {
	group    iostack.Group
	first, n int
}

// roundReads is the number of reads of a round.
const roundReads = inFlight / 2

// requestsBytes is the memory of a reader on Go's heap: its requests.
const requestsBytes = roundReads * int64(unsafe.Sizeof(iostack.Request{}))

func (r *reader) lay(mem *carver) { r.staging = list[byte](mem, inFlight*binio.Page) }

// newReader returns a reader with memory of its own. lay takes further parts of that memory. The caller
// calls free when no read is in flight.
func newReader(t *table, lay func(mem *carver)) (_ *reader, free func(), err error) {
	r := &reader{table: t, counts: new(featurestore.Counts), requests: make([]iostack.Request, roundReads)}
	host, err := carve(func(mem *carver) {
		r.lay(mem)
		lay(mem)
	})
	if err != nil {
		return nil, nil, err
	}
	return r, host.Free, nil
}

func readerBytes() int64 { return carved(new(reader).lay) + requestsBytes }

// read reads pages, checks them, and calls land with the content of each.
func (r *reader) read(ctx context.Context, pages []uint32, land func(k int, content []byte)) error {
	err := r.start(pages, land)
	if err == nil {
		err = r.Finish(ctx)
	}
	if err != nil {
		r.Drop()
	}
	return err
}

// start submits the first reads of some pages. The list belongs to the reader until Finish or Drop.
func (r *reader) start(pages []uint32, land func(k int, content []byte)) error {
	r.pages, r.land, r.next = pages, land, 0
	for turn := range r.rounds {
		if err := r.submit(turn); err != nil {
			return err
		}
	}
	return nil
}

// Finish returns when all pages have landed. After an error of Finish or of start, call Drop.
func (r *reader) Finish(ctx context.Context) error {
	for turn := 0; r.rounds[turn].n > 0; turn = 1 - turn {
		q := &r.rounds[turn]
		if err := r.Stack.Wait(ctx, &q.group); err != nil {
			return r.Damaged(err)
		}
		for k := range q.n {
			off, content := r.at(turn, k)
			if err := r.Sums.Verify(r.Files.Rows.Name(), off, content); err != nil {
				return r.Damaged(err)
			}
			r.land(q.first+k, content)
		}
		if err := r.submit(turn); err != nil {
			return err
		}
	}
	return nil
}

// Drop gives the reads up. No page lands after it returns.
func (r *reader) Drop() {
	for i := range r.rounds {
		iostack.Drop(r.Stack, &r.rounds[i].group)
		r.rounds[i].n = 0
	}
	r.next = len(r.pages)
}

// at returns the offset of the k-th page of a round, and its memory, which is shorter than a page at the
// end of the file.
func (r *reader) at(turn, k int) (off int64, content []byte) {
	off = int64(r.pages[r.rounds[turn].first+k]) * binio.Page
	from := (turn*roundReads + k) * binio.Page
	return off, r.staging[from : from+int(min(binio.Page, r.Size()-off))]
}

// submit submits a round of reads from the next page on.
func (r *reader) submit(turn int) error {
	q := &r.rounds[turn]
	q.first, q.n = r.next, min(roundReads, len(r.pages)-r.next)
	for k := range q.n {
		off, content := r.at(turn, k)
		r.requests[k] = iostack.Request{File: r.Files.Rows, Offset: off, Buf: content}
		r.counts.BytesRead += iostack.Extent(r.Files.Rows, off, int64(len(content)))
	}
	r.next += q.n
	if q.n == 0 {
		return nil
	}
	r.counts.Requests += int64(q.n)
	return r.Stack.Submit(&q.group, r.requests[:q.n])
}
