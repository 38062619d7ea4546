// Package gpuread lets a GPU read files on NVMe drives: it implements iostack.DeviceStack with the queues
// of package gpuqueue. The host looks up the places of a file's bytes and writes lists of requests; kernels
// do the rest.
package gpuread

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/gpuqueue"
)

// The number of queues lent by each drive, and the entries of a queue.
const (
	LentQueues = 8
	LentDepth  = 512
)

// stagingBytes bounds the staging buffers of all drives, unless one queue of each drive needs more.
const stagingBytes = 32 << 20

// parts is the number of submissions that fill the queues of a drive: while the first is completed, the
// others are under way.
const parts = 4

// Drives finds the places of files on drives, and lends queues; package array implements it.
type Drives interface {
	// Lent returns the number of drives, the number of queues that each lends, the entries of a queue, and
	// the size limit of a request in bytes.
	Lent() (drives, queues, depth, most int, err error)
	// Has returns nil if the file at path is on the drives, else the reason why not.
	Has(path string) error
	// Lend returns the controllers, and the number of queues of each, from the first, that are not lent.
	Lend() (controllers []*nvme.Controller, own int, err error)
	// Locate returns the place of the byte at an offset of a file: the drive, the offset on it, and the
	// number of contiguous bytes from there on.
	Locate(f iostack.File, offset int64) (drive int, at, n int64, err error)
}

// options returns the options of the queues for a need, and the largest number of requests of a batch: each
// page of a range may be at another place.
func options(d Drives, n iostack.DeviceNeed) (o gpuqueue.Options, drives, depth, most int, err error) {
	drives, queues, depth, largest, err := d.Lent()
	if err != nil {
		return o, 0, 0, 0, err
	}
	if n.Path != "" {
		if err := d.Has(n.Path); err != nil {
			return o, 0, 0, 0, err
		}
	}
	if n.Request < iostack.Align || n.Request%iostack.Align != 0 || n.Bytes < 0 || n.Batches < 1 {
		return o, 0, 0, 0, fault.New(fault.ErrUsage, "reads of %d bytes in %d batches of %d bytes are not possible", n.Request, n.Batches, n.Bytes)
	}
	o.RequestBytes = min(n.Request, largest/iostack.Align*iostack.Align)
	o.Queues = max(1, min(queues, stagingBytes/(drives*o.RequestBytes*(depth-1))))
	// One block copies some 17 GB/s of pages to their destinations. On an H200 it does not slow down a
	// concurrent step; eight blocks that wait for drives make the step take 1.7 times as long.
	o.CompleteBlocks = 1
	o.Requests = max(1, o.Queues*(depth-1)/parts)
	most = int(binio.AlignUp(n.Bytes, iostack.Align) / iostack.Align)
	o.Batches = n.Batches*((most+o.Requests-1)/o.Requests) + 1
	return o, drives, depth, most, nil
}

// Terms returns the memory that a reader on d needs; see iostack.DeviceStack.
func Terms(d Drives, n iostack.DeviceNeed) (t iostack.DeviceTerms, err error) {
	o, drives, depth, most, err := options(d, n)
	if err != nil {
		return t, err
	}
	t.Host, t.Device = gpuqueue.Takes(drives, o.Queues, depth, o)
	t.BatchHost = int64(most) * int64(gpuqueue.RequestBytes+unsafe.Sizeof(place{}))
	t.BatchDevice = binio.AlignUp(gpuqueue.RequestBytes*int64(most), cuda.Align) + binio.AlignUp(4*int64(most), cuda.Align)
	return t, nil
}

// Reader implements iostack.DeviceReader.
type Reader struct {
	device *cuda.Device
	drives Drives
	most   int // requests of a batch

	mu      sync.Mutex // of all below, and of its use by batches
	array   *gpuqueue.Array
	stream  *cuda.Stream // of submissions, and of early completions
	pending []*part      // submitted, and not completed, in this order
}

var _ iostack.DeviceReader = (*Reader)(nil)

