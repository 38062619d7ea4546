// Package vfs is the seam between the stages and the file system. Every byte that a stage writes
// passes an FS, so that tests can fail, truncate or lose any single operation and check the remains.
//
// Reads of finished directories may go around it: mappings and direct I/O have
// no meaning on a made-up file system.
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

// FS is the part of a file system that the stages use. Implementations are safe
// for concurrent use; names are ordinary paths.
type FS interface {
	// Create makes an empty file, truncating one that exists.
	Create(name string) (File, error)
	// OpenReadWrite opens a file without truncating it, making it if absent.
	OpenReadWrite(name string) (File, error)
	// Open opens a file for reading. It refuses other files, such as a named pipe, without waiting
	// for them.
	Open(name string) (File, error)
	Rename(from, to string) error
	// Link gives a file a second name, which must not exist. Where the file system
	// has no such thing, or not between these two places, the error is one that
	// CannotLink knows. Neither name may be written to afterwards: both see it.
	Link(from, to string) error
	Remove(name string) error
	RemoveAll(name string) error
	MkdirAll(name string) error
	// List returns the names in a directory, sorted, without the directory itself.
	List(name string) ([]string, error)
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the directory's entries durable.
	SyncDir(name string) error
	// Lock takes an exclusive advisory lock on a file, making it if absent, or fails with
	// fault.ErrLocked at once. The lock ends with the process. When Lock returns, the file that
	// is locked is the one that has the name: as long as no process renames or removes it
	// without its lock, the holder of the lock is alone.
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
	// Sync makes content and size durable. After an error the file's state is
	// unknown: it must be written again, never merely synced again.
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

// CannotLink reports whether Link failed because these places don't take links, so that a copy must
// do.
func CannotLink(err error) bool {
	for _, kind := range []error{unix.EXDEV, unix.EMLINK, errors.ErrUnsupported, fs.ErrPermission} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// ReadFile returns a whole file's content. Files that others may have written are read by
// ReadSmall.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// ReadSmall returns a whole file's content, unless that is longer than limit bytes:
// this is an error of kind fault.ErrInput, and no more than the limit has been
// read by then.
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

// Small is ReadSmall of an open file of about size bytes; size is 0 if it is not known, as of a
// pipe. name is for the error.
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

// ReadExact returns a whole file's content, in memory of just its length. Before any of that
// is allocated, admit gets the length and may refuse it by an error. A file that becomes
// shorter meanwhile is an error that wraps io.ErrUnexpectedEOF.
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

// WriteFile writes a file and makes its content durable; its name is durable
// only after SyncDir.
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

// ReplaceFile writes a file so that after a crash either the old content or the new is there,
// never a mixture. Files that were made in its directory before are durable whenever the new
// content is, so that this may refer to them.
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

// Exists reports whether a name is there.
func Exists(fsys FS, name string) (bool, error) {
	_, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) { // or below a file
		return false, nil
	}
	return err == nil, err
}

// freeOf returns the bytes that an ordinary user may write. Some file systems report the largest
// number of blocks.
func freeOf(s *unix.Statfs_t) int64 {
	hi, n := bits.Mul64(s.Bavail, uint64(max(fragment(s), 0)))
	if hi > 0 || n > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(n)
}

// Boundless returns fsys with as much free space as any stage needs: for users who know better than
// the file system how much room it has.
func Boundless(fsys FS) FS { return boundless{fsys} }

type boundless struct{ FS }

func (boundless) Free(string) (int64, error) { return math.MaxInt64, nil }

func (b boundless) openDirect(name string) (File, error) { return OpenDirect(b.FS, name) }
