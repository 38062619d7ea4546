// Package vfs is the interface between the stages and the file system. A stage writes every byte through
// an FS, so that tests can fail, truncate or lose any single operation and check the remaining files.
//
// Reads of finished directories may bypass it: mappings and direct I/O need a real file system.
package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
)

// FS has the operations of a file system that the stages use. Implementations are safe for concurrent
// use; names are ordinary paths.
type FS interface {
	// Create makes an empty file, or truncates an existing one.
	Create(name string) (File, error)
	// OpenReadWrite opens a file without truncating it, or makes a missing one.
	OpenReadWrite(name string) (File, error)
	// Open opens a regular file for reading. It refuses others, such as a named pipe, without waiting.
	Open(name string) (File, error)
	Rename(from, to string) error
	// Link gives a file a second name, which must not exist. If the file system has no links, or none
	// between these two directories, CannotLink reports true for the error. The file must not be
	// written to afterwards, since both names share the bytes.
	Link(from, to string) error
	Remove(name string) error
	RemoveAll(name string) error
	MkdirAll(name string) error
	// List returns the names in a directory, sorted, without the directory itself.
	List(name string) ([]string, error)
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the directory's entries durable.
	SyncDir(name string) error
	// Lock takes an exclusive advisory lock on a file, which it makes if missing. If another process has
	// the lock, it fails at once with fault.ErrLocked. Closing the result, or the end of the process,
	// releases the lock. When Lock returns, the locked file still has this name. So the lock is
	// exclusive as long as every process that renames or removes the file holds it.
	Lock(name string) (io.Closer, error)
	// Free returns the bytes that an ordinary user may still write below name.
	Free(name string) (int64, error)
}

// File is an open file. ReadAt and WriteAt may be called concurrently.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Closer
	Name() string
	// Sync makes content and size durable. After an error the state of the file is unknown: it must be
	// written again; another Sync is not enough.
	Sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
}

// OS is the operating system's file system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) Create(name string) (File, error) { return wrap(os.Create(name)) }
func (osFS) OpenReadWrite(name string) (File, error) {
	return wrap(os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666))
}

func (osFS) Open(name string) (File, error) {
	// Without this flag, opening a pipe for reading waits for its writer. It has no effect on
	// files.
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	switch {
	case err != nil:
	case st.IsDir():
		err = &fs.PathError{Op: "open", Path: name, Err: unix.EISDIR}
	case !st.Mode().IsRegular():
		err = fault.New(fault.ErrInput, "%s is no regular file (%s)", name, st.Mode())
	default:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// wrap keeps a nil *os.File from becoming a non-nil File.
func wrap(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) Remove(name string) error     { return os.Remove(name) }
func (osFS) RemoveAll(name string) error  { return os.RemoveAll(name) }
func (osFS) MkdirAll(name string) error   { return os.MkdirAll(name, 0o777) }

func (osFS) Link(from, to string) error {
	// A symbolic link is followed: its text may lead nowhere from the new place.
	if err := unix.Linkat(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.AT_SYMLINK_FOLLOW); err != nil {
		return &os.LinkError{Op: "link", Old: from, New: to, Err: err}
	}
	return nil
}

func (osFS) List(name string) ([]string, error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", name, err)
	}
	return nil
}

func (osFS) Lock(name string) (io.Closer, error) { return lock(name, func() {}) }

func (osFS) Free(name string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(name, &s); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", name, err)
	}
	return freeOf(&s), nil
}

// CannotLink reports whether an error of Link means that the two directories cannot share a file, so
// that the caller must copy it.
func CannotLink(err error) bool {
	for _, kind := range []error{unix.EXDEV, unix.EMLINK, errors.ErrUnsupported, fs.ErrPermission} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// ReadFile returns the content of a file. Use ReadSmall for files that other programs may have written.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// ReadSmall returns the content of a file of at most limit bytes. A longer file is an error of kind
// fault.ErrInput, and is not read further than the limit.
func ReadSmall(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return Small(f, name, st.Size(), limit)
}

// Small is ReadSmall for an open file. size is its expected size in bytes, 0 if unknown, as for a pipe.
// name is the file's name in errors.
func Small(r io.Reader, name string, size, limit int64) ([]byte, error) {
	var b bytes.Buffer
	if size <= limit {
		b.Grow(int(size) + bytes.MinRead)
		if _, err := b.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
			return nil, err
		}
	}
	if max(size, int64(b.Len())) > limit {
		return nil, fault.New(fault.ErrInput, "%s is larger than %s, the limit for such a file", name, budget.FormatBytes(limit))
	}
	return b.Bytes(), nil
}

// ReadExact returns the content of a file, in a slice of exactly its size. Before it allocates the
// slice, it calls admit with the size, which may refuse it by an error. If the file becomes shorter
// meanwhile, the error wraps io.ErrUnexpectedEOF.
func ReadExact(fsys FS, name string, admit func(size int64) error) (b []byte, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := admit(st.Size()); err != nil {
		return nil, err
	}
	b = make([]byte, st.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = &fs.PathError{Op: "read", Path: name, Err: io.ErrUnexpectedEOF}
		}
		return nil, err
	}
	return b, nil
}

// WriteFile writes a file and makes its content durable. The name becomes durable with SyncDir.
func WriteFile(fsys FS, name string, content []byte) (err error) {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}

// TempSuffix ends the name of the temporary file that an interrupted ReplaceFile leaves.
const TempSuffix = ".tmp"

// ReplaceFile replaces the content of a file atomically: after a crash it has either the old or the new
// content. The content may refer to files that were made in its directory before, since their names are
// durable when the new content is.
func ReplaceFile(fsys FS, name string, content []byte) error {
	tmp, dir := name+TempSuffix, filepath.Dir(name)
	if err := WriteFile(fsys, tmp, content); err != nil {
		return fmt.Errorf("write %s: %w", tmp, err)
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// Exists reports whether a file or directory of this name exists.
func Exists(fsys FS, name string) (bool, error) {
	_, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) { // or below a file
		return false, nil
	}
	return err == nil, err
}

// freeOf returns the bytes that an ordinary user may write. The product must not overflow: some file
// systems report the largest possible number of blocks.
func freeOf(s *unix.Statfs_t) int64 {
	hi, n := bits.Mul64(s.Bavail, uint64(max(fragment(s), 0)))
	if hi > 0 || n > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(n)
}

// Boundless returns a view of fsys with unlimited free space, for --skip-space-check.
func Boundless(fsys FS) FS { return boundless{fsys} }

type boundless struct{ FS }

func (boundless) Free(string) (int64, error) { return math.MaxInt64, nil }

func (b boundless) openDirect(name string) (File, error) { return OpenDirect(b.FS, name) }
