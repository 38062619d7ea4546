package vfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func (osFS) openDirect(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("%w: %w", err, errors.ErrUnsupported)
	}
	return wrap(f, err)
}

func reserve(f *os.File, size int64) error {
	if size == 0 {
		return nil
	}
	// Some file systems do not support the call, which is only a hint.
	if err := unix.Fallocate(int(f.Fd()), 0, 0, size); errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EIO) {
		return &os.PathError{Op: "allocate", Path: f.Name(), Err: err}
	}
	return nil
}

// fragment returns the unit in which statfs(2) counts, in bytes. It is f_frsize. f_bsize is the block
// size that the file system prefers for reads and writes; on FUSE it may differ.
func fragment(s *unix.Statfs_t) int64 {
	if s.Frsize > 0 {
		return s.Frsize
	}
	return s.Bsize // a file system without fragments
}

// mounted reports whether a name is a mount point. Kernels before Linux 5.8 do not report it.
func mounted(name string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, name, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
	return err == nil && st.Attributes_mask&st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
