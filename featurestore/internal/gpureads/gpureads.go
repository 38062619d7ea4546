package gpureads

import (
	"context"
	"fmt"
	"unsafe"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/iostack"
)

// Reader has the queues of a store by which the device reads. It makes slots.
type Reader struct {
	*Plan
	device *cuda.Device
	queues iostack.DeviceReader
}

// Open opens the queues of a storage stack, which must be an iostack.DeviceStack, for a device.
func (p *Plan) Open(s iostack.Stack, d device.GPU) (*Reader, error) {
	stack, err := iostack.DeviceStackOf(s)
	if err != nil {
		return nil, err
	}
	queues, err := stack.NewDeviceReader(d, p.need)
	if err != nil {
		return nil, err
	}
	return &Reader{p, cuda.DeviceOf(d), queues}, nil
}

// Check returns an error if the device cannot read a file.
func (r *Reader) Check(f iostack.File) error { return r.queues.Check(f) }

// Close closes the queues. Free all slots first. It does nothing for a nil Reader.
func (r *Reader) Close() error {
	if r == nil {
		return nil
	}
	return r.queues.Close()
}

// Slot is the device's part of a slot of a store: the reads and landed pages of one batch. It belongs
// to one goroutine at a time.
type Slot struct {
	r                    *Reader
	arena                *cuda.Arena
	landing              device.Buffer // memory of pages
	ranges, from, sums   device.Buffer
	host                 *cuda.Pinned
	hostRanges, hostFrom []uint64
	hostSums             []uint32
	batch                iostack.DeviceBatch
	reads                []read
	pages                int // pages of the reads
	step                 int // common divisor of the offsets of rows in pages
	filled               bool
}

// read is one read: a range of a file.
type read struct {
	off, n int64
	file   iostack.File
}

const readBytes = int64(unsafe.Sizeof(read{}))

// lay takes the device memory out of the arena.
func (s *Slot) lay(p *Plan, a device.Memory) error {
	for _, want := range []struct {
		to    *device.Buffer
		bytes int64
	}{{&s.landing, p.need.Bytes}, {&s.ranges, 16 * p.pages()}, {&s.from, 8 * int64(p.Rows)}, {&s.sums, 4 * p.pages()}} {
		var err error
		if *want.to, err = a.Take(want.bytes); err != nil {
			return err
		}
	}
	return nil
}

// Count adds the memory of the queues and the slots to a layout.
func (p *Plan) Count(l *featurestore.Layout) {
	if p == nil {
		return
	}
	l.QueueBytes = p.terms.Host
	l.GPUBytes += p.terms.Device
	dry := new(cuda.Arena)
	_ = new(Slot).lay(p, dry) // never fails: a dry arena only counts
	l.GPUSlotBytes = dry.Used() + p.terms.BatchDevice
	l.SlotBytes += p.pinnedBytes() + readBytes*p.pages() + p.terms.BatchHost
}

// NewSlot allocates a slot. Free it before the Reader is closed.
func (r *Reader) NewSlot() (_ *Slot, err error) {
	s := &Slot{r: r, reads: make([]read, 0, r.pages()), step: binio.GCD(r.RowBytes, binio.Page)}
	err = r.device.Attached(func() (err error) {
		dry := new(cuda.Arena)
		_ = s.lay(r.Plan, dry)
		if s.arena, err = r.device.NewArena(dry.Used()); err != nil {
			return err
		}
		if err = s.lay(r.Plan, s.arena); err != nil {
			return err
		}
		s.host, err = r.device.NewPinned(r.pinnedBytes())
		return err
	})
	if err == nil {
		n, rows := r.pages(), int64(r.Rows)
		b := s.host.Bytes()
		s.hostRanges, s.hostFrom, s.hostSums = binio.View[uint64](b[:16*n]), binio.View[uint64](b[16*n:][:8*rows]), binio.View[uint32](b[16*n+8*rows:][:4*n])
		s.batch, err = r.queues.NewBatch(s.landing)
	}
	if err != nil {
		s.Free()
		return nil, fmt.Errorf("a slot's memory on the GPU: %w", err)
	}
	return s, nil
}

