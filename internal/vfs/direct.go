package vfs

import (
	"errors"
	"fmt"
	"os"
)

// OpenDirect opens an existing file for writes that bypass the page cache. WriteAt takes whole pages
// only, from page-aligned memory to page-aligned offsets. Writes through another File must not touch the
// same pages. If direct writes are not supported, the error wraps errors.ErrUnsupported; some file
// systems refuse at the first write only, with EINVAL.
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

// Reserve sets the size of a file and allocates its blocks, if the file system supports it. So a full
// disk is an error here, and later writes need not allocate.
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
