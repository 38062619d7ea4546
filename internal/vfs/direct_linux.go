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
	// Some file systems have no such call: a hint that they don't take.
	if err := unix.Fallocate(int(f.Fd()), 0, 0, size); errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EIO) {
		return &os.PathError{Op: "allocate", Path: f.Name(), Err: err}
	}
	return nil
}