// begin begins another batch. It returns an error of the batch before that was not returned yet.
func (s *Slot) begin() error {
	err := s.batch.End()
	s.reads, s.pages, s.filled = s.reads[:0], 0, false
	return err
}

// read adds a read of n bytes from offset off, which begins a page, and counts it. The bytes land at byte at
// of the landing, which begins a page.
func (s *Slot) read(f iostack.File, off, n, at int64, c *featurestore.Counts) error {
	if err := s.batch.Add(f, off, n, at); err != nil {
		return err
	}
	s.reads = append(s.reads, read{off, n, f})
	for from := int64(0); from < n; from += binio.Page {
		s.hostRanges[2*s.pages], s.hostRanges[2*s.pages+1] = uint64(at+from), uint64(min(binio.Page, n-from))
		s.pages++
	}
	c.BytesRead += iostack.Extent(f, off, n)
	c.Requests++
	return nil
}

// Planner cuts the rows of nodes into reads: see machine.Planner.
type Planner interface {
	Next(nodes []uint32, rowBytes int, size int64) (off, n int64, served int)
}

// Rows begins a batch: it submits reads of the rows of nodes from a file of size bytes, and counts them. Fill
// copies the row of nodes[i] to row places[i] of its buffer, or to row i if places is nil.
func (s *Slot) Rows(f iostack.File, nodes, places []uint32, by Planner, size int64, c *featurestore.Counts) error {
	if err := s.begin(); err != nil {
		return err
	}
	row := int64(s.r.RowBytes)
	for i := 0; i < len(nodes); {
		off, n, served := by.Next(nodes[i:], s.r.RowBytes, size)
		at := int64(s.pages) * binio.Page
		if err := s.read(f, off, n, at, c); err != nil {
			return err
		}
		for ; served > 0; served-- {
			k := i
			if places != nil {
				k = int(places[i])
			}
			s.Row(k, at+int64(nodes[i])*row-off)
			i++
		}
	}
	return s.batch.Submit()
}

// Pages begins a batch: it submits reads of pages of a file of size bytes, and counts them. For every j in
// some it reads page pages[j], which lands at page j of the landing. Call Row for every row.
func (s *Slot) Pages(f iostack.File, pages, some []uint32, size int64, c *featurestore.Counts) error {
	if err := s.begin(); err != nil {
		return err
	}
	for _, j := range some {
		off := int64(pages[j]) * binio.Page
		if err := s.read(f, off, min(binio.Page, size-off), int64(j)*binio.Page, c); err != nil {
			return err
		}
	}
	return s.batch.Submit()
}

// Row sets the source of row k of Extract: the row begins at byte at of the landing.
func (s *Slot) Row(k int, at int64) { s.hostFrom[k] = uint64(at) }

// Landing returns the device memory that pages land in.
func (s *Slot) Landing() device.Buffer { return s.landing }

// Fill calls Complete and Extract. The calling goroutine must be attached to the device.
func (s *Slot) Fill(copies device.Stream, to device.Buffer, rows int) error {
	if s.pages == 0 {
		return nil
	}
	if err := s.Complete(copies); err != nil {
		return err
	}
	return s.Extract(copies, to, rows)
}

// Complete submits to the stream the completion of the reads, and the computation of checksums.
func (s *Slot) Complete(copies device.Stream) error {
	n := s.pages
	if n == 0 {
		return nil
	}
	s.filled = true
	if err := copies.CopyIn(s.ranges, binio.Bytes(s.hostRanges[:2*n])); err != nil {
		return err
	}
	if err := s.batch.Complete(copies); err != nil {
		return err
	}
	if err := (kernels.Checksum{Sums: s.sums, Data: s.landing, Ranges: s.ranges, Rows: kernels.Rows(n)}).Launch(cuda.StreamOf(copies)); err != nil {
		return err
	}
	return copies.CopyOut(binio.Bytes(s.hostSums[:n]), s.sums.Slice(0, 4*int64(n)))
}