// New makes a reader on the drives, with the queues that they lend. The caller closes it before the drives.
func New(on device.GPU, d Drives, n iostack.DeviceNeed) (_ *Reader, err error) {
	o, _, _, most, err := options(d, n)
	if err != nil {
		return nil, err
	}
	controllers, own, err := d.Lend()
	if err != nil {
		return nil, err
	}
	o.Shared = own
	gpu := cuda.DeviceOf(on)
	r := &Reader{device: gpu, drives: d, most: most}
	err = gpu.Attached(func() (err error) {
		if r.array, err = gpuqueue.Open(gpu, controllers, o); err != nil {
			return err
		}
		r.stream, err = gpu.NewStream()
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("queues for the GPU: %w", err), r.Close())
	}
	return r, nil
}

// Check implements iostack.DeviceReader.
func (r *Reader) Check(f iostack.File) error {
	if f.Size() == 0 {
		return nil
	}
	_, _, _, err := r.drives.Locate(f, 0)
	return err
}

// Abort implements iostack.DeviceReader.
func (r *Reader) Abort() { r.array.Abort() }

// Close implements iostack.DeviceReader.
func (r *Reader) Close() error {
	return r.device.Attached(func() error {
		if r.stream != nil {
			_ = r.stream.Synchronize() // fails only after a fault, which was reported
			r.stream.Free()
			r.stream = nil
		}
		if r.array == nil {
			return nil
		}
		return r.array.Close()
	})
}

// early completes the oldest reads under way, and reports whether there were any.
func (r *Reader) early() (bool, error) {
	if len(r.pending) == 0 {
		return false, nil
	}
	p := r.pending[0]
	return true, r.complete(p, r.stream)
}

func (r *Reader) complete(p *part, s *cuda.Stream) error {
	if i := slices.Index(r.pending, p); i >= 0 {
		r.pending = slices.Delete(r.pending, i, i+1)
	}
	p.completed = true
	return r.array.Complete(&p.ticket, s)
}

// part is a range of a batch's requests that are submitted together.
type part struct {
	ticket    gpuqueue.Ticket
	first     int
	completed bool
}

// place has the bytes of a file that a request reads, for errors.
type place struct {
	file   iostack.File
	off, n int64
}

// batch implements iostack.DeviceBatch.
type batch struct {
	r                *Reader
	to               cuda.Buffer
	host             *cuda.Pinned
	arena            *cuda.Arena
	requests, status cuda.Buffer
	list             []gpuqueue.Request // in host
	places           []place
	parts            []*part
	used             int // parts
	submitted        bool
}

// NewBatch implements iostack.DeviceReader.
func (r *Reader) NewBatch(to cuda.Buffer) (iostack.DeviceBatch, error) {
	b := &batch{r: r, to: to, places: make([]place, 0, r.most)}
	err := r.device.Attached(func() (err error) {
		n := gpuqueue.RequestBytes * int64(r.most)
		if b.host, err = r.device.NewPinned(n); err != nil {
			return err
		}
		if b.arena, err = r.device.NewArena(binio.AlignUp(n, cuda.Align) + 4*int64(r.most)); err != nil {
			return err
		}
		if b.requests, err = b.arena.Take(n); err == nil {
			b.status, err = b.arena.Take(4 * int64(r.most))
		}
		return err
	})
	if err != nil {
		b.Free()
		return nil, err
	}
	if r.most > 0 {
		b.list = unsafe.Slice((*gpuqueue.Request)(unsafe.Pointer(&b.host.Bytes()[0])), r.most)
	}
	return b, nil
}

// Add implements iostack.DeviceBatch.
func (b *batch) Add(f iostack.File, off, n, at int64) error {
	if off%iostack.Align != 0 || at%iostack.Align != 0 || off < 0 || n < 0 || at < 0 || at+binio.AlignUp(n, iostack.Align) > b.to.Bytes() {
		return fault.New(fault.ErrUsage, "read %s: %d bytes at byte %d do not fit at byte %d of a buffer of %d bytes, or are not aligned", f.Name(), n, off, at, b.to.Bytes())
	}
	array := b.r.array
	block, most := int64(array.BlockBytes()), int64(array.RequestBytes())
	drives, each := array.Drives()
	for n > 0 {
		drive, from, run, err := b.r.drives.Locate(f, off)
		if err != nil {
			return err
		}
		k := min(n, run, most)
		whole := binio.AlignUp(k, iostack.Align)
		first := uint64(from / block)
		switch {
		case len(b.places) == len(b.list):
			return fault.New(fault.ErrUsage, "read %s: a batch of more than %d reads", f.Name(), len(b.list))
		case from%block != 0, drive >= drives, first+uint64(whole/block) > each:
			return fault.New(fault.ErrCorrupt, "read %s: byte %d is said to lie at byte %d of drive %d, which is impossible", f.Name(), off, from, drive)
		}
		b.list[len(b.places)] = gpuqueue.Request{Block: uint64(drive)*each + first, Offset: uint64(at), Blocks: uint64(whole / block)}
		b.places = append(b.places, place{f, off, k})
		off, n, at = off+k, n-k, at+whole
	}
	return nil
}

