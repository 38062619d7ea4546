package iostack

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"diskgnn/internal/fault"
)

// Group is a set of requests with one common Wait. Any number of calls of Submit, all of one stack, add
// requests. The zero value is an empty group. After Wait the group is empty again and may be reused without
// further allocation. Submits to one group may come from several goroutines, but must have returned before
// Wait is called; only one goroutine may wait. A Group must not be copied after use.
//
// The methods are for backends, except Notify; users pass the group to Submit and Wait.
type Group struct {
	mu       sync.Mutex
	requests int           // requests added since the last Take
	parts    int           // parts of requests that have not ended
	first    *ReadError    // the failure that Take reports
	ended    chan struct{} // capacity 1; holds a token once parts fell to 0
	notify   func()        // unless nil, called once parts fell to 0
}

// Notify sets the function that is called when all requests of one Submit have ended, so that Wait will not
// block: for callers that cannot wait for each group. The goroutine that ended the last request calls f,
// which must not block. Call Notify while the group is empty. The group then takes only one Submit before
// each Wait.
func (g *Group) Notify(f func()) { g.notify = f }

// Add adds n requests of one part each and returns the index of the first.
func (g *Group) Add(n int) (first int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended == nil {
		g.ended = make(chan struct{}, 1)
	}
	first = g.requests
	g.requests += n
	g.parts += n
	return first
}

// Split adds a part: a part that has not ended is divided in two.
func (g *Group) Split() {
	g.mu.Lock()
	g.parts++
	g.mu.Unlock()
}

// Done ends a part; a part with an error has failed. All writes before a call of Done happen before Await
// returns.
func (g *Group) Done(err *ReadError) {
	if g.done(err) && g.notify != nil {
		g.notify()
	}
}

// done ends a part, and reports whether it was the last.
func (g *Group) done(err *ReadError) (last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && (g.first == nil || err.before(g.first)) {
		g.first = err
	}
	g.parts--
	switch {
	case g.parts < 0:
		panic("iostack: a request ended twice")
	case g.parts == 0:
		select {
		case g.ended <- struct{}{}:
		default: // a token of an earlier zero is still there; Await looks again
		}
	}
	return g.parts == 0
}

// Await returns nil when all parts have ended, or ctx.Err() when ctx ends before.
func (g *Group) Await(ctx context.Context) error {
	for {
		g.mu.Lock()
		parts, ended := g.parts, g.ended
		g.mu.Unlock()
		if parts == 0 {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Take empties the group and returns the failure of the first failed request in submission order, or nil.
// All parts must have ended.
func (g *Group) Take() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.parts != 0 {
		panic("iostack: a group was taken while requests were in flight")
	}
	err := g.first
	g.requests, g.first = 0, nil
	if err == nil {
		return nil
	}
	return err
}

// ErrElsewhere is wrapped by the error of Open if a stack with drives of its own does not have the file,
// but another stack may read it from the file system.
var ErrElsewhere = errors.New("the file is not on these drives")

// ReadError is the failure of a request. Err is of kind fault.ErrCorrupt if the file ended before the
// end of the request.
type ReadError struct {
	File   string // as File.Name
	Offset int64  // of the request
	Length int    // of the request, in bytes
	Index  int    // number of the request in its group, from 0, in the order of submission
	At     int64  // offset in the file of the failed part of the request
	Err    error
}

func (e *ReadError) Error() string {
	return fmt.Sprintf("read %s: %d bytes at %d: %v", e.File, e.Length, e.Offset, e.Err)
}

func (e *ReadError) Unwrap() error { return e.Err }

// before orders failures by submission, then by place in the request, so that the reported failure does not
// depend on the order in which parts end.
func (e *ReadError) before(f *ReadError) bool {
	if e.Index != f.Index {
		return e.Index < f.Index
	}
	return e.At < f.At
}

// Truncated returns the error, of kind fault.ErrCorrupt, of a request for wanted bytes if the file has only
// the first available bytes of them. Files are complete before they are read, so the file has lost its end.
func Truncated(wanted int, available, size int64) error {
	return fault.New(fault.ErrCorrupt, "file shrank or was truncated: %d of %d bytes available, file size %d",
		max(available, 0), wanted, size)
}
