// Package file opens the files of a source. A file that is missing is bad input, not a failure
// of the file system.
package file

import (
	"errors"
	"io"
	"io/fs"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Stat describes a file.
func Stat(fsys vfs.FS, name string) (fs.FileInfo, error) {
	st, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.ErrInput, "%s is missing", name)
	}
	return st, err
}

// Open opens a file for reading.
func Open(fsys vfs.FS, name string) (vfs.File, error) {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.ErrInput, "%s is missing", name)
	}
	return f, err
}

// Unpacking is the error of bytes that a decompressor could not read to their end.
func Unpacking(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.New(fault.ErrInput, "cannot be unpacked: truncated")
	}
	return fault.New(fault.ErrInput, "cannot be unpacked: %w", err)
}
