package machine

import (
	"context"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/iostack"
)

// Reading is a way to read rows.
type Reading struct {
	Planner Planner
	Row     int // bytes of a row
	// Rounds is the number of groups of requests in flight, 1 or 2: the rows of one are taken while the pages
	// of the other are read. Requests is the most requests of a round, at least 1.
	Rounds, Requests int
	Submit           int // the most requests of a submission, at least 1
}

// roundBytes bounds the bytes of a round of Alternate.
const roundBytes = 8 << 20

// Alternate returns the way to read with two rounds and at most inFlight requests in flight, fewer if they are
// long.
func Alternate(by Planner, row, inFlight int) Reading {
	n := max(1, min(inFlight/2, roundBytes/int(by.Most(row))))
	return Reading{Planner: by, Row: row, Rounds: 2, Requests: n, Submit: n}
}

// Sink takes the row of the k-th node of a list, checked, in the dataset's type. It must not keep the row.
type Sink interface{ Put(k int, row []byte) error }

// Reader reads lists of rows from the files of a store, round by round through staging memory. So its memory
// does not depend on the number of rows. It belongs to one goroutine at a time.
type Reader struct {
	Reading
	Staging *device.Host // for all rounds

	files    *Files
	counts   *featurestore.Counts
	most     int // bytes of the longest request
	rounds   []round
	requests []iostack.Request // of a submission

	nodes []uint32 // to read the rows of
	to    Sink
	next  int // the first node without a submitted read
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

// NewReader returns a reader with memory of m, which adds bytes read and requests to counts.
func NewReader(m *Memory, by Reading, f *Files, counts *featurestore.Counts) *Reader {
	r := &Reader{Reading: by, files: f, counts: counts, most: int(by.Planner.Most(by.Row)), rounds: make([]round, by.Rounds)}
	r.Staging = m.Host(int64(by.Rounds) * int64(by.Requests) * int64(r.most))
	r.requests = List[iostack.Request](m, min(by.Submit, by.Requests))
	for i := range r.rounds {
		r.rounds[i].reads = List[read](m, by.Requests)[:0]
	}
	return r
}

// Start submits the first reads of the rows of nodes. The list belongs to the reader until Finish or Drop.
func (r *Reader) Start(nodes []uint32, to Sink) error {
	r.nodes, r.to, r.next = nodes, to, 0
	for i := range r.rounds {
		if err := r.submit(i); err != nil {
			return err
		}
	}
	return nil
}

// Finish returns when the sink has all rows. After an error of Finish or of Start, call Drop.
func (r *Reader) Finish(ctx context.Context) error {
	for i := 0; len(r.rounds[i].reads) > 0; i = (i + 1) % len(r.rounds) {
		if err := r.files.Stack.Wait(ctx, &r.rounds[i].group); err != nil {
			return r.files.of.Damaged(err)
		}
		if err := r.take(i); err != nil {
			return r.files.of.Damaged(err)
		}
		if err := r.submit(i); err != nil {
			return err
		}
	}
	return nil
}

// Read calls Start and Finish, and after an error Drop.
func (r *Reader) Read(ctx context.Context, nodes []uint32, to Sink) error {
	err := r.Start(nodes, to)
	if err == nil {
		err = r.Finish(ctx)
	}
	if err != nil {
		r.Drop()
	}
	return err
}

// Drop gives the reads up. No page lands after it returns.
func (r *Reader) Drop() {
	for i := range r.rounds {
		iostack.Drop(r.files.Stack, &r.rounds[i].group)
		r.rounds[i].reads = r.rounds[i].reads[:0]
	}
	r.next = len(r.nodes)
}

// landing returns the memory of the k-th read of round i.
func (r *Reader) landing(i, k int) []byte {
	at := (i*r.Requests + k) * r.most
	return r.Staging.Bytes()[at : at+r.most]
}

// submit submits the reads of round i, from the next node on.
func (r *Reader) submit(i int) error {
	q, rows := &r.rounds[i], r.files.Rows
	q.first, q.reads = r.next, q.reads[:0]
	for r.next < len(r.nodes) && len(q.reads) < r.Requests {
		n := 0
		for ; n < len(r.requests) && r.next < len(r.nodes) && len(q.reads) < r.Requests; n++ {
			off, bytes, served := r.Planner.Next(r.nodes[r.next:], r.Row, r.files.of.Size())
			r.requests[n] = iostack.Request{File: rows, Offset: off, Buf: r.landing(i, len(q.reads))[:bytes]}
			q.reads = append(q.reads, read{off, bytes, served})
			r.counts.BytesRead += iostack.Extent(rows, off, bytes)
			r.next += served
		}
		r.counts.Requests += int64(n)
		if err := r.files.Stack.Submit(&q.group, r.requests[:n]); err != nil {
			return err
		}
	}
	return nil
}

// take checks the pages of round i, and passes its rows to the sink.
func (r *Reader) take(i int) error {
	k := r.rounds[i].first
	for j, d := range r.rounds[i].reads {
		b := r.landing(i, j)[:d.n]
		if err := r.files.Sums.Verify(r.files.Rows.Name(), d.off, b); err != nil {
			return err
		}
		for ; d.served > 0; d.served-- {
			row := b[int64(r.nodes[k])*int64(r.Row)-d.off:]
			if err := r.to.Put(k, row[:min(r.Row, len(row))]); err != nil {
				return err
			}
			k++
		}
	}
	return nil
}
