package gpuqueue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
)

// Count is a number of requests: Most, or the uint32 in device memory if that is less. Slots are reserved
// for Most requests.
type Count struct {
	Most int
	At   cuda.Buffer // zero: Most
}

// Reads is a micro-batch. Its buffers must not change until its ticket is completed on the device.
type Reads struct {
	Requests cuda.Buffer // a Request for each read
	Count    Count
	To       cuda.Buffer // destination of the data; its address is a multiple of 16
	Status   cuda.Buffer // Status of each request
}

// check refuses errors that the kernels cannot detect.
func (r *Reads) check() error {
	n := int64(r.Count.Most)
	if n < 0 || r.Requests.Bytes() < RequestBytes*n || r.Status.Bytes() < 4*n || r.To.Address()%16 != 0 || r.Requests.Address()%8 != 0 {
		return fault.New(fault.ErrUsage, "%d reads do not fit requests of %d bytes and statuses of %d, or the destination at %#x is not aligned",
			n, r.Requests.Bytes(), r.Status.Bytes(), r.To.Address())
	}
	return nil
}

// Ticket is a set of micro-batches that are completed together. The zero value is empty.
type Ticket struct {
	batches   []*batch
	completed int // batches that Complete has seen
}

// Submit enqueues the submission of a micro-batch on the stream, and adds it to the ticket. When the stream
// has done it, the reads are under way. If slots or records of micro-batches do not suffice, it returns
// ErrFull and changes nothing. A micro-batch of more requests than a drive has slots never fits.
func (a *Array) Submit(t *Ticket, r Reads, s *cuda.Stream) error {
	if err := a.fits(&r); err != nil {
		return err
	}
	if held, n := a.tail-a.head, r.Count.Most; held+n > a.slots() {
		return fmt.Errorf("%w: %d of %d slots of a drive are reserved, %d more are needed", ErrFull, held, a.slots(), n)
	}
	b := a.free[len(a.free)-1]
	b.in, b.base = r, a.tail%a.slots()
	// Released slots are free when their completion is done on the device.
	if a.reuse != nil {
		if err := s.Wait(a.reuse); err != nil {
			return err
		}
	}
	if err := a.after(s, 0); err != nil {
		return err
	}
	if err := inTurn(b, s, a.bin, a.submit); err != nil {
		return err
	}
	a.reuse = nil
	b.holds = a.reserve(r.Count.Most)
	return a.record(t, b, b.wasSubmitted, s)
}

// inTurn enqueues launches of a micro-batch, up to the first that fails: further ones would read stale
// lists.
func inTurn(b *batch, s *cuda.Stream, launches ...func(*batch, *cuda.Stream) error) error {
	for _, launch := range launches {
		if err := launch(b, s); err != nil {
			return err
		}
	}
	return nil
}

// fits returns nil if there is a record for a micro-batch, else the reason.
func (a *Array) fits(r *Reads) error {
	if err := r.check(); err != nil {
		return err
	}
	switch n := r.Count.Most; {
	case n > a.o.Requests:
		return fault.New(fault.ErrUsage, "a micro-batch of %d reads is too large: there is room for %d", n, a.o.Requests)
	case len(a.free) == 0:
		return fmt.Errorf("%w: all %d records of micro-batches are in use", ErrFull, len(a.batches))
	}
	return nil
}

// after makes a stream wait for the last submission (0) or completion (1).
func (a *Array) after(s *cuda.Stream, which int) error {
	if e := a.last[which]; e != nil {
		return s.Wait(e)
	}
	return nil
}

// record adds an enqueued micro-batch to a ticket, and records the micro-batch's event e on the stream.
func (a *Array) record(t *Ticket, b *batch, e *cuda.Event, s *cuda.Stream) error {
	a.free = a.free[:len(a.free)-1]
	t.batches = append(t.batches, b)
	a.last[0] = e
	return e.Record(s)
}

// Complete enqueues the completion of the ticket's micro-batches on the stream. When the stream has done
// it, data and statuses are in their buffers, for later work on the stream. Reads of other tickets stay
// under way.
func (a *Array) Complete(t *Ticket, s *cuda.Stream) error {
	for ; t.completed < len(t.batches); t.completed++ {
		b := t.batches[t.completed]
		if err := errors.Join(s.Wait(b.wasSubmitted), a.after(s, 1)); err != nil {
			return err
		}
		if err := a.complete(b, s); err != nil {
			return err
		}
		if err := b.wasLanded.Record(s); err != nil {
			return err
		}
		a.last[1], b.holds.completed = b.wasLanded, true
	}
	a.giveBack()
	return nil
}

