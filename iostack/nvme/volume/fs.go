package volume

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// FS returns a read-only file system with the directory of the volume at the path root, so that checks of
// directories work on it. Changes fail with EROFS. Its methods may be called concurrently. It uses the
// volume's drives, which must have no other user meanwhile.
func (v *Volume) FS(root string) vfs.FS { return &files{v: v, root: filepath.Clean(root)} }

type files struct {
	mu   sync.Mutex // of the drives
	v    *Volume
	root string
}

// find returns a file. For the directory itself it returns nil without an error.
func (s *files) find(op, name string) (*File, error) {
	if filepath.Clean(name) == s.root {
		return nil, nil
	}
	rel, inside := strings.CutPrefix(filepath.Clean(name), s.root+string(filepath.Separator))
	if f := s.v.contents.File(filepath.ToSlash(rel)); inside && f != nil {
		return f, nil
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// Open implements vfs.FS.
func (s *files) Open(name string) (vfs.File, error) {
	f, err := s.find("open", name)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	return &file{of: f, fs: s, name: name}, nil
}

// Stat implements vfs.FS.
func (s *files) Stat(name string) (fs.FileInfo, error) {
	f, err := s.find("stat", name)
	if err != nil {
		return nil, err
	}
	return info{f, filepath.Base(name)}, nil
}

// List implements vfs.FS.
func (s *files) List(name string) (list []string, err error) {
	if f, err := s.find("list", name); err != nil {
		return nil, err
	} else if f != nil {
		return nil, &fs.PathError{Op: "list", Path: name, Err: syscall.ENOTDIR}
	}
	for i := range s.v.contents.Files {
		list = append(list, s.v.contents.Files[i].Name)
	}
	return list, nil
}

func refuse(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: syscall.EROFS} }

// Changes fail.

func (s *files) Create(name string) (vfs.File, error) { return nil, refuse("create", name) }
func (s *files) OpenReadWrite(name string) (vfs.File, error) {
	return nil, refuse("open for writing", name)
}
func (s *files) Rename(from, to string) error        { return refuse("rename", from) }
func (s *files) Link(from, to string) error          { return refuse("link", from) }
func (s *files) Remove(name string) error            { return refuse("remove", name) }
func (s *files) RemoveAll(name string) error         { return refuse("remove", name) }
func (s *files) MkdirAll(name string) error          { return refuse("mkdir", name) }
func (s *files) SyncDir(name string) error           { return refuse("sync", name) }
func (s *files) Lock(name string) (io.Closer, error) { return nil, refuse("lock", name) }
func (s *files) Free(name string) (int64, error)     { return 0, nil }

// file is an open file.
type file struct {
	of   *File
	fs   *files
	name string
	at   int64 // of Read
}

func (f *file) Name() string               { return f.name }
func (f *file) Close() error               { return nil }
func (f *file) Sync() error                { return refuse("sync", f.name) }
func (f *file) Truncate(int64) error       { return refuse("truncate", f.name) }
func (f *file) Write([]byte) (int, error)  { return 0, refuse("write", f.name) }
func (f *file) Stat() (fs.FileInfo, error) { return info{f.of, filepath.Base(f.name)}, nil }

func (f *file) WriteAt([]byte, int64) (int, error) { return 0, refuse("write", f.name) }

func (f *file) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.at)
	if f.at += int64(n); n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fault.New(fault.ErrUsage, "read %s from byte %d on", f.name, off)
	}
	n := int(max(0, min(int64(len(p)), f.of.Size-off)))
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if n > 0 {
		if err := f.fs.v.Read(f.of, p[:n], off); err != nil {
			return 0, err
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// info is the result of Stat for a file, or for the directory.
type info struct {
	f    *File
	name string
}

func (i info) Name() string       { return i.name }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) Sys() any           { return nil }
func (i info) IsDir() bool        { return i.f == nil }

func (i info) Size() int64 {
	if i.f == nil {
		return 0
	}
	return i.f.Size
}

func (i info) Mode() fs.FileMode {
	if i.f == nil {
		return fs.ModeDir | 0o555
	}
	return 0o444
}
