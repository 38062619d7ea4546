package cuda

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"
)

// Stream is a queue of work on the device, which is done in order. It is for one goroutine at a time.
type Stream struct {
	device    *Device
	handle    handle
	pending   pending
	capturing bool
	args      []uint64 // of the launch being made
}

// NewStream makes a stream that is independent of all others. The caller frees it.
func (d *Device) NewStream() (*Stream, error) {
	h, err := d.driver.newStream()
	if err != nil {
		return nil, d.failed("make a stream", err)
	}
	return &Stream{device: d, handle: h, args: make([]uint64, 0, 32)}, nil
}

// Device returns the stream's device.
func (s *Stream) Device() *Device { return s.device }

// Free frees the stream. Its enqueued work is still done.
func (s *Stream) Free() { _ = s.device.driver.dropStream(s.handle) }

// Synchronize waits until all enqueued work is done. It returns the error of the work, if any, which names
// the work.
func (s *Stream) Synchronize() error {
	if err := s.device.usable(); err != nil {
		return err
	}
	if err := s.device.driver.syncStream(s.handle); err != nil {
		return s.device.failed(s.pending.describe(), err)
	}
	s.pending.count = 0
	return nil
}

// Wait makes all work enqueued on s from now on wait for the event. The host does not wait.
func (s *Stream) Wait(e *Event) error {
	return s.asked("wait for an event", s.device.driver.waitFor(s.handle, e.handle))
}

// CopyIn enqueues a copy of from to the beginning of to. Pinned memory must not change until the copy is
// done. Other memory may be changed as soon as CopyIn returns. A to that is too small is an error.
func (s *Stream) CopyIn(to Buffer, from []byte) error {
	n := int64(len(from))
	if err := s.begin("copy in", n, to); err != nil || n == 0 {
		return err
	}
	return s.asked("copy in", s.device.driver.copyIn(to.Address(), unsafe.Pointer(unsafe.SliceData(from)), n, s.handle))
}

// CopyOut enqueues a copy of len(to) bytes from the beginning of from. The bytes in to are valid once the
// host has waited for the stream. A copy to memory that is not pinned may block.
func (s *Stream) CopyOut(to []byte, from Buffer) error {
	n := int64(len(to))
	if err := s.begin("copy out", n, from); err != nil || n == 0 {
		return err
	}
	return s.asked("copy out", s.device.driver.copyOut(unsafe.Pointer(unsafe.SliceData(to)), from.Address(), n, s.handle))
}

// Copy enqueues a copy of all bytes of from to the beginning of to.
func (s *Stream) Copy(to, from Buffer) error {
	if err := s.begin("copy", from.Bytes(), to); err != nil || from.Bytes() == 0 {
		return err
	}
	return s.asked("copy", s.device.driver.copyWithin(to.Address(), from.Address(), from.Bytes(), s.handle))
}

// Fill enqueues setting every byte of the buffer to the value.
func (s *Stream) Fill(to Buffer, value byte) error {
	if err := s.begin("fill", to.Bytes(), to); err != nil || to.Bytes() == 0 {
		return err
	}
	return s.asked("fill", s.device.driver.set(to.Address(), value, to.Bytes(), s.handle))
}

// begin checks that the device is there and that the buffer has room for the bytes.
func (s *Stream) begin(what string, bytes int64, b Buffer) error {
	if err := s.device.usable(); err != nil {
		return err
	}
	return needs(what, "a buffer", b, bytes)
}

// needs checks that a buffer has at least the given bytes.
func needs(what, name string, b Buffer, bytes int64) error {
	if bytes > b.Bytes() {
		return fmt.Errorf("cuda: %s: %s of %d bytes, but %d are needed", what, name, b.Bytes(), bytes)
	}
	return nil
}

// asked records enqueued work, or returns the driver's error. With Options.Synchronous it waits for the
// work.
func (s *Stream) asked(what string, err error) error {
	if err != nil {
		return s.device.failed(what, err)
	}
	s.pending.add(what)
	if !s.device.synchronous || s.capturing {
		return nil
	}
	return s.Synchronize()
}

// Event is a mark in a stream's work. It is for one goroutine at a time.
type Event struct {
	device *Device
	handle handle
	stream *Stream // that it was recorded in last
}

