package pack

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

const (
	// blockBytes is what is gathered for one write: long enough for a drive's full
	// rate, short enough to stay in a core's cache until it is written.
	blockBytes = 1 << 20
	// writeDepth is the number of writes under way at the same time.
	writeDepth = 8
	// idleBlocks bounds the streams that hold a block while nobody fills it.
	idleBlocks = 3
)

// handle is an open file that is written at many places.
type handle struct {
	vfs.File
	direct vfs.File // nil: all through the page cache
}

// newHandle takes over a file that is open for writing.
func newHandle(fsys vfs.FS, f vfs.File) (*handle, error) {
	d, err := vfs.OpenDirect(fsys, f.Name())
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	return &handle{File: f, direct: d}, nil
}

// leastDirect is the least that is written directly: less is merged in the page cache
// with what comes next to it, for which direct writes would have to wait.
const leastDirect = 16 * binio.Page

// write writes b at off. Memory and file must be congruent modulo a page.
func (f *handle) write(b []byte, off int64) error {
	head := int(binio.AlignUp(off, binio.Page) - off)
	whole := (len(b) - head) / binio.Page * binio.Page
	if f.direct == nil || whole < leastDirect {
		return f.buffered(b, off)
	}
	if err := f.buffered(b[:head], off); err != nil {
		return err
	}
	if err := f.pages(b[head:head+whole], off+int64(head)); err != nil {
		return err
	}
	return f.buffered(b[head+whole:], off+int64(head+whole))
}

// pages writes whole pages.
func (f *handle) pages(b []byte, off int64) error {
	_, err := f.direct.WriteAt(b, off)
	if errors.Is(err, unix.EINVAL) { // pages of another size, or none at all
		return f.buffered(b, off)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Name(), err)
	}
	return nil
}

func (f *handle) buffered(b []byte, off int64) error {
	if len(b) == 0 {
		return nil
	}
	if _, err := f.WriteAt(b, off); err != nil {
		return fmt.Errorf("write %s: %w", f.Name(), err)
	}
	return nil
}

// Close closes the file, which no block may be on its way to.
func (f *handle) Close() error {
	if f.direct != nil {
		return errors.Join(f.direct.Close(), f.File.Close())
	}
	return f.File.Close()
}

// block is memory on its way to a file.
type block struct {
	mem  []byte // whole pages
	to   *outFile
	off  int64 // in the file, of mem's first byte: a multiple of a page
	from int   // mem[from:end] is to be written
	end  int
}

// writers carry blocks to their files on goroutines of their own, so that the next
// block is filled meanwhile.
type writers struct {
	mem  *device.Host
	free chan *block
	full chan *block
	done sync.WaitGroup

	pending sync.WaitGroup // blocks handed over and not written yet

	mu  sync.Mutex
	err error // the first
}

// writersMemory returns what newWriters takes for so many goroutines that fill blocks.
func writersMemory(fillers int) int64 {
	return int64(fillers+writeDepth+idleBlocks) * blockBytes
}

// newWriters starts the goroutines; as many as the given number of others fill blocks.
func newWriters(fillers int) (*writers, error) {
	mem, err := device.NewHost(int(writersMemory(fillers)))
	if err != nil {
		return nil, err
	}
	n := mem.Len() / blockBytes
	w := &writers{mem: mem, free: make(chan *block, n), full: make(chan *block, n)}
	for i := range n {
		w.free <- &block{mem: mem.Bytes()[i*blockBytes : (i+1)*blockBytes]}
	}
	for range writeDepth {
		w.done.Go(func() {
			defer fault.Crash()
			for b := range w.full {
				if w.failed() == nil {
					w.fail(b.to.write(b.mem[b.from:b.end], b.off+int64(b.from)))
				}
				w.free <- b
				w.pending.Done()
			}
		})
	}
	return w, nil
}

func (w *writers) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *writers) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

// take returns a free block, or the error of an earlier write: nothing that comes
// after it need be made.
func (w *writers) take(ctx context.Context) (*block, error) {
	select {
	case b := <-w.free:
		if err := w.failed(); err != nil {
			w.free <- b
			return nil, err
		}
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// put hands a block over.
func (w *writers) put(b *block) {
	w.pending.Add(1)
	w.full <- b // has room for all blocks
}

// drain waits until all blocks that were handed over are written, and returns the
// first error of any. Nobody may hand over more meanwhile.
func (w *writers) drain() error {
	w.pending.Wait()
	return w.failed()
}

// close ends the goroutines once all blocks are written. Streams must be done.
func (w *writers) close() {
	close(w.full)
	w.done.Wait()
	w.mem.Free()
}

// stream puts bytes in ascending places of files, through blocks. It serves one
// goroutine.
type stream struct {
	w *writers
	b *block // nil, or being filled
}

// at reports whether off of f is the place of the next bytes.
func (s *stream) at(f *outFile, off int64) bool {
	return s.b != nil && s.b.to == f && s.b.off+int64(s.b.end) == off
}

// seek makes off of f the place of the next bytes.
func (s *stream) seek(ctx context.Context, f *outFile, off int64) (err error) {
	if s.at(f, off) {
		return nil
	}
	s.flush()
	if s.b, err = s.w.take(ctx); err != nil {
		return err
	}
	s.b.to, s.b.from = f, int(off%binio.Page)
	s.b.off, s.b.end = off-int64(s.b.from), s.b.from
	return nil
}

// room returns memory for the next bytes, at least one.
func (s *stream) room(ctx context.Context) ([]byte, error) {
	if s.b.end == len(s.b.mem) {
		f, off := s.b.to, s.b.off+int64(s.b.end)
		s.flush()
		if err := s.seek(ctx, f, off); err != nil {
			return nil, err
		}
	}
	return s.b.mem[s.b.end:], nil
}

// filled says that the next n bytes are in what room returned.
func (s *stream) filled(n int) { s.b.end += n }

// write copies b to the next places.
func (s *stream) write(ctx context.Context, b []byte) error {
	for len(b) > 0 {
		room, err := s.room(ctx)
		if err != nil {
			return err
		}
		n := copy(room, b)
		s.filled(n)
		b = b[n:]
	}
	return nil
}

// flush hands the last block over.
func (s *stream) flush() {
	if s.b != nil && s.b.end > s.b.from {
		s.w.put(s.b)
	} else if s.b != nil {
		s.w.free <- s.b
	}
	s.b = nil
}
