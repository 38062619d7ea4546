package pread

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/internal/split"
)

// file implements iostack.File.
type file struct {
	stack  *Stack
	path   string
	size   int64
	direct bool
	reason string // why not direct
	splits split.Splitter

	use    sync.RWMutex // held for reading during every read, for writing to close
	fd     int
	closed bool
}

func (f *file) Name() string           { return f.path }
func (f *file) Size() int64            { return f.size }
func (f *file) Direct() (bool, string) { return f.direct, f.reason }

func (f *file) Close() error {
	f.use.Lock()
	defer f.use.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	if err := unix.Close(f.fd); err != nil {
		return &fs.PathError{Op: "close", Path: f.path, Err: err}
	}
	return nil
}

// open opens a regular file or block device as mode says. Others are refused
// first: opening a pipe could wait for ever.
func open(path string, mode iostack.Direct) (*file, error) {
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
	return &file{path: path, size: size, fd: fd, direct: refusal == "", reason: refusal}, nil
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

// sizeOf works for files and block devices alike. Nobody else uses the
// descriptor's position.
func sizeOf(fd int) (int64, error) { return unix.Seek(fd, 0, io.SeekEnd) }
