package mbfile

import (
	"errors"
	"path/filepath"
	"sync"

	"diskgnn/internal/vfs"
)

// maxIdle is the number of batch files kept open between reads: enough for any
// number of threads that walk the batches in order, few enough for any limit on
// open files.
const maxIdle = 32

// handles opens the batch files on demand and keeps some of them open. It is
// safe for concurrent use.
type handles struct {
	fs  vfs.FS
	dir string

	mu     sync.Mutex
	open   map[int]*handle
	clock  int64
	closed bool
}

type handle struct {
	f    vfs.File
	refs int
	used int64 // clock of the last acquire
}

var errClosed = errors.New("mbfile: the reader is closed")

// acquire returns file i, open until the release that goes with it.
func (h *handles) acquire(i int) (*handle, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errClosed
	}
	e := h.open[i]
	if e == nil {
		f, err := h.fs.Open(filepath.Join(h.dir, BatchesFile(i)))
		if err != nil {
			return nil, err
		}
		e = &handle{f: f}
		h.open[i] = e
		h.evict()
	}
	h.clock++
	e.refs, e.used = e.refs+1, h.clock
	return e, nil
}

func (h *handles) release(e *handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.refs--
	if h.closed && e.refs == 0 {
		_ = e.f.Close()
	}
}

// evict closes the idle file that was used longest ago when too many are open.
func (h *handles) evict() {
	if len(h.open) <= maxIdle {
		return
	}
	oldest, found := 0, false
	for i, e := range h.open {
		if e.refs == 0 && e.used > 0 && (!found || e.used < h.open[oldest].used) {
			oldest, found = i, true
		}
	}
	if found {
		_ = h.open[oldest].f.Close()
		delete(h.open, oldest)
	}
}

// close closes all files; those being read are closed by their release.
func (h *handles) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	var errs []error
	for _, e := range h.open {
		if e.refs == 0 {
			errs = append(errs, e.f.Close())
		}
	}
	clear(h.open)
	return errors.Join(errs...)
}
