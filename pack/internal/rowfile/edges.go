package rowfile

import (
	"sync"

	"diskgnn/internal/binio"
)

// edges are the ends of blocks that are no whole pages, and blocks of few pages: they are written through
// the page cache, a megabyte of them at a time. A write through the page cache excludes direct writes to
// its file and waits for the ones under way: a write for each end would leave the drive idle again and
// again.
type edges struct {
	direct sync.RWMutex // held for reading during direct writes, for writing while edges are written

	mu   sync.Mutex
	mem  []byte // the bytes of all edges in list, one after the other
	list []edge // has the capacity mostEdges
}

// edge is a range of a file, with its bytes in edges.mem.
type edge struct {
	to    *File
	off   int64
	bytes int
}

// write writes b at off, and keeps its edges until there is no more room or flush is called. Memory and
// file must be congruent modulo a page.
func (e *edges) write(f *File, b []byte, off int64) error {
	head, tail, err := e.pages(f, b, off)
	if err != nil {
		return err
	}
	if err := e.add(f, head, off); err != nil {
		return err
	}
	return e.add(f, tail, off+int64(len(b)-len(tail)))
}

// pages writes the whole pages of b at off, and returns the rest.
func (e *edges) pages(f *File, b []byte, off int64) (head, tail []byte, err error) {
	e.direct.RLock() // before the file is held: empty opens files while no direct write is under way
	defer e.direct.RUnlock()
	h, err := f.hold()
	if err != nil {
		return nil, nil, err
	}
	defer f.written()
	head, pages, tail := h.divide(b, off)
	return head, tail, h.pages(pages, off+int64(len(head)))
}

// longestEdge bounds an edge: a block of too few pages for a direct write, with both ends.
const longestEdge = leastDirect + 2*binio.Page

// add keeps a copy of b, after it has made room. It writes longer bytes, which are no edge: the file has no
// direct writes.
func (e *edges) add(f *File, b []byte, off int64) error {
	if len(b) == 0 {
		return nil
	}
	if len(b) > longestEdge {
		return f.WriteCached(b, off)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.mem)+len(b) > cap(e.mem) || len(e.list) == cap(e.list) {
		if err := e.empty(); err != nil {
			return err
		}
	}
	e.mem = append(e.mem, b...)
	e.list = append(e.list, edge{f, off, len(b)})
	return nil
}

// flush writes all edges.
func (e *edges) flush() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.empty()
}

func (e *edges) empty() error {
	e.direct.Lock()
	defer e.direct.Unlock()
	b := e.mem
	for _, x := range e.list {
		if err := x.to.WriteCached(b[:x.bytes], x.off); err != nil {
			return err
		}
		b = b[x.bytes:]
	}
	e.mem, e.list = e.mem[:0], e.list[:0]
	return nil
}
