package rowfile

import (
	"context"
	"sync"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

const (
	// blockBytes is the size of a write: long enough for a drive's full rate, short enough to stay in a
	// core's cache until it is written.
	blockBytes = 1 << 20
	// Depth is the number of writes under way at the same time.
	Depth = 8
	// idleBlocks bounds the streams that hold a block without filling it.
	idleBlocks = 3
	// edgeBytes is the room for edges, of which there are at most mostEdges.
	edgeBytes = 1 << 20
	mostEdges = edgeBytes / 256
)

// block is memory on its way to a file.
type block struct {
	mem  []byte // whole pages
	to   *File
	off  int64 // in the file, of mem's first byte: a multiple of a page
	from int   // mem[from:end] is to be written
	end  int
}

// Writers write blocks to their files on goroutines of their own, so that the next blocks can be filled at
// the same time.
type Writers struct {
	mem   *device.Host
	free  chan *block
	full  chan *block
	done  sync.WaitGroup
	edges edges

	pending sync.WaitGroup // blocks handed over and not written yet

	mu  sync.Mutex
	err error // the first
}

// Memory returns the bytes of memory that NewWriters takes for the given number of goroutines that fill
// blocks.
func Memory(fillers int) int64 {
	return int64(fillers+Depth+idleBlocks)*blockBytes + edgeBytes
}

// NewWriters allocates the blocks and starts the writing goroutines. fillers is the number of goroutines
// that fill blocks. The caller closes the Writers.
func NewWriters(fillers int) (*Writers, error) {
	mem, err := device.NewHost(int(Memory(fillers)))
	if err != nil {
		return nil, err
	}
	n := (mem.Len() - edgeBytes) / blockBytes
	w := &Writers{mem: mem, free: make(chan *block, n), full: make(chan *block, n)}
	w.edges.mem, w.edges.list = mem.Bytes()[n*blockBytes:][:0:edgeBytes], make([]edge, 0, mostEdges)
	for i := range n {
		w.free <- &block{mem: mem.Bytes()[i*blockBytes : (i+1)*blockBytes]}
	}
	for range Depth {
		w.done.Go(func() {
			defer fault.Crash()
			for b := range w.full {
				if w.Failed() == nil {
					w.fail(w.edges.write(b.to, b.mem[b.from:b.end], b.off+int64(b.from)))
				}
				w.free <- b
				w.pending.Done()
			}
		})
	}
	return w, nil
}

func (w *Writers) Failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *Writers) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

// take returns a free block, or the error of an earlier write: after it no further block need be filled.
func (w *Writers) take(ctx context.Context) (*block, error) {
	select {
	case b := <-w.free:
		if err := w.Failed(); err != nil {
			w.free <- b
			return nil, err
		}
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// put passes a block to the writing goroutines.
func (w *Writers) put(b *block) {
	w.pending.Add(1)
	w.full <- b // has room for all blocks
}

// Drain waits until all passed blocks and their edges are written, and returns the first error. No stream may be in use
// during the call.
func (w *Writers) Drain() error {
	w.pending.Wait()
	if w.Failed() == nil {
		w.fail(w.edges.flush())
	}
	return w.Failed()
}

// Close ends the goroutines and frees the memory. Only Drain writes the last edges. No stream may be in use.
func (w *Writers) Close() {
	close(w.full)
	w.done.Wait()
	w.mem.Free()
}

// Stream writes bytes at ascending offsets of files, through blocks. It is for one goroutine.
type Stream struct {
	w *Writers
	b *block // nil, or being filled
}

// Stream returns a new stream. Each goroutine that writes needs one.
func (w *Writers) Stream() Stream { return Stream{w: w} }

// At reports whether the next bytes go to offset off of f.
func (s *Stream) At(f *File, off int64) bool {
	return s.b != nil && s.b.to == f && s.b.off+int64(s.b.end) == off
}

// Seek makes offset off of f the place of the next bytes. It may wait for a free block, and returns the
// error of an earlier write.
func (s *Stream) Seek(ctx context.Context, f *File, off int64) (err error) {
	if s.At(f, off) {
		return nil
	}
	s.Flush()
	if s.b, err = s.w.take(ctx); err != nil {
		return err
	}
	s.b.to, s.b.from = f, int(off%binio.Page)
	s.b.off, s.b.end = off-int64(s.b.from), s.b.from
	return nil
}

// Room returns memory for the next bytes, at least one. Filled takes it over.
func (s *Stream) Room(ctx context.Context) ([]byte, error) {
	if s.b.end == len(s.b.mem) {
		f, off := s.b.to, s.b.off+int64(s.b.end)
		s.Flush()
		if err := s.Seek(ctx, f, off); err != nil {
			return nil, err
		}
	}
	return s.b.mem[s.b.end:], nil
}

// Filled records that the next n bytes of the slice from Room are filled.
func (s *Stream) Filled(n int) { s.b.end += n }

// Write copies b to the next places.
func (s *Stream) Write(ctx context.Context, b []byte) error {
	for len(b) > 0 {
		room, err := s.Room(ctx)
		if err != nil {
			return err
		}
		n := copy(room, b)
		s.Filled(n)
		b = b[n:]
	}
	return nil
}

// Flush passes the last block to the writing goroutines.
func (s *Stream) Flush() {
	if s.b != nil && s.b.end > s.b.from {
		s.w.put(s.b)
	} else if s.b != nil {
		s.w.free <- s.b
	}
	s.b = nil
}
