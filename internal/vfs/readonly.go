package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
)

// ReadOnly returns fsys without what changes it: that is refused with EROFS, locks as well,
// whose files would be made.
func ReadOnly(fsys FS) FS { return readOnly{fsys} }

type readOnly struct{ FS }

func refused(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: syscall.EROFS} }

func (readOnly) Create(name string) (File, error)        { return nil, refused("create", name) }
func (readOnly) OpenReadWrite(name string) (File, error) { return nil, refused("open", name) }
func (readOnly) Rename(from, _ string) error             { return refused("rename", from) }
func (readOnly) Link(_, to string) error                 { return refused("link", to) }
func (readOnly) Remove(name string) error                { return refused("remove", name) }
func (readOnly) RemoveAll(name string) error             { return refused("remove", name) }
func (readOnly) MkdirAll(name string) error              { return refused("mkdir", name) }
func (readOnly) SyncDir(name string) error               { return refused("sync", name) }
func (readOnly) Lock(name string) (io.Closer, error)     { return nil, refused("lock", name) }

// Nearest returns the directory that name would be made in: its parent or, as long as that is
// missing, the directory above.
func Nearest(fsys FS, name string) (string, error) {
	dir := filepath.Dir(filepath.Clean(name))
	_, err := fsys.Stat(dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
		return dir, err
	}
	return Nearest(fsys, dir)
}
