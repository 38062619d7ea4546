package mmap

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
	"diskgnn/internal/mapped"
)

// threads gather rows from a mapped file, one gather at a time. Each is a thread of the operating system,
// which waits in a page fault until the page has been read. They live as long as the store, so a batch
// allocates nothing. They take small pieces of a gather in turn, since the rows with reads are not known
// in advance.
type threads struct {
	file *mapped.File
	from dtype.Type
	dim  int
	n    int
	// counts reports whether to count page faults that wait for a read. This is needed if the kernel evicts
	// pages.
	counts bool
	begin  chan struct{} // a token for each thread of a gather
	done   sync.WaitGroup

	// The present gather:
	ctx    context.Context
	nodes  []uint32
	to     []float32
	next   atomic.Int64 // the first node that no thread has taken
	failed atomic.Pointer[error]
	faults atomic.Int64 // page faults that waited for a read of one page
	cold   atomic.Int64 // rows with such a page fault
}

// piece is the number of rows that a thread takes at a time.
const piece = 4

func newThreads(n int, file *mapped.File, from dtype.Type, dim int) *threads {
	t := &threads{file: file, from: from, dim: dim, n: n, begin: make(chan struct{}, n)}
	for range n {
		go func() {
			defer fault.Crash()
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			t.serve()
		}()
	}
	return t
}

func (t *threads) serve() {
	work, files := t.work, []*mapped.File{t.file}
	for range t.begin {
		if err := mapped.Guard(work, files...); err != nil {
			failure := err // a copy, so that err stays on the stack
			t.failed.CompareAndSwap(nil, &failure)
		}
		t.done.Done()
	}
}

// work gathers rows until none are left, another thread has failed, or the context has ended.
func (t *threads) work() error {
	row, data := t.from.RowBytes(t.dim), t.file.Data()
	var faults, cold, before int64
	if t.counts {
		before = threadFaults()
		defer func() { t.faults.Add(faults); t.cold.Add(cold) }()
	}
	for t.failed.Load() == nil {
		lo := int(t.next.Add(piece)) - piece
		if lo >= len(t.nodes) {
			return nil
		}
		if err := t.ctx.Err(); err != nil {
			return err
		}
		for i := lo; i < min(lo+piece, len(t.nodes)); i++ {
			at := int(t.nodes[i]) * row
			kernel.Widen(t.to[i*t.dim:(i+1)*t.dim], data[at:at+row], t.from, t.dim)
			if !t.counts {
				continue
			}
			if now := threadFaults(); now > before {
				faults, cold, before = faults+now-before, cold+1, now
			}
		}
	}
	return nil
}

// gather fills `to` with the rows of some nodes, widened. A memory fault is an error of kind fault.ErrCorrupt
// with the name of the file. If ctx ends, gather returns when the present page faults are over.
func (t *threads) gather(ctx context.Context, nodes []uint32, to []float32) error {
	t.ctx, t.nodes, t.to = ctx, nodes, to
	t.next.Store(0)
	t.failed.Store(nil)
	t.faults.Store(0)
	t.cold.Store(0)
	t.done.Add(t.n)
	for range t.n {
		t.begin <- struct{}{}
	}
	t.done.Wait()
	t.ctx = nil
	if err := t.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (t *threads) close() { close(t.begin) }
