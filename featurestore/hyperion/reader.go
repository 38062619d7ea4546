package hyperion

import (
	"context"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/online"
	"diskgnn/internal/binio"
	"diskgnn/iostack"
)

// reader reads lists of rows: it submits all of them in micro-batches, as far as the pages of
// so many requests have memory, and completes them at once.
type reader struct {
	*store
	planner online.Planner
	counts  *featurestore.Counts // of what is read
	most    int                  // bytes of a request
	staging *device.Host         // what requests land in
	reads   []read               // under way
	batch   []iostack.Request    // a micro-batch
	group   iostack.Group

	nodes []uint32
	to    sink
	first int // of the nodes that the reads under way serve
	next  int // the first of the nodes that no read was submitted for
}

// read is one request: bytes of the file, and how many nodes it serves.
type read struct {
	off, n int64
	served int
}

// sink takes the row of the k-th node that is read, as the dataset has it. It keeps none.
type sink interface{ put(k int, row []byte) error }

// readerBytes returns the memory of a reader with the given number of requests under way.
func readerBytes(requests int, planner online.Planner, rowBytes int) int64 {
	const request, read = 64, 24
	return pages(int64(requests)*planner.Most(rowBytes)) + int64(min(requests, microBatch))*request + int64(requests)*read
}

// newReader returns a reader with so many requests under way, which adds to counts. The caller
// frees its staging.
func (s *store) newReader(requests int, planner online.Planner, counts *featurestore.Counts) (*reader, error) {
	r := &reader{store: s, planner: planner, counts: counts, most: int(planner.Most(s.facts.RowBytes)),
		reads: make([]read, 0, requests), batch: make([]iostack.Request, 0, min(requests, microBatch))}
	var err error
	if r.staging, err = device.NewHost(requests * r.most); err != nil {
		return nil, err
	}
	return r, nil
}

// start submits the reads of the rows of some nodes, as many as there is memory for. The list
// is the reader's until Finish or Drop.
func (r *reader) start(nodes []uint32, to sink) error {
	r.nodes, r.to, r.next = nodes, to, 0
	return r.submit()
}

// submit submits reads from the next node on, micro-batch by micro-batch.
func (r *reader) submit() error {
	r.first, r.reads = r.next, r.reads[:0]
	for r.next < len(r.nodes) && len(r.reads) < cap(r.reads) {
		r.batch = r.batch[:0]
		for r.next < len(r.nodes) && len(r.reads) < cap(r.reads) && len(r.batch) < cap(r.batch) {
			off, n, served := r.planner.Next(r.nodes[r.next:], r.facts.RowBytes, r.size())
			r.batch = append(r.batch, iostack.Request{File: r.file, Offset: off, Buf: r.landing(len(r.reads))[:n]})
			r.reads = append(r.reads, read{off, n, served})
			r.counts.BytesRead += iostack.Extent(r.file, off, n)
			r.next += served
		}
		r.counts.Requests += int64(len(r.batch))
		if err := r.stack.Submit(&r.group, r.batch); err != nil {
			return err
		}
	}
	return nil
}

// landing returns where the k-th read under way lands.
func (r *reader) landing(k int) []byte { return r.staging.Bytes()[k*r.most : (k+1)*r.most] }

// Finish returns when the sink has all rows, checked. After an error of it or of start, Drop
// must follow.
func (r *reader) Finish(ctx context.Context) error {
	for len(r.reads) > 0 {
		if err := r.stack.Wait(ctx, &r.group); err != nil {
			return r.damaged(err)
		}
		if err := r.take(); err != nil {
			return r.damaged(err)
		}
		if err := r.submit(); err != nil {
			return err
		}
	}
	return nil
}

// Drop gives the reads up: nothing lands any more once it returns.
func (r *reader) Drop() {
	iostack.Drop(r.stack, &r.group)
	r.reads, r.next = r.reads[:0], len(r.nodes)
}

// take checks the pages that have landed, and gives their rows to the sink.
func (r *reader) take() error {
	k, row := r.first, int64(r.facts.RowBytes)
	for i, d := range r.reads {
		b := r.landing(i)[:d.n]
		if err := r.pages.Verify(r.file.Name(), d.off, b); err != nil {
			return err
		}
		for ; d.served > 0; d.served-- {
			at := int64(r.nodes[k])*row - d.off
			if err := r.to.put(k, b[at:at+row]); err != nil {
				return err
			}
			k++
		}
	}
	r.counts.UsefulBytes += int64(k-r.first) * row
	return nil
}

// joined reads rows of ascending nodes that lie on the same pages, or on pages next to each
// other, together.
type joined struct{}

// joinedBytes is the most bytes of such a request, unless one row is larger.
const joinedBytes = 64 << 10

// Most implements online.Planner.
func (joined) Most(rowBytes int) int64 { return max(joinedBytes, online.Single{}.Most(rowBytes)) }

// Next implements online.Planner.
func (j joined) Next(nodes []uint32, rowBytes int, size int64) (off, n int64, served int) {
	off, n, served = online.Single{}.Next(nodes, rowBytes, size)
	for ; served < len(nodes); served++ {
		begin, bytes, _ := online.Single{}.Next(nodes[served:], rowBytes, size)
		if begin > off+binio.AlignUp(n, binio.Page) || begin+bytes-off > j.Most(rowBytes) {
			break
		}
		n = begin + bytes - off
	}
	return off, n, served
}
