package iostack

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"diskgnn/internal/fault"
)

// Group is a set of requests that are waited for together, submitted by any
// number of Submits to one stack. The zero value is an empty group. After Wait
// it is empty again and may be reused, at no further allocation. Submits to one
// group may come from several goroutines, but must have returned before Wait is
// called; only one goroutine may wait. A Group must not be copied after use.
//
// The methods are for backends; users hand the group to Submit and Wait.
type Group struct {
	mu       sync.Mutex
	requests int           // requests added since the last Take
	parts    int           // parts of requests that have not ended
	first    *ReadError    // the failure that Take reports
	ended    chan struct{} // capacity 1; holds a token once parts fell to 0
	notify   func()        // unless nil, called once parts fell to 0
}

// Notify sets f to be called when all requests of one Submit have ended and Wait will not block, for
// callers that cannot wait for each group. The goroutine that ended the last request calls it, which
// must not block. Set it while the group is empty; the group then takes one Submit before it is
// waited for.
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

// Split counts one more part: a part that has not ended was cut in two.
func (g *Group) Split() {
	g.mu.Lock()
	g.parts++
	g.mu.Unlock()
}

// Done ends a part, which failed unless err is nil. The last Done of a group orders all writes of
// its callers before the return of Await.
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

// Take empties the group and returns its first failure in submission order, or nil. All its parts
// must have ended.
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

// ErrElsewhere is wrapped by the error of Open of a stack with its own drives, for a file that is
// not on them but may be read from the file system.
var ErrElsewhere = errors.New("the file is not on these drives")

// ReadError says which request failed. Err is of kind fault.ErrCorrupt when the
// file ended before the request did.
type ReadError struct {
	File   string // as File.Name
	Offset int64  // the request's
	Length int    // the request's, in bytes
	Index  int    // the request's place among those submitted to its group, from 0
	At     int64  // where in the file the failing part of the request began
	Err    error
}

func (e *ReadError) Error() string {
	return fmt.Sprintf("read %s: %d bytes at %d: %v", e.File, e.Length, e.Offset, e.Err)
}

func (e *ReadError) Unwrap() error { return e.Err }

// before orders failures by submission, then by place in the request, so that
// which one is reported does not depend on which part ended first.
func (e *ReadError) before(f *ReadError) bool {
	if e.Index != f.Index {
		return e.Index < f.Index
	}
	return e.At < f.At
}

// Truncated returns the error of a request for wanted bytes of which the file
// holds only the first available ones. Files are finished before they are read,
// so this one lost its end.
func Truncated(wanted int, available, size int64) error {
	return fault.New(fault.ErrCorrupt, "file shrank or was truncated: %d of %d bytes available, file size %d",
		max(available, 0), wanted, size)
}