// NewEvent makes an event, which counts as done until it is recorded. The caller frees it.
func (d *Device) NewEvent() (*Event, error) {
	h, err := d.driver.newEvent()
	if err != nil {
		return nil, d.failed("make an event", err)
	}
	return &Event{device: d, handle: h}, nil
}

// Free frees the event.
func (e *Event) Free() { _ = e.device.driver.dropEvent(e.handle) }

// Record puts the mark after all work enqueued on s so far.
func (e *Event) Record(s *Stream) error {
	if err := e.device.driver.record(e.handle, s.handle); err != nil {
		return e.device.failed("record an event", err)
	}
	e.stream = s
	return nil
}

// Done reports whether the work before the mark is done. It does not wait.
func (e *Event) Done() (bool, error) {
	if err := e.device.usable(); err != nil {
		return false, err
	}
	done, err := e.device.driver.done(e.handle)
	return done, e.failed(err)
}

// Synchronize waits until the work before the mark is done. If work of the stream has failed, it returns
// the error.
func (e *Event) Synchronize() error {
	if err := e.device.usable(); err != nil {
		return err
	}
	return e.failed(e.device.driver.syncEvent(e.handle))
}

// Since returns the time on the device from an earlier mark to this one. Both must be done.
func (e *Event) Since(earlier *Event) (time.Duration, error) {
	ms, err := e.device.driver.milliseconds(earlier.handle, e.handle)
	return time.Duration(ms * float64(time.Millisecond)), e.failed(err)
}

func (e *Event) failed(err error) error {
	if err == nil {
		return nil
	}
	what := "wait for an event"
	if e.stream != nil {
		what = e.stream.pending.describe()
	}
	return e.device.failed(what, err)
}

// Handle returns the driver's handle of the stream, for libraries that enqueue work by themselves.
// Gave records that work.
func (s *Stream) Handle() uintptr { return uintptr(s.handle) }

// Gave records the name of work that another library has enqueued, for the message if it fails.
func (s *Stream) Gave(what string) { s.pending.add(what) }

// pending has the names of the last pieces of work enqueued since the last wait. If work fails, it is one
// of them.
type pending struct {
	names [12]string
	count int
}

func (p *pending) add(name string) {
	p.names[p.count%len(p.names)] = name
	p.count++
}

// describe lists the work, in the order in which the stream was given it.
func (p *pending) describe() string {
	if p.count == 0 {
		return "wait for the GPU"
	}
	var b strings.Builder
	b.WriteString("GPU work (")
	from := max(0, p.count-len(p.names))
	if from > 0 {
		b.WriteString("…, ")
	}
	for i := from; i < p.count; i++ {
		if i > from {
			b.WriteString(", ")
		}
		b.WriteString(p.names[i%len(p.names)])
	}
	b.WriteString(")")
	return b.String()
}

// Span is a pair of marks around some work of a stream, which measure its time.
type Span struct{ began, ended *Event }

// NewSpan makes a span, which counts as done until it begins. The caller frees it.
func (d *Device) NewSpan() (*Span, error) {
	s := new(Span)
	var errs [2]error
	s.began, errs[0] = d.NewEvent()
	s.ended, errs[1] = d.NewEvent()
	if err := errors.Join(errs[:]...); err != nil {
		s.Free()
		return nil, err
	}
	return s, nil
}

// Begin puts the first mark after all work enqueued on s so far.
func (p *Span) Begin(s *Stream) error { return p.began.Record(s) }

// End puts the second mark after all work enqueued on s so far.
func (p *Span) End(s *Stream) error { return p.ended.Record(s) }

// Ended returns the mark at the end of the span.
func (p *Span) Ended() *Event { return p.ended }

// Synchronize waits until the work before the end of the span is done. If work of the stream has failed, it
// returns the error.
func (p *Span) Synchronize() error { return p.ended.Synchronize() }

// Since returns the time from an earlier mark to the beginning of the span, and the length of the span. The
// span must be done.
func (p *Span) Since(earlier *Event) (began, took time.Duration, err error) {
	if began, err = p.began.Since(earlier); err != nil {
		return 0, 0, err
	}
	took, err = p.ended.Since(p.began)
	return began, took, err
}

// Free frees the span's events.
func (p *Span) Free() {
	for _, e := range []*Event{p.began, p.ended} {
		if e != nil {
			e.Free()
		}
	}
}