// Extract submits to the stream the copies of rows rows from the landing to the buffer `to`, one after
// another, in the order set by Row.
func (s *Slot) Extract(copies device.Stream, to device.Buffer, rows int) error {
	if err := copies.CopyIn(s.from, binio.Bytes(s.hostFrom[:rows])); err != nil {
		return err
	}
	return kernels.Extract{Out: to, Source: s.landing, RowBytes: s.r.RowBytes, From: s.from, Step: s.step, Rows: kernels.Rows(rows)}.Launch(cuda.StreamOf(copies))
}

// Landed returns the error of a failed read, or of bytes that do not match their checksums. Call it when the
// submitted work of Complete is done.
func (s *Slot) Landed(sums *binio.Sums) error {
	if err := s.batch.End(); err != nil || !s.filled {
		return err
	}
	s.filled = false
	page := 0
	for _, d := range s.reads {
		for off := d.off; off < d.off+d.n; off += binio.Page {
			if err := sums.Compare(d.file.Name(), off, min(binio.Page, d.off+d.n-off), s.hostSums[page]); err != nil {
				return err
			}
			page++
		}
	}
	return nil
}

// End gives the batch up. No page lands after it returns.
func (s *Slot) End() { _ = s.begin() }

// Free ends the reads and releases the memory.
func (s *Slot) Free() {
	if s.batch != nil {
		s.End()
		s.batch.Free()
	}
	_ = s.r.device.Attached(func() error { // fails only after a fault, which was reported
		if s.host != nil {
			s.host.Free()
		}
		if s.arena != nil {
			s.arena.Free()
		}
		return nil
	})
}

// Flight is the reads of the batch in a slot, by a GPU or by the host. It belongs to one goroutine at a
// time.
type Flight struct {
	GPU  *Slot // nil: the host reads
	Host Host

	of    featurestore.Ref
	under bool
}

// Host is the interface of readers on the host, for Flight.
type Host interface {
	// Finish returns when all rows have landed and are checked. After an error, call Drop.
	Finish(ctx context.Context) error
	// Drop gives the reads up. No byte lands after it returns.
	Drop()
}

// Begin calls submit, which submits the reads of a batch, and returns its error. After an error no read is
// in flight.
func (f *Flight) Begin(r featurestore.Ref, submit func() error) error {
	f.of, f.under = r, true
	return f.ended(submit())
}

// ended gives the reads up if err is not nil, and returns err with the name of the batch.
func (f *Flight) ended(err error) error {
	if err == nil {
		return nil
	}
	if f.GPU != nil {
		f.GPU.End()
	} else {
		f.Host.Drop()
	}
	f.under = false
	return fmt.Errorf("rows of %v: %w", f.of, err)
}

// Wait returns when the host has completed the reads. It does not wait for reads by a GPU, which Fill
// completes. If ctx has ended, it gives the reads up.
func (f *Flight) Wait(ctx context.Context) error {
	switch {
	case !f.under:
		return nil
	case f.GPU != nil:
		return f.ended(ctx.Err())
	}
	err := f.ended(f.Host.Finish(ctx))
	f.under = false
	return err
}

// Landed implements featurestore.Landing: it compares the checksums of the bytes that a GPU has read.
// damaged adds advice to an error.
func (f *Flight) Landed(sums *binio.Sums, damaged func(error) error) error {
	if f.GPU == nil || !f.under {
		return nil
	}
	if err := f.GPU.Landed(sums); err != nil {
		return f.ended(damaged(err))
	}
	f.under = false
	return nil
}
