package topology

import (
	"context"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/presample/sampler"
)

const (
	// roundPages is the number of pages that one of a fetcher's two rounds reads concurrently; two
	// rounds keep a fast drive busy.
	roundPages = 128
	// roundPieces is the largest number of pieces of a round.
	roundPieces = 4096
	pageEdges   = binio.Page / 4
)

// piece is a range of successive edges of the graph with wanted sources. The caller numbers their
// destinations.
type piece struct {
	first int64
	n     int
	to    int // a destination
	at    int // its edge; all: each one, in order
}

const all = -1

// list is the pieces that a fetcher reads, in ascending order of their edges, which no two
// have in common.
type list interface {
	// next returns the next piece; false: there is none.
	next() (piece, bool)
	// take takes the sources of the next piece, or of the next part of one that is longer
	// than a round. They are valid during the call.
	take(ctx context.Context, p piece, sources []uint32) error
}

// fetcher reads lists through two rounds of pages: while one is checked and taken, the other
// is read. So any number of pieces takes as much memory.
type fetcher struct {
	of      *cached
	reads   sampler.Reads
	staging *device.Host // of both rounds
	rounds  [2]round
	req     [roundPages]iostack.Request

	from list
	rest piece // the one that comes next, n is 0 at the end
}

// round is some requests in flight together.
type round struct {
	group  iostack.Group
	pages  []byte // of the staging
	used   int    // bytes of them
	last   int64  // the page of the file that the last of them is
	reads  [roundPages]span
	nreads int
	pieces [roundPieces]placed
	n      int
}

// span is bytes of the file, one request.
type span struct {
	off int64
	n   int
	at  int // of the pages
}

// placed is a piece, or a part of one, and where its first source lies among the round's pages.
type placed struct {
	piece
	in int
}

func newFetcher(of *cached) (*fetcher, error) {
	f := &fetcher{of: of}
	const each = roundPages * binio.Page
	var err error
	if f.staging, err = device.NewHost(len(f.rounds) * each); err != nil {
		return nil, err
	}
	for i := range f.rounds {
		f.rounds[i].pages = f.staging.Bytes()[i*each : (i+1)*each]
	}
	_ = of.stack.Register(f.staging.Bytes()) // a hint
	return f, nil
}

func (f *fetcher) free() {
	_ = f.of.stack.Unregister(f.staging.Bytes()) // Register was a hint
	f.staging.Free()
}

// fetch reads all pieces of a list. After it returns, no read is in progress.
func (f *fetcher) fetch(ctx context.Context, from list) error {
	f.from = from
	f.advance()
	err := f.all(ctx)
	if err != nil {
		for i := range f.rounds {
			iostack.Drop(f.of.stack, &f.rounds[i].group)
		}
	}
	f.from = nil
	return f.of.damaged(err)
}

func (f *fetcher) all(ctx context.Context) error {
	for i := range f.rounds {
		if err := f.submit(&f.rounds[i]); err != nil {
			return err
		}
	}
	for i := 0; f.rounds[i].n > 0; i = 1 - i {
		r := &f.rounds[i]
		if err := f.of.stack.Wait(ctx, &r.group); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil { // reads from memory never wait
			return err
		}
		if err := f.take(ctx, r); err != nil {
			return err
		}
		if err := f.submit(r); err != nil {
			return err
		}
	}
	return nil
}

// advance makes the next piece of the list the rest.
func (f *fetcher) advance() {
	var ok bool
	if f.rest, ok = f.from.next(); !ok {
		f.rest.n = 0
	}
}

// submit fills a round with the next pieces and submits its reads.
func (f *fetcher) submit(r *round) error {
	r.used, r.nreads, r.n, r.last = 0, 0, 0, -1
	for r.n < roundPieces && f.rest.n > 0 {
		p := f.rest
		page, end := p.first/pageEdges, (p.first+int64(p.n)-1)/pageEdges+1
		begin := page // of the pages that are not in the round yet
		if page == r.last {
			begin++
		}
		if room := int64(len(r.pages)-r.used) / binio.Page; end > begin+room {
			end = begin + room
			if end == page {
				break
			}
			p.n = int(end*pageEdges - p.first)
		}
		for q := begin; q < end; q++ {
			f.cover(r, q)
		}
		in := r.used - int(end-page)*binio.Page + int(p.first%pageEdges)*4
		r.pieces[r.n] = placed{p, in}
		r.n++
		if f.rest.first, f.rest.n = f.rest.first+int64(p.n), f.rest.n-p.n; f.rest.n == 0 {
			f.advance()
		}
	}
	for i, s := range r.reads[:r.nreads] {
		n := int(min(int64(s.n), f.of.file.Size()-s.off))
		r.reads[i].n = n
		f.req[i] = iostack.Request{File: f.of.file, Offset: s.off, Buf: r.pages[s.at : s.at+n]}
		f.reads.Bytes += iostack.Extent(f.of.file, s.off, int64(n))
	}
	f.reads.Requests += int64(r.nreads)
	if r.nreads == 0 {
		return nil
	}
	return f.of.stack.Submit(&r.group, f.req[:r.nreads])
}

// cover adds a page to a round, to its last request if it comes next.
func (f *fetcher) cover(r *round, page int64) {
	if page != r.last+1 || r.nreads == 0 {
		r.reads[r.nreads] = span{page * binio.Page, 0, r.used}
		r.nreads++
	}
	r.reads[r.nreads-1].n += binio.Page
	r.used += binio.Page
	r.last = page
}

// take checks the pages of a round, and passes its pieces to the list.
func (f *fetcher) take(ctx context.Context, r *round) error {
	file := f.of.file.Name()
	for _, s := range r.reads[:r.nreads] {
		if err := f.of.sums.Verify(file, s.off, r.pages[s.at:s.at+s.n]); err != nil {
			return err
		}
	}
	nodes := uint32(f.of.offsets.NumNodes() - 1)
	for _, p := range r.pieces[:r.n] {
		sources := binio.View[uint32](r.pages[p.in : p.in+4*p.n])
		most := uint32(0)
		for _, u := range sources {
			most = max(most, u)
		}
		if most > nodes {
			return fault.New(fault.ErrCorrupt, "%s: one of the edges %d to %d comes from node %d, but the graph has %d nodes", file, p.first, p.first+int64(p.n), most, int64(nodes)+1)
		}
		f.reads.Useful += int64(4 * p.n)
		if err := f.from.take(ctx, p.piece, sources); err != nil {
			return err
		}
	}
	return nil
}
