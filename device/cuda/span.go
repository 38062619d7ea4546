package cuda

import (
	"errors"
	"time"
)

// Span is a pair of marks around some work of a stream, which measure its time.
type Span struct{ began, ended *Event }

// NewSpan makes a span, which counts as done until it begins.
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

// Begin puts the first mark behind the work that s has now, End the second one.
func (p *Span) Begin(s *Stream) error { return p.began.Record(s) }

// End puts the second mark behind the work that s has now.
func (p *Span) End(s *Stream) error { return p.ended.Record(s) }

// Ended returns the second mark.
func (p *Span) Ended() *Event { return p.ended }

// Since returns how long after an earlier mark the span began, and how long it took. It
// must be done.
func (p *Span) Since(earlier *Event) (began, took time.Duration, err error) {
	if began, err = p.began.Since(earlier); err != nil {
		return 0, 0, err
	}
	took, err = p.ended.Since(p.began)
	return began, took, err
}

// Free ends the span.
func (p *Span) Free() {
	for _, e := range []*Event{p.began, p.ended} {
		if e != nil {
			e.Free()
		}
	}
}
