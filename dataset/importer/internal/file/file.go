// Package file opens the files of a source. A file that is missing is bad input, not a failure
// of the file system, and so is a name that no file can be read by.
package file

import (
	"errors"
	"io"
	"io/fs"
	"syscall"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Stat describes a file.
func Stat(fsys vfs.FS, name string) (fs.FileInfo, error) {
	st, err := fsys.Stat(name)
	return st, named(name, err)
}

// Open opens a file for reading.
func Open(fsys vfs.FS, name string) (vfs.File, error) {
	f, err := fsys.Open(name)
	return f, named(name, err)
}

// named tells the errors that lie in a name from those of the file system.
func named(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.ErrInput, "%s is missing", name)
	}
	for _, e := range []error{syscall.EISDIR, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL} {
		if errors.Is(err, e) {
			return fault.New(fault.ErrInput, "%w", err)
		}
	}
	return err
}

// Unpacking is the error of bytes that a decompressor could not read to their end.
func Unpacking(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.New(fault.ErrInput, "cannot be unpacked: truncated")
	}
	return fault.New(fault.ErrInput, "cannot be unpacked: %w", err)
}
