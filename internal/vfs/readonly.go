package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
)

// ReadOnly returns a view of fsys that refuses all changes, and locks, which create files, with EROFS.
func ReadOnly(fsys FS) FS { return readOnly{fsys} }

// IsReadOnly reports whether fsys is the result of ReadOnly, as for a plan, which keeps nothing. It does
// not detect read-only disks.
func IsReadOnly(fsys FS) bool {
	_, ok := fsys.(readOnly)
	return ok
}

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

// Nearest returns the nearest existing path above name, which may be a file. Below a file, it returns an
// error.
func Nearest(fsys FS, name string) (string, error) {
	dir := filepath.Dir(filepath.Clean(name))
	_, err := fsys.Stat(dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
		return dir, err
	}
	return Nearest(fsys, dir)
}

// Unsynced returns a view of fsys without syncs, for tests that run a stage hundreds of times without a
// loss of power. Inject(Unsynced(fsys), …) still counts and fails the syncs.
func Unsynced(fsys FS) FS { return unsynced{fsys} }

type unsynced struct{ FS }

func (u unsynced) Create(name string) (File, error)        { return dropSync(u.FS.Create(name)) }
func (u unsynced) OpenReadWrite(name string) (File, error) { return dropSync(u.FS.OpenReadWrite(name)) }
func (u unsynced) Open(name string) (File, error)          { return dropSync(u.FS.Open(name)) }
func (u unsynced) SyncDir(string) error                    { return nil }

type unsyncedFile struct{ File }

func dropSync(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (unsyncedFile) Sync() error { return nil }
