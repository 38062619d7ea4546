package online

import (
	"context"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/iostack"
)

// table is the feature file, which is read row by row.
type table struct {
	*levels
	machine.Files
}

// roundBytes bounds the bytes of a round of reads; a reader has two rounds in flight. For large rows it
// reduces the number of reads in flight below Design.InFlight.
const roundBytes = 8 << 20

// reader reads lists of rows through two staging buffers: the pages of one are checked and its rows copied
// out while the pages of the other are read. So its memory does not depend on the number of rows.
type reader struct {
	*table
	counts  *featurestore.Counts
	most    int          // bytes of the longest request
	reads   int          // reads of a round
	staging *device.Host // for both rounds
	rounds  [2]round
	req     []iostack.Request

	nodes  []uint32 // to read the rows of
	places []uint32 // by node: its row in rows; nil: in order
	rows   []byte
	next   int // the first node without a submitted read
}

// round is a group of requests in flight.
type round struct {
	group iostack.Group
	first int // the first node that it serves
	reads []read
}

// read is one request: a range of the file, and the number of nodes that it serves.
type read struct {
	off, n int64
	served int
}

// newReader returns a reader that adds to counts.
func newReader(m *memory, t *table, counts *featurestore.Counts) *reader {
	r := &reader{table: t, counts: counts, most: int(t.design.Planner.Most(t.Facts.RowBytes))}
	r.reads = max(1, min(t.design.InFlight/len(r.rounds), roundBytes/r.most))
	r.staging = m.host(int64(len(r.rounds)) * int64(r.reads) * int64(r.most))
	r.req = list[iostack.Request](m, r.reads)
	for i := range r.rounds {
		r.rounds[i].reads = list[read](m, r.reads)[:0]
	}
	return r
}

// start submits the first reads of the rows of some nodes, which are copied to rows. nodes, places and rows
// belong to the reader until Finish or Drop.
func (r *reader) start(nodes, places []uint32, rows []byte) error {
	r.nodes, r.places, r.rows, r.next = nodes, places, rows, 0
	for turn := range r.rounds {
		if err := r.submit(turn); err != nil {
			return err
		}
	}
	return nil
}

// Finish returns when all rows are in their places, checked. After an error of Finish or of start, call
// Drop.
func (r *reader) Finish(ctx context.Context) error {
	for turn := 0; len(r.rounds[turn].reads) > 0; turn = 1 - turn {
		if err := r.Stack.Wait(ctx, &r.rounds[turn].group); err != nil {
			return r.Damaged(err)
		}
		if err := r.take(turn); err != nil {
			return r.Damaged(err)
		}
		if err := r.submit(turn); err != nil {
			return err
		}
	}
	return nil
}

// read fills rows with the rows of the nodes, in order.
func (r *reader) read(ctx context.Context, nodes []uint32, rows []byte) error {
	err := r.start(nodes, nil, rows)
	if err == nil {
		err = r.Finish(ctx)
	}
	if err != nil {
		r.Drop()
	}
	return err
}

// Drop gives the reads up. No page lands after it returns.
func (r *reader) Drop() {
	for i := range r.rounds {
		iostack.Drop(r.Stack, &r.rounds[i].group)
		r.rounds[i].reads = r.rounds[i].reads[:0]
	}
	r.next = len(r.nodes)
}

// buffer returns the memory of the k-th read of a round.
func (r *reader) buffer(turn, k int) []byte {
	at := (turn*r.reads + k) * r.most
	return r.staging.Bytes()[at : at+r.most]
}

// submit submits a round of reads from the next node on.
func (r *reader) submit(turn int) error {
	q := &r.rounds[turn]
	q.first, q.reads = r.next, q.reads[:0]
	for k := 0; k < r.reads && r.next < len(r.nodes); k++ {
		off, n, served := r.design.Planner.Next(r.nodes[r.next:], r.Facts.RowBytes, r.Size())
		q.reads = append(q.reads, read{off, n, served})
		r.req[k] = iostack.Request{File: r.Files.Rows, Offset: off, Buf: r.buffer(turn, k)[:n]}
		r.counts.BytesRead += iostack.Extent(r.Files.Rows, off, n)
		r.next += served
	}
	if len(q.reads) == 0 {
		return nil
	}
	r.counts.Requests += int64(len(q.reads))
	return r.Stack.Submit(&q.group, r.req[:len(q.reads)])
}

// take checks the pages of a round, and copies its rows to their places.
func (r *reader) take(turn int) error {
	q, i, row := &r.rounds[turn], r.rounds[turn].first, int64(r.Facts.RowBytes)
	for k, d := range q.reads {
		page := r.buffer(turn, k)[:d.n]
		if err := r.Sums.Verify(r.Files.Rows.Name(), d.off, page); err != nil {
			return err
		}
		for ; d.served > 0; d.served-- {
			at, place := int64(r.nodes[i])*row-d.off, int64(i)
			if r.places != nil {
				place = int64(r.places[i])
			}
			copy(r.rows[place*row:(place+1)*row], page[at:at+row])
			i++
		}
	}
	r.counts.UsefulBytes += int64(i-q.first) * row
	return nil
}
