package hyperion

import (
	"context"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/binio"
	"diskgnn/iostack"
)

// reader reads lists of rows. It submits the reads in micro-batches, up to its number of requests in flight,
// and completes all of them at once.
type reader struct {
	*levels
	*machine.Files
	planner machine.Planner
	counts  *featurestore.Counts // grows by the reads
	most    int                  // bytes of a request
	staging *device.Host         // most bytes for each request
	reads   []read               // in flight
	batch   []iostack.Request    // a micro-batch
	group   iostack.Group

	nodes []uint32
	to    sink
	first int // the first node of the reads in flight
	next  int // the first node without a submitted read
}

// read is one request: a range of the file, and the number of nodes that it serves.
type read struct {
	off, n int64
	served int
}

// sink takes the row of the k-th node of a list, in the dataset's type. It must not keep the row.
type sink interface{ put(k int, row []byte) error }

// readerBytes returns the memory of a reader with the given number of requests in flight, in bytes.
func readerBytes(requests int, planner machine.Planner, rowBytes int) int64 {
	const request, read = 64, 24
	return machine.Pages(int64(requests)*planner.Most(rowBytes)) + int64(min(requests, microBatch))*request + int64(requests)*read
}

// newReader returns a reader with the given number of requests in flight, which adds to counts. The caller
// frees staging.
func newReader(v *levels, f *machine.Files, requests int, planner machine.Planner, counts *featurestore.Counts) (*reader, error) {
	r := &reader{levels: v, Files: f, planner: planner, counts: counts, most: int(planner.Most(v.Facts.RowBytes)),
		reads: make([]read, 0, requests), batch: make([]iostack.Request, 0, min(requests, microBatch))}
	var err error
	if r.staging, err = device.NewHost(requests * r.most); err != nil {
		return nil, err
	}
	return r, nil
}

// start submits reads of the rows of some nodes, up to the number in flight. The list belongs to the reader
// until Finish or Drop.
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
			off, n, served := r.planner.Next(r.nodes[r.next:], r.Facts.RowBytes, r.Size())
			r.batch = append(r.batch, iostack.Request{File: r.Files.Rows, Offset: off, Buf: r.landing(len(r.reads))[:n]})
			r.reads = append(r.reads, read{off, n, served})
			r.counts.BytesRead += iostack.Extent(r.Files.Rows, off, n)
			r.next += served
		}
		r.counts.Requests += int64(len(r.batch))
		if err := r.Stack.Submit(&r.group, r.batch); err != nil {
			return err
		}
	}
	return nil
}

// landing returns the memory of the k-th read in flight.
func (r *reader) landing(k int) []byte { return r.staging.Bytes()[k*r.most : (k+1)*r.most] }

// Finish returns when the sink has all rows, checked. After an error of Finish or of start, call Drop.
func (r *reader) Finish(ctx context.Context) error {
	for len(r.reads) > 0 {
		if err := r.Stack.Wait(ctx, &r.group); err != nil {
			return r.Damaged(err)
		}
		if err := r.take(); err != nil {
			return r.Damaged(err)
		}
		if err := r.submit(); err != nil {
			return err
		}
	}
	return nil
}

// Drop gives the reads up. No page lands after it returns.
func (r *reader) Drop() {
	iostack.Drop(r.Stack, &r.group)
	r.reads, r.next = r.reads[:0], len(r.nodes)
}

// take checks the landed pages, and passes their rows to the sink.
func (r *reader) take() error {
	k, row := r.first, int64(r.Facts.RowBytes)
	for i, d := range r.reads {
		b := r.landing(i)[:d.n]
		if err := r.Sums.Verify(r.Files.Rows.Name(), d.off, b); err != nil {
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

// joined is a Planner for ascending nodes. One read serves rows on the same pages or on adjacent pages.
type joined struct{}

// joinedBytes is the most bytes of such a request, unless one row is larger.
const joinedBytes = 64 << 10

// Most implements machine.Planner.
func (joined) Most(rowBytes int) int64 { return max(joinedBytes, machine.Single{}.Most(rowBytes)) }

// Next implements machine.Planner.
func (j joined) Next(nodes []uint32, rowBytes int, size int64) (off, n int64, served int) {
	off, n, served = machine.Single{}.Next(nodes, rowBytes, size)
	for ; served < len(nodes); served++ {
		begin, bytes, _ := machine.Single{}.Next(nodes[served:], rowBytes, size)
		if begin > off+binio.AlignUp(n, binio.Page) || begin+bytes-off > j.Most(rowBytes) {
			break
		}
		n = begin + bytes - off
	}
	return off, n, served
}
