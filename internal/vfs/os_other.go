//go:build !linux

package vfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func (osFS) openDirect(name string) (File, error) {
	return nil, fmt.Errorf("open %s past the page cache: %w", name, errors.ErrUnsupported)
}

func reserve(*os.File, int64) error { return nil }

func fragment(s *unix.Statfs_t) int64 { return int64(s.Bsize) }

// mounted returns false: mount points are detected on Linux only.
func mounted(string) bool { return false }
