package vfs

import (
	"errors"
	"fmt"
	"os"
)

// OpenDirect opens a file that exists for writes that pass by the page cache: WriteAt takes whole
// pages only, from memory that begins on a page, to offsets that are multiples of a page. Writes
// through another File of it must not share a page with these. The error is errors.ErrUnsupported
// where there is no such thing; a file system may also refuse at the first write, with EINVAL.
func OpenDirect(fsys FS, name string) (File, error) {
	d, ok := fsys.(interface {
		openDirect(name string) (File, error)
	})
	if !ok {
		return nil, fmt.Errorf("open %s past the page cache: %w", name, errors.ErrUnsupported)
	}
	return d.openDirect(name)
}

func (i *injected) openDirect(name string) (File, error) {
	return i.file(OpCreate, name, func(name string) (File, error) { return OpenDirect(i.base, name) })
}

func (u unsynced) openDirect(name string) (File, error) { return dropSync(OpenDirect(u.FS, name)) }

// Reserve gives a file its size and, where the file system can, the blocks for it: a
// full disk shows here, and writes need not wait for each other to find room.
func Reserve(f File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	for {
		switch t := f.(type) {
		case *os.File:
			return reserve(t, size)
		case *injectedFile:
			f = t.File
		case unsyncedFile:
			f = t.File
		default:
			return nil
		}
	}
}