// Await makes a stream wait for completions of a ticket on other streams.
func (a *Array) Await(t *Ticket, s *cuda.Stream) error {
	for _, b := range t.batches[:t.completed] {
		if err := s.Wait(b.wasLanded); err != nil {
			return err
		}
	}
	return nil
}

// region is a range of slots, on every drive, that were reserved together. It may exist longer than the
// record of its micro-batch, until earlier regions are completed.
type region struct {
	slots     int
	completed bool // a stream was given the completion
}

// reserve takes the next slots.
func (a *Array) reserve(slots int) *region {
	g := new(region)
	if n := len(a.spare); n > 0 {
		g, a.spare = a.spare[n-1], a.spare[:n-1]
	}
	*g = region{slots: slots}
	a.tail += slots
	a.reserved = append(a.reserved, g)
	return g
}

// giveBack releases, in order, the slots with an enqueued completion. The next user of the slots waits for
// the last completion, which comes after all others.
func (a *Array) giveBack() {
	for len(a.reserved) > 0 && a.reserved[0].completed {
		g := a.reserved[0]
		a.head += g.slots
		a.reuse = a.last[1]
		a.reserved = slices.Delete(a.reserved, 0, 1)
		a.spare = append(a.spare, g)
	}
}

// Read enqueues the reading of a micro-batch, from submission to completion, and adds it to the ticket; one
// block of the GPU serves each queue. Slots are reused, so the micro-batch may have any number of requests
// up to Options.Requests. If a micro-batch of Submit was not passed to Complete, or no record is free, Read
// returns ErrFull. Earlier Reads come first.
func (a *Array) Read(t *Ticket, r Reads, s *cuda.Stream) error {
	if err := a.fits(&r); err != nil {
		return err
	}
	if a.tail != a.head {
		return fmt.Errorf("%w: Read needs queues without other reads", ErrFull)
	}
	b := a.free[len(a.free)-1]
	b.in, b.holds = r, nil
	if err := a.after(s, 1); err != nil { // all that was submitted was completed before
		return err
	}
	if err := inTurn(b, s, a.bin, a.read); err != nil {
		return err
	}
	if err := a.record(t, b, b.wasLanded, s); err != nil {
		return err
	}
	a.last[1] = b.wasLanded
	t.batches = slices.Insert(t.batches[:len(t.batches)-1], t.completed, b)
	t.completed++
	return nil
}

// RequestError is the failure of the first failed request of a micro-batch. Err is a spec.Status, ErrLost
// or ErrRequest.
type RequestError struct {
	Batch, Request int // number of the micro-batch in the ticket, and of the request in the micro-batch
	Err            error
}

func (e *RequestError) Error() string {
	return fmt.Sprintf("request %d of micro-batch %d: %v", e.Request, e.Batch, e.Err)
}

func (e *RequestError) Unwrap() error { return e.Err }

// End waits on the host for the ticket's completions, and returns a RequestError for the first failed
// request of each micro-batch, joined. The ticket is then empty. If Complete was not called for all
// micro-batches, End returns an error of kind fault.ErrUsage and changes nothing.
func (a *Array) End(t *Ticket) error {
	if t.completed < len(t.batches) {
		return fault.New(fault.ErrUsage, "a ticket cannot end: %d of its micro-batches were not completed", len(t.batches)-t.completed)
	}
	var errs []error
	for i, b := range t.batches {
		if err := b.wasLanded.Synchronize(); err != nil {
			return err // the device is lost
		}
		if request, status := b.outcome(); status != 0 {
			a.lost = a.lost || status != StatusRefused && status >= StatusTimeout
			errs = append(errs, &RequestError{i, int(request), status.failed()})
		}
		b.in, b.holds = Reads{}, nil
		a.free = append(a.free, b)
	}
	t.batches, t.completed = t.batches[:0], 0
	return errors.Join(errs...)
}

// outcome returns the first request that failed.
func (b *batch) outcome() (request uint32, s Status) {
	first := NoFailure
	for at := 0; at < len(b.words); at += 8 {
		first = min(first, binary.LittleEndian.Uint64(b.words[at:]))
	}
	if first == NoFailure {
		return 0, 0
	}
	return uint32(first >> 32), Status(first)
}
