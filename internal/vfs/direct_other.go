//go:build !linux

package vfs

import (
	"errors"
	"fmt"
	"os"
)

func (osFS) openDirect(name string) (File, error) {
	return nil, fmt.Errorf("open %s past the page cache: %w", name, errors.ErrUnsupported)
}

func reserve(*os.File, int64) error { return nil }
