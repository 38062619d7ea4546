package frontend

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// File implements iostack.File.
type File struct {
	stack  *Stack
	path   string
	size   int64
	direct bool
	reason string // why not direct
	copied bool
	splits Splitter

	// Slot is the file's number in a backend that numbers its files. OnClose, unless nil, is called once by
	// Close, when no read uses the file any more and its descriptor is still open. Both must be set before
	// the first read.
	Slot    int
	OnClose func()

	// Runs returns the number of contiguous bytes from an offset on, for a file without a descriptor; see
	// NewFile. Media is data of the backend.
	Runs  func(offset int64) int
	Media any

	striping iostack.Striping // of the parts
	parts    []*File          // that hold the content, if the file is striped

	use    sync.RWMutex // held for reading during every Read, for writing to close
	fd     int
	closed bool
}

// Name returns the path with which the file was opened.
func (f *File) Name() string { return f.path }

// Size returns the size in bytes when it was opened.
func (f *File) Size() int64 { return f.size }

// Direct reports whether reads are direct, and if not, the reason.
func (f *File) Direct() (bool, string) { return f.direct, f.reason }

// Copied reports whether the processor copies the bytes of a read: of buffered reads, and of all from a file system in
// memory. A drive writes others itself.
func (f *File) Copied() bool { return f.copied }

// Fd returns the descriptor, for the backend; a negative number if there is none.
func (f *File) Fd() int { return f.fd }

// Close closes the file; see iostack.File.
func (f *File) Close() error {
	f.use.Lock()
	defer f.use.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	if f.parts != nil {
		var errs []error
		for _, p := range f.parts {
			errs = append(errs, p.Close())
		}
		return errors.Join(errs...)
	}
	if f.OnClose != nil {
		f.OnClose()
	}
	if f.fd < 0 {
		return nil
	}
	if err := unix.Close(f.fd); err != nil {
		return &fs.PathError{Op: "close", Path: f.path, Err: err}
	}
	return nil
}

// enter keeps the descriptor open until use.RUnlock, so that no read finds another file under its number.
// It fails once Close was called, and never waits for Close: Close may wait for the calling thread.
func (f *File) enter() bool {
	if !f.use.TryRLock() {
		return false
	}
	if f.closed {
		f.use.RUnlock()
		return false
	}
	return true
}

// open opens a regular file or block device in the given mode. It refuses other kinds before opening them:
// opening a pipe could block forever.
func open(path string, mode iostack.Direct) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	kind := info.Mode().Type()
	if kind != 0 && (kind&fs.ModeDevice == 0 || kind&fs.ModeCharDevice != 0) {
		return nil, fault.New(fault.ErrInput, "open %s: neither a regular file nor a block device", path)
	}
	fd, refusal, err := openAs(path, mode)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	size, err := sizeOf(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("open %s: find its size: %w", path, err)
	}
	return &File{path: path, size: size, fd: fd, direct: refusal == "", reason: refusal, copied: refusal != "" || inMemory(fd)}, nil
}

// openFlags opens for reading with further flags.
func openFlags(path string, flags int) (fd int, err error) {
	for {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// NewFile returns a file without a descriptor, on media of the backend. size is its size in bytes, and runs
// and media become Runs and Media. Its reads are direct. Runs must begin and end at multiples of
// iostack.Align in the file.
func (s *Stack) NewFile(path string, size int64, runs func(offset int64) int, media any) (*File, error) {
	if s.queue.Closed() {
		return nil, fmt.Errorf("%s: open %s: %w", s.name, path, iostack.ErrClosed)
	}
	return &File{stack: s, path: path, size: size, direct: true, splits: s.splits, fd: -1, Runs: runs, Media: media}, nil
}

func (f *File) end() (int64, error) {
	if f.fd < 0 {
		return f.size, nil
	}
	return sizeOf(f.fd)
}

// sizeOf returns the size of a file or block device. Nothing else uses the descriptor's position.
func sizeOf(fd int) (int64, error) { return unix.Seek(fd, 0, io.SeekEnd) }

// OpenStriped opens the files at paths as one; see iostack.OpenStriped, which has checked
// the arguments.
func (s *Stack) OpenStriped(paths []string, unit int) (_ iostack.File, err error) {
	// parts is empty but not nil, and fd is invalid: so Close after a failure closes the parts opened so
	// far, and nothing else.
	f := &File{stack: s, path: strings.Join(paths, ","), direct: true, striping: iostack.Striping{Files: len(paths), Unit: unit},
		parts: make([]*File, 0, len(paths)), fd: -1}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	for _, path := range paths {
		part, err := s.open(path)
		if err != nil {
			return nil, err
		}
		f.parts = append(f.parts, part)
		f.size += part.size
		if f.direct && !part.direct {
			f.direct, f.reason = false, part.path+": "+part.reason
		}
	}
	for i, part := range f.parts {
		if want := f.striping.Size(f.size, i); part.size != want {
			return nil, fault.New(fault.ErrInput, "%s has %d bytes, which does not fit file %d of %d, striped in units of %d bytes: of %d bytes in all it would have %d",
				part.path, part.size, i, len(f.parts), unit, f.size, want)
		}
	}
	return f, nil
}

// locate returns the part of the file with the byte at the given offset, the offset in it, and the largest
// number of bytes that one read may have there.
func (f *File) locate(offset int64) (part *File, at int64, n int) {
	part, at, n = f, offset, math.MaxInt
	if f.parts != nil {
		var i int
		i, at, n = f.striping.Locate(offset)
		part = f.parts[i]
	}
	if part.Runs != nil {
		n = min(n, part.Runs(at))
	}
	return part, at, n
}
