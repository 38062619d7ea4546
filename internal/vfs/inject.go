package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
)

// Op names one kind of operation that an Injector sees.
type Op string

// The operations that an Injector meets. Besides changes, and syncs that make them durable, files are opened,
// read and closed.
const (
	OpCreate   Op = "create"
	OpOpen     Op = "open"
	OpWrite    Op = "write"
	OpSync     Op = "sync"
	OpTruncate Op = "truncate"
	OpRename   Op = "rename"
	OpLink     Op = "link"
	OpRemove   Op = "remove"
	OpMkdir    Op = "mkdir"
	OpSyncDir  Op = "syncdir"
	OpRead     Op = "read"
	OpClose    Op = "close"
)

// Injector decides the fate of an operation before it happens: a non-nil error
// is returned in its place. It is called concurrently.
type Injector interface {
	Before(op Op, name string) error
}

// Inject returns a file system that calls the injector before every operation of fsys that an Op names,
// except closing. List, Stat, Lock and Free pass.
func Inject(fsys FS, in Injector) FS { return &injected{fsys, in} }

// FailAt is an Injector that fails the N-th matching operation, counted from 0, with Err. With After it
// fails all later ones too, as after a crash or on a full disk.
type FailAt struct {
	N     int
	After bool
	Err   error
	// Match selects the counted operations; nil counts every operation but reads.
	Match func(op Op, name string) bool

	mu    sync.Mutex
	seen  int
	fired bool
}

// Before implements Injector.
func (f *FailAt) Before(op Op, name string) error {
	if f.Match == nil && (op == OpRead || op == OpOpen || op == OpClose) || f.Match != nil && !f.Match(op, name) {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.seen
	f.seen++
	if n == f.N || f.After && n > f.N {
		f.fired = true
		return fmt.Errorf("injected: %s %s: %w", op, filepath.Base(name), f.Err)
	}
	return nil
}

// Fired reports whether an operation has failed.
func (f *FailAt) Fired() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.fired }

// String describes the injector for a test's log.
func (f *FailAt) String() string {
	return fmt.Sprintf("fail operation %d (and later: %t) with %v", f.N, f.After, f.Err)
}

type injected struct {
	base FS
	in   Injector
}

func (i *injected) file(op Op, name string, open func(string) (File, error)) (File, error) {
	if err := i.in.Before(op, name); err != nil {
		return nil, err
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	return &injectedFile{f, i.in}, nil
}

func (i *injected) Create(name string) (File, error) { return i.file(OpCreate, name, i.base.Create) }
func (i *injected) OpenReadWrite(name string) (File, error) {
	return i.file(OpCreate, name, i.base.OpenReadWrite)
}
func (i *injected) Open(name string) (File, error) { return i.file(OpOpen, name, i.base.Open) }

func (i *injected) do(op Op, name string, f func() error) error {
	if err := i.in.Before(op, name); err != nil {
		return err
	}
	return f()
}

func (i *injected) Rename(from, to string) error {
	return i.do(OpRename, to, func() error { return i.base.Rename(from, to) })
}
func (i *injected) Link(from, to string) error {
	return i.do(OpLink, to, func() error { return i.base.Link(from, to) })
}
func (i *injected) Remove(name string) error {
	return i.do(OpRemove, name, func() error { return i.base.Remove(name) })
}
func (i *injected) RemoveAll(name string) error {
	return i.do(OpRemove, name, func() error { return i.base.RemoveAll(name) })
}
func (i *injected) MkdirAll(name string) error {
	return i.do(OpMkdir, name, func() error { return i.base.MkdirAll(name) })
}
func (i *injected) SyncDir(name string) error {
	return i.do(OpSyncDir, name, func() error { return i.base.SyncDir(name) })
}
func (i *injected) List(name string) ([]string, error)    { return i.base.List(name) }
func (i *injected) Stat(name string) (fs.FileInfo, error) { return i.base.Stat(name) }
func (i *injected) Lock(name string) (io.Closer, error)   { return i.base.Lock(name) }
func (i *injected) Free(name string) (int64, error)       { return i.base.Free(name) }

type injectedFile struct {
	File
	in Injector
}

func (f *injectedFile) Write(p []byte) (int, error) {
	if err := f.in.Before(OpWrite, f.Name()); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *injectedFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.in.Before(OpWrite, f.Name()); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *injectedFile) Sync() error {
	if err := f.in.Before(OpSync, f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *injectedFile) Truncate(size int64) error {
	if err := f.in.Before(OpTruncate, f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *injectedFile) Read(p []byte) (int, error) {
	if err := f.in.Before(OpRead, f.Name()); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *injectedFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.in.Before(OpRead, f.Name()); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}