// Submit implements iostack.DeviceBatch.
func (b *batch) Submit() error {
	if len(b.places) == 0 {
		return nil
	}
	b.submitted = true
	return b.r.device.Attached(func() error {
		r := b.r
		r.mu.Lock()
		defer r.mu.Unlock()
		n := len(b.places)
		if err := r.stream.CopyIn(b.requests, b.host.Bytes()[:gpuqueue.RequestBytes*n]); err != nil {
			return err
		}
		for from := 0; from < n; {
			k := min(n-from, r.array.MostRequests())
			if err := b.submit(from, k); err != nil {
				return fmt.Errorf("submit %d of %d reads: %w", k, n, err)
			}
			from += k
		}
		return nil
	})
}

// submit submits a part. It makes room for it by early completions.
func (b *batch) submit(from, n int) error {
	r := b.r
	if b.used == len(b.parts) {
		b.parts = append(b.parts, new(part))
	}
	p := b.parts[b.used]
	p.first, p.completed = from, false
	reads := gpuqueue.Reads{Requests: b.requests.Slice(gpuqueue.RequestBytes*int64(from), gpuqueue.RequestBytes*int64(n)),
		Count: gpuqueue.Count{Most: n}, To: b.to, Status: b.status.Slice(4*int64(from), 4*int64(n))}
	for {
		err := r.array.Submit(&p.ticket, reads, r.stream)
		if err == nil {
			break
		}
		if !errors.Is(err, gpuqueue.ErrFull) {
			return err
		}
		if some, failed := r.early(); !some || failed != nil {
			return errors.Join(err, failed)
		}
	}
	b.used++
	r.pending = append(r.pending, p)
	return nil
}

// Complete implements iostack.DeviceBatch.
func (b *batch) Complete(stream device.Stream) error {
	r, s := b.r, cuda.StreamOf(stream)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range b.parts[:b.used] {
		var err error
		if p.completed {
			err = r.array.Await(&p.ticket, s)
		} else {
			err = r.complete(p, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// End implements iostack.DeviceBatch.
func (b *batch) End() error {
	var errs []error
	if b.submitted {
		errs = append(errs, b.r.device.Attached(b.end))
	}
	b.places, b.used, b.submitted = b.places[:0], 0, false
	return errors.Join(errs...)
}

// end returns the first read that failed, in the order of the reads.
func (b *batch) end() error {
	r := b.r
	r.mu.Lock()
	defer r.mu.Unlock()
	var first *iostack.ReadError
	var others []error
	if b.used == 0 { // the list may yet be copied
		others = append(others, r.stream.Synchronize())
	}
	for _, p := range b.parts[:b.used] {
		if !p.completed {
			others = append(others, r.complete(p, r.stream))
		}
		err := r.array.End(&p.ticket)
		var failed *gpuqueue.RequestError
		switch {
		case errors.As(err, &failed):
			if first == nil {
				i := p.first + failed.Request
				at := b.places[i]
				first = &iostack.ReadError{File: at.file.Name(), Offset: at.off, Length: int(at.n), Index: i, At: at.off, Err: failed.Err}
			}
		case err != nil:
			others = append(others, err)
		}
	}
	if first != nil {
		return first
	}
	return errors.Join(others...)
}

// Free implements iostack.DeviceBatch.
func (b *batch) Free() {
	_ = b.r.device.Attached(func() error { // fails only after a fault, which was reported
		if b.host != nil {
			b.host.Free()
		}
		if b.arena != nil {
			b.arena.Free()
		}
		return nil
	})
	b.host, b.arena, b.list = nil, nil, nil
}
