package pread

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"diskgnn/iostack"
	"diskgnn/iostack/internal/split"
)

// work carries out pieces until the queue is closed.
func (s *Stack) work(bounce []byte) {
	for {
		r, p, ok := s.queue.take()
		if !ok {
			return
		}
		if err := s.readPiece(&r, p, bounce); err != nil {
			r.group.Done(r.fail(p.Offset+int64(p.Skip), err))
			continue
		}
		r.group.Done(nil)
	}
}

// readPiece fills p.Dst, which belongs to r.
func (s *Stack) readPiece(r *request, p split.Piece, bounce []byte) error {
	if !p.Bounce {
		return s.readAt(r, p.Dst, p.Offset, len(p.Dst))
	}
	need := p.Skip + len(p.Dst)
	if err := s.readAt(r, bounce[:p.Length], p.Offset, need); err != nil {
		return err
	}
	copy(p.Dst, bounce[p.Skip:need])
	return nil
}

// maxStalls is how often a direct read may deliver less than a page, although
// the file goes on, before that is an error.
const maxStalls = 8

// readAt reads at least the first need bytes of dst, and up to all of it, from
// the given offset of r's file. An offset and a length of whole pages stay so
// when a short read is continued.
func (s *Stack) readAt(r *request, dst []byte, offset int64, need int) error {
	f := r.file
	f.use.RLock() // the descriptor stays this file's until the read is over
	defer f.use.RUnlock()
	if f.closed {
		return os.ErrClosed
	}
	for got, stalls := 0, 0; ; {
		n, err := s.pread(f.fd, dst[got:], offset+int64(got))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("pread: %w", err)
		}
		s.stats.deviceReads.Add(1)
		s.stats.bytesRead.Add(int64(n))
		end := got + n
		if end >= need {
			return nil
		}
		if whole := end &^ (f.splits.Align - 1); whole > got {
			got = whole
			continue
		}
		// Less than a page: the end of the file, or a direct read cut inside a
		// page, which must be repeated from the page's start.
		size, err := sizeOf(f.fd)
		switch {
		case err != nil:
			return fmt.Errorf("find the end of the file: %w", err)
		case size <= offset+int64(end):
			return iostack.Truncated(r.length, offset+int64(end)-r.offset, size)
		}
		if stalls++; stalls > maxStalls {
			return fmt.Errorf("pread: %w", io.ErrNoProgress)
		}
	}
}

func preadSyscall(fd int, p []byte, offset int64) (int, error) { return unix.Pread(fd, p, offset) }
